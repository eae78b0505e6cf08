"""The visibility explorer: one query, the keys it may read, and the weights of one small attention head on them.

The head and the token vectors are random and stay the same from call to call: what a query may read is a matter
of wiring, and no training is needed to see it.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from bertch15.encoder import Attention
from bertch15.pretraining import seeded
from bertch15.settings import reproducible
from bertch15.visibility import causal, visibility
from bertch15.vocabulary import Vocabulary

SENTENCE = "the bank rose"
SLOTS = 6
WIDTH, SEED, SPREAD = 16, 151, 2.0  # at a spread of 2 the weights differ enough to be told apart by eye


@dataclass(frozen=True)
class Reading:
    """What one query reads.

    tokens: the T tokens of the row. query: its position, in [0, T). visible: for each key, whether it may be read.
    weights: the attention weights of the keys, in [0, 1]; they sum to 1, and a closed key has exactly 0.
    """

    tokens: tuple[str, ...]
    query: int
    visible: tuple[bool, ...]
    weights: tuple[float, ...]

    @property
    def keys(self) -> list[str]:
        """The tokens that the query may read, from left to right."""
        return [token for token, open_ in zip(self.tokens, self.visible, strict=True) if open_]


@torch.no_grad()
def reading(
    query: int,
    kind: Literal["full", "causal"] = "full",
    padding_closed: bool = True,
    sentence: str = SENTENCE,
    slots: int = SLOTS,
) -> Reading:
    """Let one query of a sentence read under one setting; the same head, the same vectors each time.

    query: a position in [0, slots). kind: "full", or "causal" for the triangle. padding_closed: whether [PAD] keys
    are closed, as they should be. sentence: at most `slots` - 2 words, apart by white space.
    Raises ValueError for a query that is no position, and for a sentence that does not fit.
    """
    if not 0 <= query < slots:
        raise ValueError(f"query must be a position in 0 to {slots - 1}, got {query}")
    vocabulary = Vocabulary.of(sentence.split())
    ids = vocabulary.encode([sentence], slots)
    if padding_closed:
        visible = visibility(ids, kind)
    else:
        visible = causal(slots)[None] if kind == "causal" else visibility(ids, "unpadded")
    vectors = SPREAD * torch.randn(len(vocabulary), WIDTH, generator=torch.Generator().manual_seed(SEED))
    with seeded(SEED):
        head = Attention(WIDTH, heads=1)
    q, k, _ = head.split(vectors[ids])
    weights = head.weights(q, k, visible)[0, 0, query]
    return Reading(
        tuple(vocabulary.decode(ids)[0]), query, tuple(visible[0, query].tolist()), tuple(weights.tolist())
    )


# Held from outside: pages show the definition as it stands.
reading = reproducible()(reading)
