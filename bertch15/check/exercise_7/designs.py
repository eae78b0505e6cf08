"""Pretraining with a head of one's own, and ways to guard the control rows under a decoder that is tied whole."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn

from bertch15.language import Language
from bertch15.pretraining import (
    Pretrained,
    Progress,
    new_encoder,
    new_head,
    new_optimiser,
    pretrain,
    question_loss,
    questions,
    seeded,
)
from bertch15.recipe import Recipe
from bertch15.settings import reproducible

MakeHead = Callable[[Recipe], nn.Module]

GUARDS = (
    "zero the gradient",
    "zero the gradient, with weight decay",
    "zero the gradient from the third update on",
    "zero the gradient after the step",
    "put the rows back after the step",
)
"""What somebody may do to the control rows at each update, while all rows are tied. All use Adam."""


def pretrain_with(
    make_head: MakeHead, recipe: Recipe, seed: int, progress: Progress | None = None
) -> tuple[Pretrained, nn.Module]:
    """Run `bertch15.pretraining.pretrain` with another head; give the run and the trained head."""
    made = []

    def remembered(recipe: Recipe) -> nn.Module:
        made.append(make_head(recipe))
        return made[-1]

    run = pretrain(recipe, seed, progress=progress, make_head=remembered)
    return run, made[-1]


@reproducible()
def control_rows(language: Language) -> Tensor:
    """Give the ids of the words that occur in no sentence, as far as there are any."""
    words = [word for family in language.uncovered for word in family]
    ids = torch.tensor([language.vocabulary.id(word) for word in words])
    return ids[~torch.isin(ids, language.pool)]


@cache
def guard_keeps(guard: str) -> bool:
    """Run a few updates with all rows tied under a guard; say whether the control rows stay, bit for bit."""
    decay = 0.01 if "decay" in guard else 0.0
    recipe = replace(
        Recipe(), decoder="tied", updates=4, optimiser="adamw" if decay else "adam", weight_decay=decay
    )
    language = recipe.language()
    controls = control_rows(language)
    with reproducible():
        with seeded(6050):
            encoder, head = new_encoder(recipe), new_head(recipe)
        table = encoder.token_embedding.weight
        before = table.detach()[controls].clone()
        optimiser = new_optimiser(recipe, [*encoder.parameters(), *head.parameters()])
        for step, question in enumerate(questions(recipe, language, 6050), start=1):
            optimiser.zero_grad()
            question_loss(encoder, head, question).backward()
            assert table.grad is not None
            if "after" not in guard and (step >= 3 or "third" not in guard):
                table.grad[controls] = 0.0
            optimiser.step()
            table.grad[controls] = 0.0
            if "put the rows back" in guard:
                table.data[controls] = before
    return torch.equal(table.detach()[controls], before)
