"""Decoding: from probabilities of the next token to a text. A layer of decisions; the model knows nothing of it.

A model here is any function from prefixes (n, t) int64 to the log-probabilities (n, V) of the next token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bertch15.settings import reproducible

LogProbabilities = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Continuation:
    """What was written after the prefix, and the natural logarithm of its probability under the model.

    ids: the new tokens, the closing one included where it was reached. ended: whether it was.
    """

    ids: tuple[int, ...]
    log_probability: float
    ended: bool


def check_request(prefix: Sequence[int], limit: int, width: int = 1) -> None:
    """Raise ValueError unless there is something to read, to write, and to keep."""
    if not prefix:
        raise ValueError("prefix must hold at least one id: a model of the next token needs one to read")
    if limit < 1 or width < 1:
        raise ValueError(f"limit and width must be at least 1, got {limit} and {width}")


def greedy(model: LogProbabilities, prefix: Sequence[int], end: int, limit: int) -> Continuation:
    """Write the likeliest token, read it, and go on, until `end` or `limit` tokens are written.

    Of tokens exactly as likely the one with the lowest id is taken.
    """
    check_request(prefix, limit)
    ids, total = list(prefix), 0.0
    for _ in range(limit):
        scores = model(torch.tensor([ids]))[0]  # (V,)
        token = int(scores.argmax())
        ids.append(token)
        total += float(scores[token])
        if token == end:
            break
    written = tuple(ids[len(prefix) :])
    return Continuation(written, total, written[-1] == end)


def beam_search(
    model: LogProbabilities, prefix: Sequence[int], end: int, width: int, limit: int
) -> list[Continuation]:
    """Write `width` texts side by side: extend each by every token, keep the likeliest, go on.

    A text that has ended keeps its place for as long as it is among the likeliest. Texts of different lengths
    compete by their whole probability, without a bonus for length. Returns at most `width` texts, the likeliest
    first; none has probability 0. With width 1 this is `greedy`.
    """
    check_request(prefix, limit, width)
    beam = [Continuation((), 0.0, ended=False)]
    for _ in range(limit):
        open_texts = [text for text in beam if not text.ended]
        if not open_texts:
            break
        scores = model(torch.tensor([[*prefix, *text.ids] for text in open_texts]))  # (n, V)
        extended = [
            extend(text, token, float(row[token]), end)
            for text, row in zip(open_texts, scores, strict=True)
            for token in likeliest(row, width)
        ]
        candidates = [text for text in beam if text.ended] + extended
        beam = sorted(candidates, key=lambda text: -text.log_probability)[:width]
    return beam


def extend(text: Continuation, token: int, log_probability: float, end: int) -> Continuation:
    """Write one more token."""
    return Continuation((*text.ids, token), text.log_probability + log_probability, token == end)


def likeliest(scores: Tensor, count: int) -> list[int]:
    """Give the `count` likeliest tokens of scores (V,), of equals the lowest id first, none of probability 0."""
    order = scores.argsort(descending=True, stable=True)[:count].tolist()
    return [token for token in order if scores[token] > -torch.inf]


# Held from outside: pages show the definitions as they stand.
greedy, beam_search = reproducible()(greedy), reproducible()(beam_search)
