"""Figure 15.4: what pretraining was worth, and what it was not."""

from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bertch15.figures.style import new_figure, own_look, plain_axes
from bertch15.lab import LabResult
from bertch15.palette import BLUE, GREY, INK, ORANGE

LOOKS: dict[tuple[str, str], dict[str, Any]] = {
    ("covered", "pretrained"): {"color": BLUE, "marker": "o", "linestyle": "-"},
    ("covered", "scratch"): {"color": ORANGE, "marker": "s", "linestyle": "-"},
    ("uncovered", "pretrained"): {"color": BLUE, "marker": "o", "linestyle": "--", "markerfacecolor": "white"},
    ("uncovered", "scratch"): {"color": ORANGE, "marker": "s", "linestyle": "--", "markerfacecolor": "white"},
}
"""Arms part by colour and marker, covered and uncovered words by dash and filling."""


@own_look()
def transfer(result: LabResult) -> tuple[Figure, str]:
    """Draw Figure 15.4 in three panels: accuracy by budget, all paired gains, geometry before and after.

    Returns the figure and one sentence with its key numbers.
    """
    figure = new_figure(10.5, 3.6)
    accuracy, gains, geometry = figure.subplots(1, 3, width_ratios=(1.2, 0.95, 1.0))
    draw_accuracy(accuracy, result)
    draw_gains(gains, result)
    draw_geometry(geometry, result)

    rows, first = result.rows, result.replicates[0]
    covered = ", ".join(f"{row.covered['scratch']:.3f} to {row.covered['pretrained']:.3f}" for row in rows)
    control = [row.uncovered[arm] for row in rows for arm in row.uncovered]
    gains_of_all = [gain for row in rows for gain in row.gains]
    wins = f"{sum(gain > 0 for gain in gains_of_all)} of {len(gains_of_all)}"
    sentence = (
        f"Covered words, from scratch to pretrained: {covered} with {', '.join(str(row.budget) for row in rows)} "
        f"labels per family; uncovered words: {min(control):.3f} to {max(control):.3f} in both arms; "
        f"{wins} paired gains are positive; within and between "
        f"cosine of seed {first.seed} go from {first.initial.within:.4f} and {first.initial.between:.4f} "
        f"to {first.after.within:.4f} and {first.after.between:.4f}."
    )
    return figure, sentence


def draw_accuracy(axes: Axes, result: LabResult) -> None:
    """Draw mean accuracy against the budget: two arms, covered and uncovered words, and the line of chance."""
    plain_axes(axes, "Accuracy")
    places = range(len(result.rows))
    axes.axhline(0.5, color=GREY, linewidth=1, linestyle=":")
    axes.annotate("chance", (-0.46, 0.51), fontsize=8, color=INK)
    for (words, arm), look in LOOKS.items():
        heights = [getattr(row, words)[arm] for row in result.rows]
        axes.plot(places, heights, label=f"{arm}, {words}", **look)
    axes.set_xticks(places, [str(row.budget) for row in result.rows])
    axes.set_xlim(-0.5, len(result.rows) - 0.7)  # room for "chance" left of the lines
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("labelled words per family", fontsize=9)
    axes.legend(fontsize=8, frameon=False, loc="lower left", handlelength=2.6)


def draw_gains(axes: Axes, result: LabResult) -> None:
    """Draw each replicate's gain on covered words at each budget, and the mean as a bar."""
    plain_axes(axes, "Paired gain, covered words")
    count = len(result.replicates)
    for place, row in enumerate(result.rows):
        spread = [place + (i - (count - 1) / 2) * 0.11 for i in range(count)]
        axes.plot(spread, row.gains, linestyle="", marker="o", color=BLUE, markersize=5)
        axes.hlines(fmean(row.gains), place - 0.32, place + 0.32, color=INK, linewidth=1.5)
        axes.annotate(f"mean\n{row.delta:+.3f}", (place, 0.04), ha="center", fontsize=9, color=INK)
    axes.axhline(0, color=GREY, linewidth=1, linestyle=":")
    axes.set_xticks(range(len(result.rows)), [str(row.budget) for row in result.rows])
    axes.set_xlim(-0.5, len(result.rows) - 0.5)
    axes.set_ylim(-0.05, 0.75)
    axes.set_xlabel("labelled words per family", fontsize=9)


def draw_geometry(axes: Axes, result: LabResult) -> None:
    """Draw the mean centred cosine within and between families, before and after pretraining.

    A bar is as long as the number above it says, to four decimals, and so the same on every machine.
    """
    first = result.replicates[0]
    plain_axes(axes, f"Centred cosine, seed {first.seed}")
    for place, cosines in enumerate((first.initial, first.after)):
        for shift, value, colour, hatch in (
            (-0.21, round(cosines.within, 4), BLUE, ""),
            (0.21, round(cosines.between, 4), ORANGE, "///"),
        ):
            axes.bar(place + shift, value, 0.4, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
            above = value >= 0
            axes.annotate(
                f"{value:.4f}".replace("-", "−"),
                (place + shift, value),
                xytext=(0, 3 if above else -3),
                textcoords="offset points",
                ha="center",
                va="bottom" if above else "top",
                fontsize=8,
                color=INK,
            )
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xticks((0, 1), ("before", "after MLM"))
    axes.set_ylim(-0.8, 0.9)
    named = [
        Patch(facecolor=BLUE, label="within a family"),
        Patch(facecolor=ORANGE, hatch="///", edgecolor="white", linewidth=0, label="between families"),
    ]
    axes.legend(handles=named, fontsize=8, frameon=False, loc="upper left", handlelength=1.6)
