"""Figure 15.3: one encoder, three heads, and the gradient that runs back through both.

All lengths of the drawing are tenths of an inch; the heights of its levels stand where each level is drawn.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from bertch15.encoder import count_parameters
from bertch15.figures.style import new_figure, own_look
from bertch15.finetuning import Classifier
from bertch15.palette import BLUE, INK, ORANGE

Point = tuple[float, float]

LEFT, RIGHT, FRAME, BUS = 15.0, 81.0, 1.2, 89.0
"""The column of boxes from left to right, by how much a frame is wider, and where the gradient runs down."""

PALE_BLUE, PALE_ORANGE = "#e3ecf7", "#fbeedb"

HEADS = (
    ("sequence head", "one state", "(B, d) → (B, K)"),
    ("token head", "every state", "(B, T, d) → (B, T, K)"),
    ("span head", "start and end scores", "(B, T, d) → 2 × (B, T)"),
)
"""A head's name, what it is about, and its shapes."""


@own_look()
def adaptation(tokens: Sequence[str], classifier: Classifier) -> tuple[Figure, str]:
    """Draw Figure 15.3: tokens below, the encoder above them, three heads on its states, the loss on top.

    tokens: one sentence as the encoder reads it, [CLS] first, without padding.
    classifier: its encoder gives the blocks, and the counts are of its trainable numbers.
    The gradient runs down the right side, from the loss to the embeddings; a line marks where a probe stops it.

    Returns the figure and one sentence with its key numbers.
    """
    encoder, count = classifier.encoder, len(tokens)
    figure = new_figure(10.5, 6.2)
    axes = figure.add_subplot()
    axes.set(xlim=(0, 105), ylim=(0, 62), aspect="equal")
    axes.axis("off")
    columns = draw_row(axes, "token", tokens, 1.5)
    draw_row(axes, "state", [f"$h_{{{place}}}$" for place in range(count)], 32.5)
    heights = draw_encoder(axes, len(encoder.blocks))
    draw_heads(axes)
    draw_way_up(axes, columns)
    draw_gradient(axes, [*heights, 47.8])
    draw_margin(axes)

    numbers, of_head = count_parameters(encoder), count_parameters(classifier.head)
    sentence = (
        f"{count} tokens become {count} states of width {classifier.head.in_features}. The sequence head reads "
        f"one of them, the token head and the span head all {count}. The gradient of the task loss (solid orange) "
        f"runs back through the head, {len(encoder.blocks)} blocks and the embeddings, so fine-tuning trains "
        f"{numbers:,} numbers of the encoder beside the {of_head} of a sequence head; stopped at the dashed line, "
        f"it trains the {of_head} alone, and the run is a probe."
    )
    return figure, sentence


def write(axes: Axes, text: str, middle: Point, weight: str = "normal") -> None:
    """Write one centred line; lines at one height share a baseline, whatever letters they hold."""
    axes.text(middle[0], middle[1] - 0.5, text, ha="center", fontsize=9.5, color=INK, fontweight=weight)


def draw_box(axes: Axes, name: str, corner: Point, size: Point, text: str = "", **look: Any) -> None:
    """Draw one box with its text in the middle, and give it a name to be found by."""
    filled = {"facecolor": "white", "edgecolor": INK, "linewidth": 1.1, **look}
    axes.add_patch(Rectangle(corner, *size, gid=f"box: {name}", **filled))
    if text:
        write(axes, text, (corner[0] + size[0] / 2, corner[1] + size[1] / 2))


def draw_frame(axes: Axes, name: str, bottom: float, top: float, pale: str, edge: str) -> None:
    """Draw the frame around parts that belong together, a little wider than the column."""
    corner, size = (LEFT - FRAME, bottom), (RIGHT - LEFT + 2 * FRAME, top - bottom)
    draw_box(axes, name, corner, size, facecolor=pale, edgecolor=edge, linewidth=1.6)


def draw_arrow(axes: Axes, name: str, start: Point, end: Point, **look: Any) -> None:
    """Draw one arrow, and give it a name to be found by."""
    drawn = {"color": INK, "linewidth": 1.1, "arrowstyle": "-|>", "mutation_scale": 10, **look}
    axes.add_patch(FancyArrowPatch(start, end, shrinkA=0, shrinkB=0, gid=f"arrow: {name}", **drawn))


def draw_line(axes: Axes, name: str, points: Sequence[Point], **look: Any) -> None:
    """Draw a line through points, and give it a name to be found by."""
    drawn = {"color": INK, "linewidth": 1.1, **look}
    axes.plot([x for x, _ in points], [y for _, y in points], gid=f"line: {name}", **drawn)


