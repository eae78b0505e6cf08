"""Families come apart: the covered words in two dimensions, from a pretraining run's first update to its last.

All snapshots share one plane, that of the last snapshot's two main directions, and one scale: what moves in the
picture are the words, and neither the camera nor the ruler. The cosines are taken in all dimensions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bertch15.geometry import Cosines, within_between, word_states
from bertch15.pretraining import Pretrained, load_encoder
from bertch15.settings import reproducible

STEPS = (0, 5, 10, *range(20, 200, 20), *range(200, 400, 25), *range(400, 601, 50))
"""Updates after which to look: densely at first, where the loss falls fastest."""
AVERAGED = 20
"""Batches differ, so the loss is the mean over so many updates, those before the snapshot."""


def steps_of(updates: int) -> tuple[int, ...]:
    """Give the snapshots to take in a run of so many updates: those of `STEPS` that it reaches, and its end."""
    return (*(step for step in STEPS if step < updates), updates)


@dataclass(frozen=True)
class Moment:
    """The words after `step` updates.

    points: of each word, in the plane. cosines: within and between families, in all dimensions.
    loss: the mean over the updates before, `AVERAGED` at most; at step 0, the loss of the first batch.
    share: how much of the words' squared distances from their mean the plane holds, in [0, 1].
    """

    step: int
    points: tuple[tuple[float, float], ...]
    cosines: Cosines
    loss: float
    share: float

    def __str__(self) -> str:
        first = max(1, self.step - AVERAGED + 1)
        when = f"after update {self.step}" if self.step else "before the first update"
        loss = f"mean loss of updates {first} to {self.step}" if self.step else "loss of the first batch"
        return (
            f"{when}: within {self.cosines.within:.4f}, between {self.cosines.between:.4f}; "
            f"{loss}: {self.loss:.2f}; the plane holds {self.share:.0%} of the spread"
        )


@dataclass(frozen=True)
class Apart:
    """One pretraining run: its words, their families (0 or 1), and its moments in the order of the updates."""

    words: tuple[str, ...]
    families: tuple[int, ...]
    moments: tuple[Moment, ...]

    def at(self, step: int) -> Moment:
        """Give the moment after so many updates. Raises ValueError if no snapshot was taken there."""
        for moment in self.moments:
            if moment.step == step:
                return moment
        raise ValueError(f"no snapshot after {step} updates; there are {[m.step for m in self.moments]}")

    @property
    def reach(self) -> float:
        """The largest coordinate of any word at any moment, without its sign."""
        return max(abs(value) for moment in self.moments for point in moment.points for value in point)


def plane_of(states: Tensor, families: Tensor) -> Tensor:
    """Give the two main directions of centred states: states (n, d), families (n,) -> (d, 2), orthonormal.

    A direction has no sign of its own: family 0 has its mean on the left, and the word farthest out is at the top.
    """
    directions = torch.linalg.svd(states, full_matrices=False).Vh[:2].T
    places = states @ directions
    if places[families == 0, 0].mean() > 0:
        directions[:, 0] *= -1
    if places[places[:, 1].abs().argmax(), 1] < 0:
        directions[:, 1] *= -1
    return directions


@reproducible()
def come_apart(trained: Pretrained) -> Apart:
    """Look at the covered words in every snapshot of a run, each in the neutral sentence.

    Raises ValueError for a run without snapshots.
    """
    if not trained.snapshots:
        raise ValueError("the run has no snapshots: pretrain with snapshots=steps_of(recipe.updates)")
    recipe, language = trained.recipe, trained.recipe.language()
    words = (*language.covered[0], *language.covered[1])
    families = torch.tensor([family for family in (0, 1) for _ in language.covered[family]])
    steps = sorted(trained.snapshots)
    encoders = [load_encoder(recipe, trained.snapshots[step]) for step in steps]
    states = [word_states(encoder, language, words, recipe.readout, recipe.visibility) for encoder in encoders]
    centred = [of_step - of_step.mean(0) for of_step in states]
    plane = plane_of(centred[-1], families)
    moments = []
    for step, of_step, around_mean in zip(steps, states, centred, strict=True):
        points = around_mean @ plane
        share = float(points.square().sum() / around_mean.square().sum().clamp_min(torch.finfo().tiny))
        both = [(x, y) for x, y in points.tolist()]
        moments.append(Moment(step, tuple(both), within_between(of_step, families), loss_at(trained, step), share))
    return Apart(words, tuple(families.tolist()), tuple(moments))


def loss_at(trained: Pretrained, step: int) -> float:
    """Average the losses of the updates before a snapshot; of the first batch at step 0, 0 where there is none."""
    before = trained.losses[max(0, step - AVERAGED) : max(1, step)]
    return float(before.mean()) if len(before) else 0.0
