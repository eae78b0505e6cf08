"""The vocabulary: which token has which id, and how a sentence becomes a row of ids.

Shape letters of the whole book: B batch, T positions, d width, V vocabulary, M selected, R replicates.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bertch15.settings import reproducible

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = range(5)


@dataclass(frozen=True)
class Vocabulary:
    """All tokens in the order of their ids: the five special tokens first, then the ordinary ones.

    An atomic vocabulary: a word is one token or it is [UNK]. The lab wants it so, because pieces of words
    could tell a word's family by its spelling.
    """

    tokens: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.tokens[:5] != SPECIALS:
            raise ValueError(f"tokens must begin with {SPECIALS}, got {self.tokens[:5]}")
        if len(set(self.tokens)) != len(self.tokens):
            twice = sorted({t for t in self.tokens if self.tokens.count(t) > 1})
            raise ValueError(f"tokens must be distinct, but these stand twice: {twice}")

    @classmethod
    def of(cls, words: Iterable[str]) -> "Vocabulary":
        """Give the vocabulary of these words: special tokens first, then the words sorted as strings."""
        return cls(SPECIALS + tuple(sorted(set(words) - set(SPECIALS))))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each token."""
        return {token: i for i, token in enumerate(self.tokens)}

    def id(self, token: str) -> int:
        """Give the token's id in [0, V); a token that is not in the vocabulary gets the id of [UNK]."""
        return self.ids.get(token, UNK)

    @reproducible()
    def encode(self, sentences: Sequence[str | Sequence[str]], length: int) -> Tensor:
        """Encode sentences as [CLS] tokens [SEP], filled up with [PAD].

        sentences: B texts (split at white space) or lists of tokens, at most `length` - 2 tokens each.
        Returns ids (B, T) int64 with T = `length`.
        Raises ValueError for an empty batch and for a sentence that does not fit.
        """
        if isinstance(sentences, str):
            raise ValueError(f"sentences must be a list of sentences, got the one string {sentences!r}")
        if not sentences:
            raise ValueError("sentences must hold at least one sentence, got an empty batch")
        rows = []
        for sentence in sentences:
            tokens = sentence.split() if isinstance(sentence, str) else list(sentence)
            if len(tokens) > length - 2:
                raise ValueError(
                    f"a sentence may have at most {length - 2} tokens beside [CLS] and [SEP] (length {length}), "
                    f"got {len(tokens)}: {' '.join(tokens)!r}"
                )
            row = [CLS, *map(self.id, tokens), SEP]
            rows.append(row + [PAD] * (length - len(row)))
        return torch.tensor(rows, dtype=torch.int64)

    def decode(self, ids: Tensor) -> list:
        """Give the tokens of `ids` (any shape, values in [0, V)) as nested lists of strings."""
        check_ids(ids, len(self))
        if ids.dim() == 0:
            return self.tokens[int(ids)]  # type: ignore[return-value]  # the innermost level is a string
        return [self.decode(row) for row in ids]


def check_ids(ids: Tensor, size: int) -> None:
    """Raise ValueError unless `ids` are whole numbers in [0, size)."""
    if ids.is_meta:
        raise ValueError('ids must hold numbers, got a tensor on torch\'s device "meta", where none has any')
    if ids.dtype != torch.int64:
        raise ValueError(f"ids must be int64, got {ids.dtype}")
    if ids.numel() and not (int(ids.min()) >= 0 and int(ids.max()) < size):
        raise ValueError(f"ids must lie in 0 to {size - 1}, got {int(ids.min())} to {int(ids.max())}")
