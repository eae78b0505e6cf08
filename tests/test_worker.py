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
SECOND = 1.0
"""How soon an ended run must be over."""


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
        assert wait_for(lambda: worker.finished, 60)
        assert worker.result == lab.replicates(SHORT, (6050, 6051))
        assert worker.done > 0
        assert worker.error == ""
    finally:
        worker.close()


def test_a_worker_that_fails_has_no_result_and_the_lab_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    before = processes()
    expected = lab.run(SHORT, (6050, 6051), workers=1)
    worker = Worker(lab.run, SHORT, ())
    assert wait_for(lambda: worker.finished, 60)
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
    assert wait_for(lambda: worker.finished, SECOND)
    assert (worker.result, worker.error) == (None, "")
    worker.close()
    assert not child.is_running()


def test_a_process_is_over_as_soon_as_its_answer_is_there() -> None:
    worker = Worker(lab.replicates, SHORT, (6050,))
    try:
        assert wait_for(lambda: worker.result is not None, 60)
        answered = time.monotonic()
        assert wait_for(lambda: worker.finished, 2)
        assert time.monotonic() - answered < 0.5
    finally:
        worker.close()


@pytest.mark.parametrize("ending", ["answers False", "raises KeyboardInterrupt"])
def test_an_ended_run_leaves_no_process(ending: str, state_guard: None) -> None:
    before, seen, started = processes(), [], time.monotonic()

    def progress(done: int, total: int) -> bool:
        seen.append(len(processes() - before))
        if time.monotonic() - started < 3:  # long enough for the other process to be at work
            return True
        if ending == "raises KeyboardInterrupt":
            raise KeyboardInterrupt
        ended.append(time.monotonic())
        return False

    ended: list[float] = []
    with pytest.raises((Cancelled, KeyboardInterrupt)):
        lab.run(LONG, (6050, 6051), progress, workers=2)
    took = time.monotonic() - (ended or [time.monotonic()])[0]
    assert max(seen) == 1, "the second group had no process of its own"
    assert took < SECOND
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
    assert parent.wait(10) != 0
    assert wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 5 * SECOND)
