"""Geometry: do words of one family lie together, once what all words share is taken away?

A diagnostic of the representation, not a task metric. Centring first: hidden states share a large common part,
and without it every cosine is near 1.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from bertch15.encoder import Encoder
from bertch15.language import Language
from bertch15.pretraining import State, load_encoder
from bertch15.recipe import Recipe
from bertch15.settings import reproducible
from bertch15.visibility import VisibilityKind, visibility


class Cosines(NamedTuple):
    """Mean centred cosine over pairs of different words: of the same family, and of different families."""

    within: float
    between: float


def centred_cosine(states: Tensor) -> Tensor:
    """Give all cosines after centring: states (n, d) -> (n, n), values in [-1, 1].

    The states are centred on their own mean. A state that equals the mean has cosine 0 with every other.
    """
    centred = states - states.mean(0)
    # A mean is off by rounding, and what rounding leaves of equal states has a direction of its own.
    rounding = 100 * torch.finfo(states.dtype).eps * states.norm(dim=-1).max()
    unit = F.normalize(centred, dim=-1) * (centred.norm(dim=-1, keepdim=True) > rounding)
    return unit @ unit.T


def within_between(states: Tensor, families: Tensor) -> Cosines:
    """Average the centred cosines: states (n, d), families (n,) -> within and between.

    With two families of equal size the two are nearly one number: centring makes the sum of all cosines small.
    Where nothing separates the families, both are about -1 / (n - 1), not 0.
    """
    cosine = centred_cosine(states)
    same = families[:, None] == families[None, :]
    others = ~torch.eye(len(states), dtype=torch.bool)
    if same.all() or not (same & others).any():
        raise ValueError(f"families must hold two families, one of two words or more, got {families.tolist()}")
    return Cosines(float(cosine[same & others].mean()), float(cosine[~same].mean()))


@reproducible()
@torch.no_grad()
def word_states(
    encoder: Encoder,
    language: Language,
    words: Sequence[str],
    readout: int = 4,
    kind: VisibilityKind = "full",
) -> Tensor:
    """Read each word's hidden state in the neutral sentence: (len(words), d)."""
    ids = language.neutral_ids(words)
    return encoder(ids, visibility(ids, kind))[:, readout]


@reproducible()
def word_geometry(recipe: Recipe, state: State, covered: bool = True) -> Cosines:
    """Measure within and between for the covered (or the uncovered) words under an encoder's weights."""
    language = recipe.language()
    encoder = load_encoder(recipe, state)
    families = language.covered if covered else language.uncovered
    states = word_states(encoder, language, families[0] + families[1], recipe.readout, recipe.visibility)
    return within_between(states, torch.tensor([f for f in (0, 1) for _ in families[f]]))


# Held from outside: pages show the definitions as they stand.
centred_cosine, within_between = reproducible()(centred_cosine), reproducible()(within_between)
