"""The lab under the reader's own policy, as pure functions: what is planned, refused and shown."""

from dataclasses import replace
from typing import Any

import pytest

from bertch15 import lab
from bertch15.corruption import Policy
from bertch15.demonstrations.own_lab.model import Plan, beside, make_plan, policy_in_words, seeds_in_words
from bertch15.demonstrations.own_lab.view import own_lab_view
from bertch15.finetuning import Score
from bertch15.geometry import Cosines
from bertch15.lab import LabResult, Outcome, Replicate
from bertch15.recipe import Recipe

pytestmark = pytest.mark.usefixtures("state_guard")

ASKED: dict[str, Any] = {
    "rate": 0.15,
    "mask_share": 0.8,
    "random_share": 0.1,
    "updates": 600,
    "labels": (1, 2, 4),
    "seeds": 5,
}


def replicate(seed: int, budgets: int, right: int) -> Replicate:
    """Make a replicate that gets 5 of 10 covered words right from scratch, and `right` after pretraining."""

    def outcomes(covered: int, uncovered: int) -> tuple[Outcome, ...]:
        return (Outcome(Score(2, 2), Score(covered, 10), Score(uncovered, 20)),) * budgets

    both = {"scratch": outcomes(5, 9), "pretrained": outcomes(right, 11)}
    return Replicate(seed, 100, (8, 1, 3), (1.0,), 0, Cosines(0, 0), Cosines(0, 0), both)


def result(seeds: tuple[int, ...] = (6050, 6051, 6052, 6053, 6054), right: int = 10, **fields: Any) -> LabResult:
    recipe = replace(Recipe(), **fields)
    return LabResult(recipe, tuple(replicate(seed, len(recipe.budgets), right) for seed in seeds))


def plan(**asked: Any) -> Plan:
    return make_plan(result(), **ASKED | asked)


# The plan


def test_the_controls_as_they_are_ask_for_the_chapters_own_run():
    assert plan() == Plan(Recipe(), (6050, 6051, 6052, 6053, 6054))
    assert plan(seeds=1).seeds == (6050,)


def test_each_control_changes_its_own_field_of_the_recipe():
    assert plan(rate=0.3, mask_share=0.5, random_share=0.25).recipe.policy == Policy(0.3, 0.5, 0.25)
    assert plan(updates=100).recipe == replace(Recipe(), updates=100)
    assert plan(labels=(2,)).recipe == replace(Recipe(), budgets=(2,))


def test_the_chapters_other_settings_are_kept():
    chapter = result(corpus_seed=3, policy=Policy(eligible="every"))
    recipe = make_plan(chapter, **ASKED).recipe
    assert (recipe.corpus_seed, recipe.policy.eligible) == (3, "every")


def test_sums_of_steps_are_rounded_to_what_is_shown():
    assert plan(rate=0.05 * 3).recipe.policy.rate == 0.15
    assert plan(mask_share=0.1 + 0.2, random_share=0.7).complaint == ""


@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.9, 0.1), (0.7, 0.3)])
@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_policies_at_the_edge_are_no_mistake(rate: float, shares: tuple[float, float]):
    made = plan(rate=rate, mask_share=shares[0], random_share=shares[1])
    assert made.complaint == ""
    assert made.recipe.policy == Policy(rate, *shares)


def test_shares_over_one_are_said_in_words():
    made = plan(mask_share=0.95, random_share=0.1)
    assert "[MASK] 95% and random 10% make 105% of the selected positions" in made.complaint
    assert made.recipe == Recipe()


def test_a_rate_of_nothing_is_said_in_words_and_the_words_are_true():
    assert "no loss, nothing moves, and both arms would start from one and the same" in plan(rate=0.0).complaint
    nothing = replace(Recipe(), policy=Policy(rate=0.0), updates=3, adaptation_updates=3)
    (one,) = lab.run(nothing, (6050,)).replicates
    assert one.losses == (0.0,) * 3
    assert one.initial == one.after
    assert one.outcomes["scratch"] == one.outcomes["pretrained"]


