"""A reason: one choice among sentences, sealed, and a sentence of the student's own that the teacher reads."""

from collections.abc import Mapping
from dataclasses import dataclass

from bertch15.check.kit.verdict import Part, chosen, sealed, untouched, wrong

LETTERS = "abcd"
WORDS = 5
"""How many words make a sentence. What it says is for the teacher: no program can tell."""


@dataclass(frozen=True)
class Reason:
    """A question with four options.

    question: its name. right: the seal of the right letter. hints: for each wrong letter, under its seal, what is
    wrong with it.
    """

    question: str
    right: str
    hints: Mapping[str, str]

    def check(self, letter: object, because: object) -> Part:
        """Check a letter and the sentence beside it. The letter alone is half of an answer."""
        hints = {option: self.hints.get(sealed(self.question, option), "") for option in LETTERS}
        state, says = chosen(self.question, letter, LETTERS, self.right, hints)
        if state != "right":
            return state, says
        if untouched(because) or not isinstance(because, str) or len(because.split()) < WORDS:
            return wrong("The letter is right. Now say why, in a sentence of your own.")
        return "right", "Your sentence is for your teacher to read."
