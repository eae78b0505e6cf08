"""Visibility: ids (B, T) -> visible (B, T, T) bool, True where q may read k; all keys but padding."""

# ruff: noqa: D103  # the words of an exhibit stand in its decorator

import torch
from torch import Tensor

from bertch15.check.exercise_6.exhibits.gallery import Gallery
from bertch15.visibility import visibility
from bertch15.vocabulary import CLS, MASK, PAD, SEP

VISIBILITY = Gallery()


@VISIBILITY.sound("the book's own")
def as_the_book(ids: Tensor) -> Tensor:
    return visibility(ids)


@VISIBILITY.sound("one that multiplies a column of ones by a row")
def by_product(ids: Tensor) -> Tensor:
    keys = (ids != PAD).float()
    return torch.einsum("bq,bk->bqk", torch.ones_like(keys), keys) > 0.5


@VISIBILITY.sound("one that shows the same row to each query and stores it once")
def stored_once(ids: Tensor) -> Tensor:
    return ids.ne(PAD).unsqueeze(1).expand(-1, ids.shape[1], -1)


@VISIBILITY.sound("one that opens everything and then closes padding")
def by_blocking(ids: Tensor) -> Tensor:
    visible = torch.ones(*ids.shape, ids.shape[1], dtype=torch.bool)
    for row, tokens in enumerate(ids):
        visible[row, :, tokens == PAD] = False
    return visible


@VISIBILITY.sound("one that looks each key up in a table")
def by_selection(ids: Tensor) -> Tensor:
    open_keys = torch.isin(ids, torch.tensor([PAD]), invert=True)
    return open_keys[:, torch.arange(ids.shape[1]).expand(ids.shape[1], -1)]


@VISIBILITY.faulty("True where a key is blocked")
def inverted(ids: Tensor) -> Tensor:
    return ~visibility(ids)


@VISIBILITY.faulty("padding closed as a query and left open as a key")
def by_query(ids: Tensor) -> Tensor:
    return (ids != PAD)[:, :, None].expand(-1, -1, ids.shape[1])


@VISIBILITY.faulty("padding left open (does your batch hold any?)")
def forgotten(ids: Tensor) -> Tensor:
    return torch.ones(*ids.shape, ids.shape[1], dtype=torch.bool)


@VISIBILITY.faulty("the words to the right closed, as in a decoder")
def causal(ids: Tensor) -> Tensor:
    return visibility(ids).tril()


@VISIBILITY.faulty("each position closed to itself")
def no_self(ids: Tensor) -> Tensor:
    return visibility(ids) & ~torch.eye(ids.shape[1], dtype=torch.bool)


@VISIBILITY.faulty("the padding of the first sentence taken for that of all")
def first_sentence(ids: Tensor) -> Tensor:
    return (ids[:1] != PAD)[:, None].expand(len(ids), ids.shape[1], -1)


@VISIBILITY.faulty("[MASK] closed to its neighbours (does your batch hold any?)")
def masks_closed(ids: Tensor) -> Tensor:
    return ((ids != PAD) & (ids != MASK))[:, None].expand(-1, ids.shape[1], -1)


@VISIBILITY.faulty("[CLS] and [SEP] closed")
def frame_closed(ids: Tensor) -> Tensor:
    return (~torch.isin(ids, torch.tensor([PAD, CLS, SEP])))[:, None].expand(-1, ids.shape[1], -1)


@VISIBILITY.faulty("padding queries that may read nothing, so that their attention is no number")
def padding_blind(ids: Tensor) -> Tensor:
    real = ids != PAD
    return real[:, :, None] & real[:, None, :]


@VISIBILITY.faulty("noughts and ones as floating-point numbers, which an interface would add")
def as_numbers(ids: Tensor) -> Tensor:
    return visibility(ids).float()
