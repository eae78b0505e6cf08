"""Loss: (logits, ids, selected) -> mean cross-entropy at the selected positions, 0 where there is none."""

# ruff: noqa: D103  # the words of an exhibit stand in its decorator

import torch
from torch import Tensor
from torch.nn import functional as F

from bertch15.check.exercise_6.exhibits.gallery import Gallery
from bertch15.vocabulary import CLS, PAD, SEP

LOSSES = Gallery()


def each(logits: Tensor, ids: Tensor) -> Tensor:
    """Give the cross-entropy of each position: (B, T, V) and (B, T) -> (B, T)."""
    return F.cross_entropy(logits.transpose(1, 2), ids, reduction="none")


@LOSSES.sound("one that gathers the selected, as the book does")
def selected_only(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    return F.cross_entropy(logits[selected], ids[selected], reduction="sum") / max(1, int(selected.sum()))


@LOSSES.sound("one that marks the others by an ignored target")
def with_ignored(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    if not selected.any():
        return logits.sum() * 0
    wanted = ids.masked_fill(~selected, -100)
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)


@LOSSES.sound("one that multiplies each position by its own weight")
def with_weights(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    weights = selected.to(logits.dtype)
    return (each(logits, ids) * weights).sum() / weights.sum().clamp(min=1)


@LOSSES.sound("one that writes the logarithm out")
def by_logarithms(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    surprise = logits.logsumexp(-1) - logits.gather(-1, ids[..., None])[..., 0]
    return torch.where(selected, surprise, torch.zeros_like(surprise)).sum() / max(1, int(selected.sum()))


@LOSSES.sound("one that goes target by target")
def target_by_target(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    terms = [-logits[b, t].log_softmax(-1)[ids[b, t]] for b, t in selected.nonzero().tolist()]
    return torch.stack(terms).mean() if terms else logits.sum() * 0


@LOSSES.faulty("weights that cancel, so that every position counts")
def weights_cancel(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    weights = selected.to(logits.dtype)
    mean = each(logits, ids).mean()
    return (mean * weights).sum() / weights.sum().clamp(min=1)


@LOSSES.faulty("weights spread over a table, so that each loss counts many times")
def table_of_weights(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    weights = selected.flatten().to(logits.dtype)
    return (each(logits, ids).flatten() * weights[:, None]).sum() / weights.sum().clamp(min=1)


@LOSSES.faulty("padding counted beside the selected (does your batch hold any?)")
def padding_counts(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    scored = selected | ((ids == PAD) & selected.any())
    return each(logits, ids)[scored].sum() / scored.sum().clamp(min=1)


@LOSSES.faulty("every ordinary position scored")
def all_ordinary(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    scored = (ids != PAD) & (ids != CLS) & (ids != SEP) & selected.any()
    return each(logits, ids)[scored].sum() / scored.sum().clamp(min=1)


@LOSSES.faulty("targets shifted that stood in their places already")
def shifted_again(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    losses = each(logits[:, :-1], ids[:, 1:])
    return (losses * selected[:, 1:]).sum() / selected[:, 1:].sum().clamp(min=1)


@LOSSES.faulty("a mean of the sentences' means")
def mean_of_means(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    counts = selected.sum(1)
    means = (each(logits, ids) * selected).sum(1) / counts.clamp(min=1)
    return means.sum() / (counts > 0).sum().clamp(min=1)


@LOSSES.faulty("the sum of the selected divided by the number of all positions")
def over_all(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    return (each(logits, ids) * selected).mean()


@LOSSES.faulty("a sum where a mean was promised")
def not_divided(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    return (each(logits, ids) * selected).sum()


@LOSSES.faulty("no number where nothing is selected")
def of_nothing(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    return F.cross_entropy(logits[selected], ids[selected])


@LOSSES.faulty("the caller's ids changed in place")
def targets_overwritten(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    ids[~selected] = -100
    total = F.cross_entropy(logits.flatten(0, 1), ids.flatten(), ignore_index=-100, reduction="sum")
    return total / max(1, int(selected.sum()))


@LOSSES.faulty("a number from which no gradient flows back")
def no_gradient(logits: Tensor, ids: Tensor, selected: Tensor) -> Tensor:
    return selected_only(logits.detach(), ids, selected)
