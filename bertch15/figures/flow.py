"""Figure 15.2: what becomes of a thousand eligible positions, in two draws."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bertch15.corruption import Policy
from bertch15.figures.style import new_figure, own_look, plain_axes
from bertch15.palette import BLUE, GREY, INK, ORANGE


@own_look()
def flow(policy: Policy = Policy(), eligible: int = 1000) -> tuple[Figure, str]:
    """Draw the expected counts of a policy: who is selected, and what becomes of the selected.

    eligible: how many positions the first draw begins with, at least 1.
    Returns the figure and one sentence with its key numbers.
    """
    if eligible < 1:
        raise ValueError(f"eligible must be at least 1 position, got {eligible}")
    selected = eligible * policy.rate
    shares = policy.mask_share, policy.random_share, policy.unchanged_share
    masked, randomised, unchanged = (selected * share for share in shares)

    figure = new_figure(8.6, 3.3)
    first, branch = figure.subplots(1, 2, width_ratios=(1, 1.35))
    draw_bars(
        first,
        f"First draw: {written(eligible)} eligible positions",
        [("not selected", eligible - selected, GREY, ""), ("selected", selected, BLUE, "")],
    )
    draw_bars(
        branch,
        f"Conditional branch: the {written(selected)} selected, all scored",
        [
            ("[MASK]", masked, BLUE, ""),
            ("random", randomised, ORANGE, "///"),
            ("unchanged", unchanged, "white", ""),
        ],
    )
    sentence = (
        f"Of {written(eligible)} eligible positions, {written(selected)} are selected and "
        f"{written(eligible - selected)} are not; of the {written(selected)} selected, {written(masked)} become "
        f"[MASK], {written(randomised)} a random token, and {written(unchanged)} stay as they are. "
        f"All {written(selected)} are scored."
    )
    return figure, sentence


def draw_bars(axes: Axes, title: str, bars: list[tuple[str, float, str, str]]) -> None:
    """Draw named bars with their counts on top: (name, count, colour, hatch) each."""
    plain_axes(axes, title)
    for place, (_, count, colour, hatch) in enumerate(bars):
        look: dict[str, Any] = {"edgecolor": INK if colour == "white" else "white", "linewidth": 1.2}
        axes.bar(place, count, 0.62, color=colour, hatch=hatch, **look)
        axes.annotate(
            written(count),
            (place, count),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=10,
            color=INK,
        )
    axes.set_xticks(range(len(bars)), [name for name, *_ in bars])
    axes.set_ylim(0, 1.15 * (max(count for _, count, *_ in bars) or 1))
    axes.set_ylabel("positions (scale of its own)", fontsize=9, color=INK)


def written(count: float) -> str:
    """Write an expected count: thousands parted, at most one decimal."""
    rounded = round(count, 1)
    return f"{rounded:,.0f}" if rounded == int(rounded) else f"{rounded:,.1f}"
