"""The mask policy on a sentence of one's own: what is selected, what the model sees, and what that is worth.

One sentence is corrupted many times over in one batch. The first draw is shown token by token, all draws are
counted against what the policy expects, and what is wrong with a policy is said in words.
"""

from dataclasses import dataclass

import torch

from bertch15.corruption import Corruption, Count, Policy, corrupt
from bertch15.demonstrations.mask_policy.words import SENTENCES, VOCABULARY, read
from bertch15.settings import reproducible
from bertch15.vocabulary import SPECIALS

DRAWS, MOST_DRAWS = 400, 2000
PADDING = 1  # one padding slot is shown, to be seen never selected
MASKED, RANDOMISED, UNCHANGED, LEFT_ALONE, NOT_ELIGIBLE = "M", "R", "U", ".", " "
LEGEND = "M became [MASK], R drew a token (perhaps the same), U selected but unchanged, . not selected"


@dataclass(frozen=True)
class Strip:
    """One draw, slot by slot: the sentence's tokens, what the model reads, and a letter of `LEGEND`."""

    original: tuple[str, ...]
    corrupted: tuple[str, ...]
    letters: tuple[str, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The token to be found at each slot, and nothing where nothing is scored."""
        scored = (MASKED, RANDOMISED, UNCHANGED)
        return tuple(t if c in scored else "" for t, c in zip(self.original, self.letters, strict=True))

    def __str__(self) -> str:
        rows = {
            "sentence": self.original,
            "branch": self.letters,
            "input": self.corrupted,
            "target": self.targets,
        }
        widths = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
        lines = []
        for name, cells in rows.items():
            padded = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            lines.append(f"{name:10}{padded}".rstrip())
        return "\n".join(lines)


@dataclass(frozen=True)
class Outcome:
    """What a policy does to a sentence.

    strip: the first draw, None where the policy cannot be. counts: over all draws. remarks: in words, what is
    wrong with the policy, the sentence or this draw; empty if nothing is. draws: how many were counted.
    """

    strip: Strip | None
    counts: tuple[Count, ...]
    remarks: tuple[str, ...]
    draws: int

    def __str__(self) -> str:
        parts = [str(self.strip), f"({LEGEND})", f"{in_draws(self.draws)}:"] if self.strip else []
        parts += map(count_line, self.counts)
        return "\n".join([*parts, *(f"! {remark}" for remark in self.remarks)])


@reproducible()
def demonstrate(
    sentence: str = SENTENCES[0],
    rate: float = 0.15,
    mask_share: float = 0.8,
    random_share: float = 0.1,
    redraw: int = 0,
    draws: int = DRAWS,
) -> Outcome:
    """Corrupt a sentence under a policy, again and again.

    sentence: as `read` takes it. rate, mask_share, random_share: as in `Policy`, each in [0, 1]. redraw: any whole
    number from 0; another number, other draws. draws: how many are counted, 1 to `MOST_DRAWS`; more of them go on
    where fewer stopped, and the first, which is shown, stays.
    Shares that sum to more than 1 are no error here, for two sliders pass through such sums: a remark says so.
    Raises ValueError for a rate or a share outside [0, 1] and for a number of draws that is not to be had.
    """
    if not 1 <= draws <= MOST_DRAWS:
        raise ValueError(f"draws must be 1 to {MOST_DRAWS}, got {draws}")
    words, remarks = read(sentence)
    if mask_share <= 1 and random_share <= 1 and mask_share + random_share > 1 + 1e-9:
        return Outcome(None, (), (over_one(mask_share, random_share), *remarks), draws)
    policy = Policy(rate, mask_share, random_share)
    ids = VOCABULARY.encode([words], len(words) + 2 + PADDING).repeat(MOST_DRAWS, 1)
    pool = torch.arange(len(SPECIALS), len(VOCABULARY))
    batch = corrupt(ids, pool, torch.Generator().manual_seed(redraw), policy)[torch.arange(draws)]
    counts = counts_of(policy, batch)
    remarks = (*remarks_on(policy), *remarks_on_draw(policy, batch), *remarks_on_counts(counts), *remarks)
    return Outcome(strip_of(batch), counts, remarks, draws)


def strip_of(batch: Corruption) -> Strip:
    """Write down the first row of a corrupted batch."""
    letters = []
    for eligible, selected, masked, randomised in zip(
        batch.eligible[0], batch.selected[0], batch.masked[0], batch.randomised[0], strict=True
    ):
        if not selected:
            letters.append(LEFT_ALONE if eligible else NOT_ELIGIBLE)
        else:
            letters.append(MASKED if masked else RANDOMISED if randomised else UNCHANGED)
    original, corrupted = (tuple(VOCABULARY.decode(ids[0])) for ids in (batch.ids, batch.corrupted))
    return Strip(original, corrupted, tuple(letters))


def counts_of(policy: Policy, batch: Corruption) -> tuple[Count, ...]:
    """Count a batch against its policy: selected of eligible, then the three branches of the selected."""
    selected = int(batch.selected.sum())
    shares = (policy.mask_share, policy.random_share, policy.unchanged_share)
    names = ("[MASK] of selected", "random of selected", "unchanged of selected")
    branches = zip(names, batch.branch_counts, shares, strict=True)
    return (
        Count("selected of eligible", selected, int(batch.eligible.sum()), policy.rate),
        *(Count(name, count, selected, share) for name, count, share in branches),
    )


def in_draws(draws: int) -> str:
    """Say over how many draws the counts are."""
    return "in 1 draw" if draws == 1 else f"in {draws:,} draws"


def count_line(count: Count) -> str:
    """Say how many there were, how many to expect, and between which counts four deviations lie."""
    if not count.total:
        return f"{count.name:22} nothing to count"
    low, high = (share * count.total for share in count.bounds())
    verdict = "within" if count.within else "OUTSIDE"
    return (
        f"{count.name:22} {count.count:5} of {count.total:5}   expected {count.expected * count.total:7.1f}   "
        f"{verdict} {low:6.1f} to {high:6.1f}"
    )


def over_one(mask_share: float, random_share: float) -> str:
    """Say that two shares are more than there is to share."""
    return (
        f"[MASK] {mask_share:.0%} and random {random_share:.0%} make {mask_share + random_share:.0%} of the "
        "selected positions, more than there are: lower one of the two."
    )


def remarks_on(policy: Policy) -> list[str]:
    """Say what a policy does that one may not have meant."""
    if policy.rate == 0:
        return ["The rate is 0: no position is ever selected, so there is no target and nothing to learn."]
    remarks = []
    if policy.unchanged_share > 0.5:
        remarks.append(
            f"The copy trap: {policy.unchanged_share:.0%} of the targets stand in the input, where the encoder "
            "can copy them. The loss falls and little is learned."
        )
    if policy.mask_share == 0:
        remarks.append("The policy never shows [MASK]: nothing in the input says where a target is.")
    if policy.rate > 0.9:
        remarks.append("Hardly a token is left unselected: there is no context to answer from.")
    return remarks


def remarks_on_draw(policy: Policy, batch: Corruption) -> list[str]:
    """Say so if a sentence gives no target, always or in the draw that is shown."""
    eligible = int(batch.eligible[0].sum())
    if not eligible:
        return ["The sentence has no ordinary token: nothing can be selected."]
    if policy.rate == 0 or batch.selected[0].any():
        return []
    chance = (1 - policy.rate) ** eligible
    return [
        f"This draw selected nothing and gives no target. At this rate that happens to {chance:.0%} of sentences "
        f"with {eligible} ordinary tokens."
    ]


def remarks_on_counts(counts: tuple[Count, ...]) -> list[str]:
    """Say what a count outside its bounds means."""
    if all(count.within for count in counts):
        return []
    return [
        "A count lies outside four deviations. Where only a few are expected that happens now and then, and more "
        "draws bring it back; over very many draws it would be a bug."
    ]
