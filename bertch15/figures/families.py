"""The figure of 15.7: one sentence as three families prepare it."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from bertch15.figures.style import new_figure, own_look, plain_axes
from bertch15.palette import BLUE, INK, ORANGE

OPEN, CLOSED = "●", "×"


@dataclass(frozen=True)
class Prepared:
    """One sentence, ready for one family.

    reads: what each of the T positions reads. visible: (T, T) bool. targets: what each position is to answer,
    "" where nothing is scored. memory: how many of the first positions are an encoder's, read by a decoder;
    0 where the whole is one stack.
    """

    name: str
    reads: Sequence[str]
    visible: Tensor
    targets: Sequence[str]
    memory: int = 0

    def __post_init__(self) -> None:
        length = len(self.reads)
        if self.visible.shape != (length, length) or len(self.targets) != length:
            raise ValueError(
                f"{self.name}: {length} positions want visible {(length, length)} and {length} targets, "
                f"got {tuple(self.visible.shape)} and {len(self.targets)}"
            )
        if not 0 <= self.memory < length:
            raise ValueError(f"{self.name}: memory must lie in 0 to {length - 1}, got {self.memory}")

    @property
    def scored(self) -> int:
        """How many positions have a target."""
        return sum(target != "" for target in self.targets)

    @property
    def pairs(self) -> int:
        """How many pairs of query and key are open."""
        return int(self.visible.sum())


@own_look()
def families(prepared: Sequence[Prepared]) -> tuple[Figure, str]:
    """Draw the visibility of each family, what each position reads at its left, what it answers at its right.

    Returns the figure and one sentence with its key numbers.
    """
    figure = new_figure(10.5, 3.7)
    panels = figure.subplots(
        1, len(prepared), width_ratios=[len(one.reads) + 6 for one in prepared], squeeze=False
    )
    for axes, one in zip(panels[0], prepared, strict=True):
        draw_family(axes, one)
    counts = "; ".join(
        f"{one.name}: {len(one.reads)} positions, {one.pairs} of {len(one.reads) ** 2} pairs open, "
        f"{one.scored} {'target' if one.scored == 1 else 'targets'}"
        for one in prepared
    )
    sentence = (
        f"Rows are queries, columns keys; {OPEN} marks a key that the query may read, {CLOSED} one that it may "
        f"not, and the arrow at the right of a row points to what this position is to answer. {counts}."
    )
    return figure, sentence


def draw_family(axes: Axes, one: Prepared) -> None:
    """Draw one matrix, a mark in each cell, and the targets beside it."""
    plain_axes(axes, one.name)
    axes.spines[["left", "bottom"]].set_visible(False)
    length = len(one.reads)
    axes.set_aspect("equal")
    axes.set_anchor("NW")
    axes.set_xlim(-0.5, length - 0.5)
    axes.set_ylim(length - 0.5, -0.5)
    for query, row in enumerate(one.visible.tolist()):
        for key, is_open in enumerate(row):
            colour = BLUE if is_open else "#eceef1"
            axes.add_patch(Rectangle((key - 0.5, query - 0.5), 1, 1, facecolor=colour, edgecolor="white"))
            mark, ink = (OPEN, "white") if is_open else (CLOSED, INK)
            axes.text(key, query, mark, ha="center", va="center", fontsize=7, color=ink)
        if one.targets[query]:
            axes.text(
                length - 0.3, query, f"→ {one.targets[query]}", va="center", fontsize=9, color=INK, weight="bold"
            )
    if one.memory:
        axes.axhline(one.memory - 0.5, color=ORANGE, linewidth=2)
        axes.axvline(one.memory - 0.5, color=ORANGE, linewidth=2)
    axes.set_xticks(range(length), one.reads, rotation=90)
    axes.set_yticks(range(length), one.reads)
    axes.tick_params(length=0)
