"""The loss that exercises 3 and 6 compare with."""

from torch import Tensor
from torch.nn import functional as F


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Give the mean cross-entropy of (M, V) and (M,), and 0 of nothing."""
    return F.cross_entropy(logits, targets, reduction="sum") / max(1, len(targets))
