"""Visibility: which key positions a query may read. The first of the four controls that are all called "mask".

One convention in the whole book: `visible[b, q, k]` is True where query q may read key k. Libraries differ,
so the two converters at the end stand at the edge, and nothing else in the book turns the sense around.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from bertch15.settings import reproducible
from bertch15.vocabulary import PAD

VisibilityKind = Literal["full", "causal", "own", "unpadded"]


def visibility(ids: Tensor, kind: VisibilityKind = "full") -> Tensor:
    """Give the visibility of a batch: ids (B, T) -> visible (B, T, T) bool.

    kind "full": every key that is not [PAD] (BERT's encoder).
    kind "causal": the past and the position itself, without [PAD] (a decoder).
    kind "own": the position itself alone.
    kind "unpadded": every key, [PAD] too: padding forgotten, kept to show what that does.

    A padding *query* has a row like any other: its output is defined, and nobody reads it.
    Raises ValueError for an empty batch and for a query that could read nothing (a row of padding alone).
    """
    if kind not in get_args(VisibilityKind):
        raise ValueError(f"kind must be one of {get_args(VisibilityKind)}, got {kind!r}")
    if ids.dim() != 2 or ids.numel() == 0:
        raise ValueError(f"ids must be a batch (B, T) with B and T at least 1, got shape {tuple(ids.shape)}")
    length = ids.shape[1]
    if kind == "own":
        return torch.eye(length, dtype=torch.bool).expand(len(ids), -1, -1)
    if kind == "unpadded":
        return torch.ones(len(ids), length, length, dtype=torch.bool)
    padding = ids == PAD
    readable = ~padding[:, None, :].expand(-1, length, -1)  # (B, T, T): only padding keys are closed
    visible = readable & causal(length) if kind == "causal" else readable
    if not visible.any(-1).all():
        row = int((~visible.any(-1)).any(-1).nonzero()[0])
        raise ValueError(f"each query needs a key it may read; row {row} begins with padding: {ids[row].tolist()}")
    return visible


def causal(length: int) -> Tensor:
    """Give the causal triangle (T, T) bool: query q may read keys 0 to q."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def as_attend_mask(visible: Tensor) -> Tensor:
    """Convert to a mask in which True means "attend": (B, T, T) -> (B, 1, T, T).

    This is the sense of `torch.nn.functional.scaled_dot_product_attention`; the 1 stands for all heads.
    """
    return visible[:, None]


def as_blocked_mask(visible: Tensor, heads: int) -> Tensor:
    """Convert to a mask in which True means "blocked": (B, T, T) -> (B * heads, T, T).

    This is the sense of `torch.nn.MultiheadAttention`'s `attn_mask`, which wants one matrix a head.
    """
    return (~visible).repeat_interleave(heads, dim=0)


# Held from outside: pages show the definitions as they stand.
visibility, causal = reproducible()(visibility), reproducible()(causal)