def test_the_share_of_the_work_runs_from_nothing_to_all_and_never_back():
    made = plan(seeds=1)
    assert made.total == 600 + 2 * 3 * 160
    shares = [made.share(done) for done in range(made.total + 1)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert shares[600] == pytest.approx(600 / (600 + 0.15 * 960))
    assert made.share(made.total + 9) == 1.0


# In words


def test_the_rest_is_said_to_be_unchanged():
    assert policy_in_words(Policy()) == "select 15%; of these 80% [MASK], 10% random, 10% unchanged"
    assert policy_in_words(Policy(1.0, 0.0, 0.0)).endswith("0% [MASK], 0% random, 100% unchanged")


@pytest.mark.parametrize(
    ("seeds", "words"), [((7,), "seed 7"), ((1, 2), "two seeds"), (tuple(range(6)), "6 seeds")]
)
def test_seeds_are_counted(seeds: tuple[int, ...], words: str):
    assert seeds_in_words(seeds) == words


# Beside the chapter


def test_before_a_run_the_chapters_rows_stand_alone():
    view = own_lab_view(result(), None, plan())
    assert view.text.splitlines() == [
        "asked for: select 15%; of these 80% [MASK], 10% random, 10% unchanged; 600 updates; five seeds",
        "chapter: select 15%; of these 80% [MASK], 10% random, 10% unchanged; 600 updates; five seeds",
        *map(str, result().rows),
        "yours: not run yet",
    ]
    assert view.html.count("not run yet") == 1 + 3 + 1  # the line, a row for each budget, the words of the picture
    assert view.html.count("1.000") >= 3


def test_after_a_run_both_stand_side_by_side():
    mine = result(right=7, updates=200, policy=Policy(mask_share=0.6))
    view = own_lab_view(result(), mine, plan())
    assert (
        "yours: select 15%; of these 60% [MASK], 10% random, 30% unchanged; 200 updates; five seeds" in view.text
    )
    assert [line for line in view.text.splitlines() if "/family" in line] == [
        *map(str, result().rows),
        *map(str, mine.rows),
    ]
    assert "not run yet" not in view.html + view.text
    assert view.html.count("+0.200") == view.html.count("+0.500") > 3


def test_a_run_of_one_seed_is_compared_with_that_seed():
    runs = (replicate(6050, 3, 10), replicate(6051, 3, 6))
    chapter = LabResult(Recipe(), runs)
    mine = LabResult(Recipe(), (replicate(6051, 3, 8),))
    pairs = beside(chapter, mine)
    assert [(whose, row.covered["pretrained"] if row else None) for whose, row in pairs] == [
        ("chapter", 0.6),
        ("yours", 0.8),
    ] * 3
    assert "chapter: select 15%; of these 80% [MASK], 10% random, 10% unchanged; 600 updates; seed 6051" in (
        own_lab_view(chapter, mine, plan()).text
    )


def test_a_budget_that_was_not_asked_for_stays_empty():
    mine = result(seeds=(6050,), right=8, budgets=(2,))
    assert [row is not None for whose, row in beside(result(), mine) if whose == "yours"] == [False, True, False]
    assert own_lab_view(result(), mine, plan()).html.count("not asked for") == 2


def test_the_picture_holds_two_arms_covered_and_uncovered_for_each_row():
    def marks(view_html: str) -> tuple[int, int]:
        drawn = view_html.split("<svg")[1]
        return drawn.count("<circle"), drawn.count('width="8" height="8"')

    assert marks(own_lab_view(result(), None, plan()).html) == (2 + 3 * 2, 2 + 3 * 2)
    assert marks(own_lab_view(result(), result(), plan()).html) == (2 + 6 * 2, 2 + 6 * 2)


def test_an_accuracy_stands_at_its_height():
    one = result(seeds=(6050,), budgets=(1,))
    drawn = own_lab_view(one, None, plan()).html.split("<svg")[1]
    assert 'cy="30.0" r="4.5" fill="#1f5fa8"' in drawn  # 10 of 10, at the top
    assert 'y="126.0" width="8" height="8" fill="#e08a1e"' in drawn  # 5 of 10, 100 pixels below, less half a mark
    assert f'cy="{30 + 200 * 9 / 20:.1f}" r="4.5" fill="none" stroke="#1f5fa8"' in drawn  # 11 of 20 uncovered


def test_a_complaint_stands_first_and_the_results_stay():
    view = own_lab_view(result(), result(right=7), plan(rate=0.0))
    assert view.text.startswith("! At rate 0 no position is selected")
    assert view.html.index("At rate 0") < view.html.index("chapter:")
    assert "yours: select 15%" in view.text


def test_neither_result_is_changed():
    chapter, mine = result(), result(right=7, budgets=(1,))
    own_lab_view(chapter, mine, plan())
    assert chapter == result()
    assert mine == result(right=7, budgets=(1,))
