import json
import multiprocessing
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest
import torch
from chapter import chapter, plain, unusual_settings_kept

from bertch15 import lab
from bertch15.fast import training
from bertch15.finetuning import Score
from bertch15.geometry import Cosines, word_geometry
from bertch15.lab import ARMS, LabResult, Outcome, Replicate, Row, updates_of
from bertch15.pretraining import Cancelled
from bertch15.recipe import SEEDS, Recipe

pytestmark = pytest.mark.usefixtures("state_guard")

SHORT = replace(Recipe(), updates=20, adaptation_updates=5)


# The chapter's numbers, seed by seed


@pytest.mark.parametrize("budget", [1, 2, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_accuracy_is_that_of_the_trace(seed: int, budget: int, trace: dict[str, Any]) -> None:
    one = chapter().replicates[SEEDS.index(seed)]
    assert one.seed == seed
    for arm in ARMS:
        found = one.outcomes[arm][chapter().recipe.budgets.index(budget)]
        expected = trace["replicates"][str(seed)]["accuracy"][str(budget)][arm]
        assert found.covered == Score(expected["covered_correct"], expected["covered_total"])
        assert found.uncovered == Score(expected["uncovered_correct"], expected["uncovered_total"])
        assert found.train.total == 2 * budget
        assert found.train.accuracy == expected["train"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_geometry_of_every_seed_is_that_of_the_trace(seed: int, trace: dict[str, Any]) -> None:
    one, expected = chapter().replicates[SEEDS.index(seed)], trace["replicates"][str(seed)]
    assert tuple(one.initial) == pytest.approx(expected["geometry_initial"], rel=0, abs=1e-4)
    assert tuple(one.after) == pytest.approx(expected["geometry_pretrained"], rel=0, abs=1e-4)


def test_the_geometry_after_pretraining() -> None:
    within, between = zip(*(one.after for one in chapter().replicates), strict=True)
    assert within == pytest.approx((0.5323, 0.5519, 0.4264, 0.5473, 0.5107), rel=0, abs=1e-4)
    assert between == pytest.approx((-0.5517, -0.5740, -0.4530, -0.5686, -0.5343), rel=0, abs=1e-4)


def test_the_uncovered_words_stay_without_geometry() -> None:
    within, between = word_geometry(Recipe(), plain().pretrained, covered=False)
    assert (round(within, 3), round(between, 3)) == (-0.032, -0.018)


def test_the_mean_loss_of_the_last_fifty_updates() -> None:
    means = [fmean(one.losses[-50:]) for one in chapter().replicates]
    assert means == pytest.approx([0.778, 0.750, 0.746, 0.758, 0.796], rel=0, abs=2e-3)
    assert [len(one.losses) for one in chapter().replicates] == [600] * 5


def test_the_counts_of_every_seed() -> None:
    runs = chapter().replicates
    assert [one.eligible for one in runs] == [206558, 206422, 206348, 206348, 206420]
    assert [one.branches for one in runs] == [
        (24783, 2999, 3086),
        (24668, 3028, 3078),
        (24835, 3117, 3077),
        (24943, 3186, 3166),
        (24842, 3137, 3074),
    ]


def test_no_uncovered_row_moves() -> None:
    assert [one.moved for one in chapter().replicates] == [0] * 5


def test_moved_rows_are_counted() -> None:
    tied = replace(Recipe(), decoder="tied", updates=1, adaptation_updates=0)
    assert lab.replicate(tied, 6050).moved == 40
    assert lab.replicate(replace(tied, decoder="untied"), 6050).moved == 0


# The table


def fake(seed: int, scratch: tuple[int, int, int], pretrained: tuple[int, int, int]) -> Replicate:
    """Make a replicate with so many right of 2 training, 10 covered and 20 uncovered words."""

    def outcome(right: tuple[int, int, int]) -> Outcome:
        train, covered, uncovered = right
        return Outcome(Score(train, 2), Score(covered, 10), Score(uncovered, 20))

    outcomes: dict[str, tuple[Outcome, ...]] = {
        "scratch": (outcome(scratch),),
        "pretrained": (outcome(pretrained),),
    }
    return Replicate(seed, 100, (8, 1, 3), (1.0,), 0, Cosines(0, 0), Cosines(0, 0), outcomes)


def test_a_row_pairs_the_arms_and_a_tie_is_no_win() -> None:
    runs = (fake(1, (2, 5, 10), (2, 9, 8)), fake(2, (1, 6, 9), (2, 6, 11)), fake(3, (2, 7, 8), (2, 6, 9)))
    result = LabResult(replace(Recipe(), budgets=(1,)), runs)
    (row,) = result.rows
    assert row.budget == 1
    assert row.gains == pytest.approx((0.4, 0.0, -0.1))
    assert row.wins == 1
    assert row.delta == pytest.approx(0.1)
    assert str(row) == (
        "1/family: scratch=0.600, pretrained=0.700, delta=+0.100, wins=1/3, "
        "uncovered=0.450/0.467, train=0.833/1.000"
    )
    assert (result.selected, result.eligible) == (36, 300)
    assert result.shares == pytest.approx((8 / 12, 1 / 12, 3 / 12))


def test_a_loss_is_printed_with_its_sign() -> None:
    arms = {"scratch": 0.5, "pretrained": 0.25}
    assert "delta=-0.250, wins=0/1" in str(Row(2, arms, arms, arms, (-0.25,)))


# Running it


def test_things_are_shared_out_evenly() -> None:
    assert lab.shared_out((1, 2, 3, 4, 5), 2) == [(1, 3, 5), (2, 4)]
    assert lab.shared_out((1, 2), 2) == [(1,), (2,)]


def close(first: Replicate, second: Replicate) -> bool:
    """Say whether two replicates agree: counts and scores exactly, floats within a few last digits of float32."""
    exact = all(
        getattr(first, name) == getattr(second, name)
        for name in ("seed", "eligible", "branches", "moved", "outcomes")
    )
    floats = [[*one.losses, *one.initial, *one.after] for one in (first, second)]
    return exact and floats[0] == pytest.approx(floats[1], rel=0, abs=5e-6)


def test_one_worker_and_two_give_the_same() -> None:
    seeds = (6052, 6050, 6051)
    one, two = (lab.run(SHORT, seeds, workers=workers) for workers in (1, 2))
    assert tuple(r.seed for r in one.replicates) == tuple(r.seed for r in two.replicates) == seeds
    assert all(close(a, b) for a, b in zip(one.replicates, two.replicates, strict=True))


def test_a_run_of_the_lab_does_not_depend_on_the_stream_it_finds() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first = lab.run(SHORT, (6050,))
        torch.manual_seed(2)
        second = lab.run(SHORT, (6050,))
    assert first == second


@pytest.mark.parametrize("seeds", [(), (6050, 6050), (6050, 6051, 6050)])
def test_no_seed_or_one_that_stands_twice_is_refused(seeds: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least one, and distinct"):
        lab.run(SHORT, seeds)


def test_a_run_without_updates_gives_what_it_has() -> None:
    result = lab.run(replace(SHORT, updates=0, adaptation_updates=0), (6050,))
    assert (result.selected, result.eligible, result.shares) == (0, 0, (0.0, 0.0, 0.0))
    (one,) = result.replicates
    assert one.losses == ()
    assert one.initial == one.after
    assert one.outcomes["scratch"] == one.outcomes["pretrained"]


def test_results_go_to_json_and_back() -> None:
    result = lab.run(SHORT, (6050, 6051))
    back = json.loads(json.dumps(result.to_dict()))
    assert Recipe.from_json(json.dumps(back["recipe"])) == result.recipe

    def outcomes(of_arm: list[dict[str, Any]]) -> tuple[Outcome, ...]:
        return tuple(Outcome(**{part: Score(**score) for part, score in o.items()}) for o in of_arm)

    rebuilt = []
    for values in back["replicates"]:
        values["branches"], values["losses"] = tuple(values["branches"]), tuple(values["losses"])
        values["initial"], values["after"] = Cosines(*values["initial"]), Cosines(*values["after"])
        values["outcomes"] = {arm: outcomes(of_arm) for arm, of_arm in values["outcomes"].items()}
        rebuilt.append(Replicate(**values))
    assert LabResult(result.recipe, tuple(rebuilt)) == result


# Progress and cancelling


def test_progress_comes_in_the_callers_thread_and_reaches_the_end() -> None:
    calls: list[tuple[int, int, bool]] = []

    def note(done: int, total: int) -> None:
        calls.append((done, total, threading.current_thread() is threading.main_thread()))

    recipe = replace(SHORT, updates=60)
    lab.run(recipe, (6050, 6051), note)
    total = 2 * (60 + 2 * 3 * 5)
    assert total == 2 * updates_of(recipe)
    assert {of for _, of, _ in calls} == {total}
    assert all(at_home for _, _, at_home in calls)
    done = [done for done, _, _ in calls]
    assert done == sorted(done)
    assert done[-1] == total


def test_progress_of_one_replicate_runs_through_both_stages() -> None:
    calls: list[tuple[int, int]] = []
    lab.replicate(SHORT, 6050, lambda done, total: calls.append((done, total)))
    total = 20 + 2 * 3 * 5
    assert calls == [(done, total) for done in range(1, total + 1)]


def answer_false() -> bool:
    return False


def interrupt() -> bool:
    raise KeyboardInterrupt


def press_control_c() -> bool:
    # Tests that a shell runs in the background have been told to ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    return True


@pytest.mark.parametrize(
    ("stop", "error"),
    [(answer_false, Cancelled), (interrupt, KeyboardInterrupt), (press_control_c, KeyboardInterrupt)],
)
def test_a_run_ends_at_the_update_after_which_it_is_told_so(
    stop: Callable[[], bool], error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set(threading.enumerate())
    asked, updates = 0, 0
    step = training.side_by_side

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal updates
        updates += 1
        return step(*arguments, **options)

    def progress(done: int, total: int) -> bool:
        nonlocal asked
        asked += 1
        assert asked == updates, "the run is not asked after every update"
        return stop() if asked == 4 else True

    monkeypatch.setattr(training, "side_by_side", counted)
    with unusual_settings_kept(), pytest.raises(error):
        lab.run(Recipe(), progress=progress, workers=2)
    assert (asked, updates) == (4, 4)
    assert set(threading.enumerate()) <= threads
    assert not multiprocessing.active_children()


def test_a_whole_run_leaves_threads_and_settings_as_they_were() -> None:
    threads = set(threading.enumerate())
    with unusual_settings_kept():
        lab.run(replace(SHORT, updates=2), (6050, 6051))
    assert set(threading.enumerate()) <= threads
