"""A verdict on several answers, of which a cell may ask for a few only."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bertch15.check.kit.verdict import Part, Verdict, untouched, wrong

Checks = Mapping[str, Callable[[Mapping[str, Any]], Part]]
"""For each key of the answers what checks it; the function is given all answers."""


class Mistake(Exception):
    """What is wrong with an answer, in a sentence."""


def together(exercise: str, answers: Any, names: Sequence[str], checks: Checks) -> Verdict:
    """Check the named answers, all of them by default, one part each.

    answers: a dictionary; a key that is missing counts as not attempted. Raises ValueError for a name that is
    none of the exercise's.
    """
    unknown = [name for name in names if name not in checks]
    if unknown:
        raise ValueError(f"parts must be among {tuple(checks)}, got {unknown}")
    asked = names or tuple(checks)
    if not isinstance(answers, Mapping) and not untouched(answers):
        says = wrong(f"The answers are a dictionary with the keys {', '.join(checks)}.")
        return Verdict(exercise, tuple((name, *says) for name in asked))
    given = answers if isinstance(answers, Mapping) else {}
    return Verdict(exercise, tuple((name, *checks[name](given)) for name in asked))
