"""Families come apart, as a figure: the covered words in one plane, at three moments of a pretraining run."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bertch15.figures.style import new_figure, own_look, plain_axes
from bertch15.palette import BLUE, GREY, INK, ORANGE
from bertch15.trajectory import AVERAGED, Apart, Moment

LOOKS: tuple[dict[str, Any], ...] = ({"color": BLUE, "marker": "o"}, {"color": ORANGE, "marker": "s"})
"""Family 0 and family 1, apart by colour, lightness and shape."""


@own_look()
def apart(run: Apart, steps: Sequence[int]) -> tuple[Figure, str]:
    """Draw the words after each of so many updates, all panels on one plane and one scale.

    Returns the figure and one sentence with its key numbers. Raises ValueError for a step without a snapshot.
    """
    moments = [run.at(step) for step in steps]
    figure = new_figure(3.3 * len(moments), 4.05)
    for place, moment in enumerate(moments):
        axes = figure.add_subplot(1, len(moments), place + 1)
        draw_words(axes, run, moment)
    figure.axes[0].legend(fontsize=8, frameon=False, loc="upper left", handletextpad=0.2, borderaxespad=0.1)
    held = ", ".join(f"{moment.share:.0%}" for moment in moments)
    sentence = (
        f"The {len(run.words)} covered words in the plane of the last snapshot's two main directions, one scale "
        f"for all; the plane holds {held} of the words' spread. Within, between and loss (mean of the {AVERAGED} "
        f"updates before; at 0, of the first batch): "
        f"{'; '.join(brief(moment) for moment in moments)}."
    )
    return figure, sentence


def brief(moment: Moment) -> str:
    """Give a moment's numbers in the order within, between, loss."""
    return f"at {moment.step}, {moment.cosines.within:.4f}, {moment.cosines.between:.4f}, {moment.loss:.2f}"


def draw_words(axes: Axes, run: Apart, moment: Moment) -> None:
    """Draw one moment: each word at its place, below them the numbers that no plane can show."""
    plain_axes(axes, f"update {moment.step}")
    for family, look in enumerate(LOOKS):
        places = [p for p, own in zip(moment.points, run.families, strict=True) if own == family]
        x, y = zip(*places, strict=True)
        axes.plot(x, y, linestyle="", markersize=5.5, markeredgecolor="white", label=f"family {family}", **look)
    reach = 1.08 * (run.reach or 1.0)
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(visible=True, color=GREY)
    cosines = f"within {moment.cosines.within:.4f}, between {moment.cosines.between:.4f}".replace("-", "−")
    axes.set_xlabel(f"{cosines}\nloss {moment.loss:.2f}", fontsize=9, color=INK)
