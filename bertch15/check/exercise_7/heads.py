"""Exercise 7, its audit: which rows of a decoder are the token embedding's own, and heads that only look so."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertch15.check.kit.calling import call, no_function
from bertch15.check.kit.together import Mistake
from bertch15.check.kit.verdict import RIGHT, Part, as_tensor, careful, wrong
from bertch15.pretraining import PretrainingHead, seeded


class Bare(nn.Module):
    """A head without a label and without a decoder of the usual name; some rows are the embedding's."""

    def __init__(self, width: int, rows: Tensor) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.randn(len(rows), width))
        self.rows = rows

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """Decode: hidden (M, d), embedding (V, d) -> logits (M, V)."""
        return hidden @ torch.where(self.rows[:, None], embedding, self.own).T


class Pretender(PretrainingHead):
    """A head that says of itself that it is tied, and decodes with rows of its own."""

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """Decode: hidden (M, d), embedding (V, d) -> logits (M, V)."""
        return F.linear(self.norm(F.gelu(self.dense(hidden))), self.decoder.weight, self.decoder.bias)


def gallery(width: int, embedding: Tensor, draw: int) -> list[tuple[nn.Module, Tensor, str]]:
    """Give heads, the rows that are tied in each, and what to say of one who sees others."""
    size = len(embedding)
    with seeded(draw):
        rows = torch.rand(size) < 0.5
        rows[:2] = torch.tensor([True, False])  # neither all nor none
        none, every = torch.zeros_like(rows), torch.ones_like(rows)
        copy, half_copy = PretrainingHead(width, size), PretrainingHead(width, size, rows)
        with torch.no_grad():
            copy.decoder.weight.copy_(embedding)
            half_copy.decoder.weight.copy_(embedding)
        stored = "A tied row is not kept in the decoder: look at what the logits depend on."
        equal = "Equal numbers are not one tensor: a copy is equal at first and parts with the first update."
        return [
            (PretrainingHead(width, size, rows), rows, stored),
            (PretrainingHead(width, size, every), every, stored),
            (PretrainingHead(width, size), none, "Here nothing is tied, and you found rows that are."),
            (Bare(width, rows), rows, "One of the heads keeps its rows under other names. Look at the logits."),
            (copy, none, equal),
            (half_copy, rows, equal),
            (Pretender(width, size, every), none, "That is what a head says of itself. What does it decode with?"),
        ]


@careful
def check_audit(function: Any) -> Part:
    """Try the student's audit on heads that are tied, are not, and only look so."""
    if refused := no_function(function, "tied_rows(head, embedding)"):
        return refused
    for draw, (width, size) in enumerate(((6, 9), (8, 13))):
        with seeded(draw):
            embedding = torch.randn(size, width)
        for head, rows, says in gallery(width, embedding, draw):
            outcome = call(function, head, nn.Parameter(embedding.clone()))
            if isinstance(outcome.error, AttributeError):
                return wrong(f"Not every head has the same attributes. {says}")
            if outcome.error is not None:
                return wrong(f"Your function {outcome.failed or 'ended in an AssertionError'}.")
            found = as_tensor(outcome.returned)
            if found.shape != rows.shape:
                return wrong(f"One answer for each of {size} rows was expected, got shape {tuple(found.shape)}.")
            if torch.equal(found.bool(), ~rows) and rows.any() and not rows.all():
                return wrong("It is the other way round: True should mark the rows that are the embedding's own.")
            if not torch.equal(found.bool(), rows):
                return wrong(says)
    return RIGHT


def reaches(head: nn.Module, width: int, size: int) -> tuple[Tensor, Tensor, bool]:
    """Look at what the logits of a head depend on. Raises Mistake for logits of another shape.

    Returns (V,) bool, the rows of the embedding that the gradient of the logits reaches; (V,) bool, the logits
    that follow the embedding's numbers without a gradient; and whether the head has taken a copy of them.
    """
    generator = torch.Generator().manual_seed(7)
    hidden = torch.randn(5, width, generator=generator)
    first, second = (nn.Parameter(torch.randn(size, width, generator=generator)) for _ in range(2))
    logits = head(hidden, first)
    if not isinstance(logits, Tensor) or logits.shape != (5, size):
        raise Mistake("The head should give logits (M, V) for hidden states (M, d) and an embedding (V, d).")
    gradient = None
    if logits.requires_grad:
        weights = torch.randn(5, size, generator=generator)
        (gradient,) = torch.autograd.grad((logits * weights).sum(), first, allow_unused=True)
    tied = torch.zeros(size, dtype=torch.bool) if gradient is None else (gradient != 0).any(-1)
    kept = [tensor for tensor in head.state_dict().values() if tensor.shape == first.shape]
    copied = any(bool((tensor == first).all(-1).any()) for tensor in kept)
    with torch.no_grad():
        follows = (head(hidden, second) != logits).any(0)
    return tied, follows & ~tied, copied and not bool(follows.any())
