"""From hidden states to selected targets: sound batches of many sizes, and the faults that are planted in them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bertch15.check.kit.loss import mean_loss
from bertch15.vocabulary import CLS, PAD, SEP, UNK

SIZES = (
    (3, 7, 5, 11, 6),
    (6, 6, 4, 9, 8),
    (4, 8, 9, 9, 7),
    (5, 7, 4, 11, 5),
    (2, 9, 6, 8, 8),
    (2, 8, 5, 12, 5),
    (1, 6, 3, 9, 1),
    (3, 6, 4, 9, 0),
)
"""(B, T, d, V, M) of the sound batches: some equal by chance (B = T, d = V, M = B, M = V, M = d), M = 1, M = 0."""


@dataclass(frozen=True)
class Pipeline:
    """One batch on its way to the loss; the names and shapes are those of the exercise."""

    ids: Tensor
    corrupted: Tensor
    hidden: Tensor
    selected: Tensor
    selected_hidden: Tensor
    dense: Tensor
    logits: Tensor
    targets: Tensor
    loss: Tensor

    @property
    def size(self) -> int:
        """V, the number of tokens in the vocabulary."""
        return self.dense.shape[-1]

    def describe(self) -> str:
        """Give the sizes in words."""
        length, width = self.hidden.shape[1:]
        sizes = f"B={len(self.ids)}, T={length}, d={width}, V={self.size}, M={int(self.selected.sum())}"
        return sizes


def framed_ids(batch: int, length: int, vocabulary: int, generator: torch.Generator) -> Tensor:
    """Draw sentences of several lengths, framed and padded; the first is full."""
    ids = torch.randint(5, vocabulary, (batch, length), generator=generator)
    ids[:, 0] = CLS
    for row in range(batch):
        end = length - 1 - row % 3
        ids[row, end] = SEP
        ids[row, end + 1 :] = PAD
    return ids


def sound(sizes: tuple[int, int, int, int, int], seed: int = 0) -> Pipeline:
    """Build a sound pipeline of sizes (B, T, d, V, M)."""
    batch, length, width, vocabulary, count = sizes
    draws = torch.Generator().manual_seed(15_000 + seed + sum(sizes))
    ids = framed_ids(batch, length, vocabulary, draws)
    eligible = ((ids != PAD) & (ids != CLS) & (ids != SEP)).flatten().nonzero().flatten()
    chosen = eligible[torch.randperm(len(eligible), generator=draws)[:count]]
    selected = torch.zeros(batch * length, dtype=torch.bool)
    selected[chosen] = True
    selected = selected.reshape(batch, length)
    hidden = torch.randn(batch, length, width, generator=draws)
    dense = hidden @ torch.randn(width, vocabulary, generator=draws)
    corrupted = torch.where(
        selected, 5 + (ids - 4) % (vocabulary - 5), ids
    )  # another token at each selected place
    pieces = hidden[selected], dense, dense[selected], ids[selected]
    return Pipeline(ids, corrupted, hidden, selected, *pieces, mean_loss(dense[selected], ids[selected]))


Fault = Callable[[Pipeline], Pipeline]

SHAPE_FAULTS: dict[str, Fault] = {
    "hidden states with batch and time exchanged": lambda p: replace(p, hidden=p.hidden.transpose(0, 1)),
    "hidden states with time and width exchanged": lambda p: replace(p, hidden=p.hidden.transpose(1, 2)),
    "hidden states with batch and time in one axis": lambda p: replace(p, hidden=p.hidden.flatten(0, 1)),
    "`selected` with batch and time exchanged": lambda p: replace(p, selected=p.selected.T),
    "hidden states and `selected` with batch and time exchanged, both alike": lambda p: replace(
        p, hidden=p.hidden.transpose(0, 1), selected=p.selected.T
    ),
    "`selected` as a list of positions": lambda p: replace(p, selected=p.selected.nonzero()),
    "`selected` as whole numbers, which index sentences": lambda p: replace(p, selected=p.selected.long()),
    "states of all positions": lambda p: replace(p, selected_hidden=p.hidden.flatten(0, 1)),
    "selected states with one axis too many": lambda p: replace(p, selected_hidden=p.selected_hidden[None]),
    "selected states of another width": lambda p: replace(p, selected_hidden=p.selected_hidden[:, 1:]),
    "logits of all positions": lambda p: replace(p, logits=p.dense),
    "logits of all positions, batch and time in one axis": lambda p: replace(p, logits=p.dense.flatten(0, 1)),
    "logits with selected and vocabulary exchanged": lambda p: replace(p, logits=p.logits.T),
    "states where logits should be, the decoder forgotten": lambda p: replace(p, logits=p.selected_hidden),
    "targets (M, 1)": lambda p: replace(p, targets=p.targets[:, None]),
    "targets (B, M)": lambda p: replace(p, targets=p.targets.expand(len(p.ids), -1)),
    "targets of all positions": lambda p: replace(p, targets=p.ids),
    "targets as floating-point numbers": lambda p: replace(p, targets=p.targets.float()),
    "one target too few": lambda p: replace(p, targets=p.targets[:-1]),
    "logits and targets one row too few, alike": lambda p: replace(p, logits=p.logits[1:], targets=p.targets[1:]),
}
"""Faults of a shape or a kind of number; where two sizes are equal by chance, one may leave no trace."""


def _column_by_column(values: Tensor, selected: Tensor) -> Tensor:
    return values.transpose(0, 1)[selected.T]


def _others(p: Pipeline) -> Pipeline:
    states = p.hidden[~p.selected][: len(p.targets)]
    return replace(p, selected_hidden=states) if len(states) == len(p.targets) else p


def _turned(p: Pipeline) -> Pipeline:
    square = p.ids.shape[0] == p.ids.shape[1]
    return replace(p, selected_hidden=p.hidden[p.selected.T]) if square else p


ROW_FAULTS: dict[str, Fault] = {
    "states read column by column, targets row by row": lambda p: replace(
        p, selected_hidden=_column_by_column(p.hidden, p.selected)
    ),
    "targets read column by column, states row by row": lambda p: replace(
        p, targets=_column_by_column(p.ids, p.selected)
    ),
    "targets taken from what the model reads": lambda p: replace(p, targets=p.corrupted[p.selected]),
    "targets shifted by one, as for a next token": lambda p: replace(p, targets=p.ids.roll(-1, 1)[p.selected]),
    "states shifted by one": lambda p: replace(p, selected_hidden=p.hidden.roll(1, 1)[p.selected]),
    "targets in ascending order": lambda p: replace(p, targets=p.targets.sort().values),
    "states of positions that are not selected": _others,
    "states of a selection in which batch and time are exchanged, where both are equally many": _turned,
}
"""Faults with every shape right: a row of states stands beside another row's target."""


