"""The lab under the reader's own policy: what is to be run, and the reader's result beside the chapter's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bertch15.corruption import Policy
from bertch15.demonstrations.mask_policy.model import over_one
from bertch15.lab import LabResult, Row, updates_of
from bertch15.recipe import Recipe

NUMBERS = ("no", "one", "two", "three", "four", "five")
ADAPTATION_WEIGHS = 0.15
"""How long an update of the adaptation takes, measured in updates of the pretraining."""


@dataclass(frozen=True)
class Plan:
    """What the controls ask for.

    recipe, seeds: of the run. complaint: in words, why this cannot be run; empty if it can.
    """

    recipe: Recipe
    seeds: tuple[int, ...]
    complaint: str = ""

    @property
    def total(self) -> int:
        """The updates of all replicates together, as the lab counts them."""
        return len(self.seeds) * updates_of(self.recipe)

    def share(self, done: int) -> float:
        """Say how much of the work is done after so many updates, in [0, 1]: those of pretraining come first."""
        pretraining = len(self.seeds) * self.recipe.updates
        weighed = min(done, pretraining) + ADAPTATION_WEIGHS * max(0, done - pretraining)
        return min(1.0, weighed / (pretraining + ADAPTATION_WEIGHS * (self.total - pretraining)))


def make_plan(
    chapter: LabResult,
    rate: float,
    mask_share: float,
    random_share: float,
    updates: int,
    labels: Sequence[int],
    seeds: int,
) -> Plan:
    """Change the chapter's recipe by what the controls say; the first so many of the chapter's seeds run it.

    rate and shares: as in `Policy`, to two decimals. labels: the budgets, in labelled words per family.
    A policy that teaches nothing, or that there cannot be, gives the chapter's own policy and a complaint.
    """
    rate, mask_share, random_share = (round(share, 2) for share in (rate, mask_share, random_share))
    recipe = replace(chapter.recipe, updates=updates, budgets=tuple(labels))
    chosen = tuple(one.seed for one in chapter.replicates[:seeds])
    if mask_share + random_share > 1 + 1e-9:
        return Plan(recipe, chosen, over_one(mask_share, random_share))
    if rate == 0:
        complaint = (
            "At rate 0 no position is selected: there is no loss, nothing moves, and both arms would start from "
            "one and the same encoder. Raise the rate."
        )
        return Plan(recipe, chosen, complaint)
    policy = replace(recipe.policy, rate=rate, mask_share=mask_share, random_share=random_share)
    return Plan(replace(recipe, policy=policy), chosen)


def policy_in_words(policy: Policy) -> str:
    """Say how many positions are selected and what becomes of them, the rest included."""
    return (
        f"select {policy.rate:.0%}; of these {policy.mask_share:.0%} [MASK], {policy.random_share:.0%} random, "
        f"{policy.unchanged_share:.0%} unchanged"
    )


def seeds_in_words(seeds: Sequence[int]) -> str:
    """Count the seeds; name one that is alone."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    return f"{NUMBERS[len(seeds)] if len(seeds) < len(NUMBERS) else len(seeds)} seeds"


def run_in_words(recipe: Recipe, seeds: Sequence[int]) -> str:
    """Say what a run is made of."""
    return f"{policy_in_words(recipe.policy)}; {recipe.updates} updates; {seeds_in_words(seeds)}"


def of_seeds(result: LabResult, seeds: Sequence[int]) -> LabResult:
    """Give a result for some of its seeds alone, so that a run of one seed is compared with the same seed."""
    return replace(result, replicates=tuple(one for one in result.replicates if one.seed in seeds))


def seeds_of(result: LabResult) -> tuple[int, ...]:
    """Give the seeds of a result's replicates, in order."""
    return tuple(one.seed for one in result.replicates)


def beside(chapter: LabResult, mine: LabResult | None) -> list[tuple[str, Row | None]]:
    """Pair the rows budget by budget: the chapter's, over the reader's seeds, then the reader's.

    A budget that the reader did not run, or None for a result that is not there yet, has the row None.
    """
    own = {row.budget: row for row in mine.rows} if mine else {}
    compared = of_seeds(chapter, seeds_of(mine)) if mine else chapter
    return [pair for row in compared.rows for pair in (("chapter", row), ("yours", own.get(row.budget)))]
