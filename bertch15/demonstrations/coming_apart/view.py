"""Families come apart, as a picture: the words in their plane, beside them the cosines and the loss."""

from collections.abc import Sequence

from bertch15.demonstrations.frame.view import View, disc, label, line, panel, paragraph, picture
from bertch15.palette import BLUE, GREY, INK, ORANGE
from bertch15.trajectory import Apart, Moment

SIDE, LEFT, TOP = 330, 14, 26  # the square of words, in pixels
CHART = (415.0, 230.0, 112.0)  # left edge, width and height of each chart
COSINES_AT, LOSS_AT = 26.0, 214.0  # upper edges of the two charts


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
