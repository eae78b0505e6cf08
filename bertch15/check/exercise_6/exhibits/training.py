"""Training: (model, ids, corrupt, updates) -> (before, after), the weights by name; plain gradient descent at 0.1.

Each update asks `corrupt(ids)` for (corrupted, selected), reads what is corrupted, and scores the originals at the
selected positions by their mean cross-entropy.
"""

# ruff: noqa: D103  # the words of an exhibit stand in its decorator

from collections.abc import Callable, Iterable
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertch15.check.exercise_6.exhibits.gallery import Gallery
from bertch15.check.kit.loss import mean_loss
from bertch15.pretraining import copy_state

TRAINING = Gallery()
RATE = 0.1
Weights = dict[str, Tensor]
Corrupt = Callable[[Tensor], tuple[Tensor, Tensor]]
Snapshots = tuple[Weights, Weights]


def descend(parameters: Iterable[nn.Parameter], loss: Tensor, clear: bool = True) -> None:
    """Make one step down the gradient."""
    moved = list(parameters)
    if clear:
        for parameter in moved:
            parameter.grad = None
    loss.backward()
    with torch.no_grad():
        for parameter in moved:
            if parameter.grad is not None:
                parameter.add_(parameter.grad, alpha=-RATE)


def one_update(model: nn.Module, ids: Tensor, corrupted: Tensor, selected: Tensor) -> None:
    """Make one sound update."""
    descend(model.parameters(), mean_loss(model(corrupted)[selected], ids[selected]))


@TRAINING.sound("one that gathers the selected and clones the weights")
def step_by_step(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = copy_state(model)
    for _ in range(updates):
        one_update(model, ids, *corrupt(ids))
    return before, copy_state(model)


@TRAINING.sound("one that copies deeply and ignores the positions that are not selected")
def by_deep_copy(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = deepcopy(model.state_dict())
    for _ in range(updates):
        corrupted, selected = corrupt(ids)
        wanted = ids.masked_fill(~selected, -100).flatten()
        total = F.cross_entropy(model(corrupted).flatten(0, 1), wanted, reduction="sum")
        descend(model.parameters(), total / selected.sum().clamp(min=1))
    return before, deepcopy(model.state_dict())


@TRAINING.sound("one that asks for the derivatives and stores no gradient")
def by_derivatives(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    weights = [p for p in model.parameters() if p.requires_grad]
    before = {
        name: torch.tensor(tensor.tolist(), dtype=tensor.dtype) for name, tensor in model.state_dict().items()
    }
    for _ in range(updates):
        corrupted, selected = corrupt(ids.clone())
        surprise = -model(corrupted).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        loss = (surprise * selected).sum() / selected.sum().clamp(min=1)
        steps = torch.autograd.grad(loss, weights, allow_unused=True)
        for weight, step in zip(weights, steps, strict=True):
            if step is not None:
                weight.data = weight.data - step / (1 / RATE)  # rounded otherwise than RATE * step
    return before, copy_state(model)


@TRAINING.sound("one that counts down and adds zero to copy")
def counting_down(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = {name: tensor + 0 for name, tensor in model.state_dict().items()}
    while updates > 0:
        corrupted, selected = corrupt(ids)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        b, t = selected.nonzero(as_tuple=True)
        descend(model.parameters(), mean_loss(model(corrupted)[b, t], ids[b, t]), clear=False)
        updates -= 1
    return before, {name: tensor + 0 for name, tensor in model.state_dict().items()}


@TRAINING.faulty("a snapshot of the start that goes on changing")
def alias_before(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = dict(model.state_dict())
    for _ in range(updates):
        one_update(model, ids, *corrupt(ids))
    return before, copy_state(model)


@TRAINING.faulty("a snapshot of the end that changes when training goes on (does it, in place?)")
def alias_after(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = copy_state(model)
    for _ in range(updates):
        one_update(model, ids, *corrupt(ids))
    return before, model.state_dict()


@TRAINING.faulty("masks drawn once and used at every update")
def static(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before, (corrupted, selected) = copy_state(model), corrupt(ids)
    for _ in range(updates):
        one_update(model, ids, corrupted, selected)
    return before, copy_state(model)


@TRAINING.faulty("targets taken from what the model reads")
def copy_trap(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = copy_state(model)
    for _ in range(updates):
        corrupted, selected = corrupt(ids)
        one_update(model, corrupted, corrupted, selected)
    return before, copy_state(model)


@TRAINING.faulty("originals read where the corrupted should be")
def uncorrupted(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = copy_state(model)
    for _ in range(updates):
        _, selected = corrupt(ids)
        one_update(model, ids, ids, selected)
    return before, copy_state(model)


@TRAINING.faulty("every position scored, selected or not")
def all_scored(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = copy_state(model)
    for _ in range(updates):
        corrupted, selected = corrupt(ids)
        one_update(model, ids, corrupted, torch.ones_like(selected))
    return before, copy_state(model)


@TRAINING.faulty("the caller's ids written over at the end of each update")
def written_over(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = copy_state(model)
    for _ in range(updates):
        corrupted, selected = corrupt(ids)
        one_update(model, ids, corrupted, selected)
        ids[selected] = corrupted[selected]
    return before, copy_state(model)


@TRAINING.faulty("the global generator seeded anew, so that other code draws other numbers")
def seeds_globally(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    torch.random.default_generator.manual_seed(0)
    return step_by_step(model, ids, corrupt, updates)


@TRAINING.faulty("draws from the global generator")
def draws_globally(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = copy_state(model)
    for _ in range(updates):
        order = torch.randperm(len(ids))
        corrupted, selected = corrupt(ids)
        one_update(model, ids[order], corrupted[order], selected[order])
    return before, copy_state(model)


@TRAINING.faulty("gradients of earlier updates heaped onto later ones (do you ask for more than one update?)")
def heaped(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = copy_state(model)
    model.zero_grad()
    for _ in range(updates):
        corrupted, selected = corrupt(ids)
        descend(model.parameters(), mean_loss(model(corrupted)[selected], ids[selected]), clear=False)
    return before, copy_state(model)


@TRAINING.faulty("a model of which only the last layer moves")
def last_layer(model: nn.Module, ids: Tensor, corrupt: Corrupt, updates: int) -> Snapshots:
    before = copy_state(model)
    for _ in range(updates):
        corrupted, selected = corrupt(ids)
        loss = mean_loss(model(corrupted)[selected], ids[selected])
        descend(list(model.parameters())[-1:], loss)
    return before, copy_state(model)
