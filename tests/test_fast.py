"""The fast engine gives what the plain loop gives, for every field of the recipe."""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from bertch15 import lab
from bertch15.corruption import Policy
from bertch15.fast.gradient import Stack
from bertch15.fast.training import PretrainingTape, may_trim, named_tensors, pretrain_together, side_by_side
from bertch15.language import CueNoise
from bertch15.pretraining import (
    new_encoder,
    new_head,
    pretrain,
    question_loss,
    questions,
    reproducible,
    seeded,
)
from bertch15.recipe import Recipe

SHORT = Recipe(updates=20, adaptation_updates=8)
LOSS, COSINE = 1e-4, 2e-4
"""Float32 sums in another order move a loss by about 1e-6 an update; the cosines are held to the book's 2e-4."""

VARIATIONS: dict[str, list[Any]] = {
    "corpus_seed": [1],
    "noise": [CueNoise("fixed", (0, 3)), CueNoise("drawn"), CueNoise("flips")],
    "exposure": [3],
    "shuffled": [True],
    "width": [24],
    "heads": [2],
    "inner": [40],
    "blocks": [1, 3],
    "visibility": ["causal", "own", "unpadded"],
    "objective": ["next token"],
    "policy": [
        Policy(rate=0.4),
        Policy(rate=1.0),
        Policy(rate=0.0),
        Policy(rate=0.001),
        Policy(mask_share=0.0, random_share=0.0),
        Policy(mask_share=0.0, random_share=1.0),
        Policy(eligible="padding"),
        Policy(eligible="every"),
        Policy(pool="vocabulary"),
    ],
    "static_masks": [1, 3],
    "decoder": ["tied", "tied source rows"],
    "optimiser": ["adamw", "sgd"],
    "rate": [3e-3],
    "weight_decay": [0.01],
    "clip": [None, 0.1],
    "updates": [0, 7],
    "batch": [5],
    "budgets": [(8,), (3, 16)],
    "adaptation": ["probe"],
    "adaptation_updates": [0, 3],
    "encoder_rate": [2e-3],
    "head_rate": [1e-2],
    "readout": [0, 9],
}
CASES = [(name, value) for name, values in VARIATIONS.items() for value in values]


def test_every_field_of_the_recipe_is_varied() -> None:
    assert {field.name for field in fields(Recipe)} == set(VARIATIONS)
    for name, value in CASES:
        assert getattr(SHORT, name) != value, f"{name}={value} is no variation"


@pytest.mark.parametrize(("name", "value"), CASES, ids=lambda part: str(part)[:40])
def test_the_fast_path_agrees_with_the_plain_loop(name: str, value) -> None:
    recipe = replace(SHORT, **{name: value})
    fast = lab.run(recipe, seeds=(6050, 6051)).replicates
    plain = lab.replicate(recipe, 6051)
    assert (fast[1].eligible, fast[1].branches, fast[1].moved) == (plain.eligible, plain.branches, plain.moved)
    assert fast[1].losses == pytest.approx(plain.losses, abs=LOSS)
    for got, expected in ((fast[1].initial, plain.initial), (fast[1].after, plain.after)):
        assert tuple(got) == pytest.approx(tuple(expected), abs=COSINE)
    assert fast[1].outcomes == plain.outcomes


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"decoder": "tied"},
        {"decoder": "tied source rows"},
        {"visibility": "causal", "objective": "next token"},
        {"visibility": "unpadded"},
        {"blocks": 3},
        {"policy": Policy(eligible="every", rate=0.5)},
    ],
    ids=str,
)
def test_every_gradient_is_that_of_automatic_differentiation(change: dict) -> None:
    recipe = replace(Recipe(), **change)
    with seeded(6050):
        encoder, head = new_encoder(recipe).double(), new_head(recipe).double()
    question = next(questions(recipe, recipe.language(), 6050))
    loss = question_loss(encoder, head, question)
    loss.backward()

    tape = PretrainingTape(Stack([named_tensors(encoder=encoder, head=head)] * 2), recipe, head.tied)
    with torch.no_grad():
        reading, targets, shares = side_by_side([question, question], trim=may_trim(recipe))
        reading = replace(reading, closed=reading.closed.double())
        losses = tape.losses(reading, targets, shares.double())
    assert losses.tolist() == pytest.approx([loss.item()] * 2, abs=1e-6)  # the shares are rounded to float32
    for prefix, module in (("encoder", encoder), ("head", head)):
        for name, parameter in module.named_parameters():
            gradient = tape.gradients[f"{prefix}.{name}"]
            expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for r in (0, 1):
                assert torch.allclose(gradient[r], expected, atol=1e-7), f"{prefix}.{name} of model {r}"


def test_replicates_with_unequal_numbers_of_targets_do_not_mix() -> None:
    recipe = replace(Recipe(), updates=3, batch=2)  # two sentences: the counts differ from seed to seed
    with reproducible():
        together = pretrain_together(recipe, [1, 2, 3])
    counts = {tuple(run.branches.sum(1).tolist()) for run in together}
    assert len(counts) > 1
    for run in together:
        alone = pretrain(recipe, run.seed)
        assert run.losses.tolist() == pytest.approx(alone.losses.tolist(), abs=1e-5)
        for name, tensor in alone.pretrained.items():
            assert torch.allclose(run.pretrained[name], tensor, atol=1e-4), name


def test_snapshots_are_those_of_the_plain_loop_and_do_not_alias() -> None:
    recipe = replace(Recipe(), updates=4)
    with reproducible():
        (fast,) = pretrain_together(recipe, [6050], snapshots=(0, 2, 4))
    plain = pretrain(recipe, 6050, snapshots=(0, 2, 4))
    assert set(fast.snapshots) == {0, 2, 4}
    for step, state in plain.snapshots.items():
        for name, tensor in state.items():
            assert torch.allclose(fast.snapshots[step][name], tensor, atol=1e-4), (step, name)
    name = "blocks.0.ff.0.weight"
    tensors = [fast.snapshots[step][name] for step in (0, 2, 4)] + [fast.pretrained[name]]
    assert len({tensor.data_ptr() for tensor in tensors}) == 4
    assert not torch.equal(tensors[0], tensors[1])
    assert torch.equal(tensors[2], tensors[3])
