"""Families come apart: the covered words in two dimensions, from a pretraining run's first update to its last.

All snapshots share one plane, that of the last snapshot's two main directions, and one scale: what moves in the
picture are the words, and neither the camera nor the ruler. The cosines are taken in all dimensions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bertch15.demonstrations.view import View, disc, label, line, panel, paragraph, picture
from bertch15.figures.palette import BLUE, GREY, INK, ORANGE
from bertch15.geometry import Cosines, within_between, word_states
from bertch15.pretraining import Pretrained, load_encoder
from bertch15.settings import reproducible

STEPS = (0, 5, 10, *range(20, 200, 20), *range(200, 400, 25), *range(400, 601, 50))
"""Updates after which to look: densely at first, where the loss falls fastest."""
AVERAGED = 20
"""Batches differ, so the loss is the mean over so many updates, those before the snapshot."""

SIDE, LEFT, TOP = 330, 14, 26  # the square of words, in pixels
CHART = (415.0, 230.0, 112.0)  # left edge, width and height of each chart
COSINES_AT, LOSS_AT = 26.0, 214.0  # upper edges of the two charts


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


def apart_view(apart: Apart, update: int) -> View:
    """Show the words after so many updates, beside them how the cosines and the loss came there."""
    moment = apart.at(update)
    shapes = [*square_of_words(apart, moment), *cosine_chart(apart, moment), *loss_chart(apart, moment)]
    drawn = picture(CHART[0] + CHART[1] + 20, TOP + SIDE + 12, str(moment), shapes)
    return View(panel(drawn, paragraph(str(moment))), str(moment))


def square_of_words(apart: Apart, moment: Moment) -> list[str]:
    """Draw each word in the plane: family 0 as blue circles, family 1 as orange squares."""
    middle, scale = SIDE / 2, (SIDE / 2 - 8) / (apart.reach or 1.0)
    shapes = [
        f'<rect x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="{GREY}"/>',
        mark(0, LEFT + 6, 13, ""),
        label(LEFT + 16, 17, "family 0", anchor="start"),
        mark(1, LEFT + 96, 13, ""),
        label(LEFT + 106, 17, "family 1", anchor="start"),
        label(LEFT + SIDE, 17, f"update {moment.step}", anchor="end"),
    ]
    for word, family, (x, y) in zip(apart.words, apart.families, moment.points, strict=True):
        shapes.append(mark(family, LEFT + middle + scale * x, TOP + middle - scale * y, word))
    return shapes


def mark(family: int, x: float, y: float, word: str) -> str:
    """Draw one word; it says its name when pointed at."""
    name = f"<title>{word}</title>"
    if family == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{BLUE}" stroke="white">{name}</circle>'
    place = f'x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"'
    return f'<rect {place} fill="{ORANGE}" stroke="{INK}" stroke-width="0.7">{name}</rect>'


def cosine_chart(apart: Apart, moment: Moment) -> list[str]:
    """Draw both cosines over the updates, and where the moment stands."""
    within, between = ([m.cosines[i] for m in apart.moments] for i in (0, 1))
    shapes = chart(apart, moment, COSINES_AT, "cosine: within —, between - -", (-1.0, 0.0, 1.0), within)
    return shapes + curve(apart, moment, COSINES_AT, (-1.0, 1.0), between, "4 3")


def loss_chart(apart: Apart, moment: Moment) -> list[str]:
    """Draw the loss over the updates, and where the moment stands."""
    losses = [m.loss for m in apart.moments]
    top = float(max(1, -(-max(losses) // 1)))
    return chart(apart, moment, LOSS_AT, "MLM loss", (0.0, top), losses)


def chart(
    apart: Apart, moment: Moment, top: float, title: str, ticks: Sequence[float], values: Sequence[float]
) -> list[str]:
    """Draw the frame of a chart from the first tick up to the last, its first curve, and the moment's line."""
    left, width, height = CHART
    shapes = [label(left, top - 9, title, anchor="start")]
    for tick in ticks:
        y = top + height * (ticks[-1] - tick) / (ticks[-1] - ticks[0])
        shapes.append(line(left, y, left + width, y, GREY))
        shapes.append(label(left - 6, y + 4, f"{tick:g}".replace("-", "−"), 11, "end"))
    x = left + width * moment.step / max(1, apart.moments[-1].step)
    shapes.append(line(x, top, x, top + height))
    shapes.append(label(left, top + height + 16, "0", 11))
    shapes.append(label(left + width, top + height + 16, f"{apart.moments[-1].step} updates", 11, "end"))
    return shapes + curve(apart, moment, top, (ticks[0], ticks[-1]), values)


def curve(
    apart: Apart,
    moment: Moment,
    top: float,
    limits: tuple[float, float],
    values: Sequence[float],
    dashes: str = "none",
) -> list[str]:
    """Draw one value over the updates, with a dot at the moment."""
    left, width, height = CHART
    last, (low, high) = max(1, apart.moments[-1].step), limits
    places = [
        (left + width * m.step / last, top + height * (high - value) / (high - low))
        for m, value in zip(apart.moments, values, strict=True)
    ]
    through = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    x, y = places[apart.moments.index(moment)]
    look = f'fill="none" stroke="{INK}" stroke-width="1.6" stroke-dasharray="{dashes}"'
    return [
        f'<polyline points="{through}" {look}/>',
        disc(x, y, 4, INK),
    ]
