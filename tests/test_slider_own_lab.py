"""The lab on a button: it starts, tells how far it is, stops when told to, and leaves the kernel as it was."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import ipywidgets as widgets
import psutil
import pytest
import torch
from test_demo_own_lab import replicate

from bertch15 import lab
from bertch15.demonstrations.own_lab.controls import HINT, OwnLab, own_lab
from bertch15.lab import LabResult
from bertch15.recipe import Recipe

pytestmark = pytest.mark.usefixtures("state_guard")

PATIENCE = 60.0
"""Seconds after which something that should have happened counts as failed, on the slowest machine."""
SEEDS = (6050, 6051)
CHAPTER = LabResult(Recipe(), tuple(replicate(seed, 3, 10) for seed in SEEDS))
ENDLESS = replace(CHAPTER, recipe=Recipe(adaptation_updates=100_000))
"""Whoever waits for the end of a run under this recipe, in place of ending it, loses patience first."""


def processes() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def gone(all_of: list[psutil.Process]) -> bool:
    return not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in all_of)


def wait_for(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def over(shown: OwnLab) -> bool:
    """Whether the run has ended and all has been said about it."""
    return not shown.running and watchers() == 0


def watchers() -> int:
    return sum(thread.name.startswith("own lab") for thread in threading.enumerate())


@contextmanager
def closed_at_last(chapter: LabResult) -> Iterator[OwnLab]:
    assert not processes()
    demonstration = own_lab(chapter)
    yield demonstration
    demonstration.close()
    assert wait_for(lambda: gone(processes()))
    assert wait_for(lambda: watchers() == 0)


@pytest.fixture
def shown() -> Iterator[OwnLab]:
    """The demonstration as on the page; whatever the test leaves running is ended."""
    with closed_at_last(CHAPTER) as demonstration:
        yield demonstration


@pytest.fixture
def endless() -> Iterator[OwnLab]:
    """The demonstration with a run that does not end by itself."""
    with closed_at_last(ENDLESS) as demonstration:
        yield demonstration


def test_it_begins_with_the_chapters_policy_and_nothing_run(shown: OwnLab):
    assert shown.values == {
        "rate": 0.15,
        "mask_share": 0.8,
        "random_share": 0.1,
        "updates": 600,
        "labels": (1, 2, 4),
        "seeds": 1,
    }
    assert shown.text.endswith("yours: not run yet")
    assert (shown.status, shown.running, shown.mine) == (HINT, False, None)
    assert (shown.start_button.disabled, shown.stop_button.disabled) == (False, True)
    assert shown._repr_mimebundle_()["text/plain"] == shown.text


def test_every_control_has_a_name_and_its_range(shown: OwnLab):
    assert all(control.description for control in shown.controls.values())
    updates = shown.controls["updates"]
    assert (updates.min, updates.max, updates.value) == (100, 1000, 600)
    assert [value for _, value in shown.controls["labels"].options] == [(1,), (2,), (4,), (1, 2, 4)]
    assert [value for _, value in shown.controls["seeds"].options] == [1, 2]


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"mask_share": 0.95}, "more than there are"), ({"rate": 0.0}, "no position is selected")],
)
def test_a_policy_that_cannot_be_run_is_refused_before_the_start(shown: OwnLab, asked: dict, words: str):
    shown.set(**asked)
    assert words in shown.text
    assert shown.start_button.disabled
    shown.start()
    assert shown.status.startswith("Not started. ")
    assert words in shown.status
    assert not processes()
    shown.set(mask_share=0.8, rate=0.15)
    assert not shown.start_button.disabled


def test_a_run_to_the_end_gives_what_the_lab_gives(shown: OwnLab):
    shown.set(updates=100, rate=0.4, mask_share=0.5, labels=(2,))
    told: list[str] = []
    shown.message.observe(lambda change: told.append(change.new), "value")
    began = time.monotonic()
    shown.start_button.click()
    assert shown.running, "the kernel is kept waiting until the run has ended"
    assert (shown.start_button.disabled, shown.stop_button.disabled) == (True, False)
    shown.start()
    assert shown.status.startswith("A run is going on already")
    assert len(processes()) == 1
    shown.set(rate=0.5)  # asks for another run, and changes neither this one nor its name
    assert wait_for(lambda: over(shown))
    assert shown.status.startswith("Done")
    assert len(told) < 5 * (time.monotonic() - began) + 5, "more than five messages a second"
    assert any("Running: " in message for message in told)

    policy = replace(Recipe().policy, rate=0.4, mask_share=0.5)
    expected = lab.run(replace(Recipe(), updates=100, policy=policy, budgets=(2,)), (6050,))
    assert shown.mine is not None
    assert shown.mine.recipe == expected.recipe
    (one,), (other,) = shown.mine.replicates, expected.replicates
    assert (one.seed, one.branches, one.outcomes) == (other.seed, other.branches, other.outcomes)
    assert one.losses == pytest.approx(other.losses, rel=0, abs=5e-6)
    assert str(expected.rows[0]) in shown.text
    assert shown.text.startswith("asked for: select 50%")
    assert "yours: select 40%" in shown.text
    assert shown.bar.value == 1.0
    assert (shown.start_button.disabled, shown.stop_button.disabled) == (False, True)
    assert shown.chapter == CHAPTER

    shown.stop()  # after the end
    assert (shown.status, shown.mine is not None) == ("Nothing is running.", True)
    assert not processes()


def test_stop_leaves_no_process_and_the_kernel_answers_meanwhile(endless: OwnLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHON_CPU_COUNT", "2")
    shown = endless.set(updates=1000, seeds=2, labels=(1, 2, 4))
    assert isinstance(shown, OwnLab)
    shown.start()
    assert wait_for(lambda: len(processes()) > 1 and shown.bar.value > 0), "the run has no second process"
    threads, stream = torch.get_num_threads(), torch.get_rng_state()
    assert float(torch.ones(3) @ torch.ones(3)) == 3.0
    assert "Running: " in shown.status
    assert "%" in shown.status
    running, (child,) = processes(), psutil.Process().children()
    shown.stop_button.click()
    assert gone([child]), "the button comes back before the process has ended"
    assert wait_for(lambda: gone(running))
    assert shown.status.startswith("Stopped at ")
    assert shown.mine is None
    assert shown.text.endswith("yours: not run yet")
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), stream)
    shown.stop()
    assert shown.status == "Nothing is running."
    assert wait_for(lambda: watchers() == 0)
    assert shown.status == "Nothing is running.", "a run that was stopped still speaks"


def test_a_stop_at_once_and_a_new_start_are_no_matter(endless: OwnLab):
    for _ in range(3):
        endless.start()
        assert endless.running
        endless.stop()
        assert not endless.running
    assert wait_for(lambda: gone(processes()))


def test_a_watcher_that_comes_late_is_silent(endless: OwnLab):
    class NeverSet(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            time.sleep(0.01)
            return False

    endless.start()
    assert endless._run is not None
    endless._run.ended = NeverSet()
    endless.stop()
    assert wait_for(lambda: watchers() == 0)
    assert endless.status.startswith("Stopped at ")


def test_a_process_that_is_ended_from_outside_gives_a_message(endless: OwnLab):
    endless.start()
    for process in processes():
        process.kill()
    assert wait_for(lambda: over(endless))
    assert endless.status.startswith("The process ended without a result")
    assert not endless.start_button.disabled


def test_a_machine_that_starts_no_process_gives_a_message(shown: OwnLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", sys.executable + "-that-is-not-there")
    shown.start()
    assert wait_for(lambda: over(shown))
    assert shown.status.startswith("The process ended without a result")


def test_an_error_inside_the_run_is_shown():
    twice = LabResult(Recipe(), CHAPTER.replicates[:1] * 2)
    shown = own_lab(twice).set(seeds=2)
    assert isinstance(shown, OwnLab)
    shown.start()
    assert wait_for(lambda: over(shown))
    assert shown.status == (
        "The run ended with an error. ValueError: seeds must be at least one, and distinct, got (6050, 6050)"
    )
    shown.close()


def test_an_error_in_a_button_is_shown(shown: OwnLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bertch15.demonstrations.own_lab.controls.Run", None)
    shown.start_button.click()
    assert shown.status.startswith("TypeError: ")
    assert not shown.running


def test_running_the_cell_again_ends_the_run_that_nobody_sees_any_more():
    first = own_lab(ENDLESS)
    first.start()
    running = processes()
    second = own_lab(CHAPTER)
    assert wait_for(lambda: gone(running))
    assert (first.closed, first.running, second.running) == (True, False, False)
    first.start()
    first.stop()
    first.close()
    assert not processes()
    second.close()


def test_a_hundred_of_them_moved_a_hundred_times_leave_nothing():
    before, threads = len(widgets.widget._instances), threading.active_count()
    for _ in range(100):
        shown = own_lab(CHAPTER)
    alive = len(widgets.widget._instances)
    for turn in range(100):
        shown.controls["rate"].value = turn / 100
    assert len(widgets.widget._instances) == alive
    shown.close()
    assert len(widgets.widget._instances) == before
    assert threading.active_count() == threads
