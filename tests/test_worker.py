"""A run that is ended leaves nothing behind: no process, no changed state, whoever ends it and how."""

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psutil
import pytest

from bertch15 import lab
from bertch15.fast.worker import Worker, cores
from bertch15.pretraining import Cancelled
from bertch15.recipe import Recipe

LONG = replace(Recipe(), updates=3000)
"""Far from its end when the other process has just begun, and not so long that waiting for the end is a hang."""
SHORT = replace(Recipe(), updates=4, adaptation_updates=2, budgets=(1,))
PATIENCE = 60.0
"""Seconds after which something that should have happened counts as failed, on the slowest machine."""


def processes() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def wait_for(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_a_worker_reports_and_gives_its_result_and_its_process_is_over_as_soon_as_that_is_there() -> None:
    worker = Worker(lab.replicates, SHORT, (6050, 6051))
    try:
        assert worker._process is not None
        # One that had to wait for its own thread would be given up by Python, and end with another code.
        assert worker._process.wait(PATIENCE) == 0
        assert wait_for(lambda: worker.finished)
        assert worker.result == lab.replicates(SHORT, (6050, 6051))
        assert worker.done > 0
        assert worker.error == ""
    finally:
        worker.close()


def test_a_worker_that_fails_has_no_result_and_the_lab_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    before = processes()
    expected = lab.run(SHORT, (6050, 6051), workers=1)
    worker = Worker(cores, "no number of cores")  # it takes no argument, and its process does without torch
    assert wait_for(lambda: worker.finished)
    assert worker.result is None
    assert worker.error.startswith("TypeError: cores() got ")
    worker.close()
    monkeypatch.setattr(sys, "executable", sys.executable + "-that-is-not-there")
    found = lab.run(SHORT, (6050, 6051), workers=2)
    for one, other in zip(found.replicates, expected.replicates, strict=True):
        assert (one.seed, one.branches, one.outcomes) == (other.seed, other.branches, other.outcomes)
    assert processes() == before


def test_a_process_that_dies_without_a_word_leaves_no_result_and_no_error() -> None:
    worker = Worker(lab.replicates, LONG, (6050,))
    (child,) = (psutil.Process(pid) for pid in processes())
    child.kill()
    assert wait_for(lambda: worker.finished)
    assert (worker.result, worker.error) == (None, "")
    worker.close()
    assert not child.is_running()


@pytest.mark.parametrize("ending", ["answers False", "raises KeyboardInterrupt"])
def test_an_ended_run_leaves_no_process(ending: str, state_guard: None, monkeypatch: pytest.MonkeyPatch) -> None:
    crew: list[Worker] = []

    def noted(*work: Any) -> Worker:
        crew.append(Worker(*work))
        return crew[-1]

    def progress(done: int, total: int) -> bool:
        seen.append(len(processes() - before))
        if done == len(seen):  # one seed runs here: what is more than that, the other process has done
            time.sleep(0.02)  # it needs a core to begin with
            return True
        if ending == "raises KeyboardInterrupt":
            raise KeyboardInterrupt
        ended.append(len(seen))
        return False

    before, seen, ended = processes(), list[int](), list[int]()
    monkeypatch.setattr(lab, "Worker", noted)
    with pytest.raises((Cancelled, KeyboardInterrupt)):
        lab.run(LONG, (6050, 6051), progress, workers=2)
    assert max(seen) == 1, "the second group had no process of its own"
    assert ended in ([], [len(seen)]), "the run was asked again after it had been ended"
    assert processes() == before
    assert [worker.result for worker in crew] == [None]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
def test_the_process_ends_when_its_parent_is_interrupted_and_when_its_parent_is_killed() -> None:
    script = """
        import signal, time
        from bertch15 import lab
        from bertch15.recipe import Recipe
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told the tests to ignore it
        def progress(done, total):
            global asked
            asked += 1
            print(done - asked, flush=True)  # what the other process has done: one seed of two runs here
            time.sleep(0.2)
        while True:
            asked = 0
            try:
                lab.run(Recipe(updates=100_000), (6050, 6051), progress, workers=2)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    said = iter(parent.stdout)

    def at_work() -> psutil.Process:
        assert any(int(line) > 0 for line in said)
        (child,) = psutil.Process(parent.pid).children()
        return child

    def is_over(child: psutil.Process) -> bool:
        return wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)

    try:
        first = at_work()
        parent.send_signal(signal.SIGINT)
        assert "interrupted\n" in said
        assert is_over(first)
        assert parent.poll() is None, "the parent lives on, as a notebook's kernel does"
        second = at_work()
    finally:
        parent.kill()
        parent.stdout.close()
    assert parent.wait(PATIENCE) != 0
    assert is_over(second)
