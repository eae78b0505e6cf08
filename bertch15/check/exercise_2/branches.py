"""The flow of exercise 2: a task, its counts by the rule, and what each misconception would count instead."""

from collections.abc import Iterator
from dataclasses import dataclass

NAMES = ("selected", "masked", "random", "unchanged", "scored")
BRANCHES = NAMES[1:4]


@dataclass(frozen=True)
class Instance:
    """One task: so many eligible positions and a policy, all in whole numbers.

    eligible: positions. rate: per cent of them that are selected. masked, random, unchanged: per cent of the
    selected; together 100.
    """

    eligible: int
    rate: int
    masked: int
    random: int
    unchanged: int

    def __repr__(self) -> str:
        return (
            f"{self.eligible:,} eligible positions, {self.rate} % of them selected; of the selected "
            f"{self.masked} % become [MASK], {self.random} % a random token, {self.unchanged} % stay as they are"
        )


CHAPTER = Instance(2000, 15, 80, 10, 10)


def counted(task: Instance, name: str) -> float:
    """Count by the rule: the rate is a share of the eligible, each branch a share of the selected."""
    selected = task.eligible * task.rate / 100
    return selected * getattr(task, name) / 100 if name in BRANCHES else selected


def misconceptions(task: Instance, name: str) -> Iterator[tuple[float, str]]:
    """Give what each misconception would count under a name, and what is said of it."""
    per_cent = (
        [task.rate] if name not in BRANCHES else [getattr(task, name), task.rate * getattr(task, name) / 100]
    )
    for share in per_cent:
        yield from (
            (number, "This is a share; a number of positions is asked for.") for number in (share, share / 100)
        )
    yield from of_a_branch(task, name) if name in BRANCHES else of_the_whole(task, name)


def of_the_whole(task: Instance, name: str) -> Iterator[tuple[float, str]]:
    """Give the misconceptions about what is selected, and about what is scored."""
    selected, masked, random, unchanged = (counted(task, other) for other in NAMES[:4])
    left = task.eligible - selected
    if name == "selected":
        yield left, "This is what is not selected."
        yield task.eligible, "These are all that may be selected. How many of them are?"
        yield masked, "This is the [MASK] branch alone. The other two branches are selected as well."
        yield masked + random, "What is altered is not all that is selected: some of it stays as it is."
    else:
        yield (
            masked,
            "[MASK] does not decide what is scored: a selected position is scored whatever becomes of it.",
        )
        yield masked + random, "Selected positions that stay as they are are scored too."
        yield task.eligible, "Positions that are not selected are in this number. They are read, and not scored."
        yield left, "This is what is not selected: it is read, and not scored."
        yield left + random + unchanged, "This is what shows no [MASK]. To be visible is not to be scored."
        yield left + unchanged, "This is what reads as it did before. Whether it is scored, its looks do not tell."


def of_a_branch(task: Instance, name: str) -> Iterator[tuple[float, str]]:
    """Give the misconceptions about what becomes of the selected."""
    here, selected = counted(task, name), counted(task, "selected")
    whole = task.eligible * getattr(task, name) / 100
    yield whole, "This is a share of all eligible positions. The second draw is among the selected alone."
    for other in BRANCHES:
        if counted(task, other) != here:
            yield counted(task, other), "The order is exchanged: this belongs to another branch."
    left, rest = task.eligible - selected, selected - counted(task, "masked")
    remainder = rest * task.random / 100
    conditional = "The random share was taken of what [MASK] left over. It is a share of all that is selected."
    if name == "masked":
        yield selected - here, "This is what is selected and does not become [MASK]."
        yield selected, "All that is selected is in this number. A part of it never becomes [MASK]."
    else:
        yield (remainder if name == "random" else rest - remainder), conditional
        yield rest, "This is all that is selected and not [MASK]: two branches together."
    if name == "unchanged":
        looks = "Positions that were never selected are in this number. They look the same, and are not scored."
        yield from ((left, looks), (left + here, looks))
