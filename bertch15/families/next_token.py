"""The next-token model: an encoder with its pretraining head, read as the probability of what comes next.

Its logits at position t speak of token t + 1. That shift stands in one place on each side: in the loss here,
in `bertch15.pretraining.next_token_question` for training.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from bertch15.encoder import Encoder
from bertch15.pretraining import Pretrained, PretrainingHead, load_encoder, new_head, seeded
from bertch15.settings import reproducible
from bertch15.visibility import VisibilityKind, visibility
from bertch15.vocabulary import PAD


def next_token_loss(logits: Tensor, ids: Tensor) -> Tensor:
    """Score logits (B, T, V) against the tokens that follow: the mean cross-entropy over all that is no padding.

    ids (B, T) are the tokens that were read, not shifted by the caller; a row of n tokens gives n - 1 targets.
    Returns 0 where no token follows another. Source: `lm_h[:, :-1]` against `X[:, 1:]` in GPT's released code.
    """
    if logits.shape[:2] != ids.shape:
        raise ValueError(f"logits must have a row for each id, got {tuple(logits.shape)} for {tuple(ids.shape)}")
    targets = ids[:, 1:]
    scored = targets != PAD
    total = F.cross_entropy(logits[:, :-1][scored], targets[scored], reduction="sum")
    return total / max(1, int(scored.sum()))


def shift_right(targets: Tensor, start: int) -> Tensor:
    """Give what a decoder reads while it learns to write targets (..., T): `start`, then all but the last.

    Source: `_shift_right` of T5, which starts with its padding id 0.
    """
    return torch.cat([torch.full_like(targets[..., :1], start), targets[..., :-1]], dim=-1)


class NextTokenModel:
    """A trained encoder and head that score the token after each position; nothing in them moves.

    Called with prefixes (n, t) int64 of equal length, without padding, it gives the log-probabilities (n, V) of
    the token after each: what `bertch15.families.decoding` decides on.
    """

    def __init__(self, encoder: Encoder, head: PretrainingHead, kind: VisibilityKind = "causal") -> None:
        self.encoder, self.head, self.kind = encoder, head, kind

    @classmethod
    @reproducible()
    def of(cls, trained: Pretrained) -> "NextTokenModel":
        """Take the model out of a pretraining run, with the visibility it was trained under."""
        encoder = load_encoder(trained.recipe, trained.pretrained)
        with seeded(0):  # the weights drawn here are overwritten at once
            head = new_head(trained.recipe)
        head.load_state_dict(trained.head)
        return cls(encoder, head, trained.recipe.visibility)

    @torch.no_grad()
    def logits(self, ids: Tensor) -> Tensor:
        """Score every position in one pass, as in training: ids (B, T) -> (B, T, V)."""
        hidden = self.encoder(ids, visibility(ids, self.kind))
        return self.head(hidden, self.encoder.token_embedding.weight)

    def stepwise_logits(self, ids: Tensor) -> Tensor:
        """Score each position from its prefix alone, as in generation: T passes, ids (B, T) -> (B, T, V)."""
        prefixes = [ids[:, : t + 1] for t in range(ids.shape[1])]
        return torch.stack([self.logits(prefix)[:, -1] for prefix in prefixes], dim=1)

    @reproducible()
    def __call__(self, prefixes: Tensor) -> Tensor:
        """Give the log-probabilities of the token after each prefix: (n, t) -> (n, V)."""
        return self.logits(prefixes)[:, -1].log_softmax(-1)


# Held from outside: pages show the definition as it stands.
NextTokenModel.logits = reproducible()(NextTokenModel.logits)  # type: ignore[method-assign]
