"""Exercise 2: what becomes of so many eligible positions, under the chapter's policy and under one of one's own.

The counts are computed from the rule; a wrong one is compared with what each misconception would count.
"""

from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from itertools import product
from numbers import Integral
from typing import Any

from bertch15.check.exercise_2.branches import BRANCHES, CHAPTER, NAMES, Instance, counted, misconceptions
from bertch15.check.kit.reasons import Reason
from bertch15.check.kit.verdict import EMPTY, RIGHT, Part, Verdict, as_tensor, careful, untouched, wrong

PARTS = ("first", "own", "twelve")

TWELVE = Reason(
    "twelve",
    "b0d7f66d9a1c389d",
    {
        "31c0a3bf8b722708": "Every number of this flow is an expectation. That does not make one of them "
        "the rate of another.",
        "e29f6d912dc199a3": "Is a selected token that stays as it is not scored? Ask what becomes of its target.",
        "aecb9b653dded0e2": "Special tokens and padding are not eligible: they are not among these positions.",
    },
)


class Unchosen:
    """What `instance` gives before a seed is chosen: no numbers."""

    def __repr__(self) -> str:
        return "○ not attempted: choose a seed, a whole number or a word"


def instance(seed: object) -> Instance | Unchosen:
    """Give the task that belongs to a seed, a whole number or a word; the same task on every machine."""
    if untouched(seed) or not isinstance(seed, Integral | str):
        return Unchosen()
    number = int(sha256(f"bertch15 counting {seed}".encode()).hexdigest(), 16)
    return tasks()[number % len(tasks())]


@cache
def tasks() -> tuple[Instance, ...]:
    """Give all tasks with whole counts in which no misconception hits the right number by accident."""
    shares = [(m, r, 100 - m - r) for m, r in product(range(50, 85, 5), range(5, 35, 5)) if m + r < 100]
    wholes = product(range(1200, 9001, 600), (10, 12, 18, 20, 25, 30))
    every = (Instance(eligible, rate, *three) for (eligible, rate), three in product(wholes, shares))
    return tuple(task for task in every if all(clear(task, name) for name in NAMES))


def clear(task: Instance, name: str) -> bool:
    """Say whether a count is whole, is that of no other branch, and differs from all misconceptions."""
    here, others = counted(task, name), [other for other in BRANCHES if other != name]
    alike = name in BRANCHES and any(counted(task, other) == here for other in others)
    return here.is_integer() and not alike and all(number != here for number, _ in misconceptions(task, name))


@careful
def count(answer: Any, task: Instance, name: str, selected: Any) -> Part:
    """Check one count. selected: what the student says is selected: a mistake is told where it was made."""
    if untouched(answer):
        return EMPTY
    if isinstance(answer, str) and "%" in answer:
        return wrong("This is a share; a number of positions is asked for.")
    number = as_number(answer)
    if same(number, counted(task, name)):
        return RIGHT
    for other, says in misconceptions(task, name):
        if same(number, other):
            return wrong(says)
    if name == "selected":
        return wrong("Not this number. It is a share of the eligible positions: which?")
    share = getattr(task, name) / 100 if name in BRANCHES else 1.0
    if not untouched(selected) and same(number, as_number(selected) * share):
        return wrong("This follows from your number of selected positions. Mend that one first.")
    if name == "scored":
        return wrong("Not this number. Which of the four controls decides what is scored?")
    return wrong("Not this number. It is a share of the selected positions: which?")


def same(number: float, other: float) -> bool:
    """Say whether two counts are one, but for the rounding of a product of shares."""
    return abs(number - other) < 1e-6


def as_number(answer: Any) -> float:
    """Read one number in any form. Raises ValueError for what is none, or is more than one."""
    if isinstance(answer, str):
        return float(answer.replace(",", "").replace(" ", ""))
    number = as_tensor(answer)
    if number.numel() != 1:
        raise ValueError("one number is asked for")
    return float(number)


def five(answer: Any) -> dict[str, Any]:
    """Read the five counts: a dictionary, or five in the order of the names. Raises ValueError for others."""
    if untouched(answer):
        return {}
    if isinstance(answer, dict):
        return answer
    numbers = answer.tolist() if hasattr(answer, "tolist") else list(answer)
    if len(numbers) != len(NAMES):
        raise ValueError(f"five counts are asked for: {', '.join(NAMES)}")
    return dict(zip(NAMES, numbers, strict=True))


def counts(answer: Any, task: Instance | Unchosen, prefix: str = "") -> Iterator[tuple[str, Part]]:
    """Check the five counts of one task, a part each."""
    try:
        given = five(answer)
    except (TypeError, ValueError) as error:
        yield from ((prefix + name, wrong(f"This answer could not be read: {error}.")) for name in NAMES)
        return
    for name in NAMES:
        number = given.get(name, ...)
        if isinstance(task, Instance):
            yield prefix + name, count(number, task, name, given.get("selected", ...))
        else:
            yield prefix + name, EMPTY if untouched(number) else wrong("Choose your seed first.")


def counting(answers: Any, *names: str) -> Verdict:
    """Check exercise 2: `answers` is a dictionary; names: the parts to be shown, all of them by default."""
    if not isinstance(answers, dict) and not untouched(answers):
        says = wrong(f"The answers are a dictionary with the keys {', '.join(PARTS)}.")
        return Verdict("counting", tuple((name, *says) for name in names or PARTS))
    given = answers if isinstance(answers, dict) else {}
    checks: dict[str, Callable[[], list[tuple[str, Part]]]] = {
        "first": lambda: list(counts(given.get("first"), CHAPTER)),
        "own": lambda: list(counts(given.get("own"), instance(given.get("seed")), "own ")),
        "twelve": lambda: [("twelve", TWELVE.check(given.get("twelve"), given.get("twelve because")))],
    }
    parts = [(name, *part) for group in names or PARTS for name, part in checks[group]()]
    return Verdict("counting", tuple(parts))
