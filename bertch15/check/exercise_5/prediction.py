"""A test declared in advance: what will be run, and between which bounds its outcome is expected."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from numbers import Integral, Real
from statistics import fmean
from typing import Any

from bertch15 import lab
from bertch15.check.kit.reasons import WORDS
from bertch15.check.kit.together import Mistake
from bertch15.check.kit.verdict import untouched
from bertch15.pretraining import Progress
from bertch15.recipe import Recipe

FIELDS = ("sentences", "labels", "seeds", "lowest", "highest", "because")
WIDEST = 0.3
"""The widest interval that counts as a prediction, as a share: wider, and hardly anything could refute it."""


@dataclass(frozen=True)
class Declared:
    """One coverage test, as it was declared; nothing in it can be changed afterwards.

    sentences: how many each held-out word gets, 1 to 8. labels: per family. lowest, highest: bounds in [0, 1] for
    the mean accuracy of the pretrained arm on held-out words over `seeds`. because: the reason, in words.
    """

    sentences: int
    labels: int
    seeds: tuple[int, ...]
    lowest: float
    highest: float
    because: str

    ready = True

    @property
    def fingerprint(self) -> str:
        """Eight characters that any change of the declaration would change."""
        return sha256(repr((*vars(self).values(),)).encode()).hexdigest()[:8]

    @property
    def recipe(self) -> Recipe:
        """The lab that it asks for."""
        return replace(Recipe(), exposure=self.sentences, budgets=(self.labels,))

    def run(self, progress: Progress | None = None) -> lab.LabResult:
        """Run the test that was declared, and no other."""
        return lab.run(self.recipe, self.seeds, progress)

    def of(self, result: lab.LabResult) -> bool:
        """Say whether a result is that of this declaration."""
        return result.recipe == self.recipe and tuple(one.seed for one in result.replicates) == self.seeds

    def holds(self, result: lab.LabResult, words: str = "uncovered") -> bool:
        """Say whether the mean over the seeds lies within the bounds."""
        scores = [getattr(one.outcomes["pretrained"][0], words).accuracy for one in result.replicates]
        return self.lowest - 1e-9 <= fmean(scores) <= self.highest + 1e-9  # a bound is within

    def __repr__(self) -> str:
        return (
            f"declared ({self.fingerprint}): {self.sentences} of the eight sentences for each held-out word, "
            f"{self.labels} labelled per family, seeds {', '.join(map(str, self.seeds))}; expected of the "
            f"held-out words: {self.lowest:.2f} to {self.highest:.2f}"
        )


@dataclass(frozen=True)
class Undeclared:
    """No declaration yet, and what is missing; empty if nothing was attempted."""

    says: str = ""

    ready = False

    def __repr__(self) -> str:
        return f"✗ not declared. {self.says}" if self.says else "○ not attempted: nothing is declared"


def declare(prediction: Any) -> Declared | Undeclared:
    """Fix a prediction before its run: a dictionary with the keys of `Declared`."""
    if untouched(prediction):
        return Undeclared()
    try:
        return read(prediction)
    except Mistake as mistake:
        return Undeclared(str(mistake))


def read(prediction: Any) -> Declared:
    """Read a prediction. Raises Mistake for one that is incomplete, or that nothing could refute."""
    if not isinstance(prediction, Mapping) or set(prediction) != set(FIELDS):
        raise Mistake(f"A prediction is a dictionary with the keys {', '.join(FIELDS)}.")
    sentences, labels, seeds, lowest, highest, because = (prediction[name] for name in FIELDS)
    check_test(sentences, labels, seeds)
    check_bounds(lowest, highest)
    if not isinstance(because, str) or len(because.split()) < WORDS:
        raise Mistake("Say why you expect it, in a sentence. A bound without a reason teaches nothing.")
    return Declared(int(sentences), int(labels), tuple(map(int, seeds)), float(lowest), float(highest), because)


def check_test(sentences: Any, labels: Any, seeds: Any) -> None:
    """Look at what is to be run. Raises Mistake."""
    if not isinstance(sentences, Integral) or not 0 <= int(sentences) <= 8:
        raise Mistake("A held-out word can get 1 to 8 sentences, as many as a covered word has at most.")
    if int(sentences) == 0:
        raise Mistake("No sentence at all is the run that you have seen. Declare one that you have not.")
    if labels not in Recipe().budgets:
        raise Mistake(f"The labelled words per family are one of {Recipe().budgets}.")
    if not isinstance(seeds, list | tuple) or not all(isinstance(seed, Integral) for seed in seeds):
        raise Mistake("The seeds are a list of whole numbers.")
    if len(set(seeds)) < 2:
        raise Mistake("One seed is an anecdote. Declare two or three different ones.")
    if len(seeds) > 3 or len(set(seeds)) < len(seeds):
        raise Mistake("Two or three different seeds, please: each takes some seconds.")


def check_bounds(lowest: Any, highest: Any) -> None:
    """Look at what is expected. Raises Mistake."""
    if not all(isinstance(bound, Real) for bound in (lowest, highest)):
        raise Mistake("The bounds are numbers.")
    if not (0 <= lowest <= 1 and 0 <= highest <= 1):
        raise Mistake("An accuracy is a share, from 0 to 1: neither a count nor per cent.")
    if lowest >= highest:
        raise Mistake("The lowest accuracy that you expect should lie below the highest.")
    if highest - lowest > WIDEST + 1e-9:
        raise Mistake(
            "Almost any outcome would fit between these bounds, so it would not be a test. Stake more: they may "
            f"lie {WIDEST} apart."
        )
