"""What a check says of an answer: a mark, a state in words, and one sentence that helps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from hashlib import sha256
from html import escape
from typing import Any, Literal, ParamSpec

import numpy as np
import torch

from bertch15.palette import INK
from bertch15.settings import reproducible

State = Literal["right", "not yet", "not attempted"]

LOOK: dict[State, tuple[str, str]] = {
    "right": ("✓", "#1b6e3a"),
    "not yet": ("✗", "#a3341c"),
    "not attempted": ("○", "#5a6068"),
}
"""For each state its mark and its colour; both are readable on white and the words say the same."""

P = ParamSpec("P")


@dataclass(frozen=True)
class Verdict:
    """One line a part of the answer: (name of the part, its state, what helps).

    A notebook shows it in colour, `print` in plain text. `points` is the share of the parts that are right, in
    [0, 1], for who grades.
    """

    exercise: str
    parts: tuple[tuple[str, State, str], ...]

    @property
    def right(self) -> bool:
        """Whether every part is right."""
        return all(state == "right" for _, state, _ in self.parts)

    @property
    def points(self) -> float:
        """The share of the parts that are right, in [0, 1]."""
        return sum(state == "right" for _, state, _ in self.parts) / len(self.parts)

    def score(self, most: float) -> float:
        """Give the points gained of `most`, in [0, most], to two digits: the value that ends a graded cell.

        nbgrader credits such a number as it stands. It must be a plain float: nbgrader gives full credit for any
        other value, and refuses to grade a number above `most`.
        """
        return min(round(float(self.points * most), 2), float(most))

    def __repr__(self) -> str:
        lines = [f"{LOOK[s][0]} {name}: {s}{'. ' if says else ''}{says}" for name, s, says in self.parts]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        lines = []
        for name, state, says in self.parts:
            mark, colour = LOOK[state]
            lines.append(
                f'<div style="background: white; color: {INK}; padding: 2px 8px"><b style="color: {colour}">'
                f"{mark} {escape(name)}: {state}</b> {escape(says)}</div>"
            )
        return "".join(lines)


Part = tuple[State, str]
"""A state and the sentence that helps: what the check of one part returns."""

RIGHT: Part = ("right", "")
EMPTY: Part = ("not attempted", "")


def untouched(answer: object) -> bool:
    """Say whether an answer is still the stub: `...`, or a collection of nothing but stubs."""
    if answer is ... or answer is None:
        return True
    if isinstance(answer, dict):
        return bool(answer) and all(map(untouched, answer.values()))
    return isinstance(answer, list | tuple) and bool(answer) and all(map(untouched, answer))


def wrong(says: str) -> Part:
    """Say what a wrong answer looks like: the misconception, not the value."""
    return ("not yet", says)


def careful(part: Callable[P, Part]) -> Callable[P, Part]:
    """Turn whatever an answer makes a check raise into a sentence: a check never raises at an answer.

    The verdict does not depend on what the reader has set in torch, gradients switched off included.
    """

    @wraps(part)
    def safely(*args: P.args, **kwargs: P.kwargs) -> Part:
        try:
            with reproducible(), torch.enable_grad():
                return part(*args, **kwargs)
        except Exception as error:
            return wrong(f"This answer could not be read: {type(error).__name__}: {error}")

    return safely


def as_tensor(answer: Any) -> torch.Tensor:
    """Read an answer: a number, nested lists, numpy or torch, bool or int. Raises ValueError if it is none."""
    try:
        if isinstance(answer, torch.Tensor):
            return answer.detach().cpu()
        return torch.as_tensor(np.array(answer, order="C"))  # torch takes no rows in reverse
    except (TypeError, ValueError) as error:
        raise ValueError(f"an array was expected, got {type(answer).__name__}") from error


def closeness(found: torch.Tensor, expected: torch.Tensor, within: float) -> str:
    """Compare two tensors of one shape: "exact", "close", or their largest difference."""
    if torch.equal(found, expected):
        return "exact"
    gap = float((found.double() - expected.double()).abs().max())
    return "close" if gap <= within else f"off by up to {gap:.1e}"


def sealed(question: str, option: str) -> str:
    """Seal the right option of a question, so that the check's source does not give it away in plain text."""
    return sha256(f"bertch15 {question} {option.strip().lower()}".encode()).hexdigest()[:16]


def chosen(question: str, answer: object, options: Sequence[str], seal: str, hints: dict[str, str]) -> Part:
    """Check one choice. options: the letters; seal: of the right one; hints: for wrong letters, sealed alike."""
    if untouched(answer):
        return EMPTY
    letter = str(answer).strip().lower()
    if letter not in list(options):  # in a text, parts of it are found too: "" and "ab"
        return wrong(f"Choose one of {', '.join(options)}, as a letter in quotes.")
    if sealed(question, letter) == seal:
        return RIGHT
    return wrong(hints[letter])
