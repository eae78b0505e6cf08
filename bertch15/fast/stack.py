"""R replicates side by side: their weights in one vector, and what each of them reads.

Letters: R replicates, B batch, T positions, N = B * T rows, M rows that are read.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

State = Mapping[str, Tensor]


class Stack:
    """The named weights of R models, each tensor with the models on a leading axis: (R, ...).

    flat: one vector that holds them all, tensor after tensor. Indexing by name gives a view into it, so that what
    is written to one is written to the other.
    """

    def __init__(self, models: Sequence[State]) -> None:
        self.size = len(models)
        stacked = {name: torch.stack([model[name].detach() for model in models]) for name in models[0]}
        self.flat = torch.cat([tensor.flatten() for tensor in stacked.values()])
        parts = self.flat.split([tensor.numel() for tensor in stacked.values()])
        self.views = {n: part.view(t.shape) for (n, t), part in zip(stacked.items(), parts, strict=True)}

    def __getitem__(self, name: str) -> Tensor:
        return self.views[name]

    def zeros(self) -> "Stack":
        """Give zeros with the same names and shapes."""
        return Stack([{name: torch.zeros_like(view[0]) for name, view in self.views.items()}] * self.size)

    def copy(self, model: int, prefix: str = "") -> dict[str, Tensor]:
        """Copy one model's tensors whose names begin with `prefix`, under the rest of their names."""
        return {n.removeprefix(prefix): v[model].clone() for n, v in self.views.items() if n.startswith(prefix)}

    def part(self, prefix: str) -> Tensor:
        """Give the stretch of `flat` that holds the tensors whose names begin with `prefix`."""
        sizes = [(name.startswith(prefix), view.numel()) for name, view in self.views.items()]
        start = sum(size for inside, size in sizes[: [inside for inside, _ in sizes].index(True)])
        return self.flat[start : start + sum(size for inside, size in sizes if inside)]


@dataclass(frozen=True)
class Reading:
    """What R encoders read, and which of their rows are read in turn.

    ids: (R, B, T). closed: (R * B, 1, T, T) float, 0 where a query may read a key, minus infinity where not.
    rows: (R, M) int64 indices into the N = B * T rows of each replicate.
    """

    ids: Tensor
    closed: Tensor
    rows: Tensor

    @classmethod
    def of(cls, ids: Tensor, visible: Tensor, rows: Tensor) -> "Reading":
        """Make a reading from `visible` (R, B, T, T) bool."""
        closed = torch.zeros(visible.shape).masked_fill_(~visible, -math.inf)
        return cls(ids, closed.flatten(0, 1)[:, None], rows)

    def across(self, index: Tensor, size: int) -> Tensor:
        """Turn indices (R, M) into each replicate's `size` things into indices (R * M,) into all R * size."""
        return (index + torch.arange(len(index))[:, None] * size).flatten()