def draw_row(axes: Axes, kind: str, texts: Sequence[str], bottom: float) -> list[float]:
    """Draw a row of equal boxes over the column's whole width, and give the middle of each."""
    step = (RIGHT - LEFT) / len(texts)
    for place, text in enumerate(texts):
        draw_box(axes, f"{kind} {place}", (LEFT + place * step + 0.4, bottom), (step - 0.8, 4.0), text)
    return [LEFT + (place + 0.5) * step for place in range(len(texts))]


def draw_encoder(axes: Axes, blocks: int) -> list[float]:
    """Draw embeddings and blocks from below upwards in one frame, and give the height of each one's middle."""
    names = ["token + position embeddings", *(f"block {place + 1}" for place in range(blocks))]
    draw_frame(axes, "encoder", 9.6, 28.6, PALE_BLUE, BLUE)
    step, middles = 18.0 / len(names), []
    for place, name in enumerate(names):
        bottom = 10.6 + place * step
        draw_box(axes, name, (LEFT, bottom), (RIGHT - LEFT, step - 1.0), name, edgecolor=BLUE)
        middles.append(bottom + (step - 1.0) / 2)
    return middles


def draw_heads(axes: Axes) -> None:
    """Draw the three heads side by side in one frame, and the loss above them."""
    draw_frame(axes, "heads", 42.6, 53.0, PALE_ORANGE, ORANGE)
    draw_box(axes, "loss", (LEFT, 56.5), (RIGHT - LEFT, 4.0), "task loss on a few labels")
    width = (RIGHT - LEFT - 4) / 3
    for place, (name, about, shapes) in enumerate(HEADS):
        left = LEFT + place * (width + 2)
        middle = left + width / 2
        draw_box(axes, name, (left, 43.6), (width, 8.4), edgecolor=ORANGE)
        write(axes, name, (middle, 50.2), "bold")
        write(axes, about, (middle, 47.8))
        write(axes, shapes, (middle, 45.4))
        draw_arrow(axes, f"{name} to loss", (middle, 52.0), (middle, 56.5))
        if place:
            draw_arrow(axes, f"every state to {name}", (middle, 38.6), (middle, 43.6))


def draw_way_up(axes: Axes, columns: Sequence[float]) -> None:
    """Draw each token's way through the encoder, and how the states are read: one alone, and all together."""
    for place, x in enumerate(columns):
        draw_arrow(axes, f"token {place}", (x, 5.5), (x, 9.6))
        draw_arrow(axes, f"state {place}", (x, 28.6), (x, 32.5))
        draw_line(axes, f"state {place}", [(x, 36.5), (x, 38.6)])
    draw_line(axes, "every state", [(columns[0], 38.6), (columns[-1], 38.6)])
    beside = columns[0] - 2.2
    draw_arrow(axes, "one state to sequence head", (beside, 36.5), (beside, 43.6))


def draw_gradient(axes: Axes, heights: Sequence[float]) -> None:
    """Draw the gradient down the right side, an arrow into each part it reaches, and where a probe stops it."""
    look: dict[str, Any] = {"color": ORANGE, "linewidth": 3.0}
    way = [(RIGHT, 58.5), (BUS, 58.5), (BUS, min(heights))]
    draw_line(axes, "gradient", way, solid_joinstyle="miter", solid_capstyle="projecting", **look)
    for place, height in enumerate(heights):
        draw_arrow(axes, f"gradient {place}", (BUS, height), (RIGHT + FRAME, height), mutation_scale=16, **look)
    draw_line(axes, "stop", [(2, 40.6), (103, 40.6)], linewidth=1.6, linestyle=(0, (5, 3)))
    beside = BUS + 1.5
    axes.text(beside, 58.5, "gradient", va="center", fontsize=9.5, color=INK, fontweight="bold")
    axes.text(beside, 41.5, "a probe\nstops here", va="bottom", fontsize=9.5, color=INK)
    axes.text(beside, 39.5, "fine-tuning\ngoes on", va="top", fontsize=9.5, color=INK)


def draw_margin(axes: Axes) -> None:
    """Say at the left what each level is, and where its numbers start."""
    encoder = "encoder $f_\\theta$\nstarts\npretrained,\nat $\\theta_0$"
    levels = {3.5: "ids $x$", 19.1: encoder, 34.5: "states\n(B, T, d)", 47.8: "heads $g_\\varphi$\nstart new"}
    for height, text in levels.items():
        axes.text(1.0, height, text, va="center", fontsize=9.5, color=INK, linespacing=1.4)
