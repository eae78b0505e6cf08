"""A run that is ended leaves nothing behind: no process, no changed state, whoever ends it and how."""

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace

import psutil
import pytest

from bertch15 import lab
from bertch15.fast.worker import Worker
from bertch15.pretraining import Cancelled
from bertch15.recipe import Recipe

LONG = Recipe()
SHORT = replace(Recipe(), updates=4, adaptation_updates=2, budgets=(1,))
LATEST = 60.0
"""Seconds after which a test gives up; how fast the machine is decides nothing."""


def processes() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_a_worker_reports_and_gives_its_result() -> None:
    worker = Worker(lab.replicates, SHORT, (6050, 6051))
    try:
        assert wait_for(lambda: worker.finished, LATEST)
        assert worker.result == lab.replicates(SHORT, (6050, 6051))
        assert worker.done > 0
        assert worker.error == ""
    finally:
        worker.close()


def test_a_worker_that_fails_has_no_result_and_the_lab_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    before = processes()
    expected = lab.run(SHORT, (6050, 6051), workers=1)
    worker = Worker(lab.run, SHORT, ())
    assert wait_for(lambda: worker.finished, LATEST)
    assert worker.result is None
    assert worker.error == "ValueError: seeds must be at least one, and distinct, got ()"
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
    assert wait_for(lambda: worker.finished, LATEST)
    assert (worker.result, worker.error) == (None, "")
    worker.close()
    assert not child.is_running()


def test_a_process_is_over_as_soon_as_its_answer_is_there() -> None:
    worker = Worker(lab.replicates, SHORT, (6050,))
    try:
        assert wait_for(lambda: worker.result is not None, LATEST)
        assert wait_for(lambda: worker.finished, LATEST)
    finally:
        worker.close()


@pytest.mark.parametrize("ending", ["answers False", "raises KeyboardInterrupt"])
def test_an_ended_run_leaves_no_process(ending: str, state_guard: None) -> None:
    before, seen, ended = processes(), [], []

    def progress(done: int, total: int) -> bool:
        seen.append(len(processes() - before))
        if done <= len(seen):  # what this process has done: the other one is not at work yet
            return True
        ended.append(done)
        if ending == "raises KeyboardInterrupt":
            raise KeyboardInterrupt
        return False

    with pytest.raises((Cancelled, KeyboardInterrupt)):
        lab.run(LONG, (6050, 6051), progress, workers=2)
    assert max(seen) == 1, "the second group had no process of its own"
    assert len(ended) == 1, "it asked again after it had been told"
    assert processes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_the_process_ends_with_its_parent(end: signal.Signals) -> None:
    script = """
        from bertch15 import lab
        from bertch15.recipe import Recipe
        lab.run(Recipe(), (6050, 6051), lambda done, total: print(done, flush=True), workers=2)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    parent.stdout.readline()
    (child,) = psutil.Process(parent.pid).children()
    time.sleep(1.0)
    parent.send_signal(end)
    parent.stdout.close()
    assert parent.wait(LATEST) != 0
    assert wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, LATEST)
