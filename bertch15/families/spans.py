"""Spans: the question of the encoder-decoder. Runs of tokens are taken out, and the target says what they were.

Each removed span leaves one sentinel in the inputs; in the targets the same sentinel stands before its tokens.
Source of the rule: Raffel et al. 2020, section 3.1.4, and their released code (`random_spans_noise_mask`,
`noise_span_to_unique_sentinel`, `random_spans_helper`).
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from bertch15.settings import reproducible
from bertch15.vocabulary import check_ids

ClosingKind = Literal["after a kept end", "always", "never"]


@dataclass(frozen=True)
class Sentinels:
    """The ids that stand for removed spans: the last `count` of the vocabulary, the first span taking the last.

    The defaults are T5's: 32,100 ids, of which 32,099 is the first sentinel and 32,000 the hundredth.
    """

    vocabulary: int = 32_100
    count: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.count <= self.vocabulary:
            raise ValueError(f"count must lie in 1 to vocabulary = {self.vocabulary}, got {self.count}")

    def __contains__(self, token: int) -> bool:
        return self.vocabulary - self.count <= token < self.vocabulary

    def of(self, span: int) -> int:
        """Give the sentinel of the span with index `span`, counted from 0: ids descend."""
        if not 0 <= span < self.count:
            raise ValueError(f"sentinel number {span + 1} was asked for, and there are {self.count}")
        return self.vocabulary - 1 - span


class Counts(NamedTuple):
    """How many tokens are removed, in how many spans."""

    noise: int
    spans: int


def count_noise(length: int, density: float = 0.15, mean_span: float = 3.0) -> Counts:
    """Count what is removed from `length` tokens: the counts are fixed, and only the places are drawn.

    density: the share removed, above 0 and below 1. mean_span: mean tokens of a span, at least 1.
    Rounds halves to the even number, as the released code does; at least one token goes and at least one stays.
    Raises ValueError for fewer than two tokens, and where too few tokens stay to keep the spans apart.
    """
    if length < 2:
        raise ValueError(f"length must be at least 2, one token to remove and one to keep, got {length}")
    if not 0 < density < 1:
        raise ValueError(f"density must lie between 0 and 1, got {density}")
    if not mean_span >= 1:
        raise ValueError(f"mean_span must be at least 1, got {mean_span}")
    noise = min(max(round(length * density), 1), length - 1)
    spans = max(round(noise / mean_span), 1)
    if spans > length - noise:
        raise ValueError(f"{spans} spans need a kept token before each, and only {length - noise} tokens stay")
    return Counts(noise, spans)


def random_lengths(total: int, parts: int, generator: torch.Generator) -> Tensor:
    """Divide `total` into `parts` lengths (parts,) of at least 1, every division as likely as any other."""
    if not 1 <= parts <= total:
        raise ValueError(f"parts must lie in 1 to total = {total}, got {parts}")
    cuts = torch.randperm(total - 1, generator=generator)[: parts - 1].sort().values + 1
    return torch.cat([torch.tensor([0]), cuts, torch.tensor([total])]).diff()


def draw_noise(length: int, generator: torch.Generator, density: float = 0.15, mean_span: float = 3.0) -> Tensor:
    """Draw which tokens are removed: noise (L,) bool, True where a token goes.

    Kept and removed runs take turns, and a kept one comes first: so the first token always stays and the last
    always goes. Two removed spans never touch.
    """
    noise, spans = count_noise(length, density, mean_span)
    removed = random_lengths(noise, spans, generator)
    kept = random_lengths(length - noise, spans, generator)
    turns = torch.tensor([False, True]).repeat(spans)
    return turns.repeat_interleave(torch.stack([kept, removed], dim=1).flatten())


class Removed(NamedTuple):
    """One text as the encoder reads it and as the decoder is to write it, both (length,) int64."""

    inputs: Tensor
    targets: Tensor


def remove_spans(
    ids: Tensor,
    noise: Tensor,
    sentinels: Sentinels = Sentinels(),
    closing: ClosingKind = "after a kept end",
    end: int | None = None,
) -> Removed:
    """Take the spans out of ids (L,) int64 where noise (L,) bool is True.

    closing: whether one more sentinel ends the targets. The released code writes it "after a kept end" only,
    so never where `draw_noise` drew; the paper's description has it "always".
    end: the id that closes inputs and targets, if any. Raises ValueError for more spans than sentinels, and for
    ids that are sentinels themselves.
    """
    if closing not in get_args(ClosingKind):
        raise ValueError(f"closing must be one of {get_args(ClosingKind)}, got {closing!r}")
    if ids.dim() != 1 or ids.shape != noise.shape or noise.dtype != torch.bool:
        raise ValueError(f"ids and bool noise must both be (L,), got {ids.shape} and {noise.dtype} {noise.shape}")
    check_ids(ids, sentinels.vocabulary)
    taken = [token for token in ids.tolist() if token in sentinels]
    if taken:
        raise ValueError(f"ids must hold no sentinel, got {taken}")
    inputs: list[int] = []
    targets: list[int] = []
    spans, within = 0, False
    for token, removed in zip(ids.tolist(), noise.tolist(), strict=True):
        if removed and not within:  # a span begins: the same sentinel on both sides
            inputs.append(sentinels.of(spans))
            targets.append(sentinels.of(spans))
            spans += 1
        (targets if removed else inputs).append(token)
        within = removed
    if closing == "always" or (closing == "after a kept end" and not within):
        targets.append(sentinels.of(spans))
    ending = [] if end is None else [end]
    inputs_ids, targets_ids = (torch.tensor(side + ending, dtype=torch.int64) for side in (inputs, targets))
    return Removed(inputs_ids, targets_ids)


@reproducible()
def reassemble(removed: Removed, sentinels: Sentinels = Sentinels(), end: int | None = None) -> Tensor:
    """Put the removed spans back: the ids (L,) from which inputs and targets were made.

    Raises ValueError where the two do not belong together.
    """
    inputs, targets = (without_end(side.tolist(), end) for side in removed)
    marks = [place for place, token in enumerate(targets) if token in sentinels]
    spans = [targets[first + 1 : last] for first, last in pairwise([*marks, len(targets)])]
    asked = [token for token in inputs if token in sentinels]
    answered = [targets[mark] for mark in marks]
    expected = [sentinels.of(span) for span in range(len(marks))]
    closed = len(marks) == len(asked) + 1 and not spans[-1]
    unannounced = targets[: marks[0]] if marks else targets
    if unannounced or answered != expected or asked != expected[: len(marks) - closed]:
        raise ValueError(f"the targets' sentinels {answered} do not answer those of the inputs, {asked}")
    waiting = iter(spans)
    whole = [next(waiting) if token in sentinels else [token] for token in inputs]
    return torch.tensor([token for part in whole for token in part], dtype=torch.int64)


def without_end(tokens: list[int], end: int | None) -> list[int]:
    """Take the closing id off a list of ids; raise ValueError if it is not there."""
    if end is None:
        return tokens
    if not tokens or tokens[-1] != end:
        raise ValueError(f"inputs and targets must close with {end}, got {tokens[-1:]}")
    return tokens[:-1]


class Sizes(NamedTuple):
    """How long a text may be, and how long its two sides become, the closing id of each included."""

    tokens: int
    inputs: int
    targets: int


def sizes_of(tokens: int, density: float = 0.15, mean_span: float = 3.0) -> Sizes:
    """Give the lengths of inputs and targets of a text whose noise `draw_noise` draws."""
    noise, spans = count_noise(tokens, density, mean_span)
    return Sizes(tokens, tokens - noise + spans + 1, noise + spans + 1)


def longest_text(inputs: int, density: float = 0.15, mean_span: float = 3.0) -> Sizes:
    """Find the longest text whose inputs fit into `inputs` positions, and the lengths of its two sides."""
    if inputs < 3:
        raise ValueError(f"inputs must be at least 3, a token, a sentinel and the closing id, got {inputs}")
    tokens = 2
    while sizes_of(tokens + 1, density, mean_span).inputs <= inputs:
        tokens += 1
    return sizes_of(tokens, density, mean_span)


# Held from outside: pages show the definitions as they stand.
random_lengths, draw_noise = reproducible()(random_lengths), reproducible()(draw_noise)
remove_spans = reproducible()(remove_spans)
