"""Exercise 4, its function: whether the two arms of a comparison differ in what moves and in nothing else."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bertch15.check.kit.calling import call, no_function
from bertch15.check.kit.together import Mistake
from bertch15.check.kit.verdict import RIGHT, Part, careful, closeness, wrong
from bertch15.finetuning import Classifier, make_task, new_classifier
from bertch15.pretraining import Pretrained, State, copy_state, pretrain
from bertch15.recipe import Recipe
from bertch15.settings import reproducible

KINDS = ("probe", "full")
"""The two columns of a pair, in their order."""

PROBED = replace(Recipe(), updates=2, adaptation_updates=3)
"""The recipe with which a student's function is tried: short, so that a check takes no time."""


@dataclass(frozen=True)
class Conditions:
    """What one adaptation is given beside its seed: the defaults are the exercise's, another value is a mistake.

    labels: whose words teach, "own", "of another seed" or "test words". kind: what moves.
    """

    kind: str
    updates: int
    head_rate: float
    encoder_rate: float
    labels: str = "own"
    optimiser: type[torch.optim.Optimizer] = torch.optim.Adam


@cache
def checkpoint(seed: int) -> Pretrained:
    """Pretrain two updates, so that the checkpoint and the scratch start differ."""
    return pretrain(PROBED, seed)


def fitted(seed: int, start: State, budget: int, given: Conditions) -> Classifier:
    """Adapt by the plain loop, under the given conditions."""
    task = make_task(PROBED.language(), seed + (given.labels == "of another seed"), budget)
    ids, families = task.covered if given.labels == "test words" else task.train
    with reproducible():
        model = new_classifier(PROBED, seed, start)
        groups = [{"params": list(model.head.parameters()), "lr": given.head_rate}]
        if given.kind == "full":
            groups.append({"params": list(model.encoder.parameters()), "lr": given.encoder_rate})
        optimiser = given.optimiser(groups)  # type: ignore[call-arg]
        for _ in range(given.updates):
            optimiser.zero_grad()
            F.cross_entropy(model(ids), families).backward()
            optimiser.step()
    return model


@torch.no_grad()
def answers(model: Classifier) -> Tensor:
    """Give a classifier's logits for all eighty words: (80, 2)."""
    language = PROBED.language()
    words = [word for half in (language.covered, language.uncovered) for family in half for word in family]
    return model(language.neutral_ids(words))


def mistakes(right: Conditions) -> dict[str, Conditions]:
    """Name the conditions that are often unmatched, each with what a student should hear."""
    head, encoder = right.head_rate, right.encoder_rate
    return {
        "It learns from the words that test it: teach the labelled words of the split.": replace(
            right, labels="test words"
        ),
        "It learns from other labelled words than the seed's: both arms need the split of their seed.": replace(
            right, labels="of another seed"
        ),
        "Encoder and head move at one rate; the recipe has a rate for each.": replace(right, encoder_rate=head),
        "The head moves at the encoder's rate; the new head has the larger one.": replace(
            right, head_rate=encoder
        ),
        "It makes another number of updates than the recipe it was given says.": replace(
            right, updates=Recipe().adaptation_updates
        ),
        "The optimiser is not plain Adam, so the two arms of the book are not what you compare.": replace(
            right, optimiser=torch.optim.SGD
        ),
    }


def given_back(function: Callable[..., Any], updates: int, seed: int, budget: int, kind: str) -> Classifier:
    """Call the student's function and give its classifier. Raises Mistake if something else came."""
    start = {name: tensor.clone() for name, tensor in checkpoint(seed).pretrained.items()}
    recipe = replace(PROBED, adaptation_updates=updates)
    # Another global stream for each arm, as in a notebook in which the second arm runs after the first.
    outcome = call(function, recipe, seed, start, budget, kind, seed=KINDS.index(kind) + seed)
    if outcome.error is not None:
        raise Mistake(f"Your function {outcome.failed or 'ended in an AssertionError'}.")
    model = getattr(outcome.returned, "classifier", outcome.returned)
    if not isinstance(model, Classifier):
        raise Mistake(f"Your function should return the trained Classifier, and gave {type(model).__name__}.")
    if not same(start, checkpoint(seed).pretrained):
        raise Mistake(
            "It trains the checkpoint itself, not a copy: the second arm would start where the first one ended."
        )
    return model


def same(first: State, second: State) -> bool:
    """Say whether two states agree to the last bit."""
    return all(torch.equal(first[name], second[name]) for name in second)


@careful
def check_function(function: Any) -> Part:
    """Try the function with two seeds and budgets: where it starts, what moves, and what it learns from."""
    if refused := no_function(function, "adapted(recipe, seed, start, budget, kind)"):
        return refused
    try:
        for seed, budget in ((6051, 1), (6053, 2)):
            check_start(function, seed, budget)
            for kind in KINDS:
                check_end(function, seed, budget, kind)
    except Mistake as mistake:
        return wrong(str(mistake))
    return RIGHT


def check_start(function: Callable[..., Any], seed: int, budget: int) -> None:
    """Look at both arms before the first update, which a recipe of no updates shows. Raises Mistake."""
    start = checkpoint(seed).pretrained
    heads = []
    for kind in KINDS:
        model = given_back(function, 0, seed, budget, kind)
        if not same(copy_state(model.encoder), start):
            raise Mistake(
                f"Under a recipe of no updates the {kind} arm is not at the checkpoint: it starts from other "
                "weights, or makes updates that the recipe does not ask for."
            )
        heads.append(copy_state(model.head))
    if not same(*heads):
        raise Mistake(
            "The two arms begin with different heads. A head drawn from the global stream depends on what was "
            "drawn before it; build both from the seed."
        )
    if not same(heads[0], copy_state(new_classifier(PROBED, seed, start).head)):
        raise Mistake("Both arms share a head, but not the one of the seed given: five seeds need five heads.")


def check_end(function: Callable[..., Any], seed: int, budget: int, kind: str) -> None:
    """Look at one arm after a few updates. Raises Mistake."""
    start = checkpoint(seed).pretrained
    model = given_back(function, PROBED.adaptation_updates, seed, budget, kind)
    still = same(copy_state(model.encoder), start)
    if kind == "probe" and not still:
        raise Mistake(
            "The probe's encoder moved. Frozen means that the optimiser never gets its numbers; a gradient of "
            "zero, or a small rate, is not enough."
        )
    if kind == "full" and still:
        raise Mistake("In the full arm the encoder stays, bit for bit: you compare a probe with a probe.")
    right = Conditions(kind, PROBED.adaptation_updates, PROBED.head_rate, PROBED.encoder_rate)

    def matches(given: Conditions) -> bool:
        return bool((answers(model) - answers(fitted(seed, start, budget, given))).abs().max() < 1e-4)

    if matches(right):
        return
    for says, given in mistakes(right).items():
        if matches(given):
            raise Mistake(f"The {kind} arm is not matched. {says}")
    gap = closeness(answers(model), answers(fitted(seed, start, budget, right)), within=1e-4)
    raise Mistake(
        f"The {kind} arm ends elsewhere than the lab's ({gap} in the logits). Compare, one by one: labelled "
        "words, batches, updates, rates, optimiser."
    )
