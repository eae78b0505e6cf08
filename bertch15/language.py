"""The synthetic language: words whose family can be known from their contexts and from nothing else.

Two families of forty words. Spelling says nothing (forms are dealt at random), frequency says nothing (every
covered word stands in eight sentences), and the sentence that asks for the family has no cue in it. What is
left is the company that a covered word keeps. The uncovered words occur in no sentence: they are the control.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Literal, get_args

import torch
from torch import Tensor

from bertch15.settings import reproducible
from bertch15.vocabulary import CLS, PAD, SEP, Vocabulary

CUES = (
    ("rain", "soil", "roots", "water", "garden", "grows", "blooms", "sunlight"),
    ("power", "metal", "gears", "fuel", "workshop", "moves", "turns", "current"),
)
"""Eight cue pairs, (family 0, family 1) by index."""

TEMPLATES = (
    "after {0} the WORD {5}",
    "the WORD needs {3} near {1}",
    "{2} support the WORD",
    "in the {4} the WORD {6}",
    "we found the WORD beside {1}",
    "{0} and {7} help the WORD",
    "the WORD rests near {4}",
    "today the WORD follows {2}",
)
"""The eight sentences of a word; a number in braces is the index of a cue."""

NEUTRAL = "we found the WORD today"
"""The sentence of the downstream task: no cue in it."""

LENGTH = 10
"""Positions of an encoded sentence, [CLS], [SEP] and padding included."""

WORDS_PER_FAMILY, COVERED_PER_FAMILY = 40, 20
WORD_POSITION = 1 + NEUTRAL.split().index("WORD")
NoiseKind = Literal["fixed", "drawn", "flips"]


@dataclass(frozen=True)
class CueNoise:
    """Which of a word's eight sentences carry the other family's cues.

    kind "fixed": the sentences listed in `templates` (indices 0 to 7), the same for every word (the chapter's).
    kind "drawn": `count` of the eight (0 to 8), drawn anew for each word.
    kind "flips": each sentence by itself with `probability` (0 to 1).
    """

    kind: NoiseKind = "fixed"
    templates: tuple[int, ...] = (6, 7)
    count: int = 2
    probability: float = 0.25

    def __post_init__(self) -> None:
        object.__setattr__(self, "templates", tuple(self.templates))
        if self.kind not in get_args(NoiseKind):
            raise ValueError(f"kind must be one of {get_args(NoiseKind)}, got {self.kind!r}")
        if len(set(self.templates)) != len(self.templates) or not set(self.templates) <= set(range(8)):
            raise ValueError(f"templates must be distinct indices in 0 to 7, got {self.templates}")
        if not 0 <= self.count <= 8:
            raise ValueError(f"count must lie in 0 to 8, got {self.count}")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability must lie in [0, 1], got {self.probability}")

    @reproducible()
    def opposed(self, generator: torch.Generator) -> set[int]:
        """Draw, for one word, the indices of the sentences that take the other family's cues."""
        if self.kind == "fixed":
            return set(self.templates)
        if self.kind == "drawn":
            return set(torch.randperm(8, generator=generator)[: self.count].tolist())
        return set((torch.rand(8, generator=generator) < self.probability).nonzero().flatten().tolist())


@dataclass(frozen=True)
class Language:
    """Words, sentences and vocabulary of one corpus.

    covered, uncovered: for family 0 and family 1 the twenty words that occur, and the twenty that are withheld.
    sentences: all source sentences, eight (or fewer, for exposed words) a word.
    """

    covered: tuple[tuple[str, ...], tuple[str, ...]]
    uncovered: tuple[tuple[str, ...], tuple[str, ...]]
    sentences: tuple[str, ...]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The 115 tokens: specials, function words, cues and all eighty words, the withheld ones too."""
        functions = {t for text in (*TEMPLATES, NEUTRAL) for t in text.split() if t.islower()}
        words = {w for half in (self.covered, self.uncovered) for family in half for w in family}
        return Vocabulary.of(functions | set(CUES[0]) | set(CUES[1]) | words)

    @cached_property
    def source_ids(self) -> Tensor:
        """The encoded source sentences, (N, T) int64."""
        return self.vocabulary.encode(self.sentences, LENGTH)

    @cached_property
    @reproducible()
    def pool(self) -> Tensor:
        """The ids a random replacement may draw: those in the source, ascending, no [PAD], [CLS], [SEP]."""
        ids = self.source_ids.unique()
        return ids[(ids != PAD) & (ids != CLS) & (ids != SEP)]

    def neutral_ids(self, words: Sequence[str]) -> Tensor:
        """Encode the neutral sentence of each word: (len(words), T) int64, the word at `WORD_POSITION`."""
        unknown = [w for w in words if w not in self.vocabulary.ids]
        if unknown:
            raise ValueError(f"words must be of the language, these are not: {unknown}")
        return self.vocabulary.encode([NEUTRAL.replace("WORD", w) for w in words], LENGTH)


@lru_cache(maxsize=16)
@reproducible()
def make_language(
    seed: int = 6050, noise: CueNoise = CueNoise(), exposure: int = 0, shuffled: bool = False
) -> Language:
    """Deal the words and write the sentences.

    seed: of the generator that deals the forms; what else is random here comes from generators of its own.
    exposure: how many of the eight sentences (0 to 8, the first ones) each uncovered word gets after all.
    shuffled: deal the contexts of the covered words at random, so that they say nothing about the family.
    """
    if not 0 <= exposure <= 8:
        raise ValueError(f"exposure must lie in 0 to 8 sentences, got {exposure}")
    deal = torch.randperm(1500, generator=torch.Generator().manual_seed(seed))[: 2 * WORDS_PER_FAMILY].tolist()
    forms = ["".join(form) for form in product("bglmprstvz", "aeiou", "dknrst", "aeiou")]
    words = [forms[i] for i in deal]
    families = (tuple(words[:WORDS_PER_FAMILY]), tuple(words[WORDS_PER_FAMILY:]))
    covered = (families[0][:COVERED_PER_FAMILY], families[1][:COVERED_PER_FAMILY])
    uncovered = (families[0][COVERED_PER_FAMILY:], families[1][COVERED_PER_FAMILY:])

    noise_draws = torch.Generator().manual_seed(seed + 20_000)
    contexts = [family for family in (0, 1) for _ in range(COVERED_PER_FAMILY)]
    if shuffled:
        order = torch.randperm(len(contexts), generator=torch.Generator().manual_seed(seed + 30_000))
        contexts = [contexts[i] for i in order.tolist()]
    sentences: list[str] = []
    for word, family in zip([*covered[0], *covered[1]], contexts, strict=True):
        sentences += word_sentences(word, family, noise.opposed(noise_draws))
    if exposure:
        for family in (0, 1):
            for word in uncovered[family]:
                sentences += word_sentences(word, family, noise.opposed(noise_draws))[:exposure]
    return Language(covered, uncovered, tuple(sentences))


def word_sentences(word: str, family: int, opposed: set[int]) -> list[str]:
    """Write a word's eight sentences; those whose index is in `opposed` take the other family's cues."""
    return [
        text.format(*CUES[1 - family if index in opposed else family]).replace("WORD", word)
        for index, text in enumerate(TEMPLATES)
    ]