def _selecting(places: Callable[[Tensor], Tensor]) -> Fault:
    """Give the fault that selects, beside the sound ones, the last position that `places` marks."""

    def fault(p: Pipeline) -> Pipeline:
        selected, marked = p.selected.clone(), places(p.ids).nonzero()
        if len(marked):
            selected[tuple(marked[-1])] = True
        return replace(p, selected=selected)

    return fault


def _inner(ids: Tensor) -> Tensor:
    """Mark the separators that have another separator after them."""
    separators = ids == SEP
    return separators & (separators.flip(1).cumsum(1).flip(1) > 1)


SPECIAL_FAULTS: dict[str, Fault] = {
    "[CLS] selected": _selecting(lambda ids: ids == CLS),
    "[SEP] selected": _selecting(lambda ids: ids == SEP),
    "[PAD] selected": _selecting(lambda ids: ids == PAD),
    "the [SEP] between two sentences selected": _selecting(_inner),
    "every position selected": lambda p: replace(p, selected=torch.ones_like(p.selected)),
}


def paired(p: Pipeline) -> Pipeline:
    """Put a second sentence into each row: a [SEP] in the middle, where nothing was selected."""
    ids, selected = p.ids.clone(), p.selected.clone()
    ids[:, 2], selected[:, 2] = SEP, False
    return replace(p, ids=ids, selected=selected)


def with_unknown(p: Pipeline) -> Pipeline:
    """Turn each selected original into [UNK], a word that the vocabulary lacks."""
    return replace(p, ids=torch.where(p.selected, UNK, p.ids))


def _dense_mean(p: Pipeline, scored: Tensor) -> Pipeline:
    return replace(p, loss=mean_loss(p.dense[scored], p.ids[scored]))


def _sentence_means(p: Pipeline) -> Pipeline:
    rows = [mean_loss(d[s], i[s]) for d, s, i in zip(p.dense, p.selected, p.ids, strict=True) if s.any()]
    return replace(p, loss=torch.stack(rows).mean()) if rows else p


LOSS_FAULTS: dict[str, Fault] = {
    "a loss wrong in its fourth digit": lambda p: replace(p, loss=p.loss * 1.0005),
    "a mean over all positions": lambda p: _dense_mean(p, torch.ones_like(p.selected)),
    "padding counted beside the selected": lambda p: _dense_mean(p, p.selected | (p.ids == PAD)),
    "the sum over the selected, divided by all positions": lambda p: replace(
        p, loss=p.loss * len(p.targets) / p.ids.numel()
    ),
    "the sum over the selected, not divided": lambda p: replace(p, loss=p.loss * len(p.targets)),
    "the mean of the sentences' means": _sentence_means,
    "the loss at what the model reads": lambda p: replace(p, loss=mean_loss(p.logits, p.corrupted[p.selected])),
    "one target left out": lambda p: replace(p, loss=mean_loss(p.logits[1:], p.targets[1:])),
    "a loss that is not a number": lambda p: replace(p, loss=p.loss * float("nan")),
}
