"""The fast engine gives what the plain loop gives, for every field of the recipe."""

from dataclasses import fields, replace
from typing import Any

import listing
import pytest
import torch
from chapter import chapter

from bertch15 import lab
from bertch15.corruption import Policy
from bertch15.fast.stack import Stack
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

SHORT = Recipe(updates=8, adaptation_updates=4, budgets=(1, 4))
CLOSE = 1e-5
"""Sums of float32 in another order move a loss by about 1e-6 an update."""

VARIATIONS: dict[str, dict[str, Any]] = {
    "the chapter's": {},
    "another corpus": {"corpus_seed": 1},
    "another fixed pair": {"noise": CueNoise("fixed", (0, 3))},
    "noise drawn per word": {"noise": CueNoise("drawn")},
    "flips, exposed, shuffled": {"noise": CueNoise("flips"), "exposure": 2, "shuffled": True},
    "another shape": {"width": 24, "heads": 2, "inner": 40, "blocks": 3, "batch": 7},
    "one block": {"blocks": 1},
    "causal": {"visibility": "causal"},
    "own position alone": {"visibility": "own"},
    "padding visible": {"visibility": "unpadded"},
    "next token, causal": {"objective": "next token", "visibility": "causal"},
    "next token, full": {"objective": "next token"},
    "nothing selected": {"policy": Policy(rate=0.0)},
    "one target a batch": {"policy": Policy(rate=1e-9)},
    "everything selected": {"policy": Policy(rate=1.0)},
    "all unchanged": {"policy": Policy(mask_share=0.0, random_share=0.0)},
    "all random": {"policy": Policy(mask_share=0.0, random_share=1.0)},
    "padding eligible": {"policy": Policy(eligible="padding")},
    "every slot eligible": {"policy": Policy(eligible="every", pool="vocabulary")},
    "static masks": {"static_masks": 2},
    "tied": {"decoder": "tied"},
    "tied source rows": {"decoder": "tied source rows"},
    "decay without clipping": {"optimiser": "adamw", "weight_decay": 0.1, "clip": None},
    "decay in Adam's gradient": {"weight_decay": 0.01},
    "plain descent": {"optimiser": "sgd", "rate": 0.1, "weight_decay": 0.01},
    "a hard clip": {"clip": 0.01, "optimiser": "sgd", "rate": 1.0},
    "no update": {"updates": 0, "adaptation_updates": 0},
    # Short batches between long ones: what a long one left in the columns beyond must not act again.
    "one sentence a batch": {"batch": 1},
    "more labels": {"budgets": (8, 16)},
    "probe": {"adaptation": "probe"},
    "faster adaptation": {"encoder_rate": 2e-3, "head_rate": 1e-2},
    "read at the summary token": {"readout": 0},
    "read at a padding slot": {"readout": 9},
}


def test_every_field_of_the_recipe_is_varied() -> None:
    assert {field.name for field in fields(Recipe)} == {name for change in VARIATIONS.values() for name in change}
    for change in VARIATIONS.values():
        assert all(getattr(SHORT, name) != value for name, value in change.items()), change


@pytest.mark.parametrize("name", VARIATIONS)
def test_the_fast_path_agrees_with_the_plain_loop(name: str) -> None:
    recipe = replace(SHORT, **VARIATIONS[name])
    other, fast = lab.run(recipe, seeds=(6050, 6051), workers=1).replicates
    plain = lab.replicate(recipe, 6051)
    for exact in ("seed", "eligible", "branches", "moved", "outcomes"):
        assert getattr(fast, exact) == getattr(plain, exact), exact
    for floats in ("losses", "initial", "after"):
        assert getattr(fast, floats) == pytest.approx(getattr(plain, floats), abs=CLOSE), floats
    assert fast.after != other.after, "two seeds gave one result"


def test_the_lab_agrees_with_the_plain_listing() -> None:
    with reproducible(), torch.random.fork_rng(devices=[]):
        witness = listing.replicate(6052)
    (fast,) = (one for one in chapter().replicates if one.seed == 6052)
    assert (fast.eligible, fast.branches) == (witness["eligible"], witness["branches"])
    assert fast.losses == pytest.approx(witness["losses"], abs=1e-3)
    assert fast.after == pytest.approx(witness["after"], abs=2e-4)
    for index, budget in enumerate(Recipe().budgets):
        for arm in lab.ARMS:
            outcome, right = fast.outcomes[arm][index], witness["outcomes"][budget, arm]
            for words in ("train", "covered", "uncovered"):
                score = getattr(outcome, words)
                assert (score.correct, score.total) == right[words], (budget, arm, words)


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
