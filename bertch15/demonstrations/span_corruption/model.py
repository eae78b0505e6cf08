"""Span corruption on a sentence: what T5's encoder reads and its decoder writes, and what BERT and GPT make of it.

The draws come from the released rule in `bertch15.families.spans`, which fixes how much is removed and draws only
where. What the rule refuses is said in words, for sliders pass through such values.
"""

from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import torch

from bertch15.corruption import Policy, corrupt
from bertch15.families.spans import Sentinels, count_noise, draw_noise, remove_spans
from bertch15.settings import reproducible
from bertch15.vocabulary import SPECIALS, Vocabulary

SENTENCES = (
    "the boat reached the bank at night",
    "Thank you for inviting me to your party last week",
    "the boat left the village before the first light and crossed the wide river slowly because the water had "
    "risen in the night and nobody on board could see the other bank",
)
MOST_TOKENS = 40
SENTINELS = Sentinels()
START, END = "[CLS]", "[SEP]"  # a next-token model can use the lab's two ends as start and end
KEPT, TAKEN, SENTINEL, PLAIN = "#e4e7ec", "#fbdcb0", "#e08a1e", "white"


class Token(NamedTuple):
    """A token as it is shown: what is read, beneath it what belongs to it, and its ground."""

    read: str
    below: str = ""
    ground: str = KEPT


@dataclass(frozen=True)
class Taken:
    """A sentence with its spans taken out.

    tokens: the L tokens. spans: for each span its first position and its length. inputs, targets: what the encoder
    reads and what the decoder is to write; span n stands as <n>, and both close with [END]. ways: how many
    divisions into spans the rule chooses from.
    """

    tokens: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    ways: int

    @property
    def removed(self) -> int:
        """How many tokens are taken out."""
        return sum(length for _, length in self.spans)

    @property
    def counts(self) -> str:
        """What was taken, in a sentence."""
        spans = "1 span" if len(self.spans) == 1 else f"{len(self.spans)} spans"
        lengths = ", ".join(str(length) for _, length in self.spans)
        return (
            f"Removed: {self.removed} of {len(self.tokens)} tokens, in {spans} (lengths: {lengths}). "
            f"Encoder input {len(self.inputs)} tokens, decoder target {len(self.targets)}."
        )

    @property
    def chances(self) -> str:
        """What there was to draw, in a sentence."""
        if self.ways == 1:
            return "There is only one way to place these spans, so every redraw removes the same."
        return f"This is one of {self.ways:,} ways to place these spans, all equally likely."


@reproducible()
def take_spans(tokens: tuple[str, ...], density: float, mean_span: float, redraw: int = 0) -> Taken:
    """Draw spans in a sentence of tokens and take them out.

    density, mean_span: as in `count_noise`, which says for which ValueError is raised. redraw: the draw's seed.
    """
    noise = draw_noise(len(tokens), torch.Generator().manual_seed(redraw), density, mean_span)
    end = len(tokens)
    inputs, targets = remove_spans(torch.arange(end), noise, SENTINELS, end=end)
    names = dict(enumerate([*tokens, "[END]"])) | {SENTINELS.of(n): f"<{n}>" for n in range(SENTINELS.count)}
    spans: list[tuple[int, int]] = []
    for place in noise.nonzero().flatten().tolist():
        first, length = spans[-1] if spans else (-1, 0)
        if spans and first + length == place:
            spans[-1] = (first, length + 1)
        else:
            spans.append((place, 1))
    kept, cuts = end - int(noise.sum()), len(spans) - 1
    reads, writes = (tuple(names[i] for i in side.tolist()) for side in (inputs, targets))
    ways = comb(end - kept - 1, cuts) * comb(kept - 1, cuts)
    return Taken(tokens, tuple(spans), reads, writes, ways)


def refusal(tokens: tuple[str, ...], density: float, mean_span: float) -> str:
    """Say why the rule can take no such spans from these tokens; nothing if it can."""
    if len(tokens) < 2:
        return "Two tokens are needed at least: one to remove, and one to keep."
    if not 0 < density < 1:
        return f"A density of {density:g} is none: at least one token goes, and at least one stays."
    try:
        count_noise(len(tokens), density, mean_span)
    except ValueError as error:
        return f"These spans cannot be: {error}. Lower the density, or lengthen the spans."
    return ""


@reproducible()
def as_bert(tokens: tuple[str, ...], rate: float, redraw: int = 0) -> list[Token]:
    """Show the tokens as BERT reads them under 80/10/10, at a selection rate, each target beneath its position."""
    vocabulary = Vocabulary.of([*tokens, *" ".join(SENTENCES).split()])
    ids = vocabulary.encode([tokens], len(tokens) + 2)
    pool = torch.arange(len(SPECIALS), len(vocabulary))
    batch = corrupt(ids, pool, torch.Generator().manual_seed(redraw), Policy(rate))
    originals, reads = (vocabulary.decode(row[0]) for row in (batch.ids, batch.corrupted))
    return [
        Token(read, original, TAKEN) if selected else Token(read)
        for read, original, selected in zip(reads, originals, batch.selected[0].tolist(), strict=True)
    ]


def as_gpt(tokens: tuple[str, ...]) -> list[Token]:
    """Show the tokens as GPT reads them: as they are, and beneath each the one that follows."""
    return [Token(*pair, TAKEN) for pair in zip((START, *tokens), (*tokens, END), strict=True)]


def as_t5(taken: Taken) -> list[list[Token]]:
    """Show the sentence with its spans named, what the encoder reads, and what the decoder writes."""
    names = {first + i: f"<{n}>" for n, (first, length) in enumerate(taken.spans) for i in range(length)}
    sentence = [
        Token(token, names.get(place, ""), TAKEN if place in names else KEPT)
        for place, token in enumerate(taken.tokens)
    ]
    marks = {f"<{n}>" for n in range(len(taken.spans))}
    inputs, targets = (
        [Token(token, ground=SENTINEL if token in marks else ground) for token in side]
        for side, ground in ((taken.inputs, KEPT), (taken.targets, TAKEN))
    )
    for side in (inputs, targets):
        side[-1] = Token("[END]", ground=PLAIN)
    return [sentence, inputs, targets]
