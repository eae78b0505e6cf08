"""The optimisers of the lab, each on whole vectors of weights at once.

They call the functional forms in torch.optim; its classes import the compiler of torch at first use, for a second.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw


@dataclass(frozen=True)
class Part:
    """A vector of weights, the vector where its gradient is written, and its learning rate."""

    weights: Tensor
    gradients: Tensor
    rate: float


class Optimiser:
    """Adam, AdamW or plain descent ("adam", "adamw", "sgd"), with the default betas of torch.optim."""

    def __init__(self, kind: str, parts: list[Part], weight_decay: float = 0.0) -> None:
        self.kind, self.parts, self.weight_decay = kind, parts, weight_decay
        self.means = [torch.zeros_like(part.weights) for part in parts]
        self.squares = [torch.zeros_like(part.weights) for part in parts]
        self.steps = [torch.zeros(()) for _ in parts]

    def step(self) -> None:
        """Move all weights by one update, in place."""
        for part, mean, square, steps in zip(self.parts, self.means, self.squares, self.steps, strict=True):
            if self.kind == "sgd":
                slope = part.gradients.add(part.weights, alpha=self.weight_decay)
                part.weights.sub_(slope, alpha=part.rate)
                continue
            move = adam if self.kind == "adam" else adamw
            move(
                [part.weights],
                [part.gradients],
                [mean],
                [square],
                [],
                [steps],
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=part.rate,
                weight_decay=self.weight_decay,
                eps=1e-8,
                maximize=False,
            )
