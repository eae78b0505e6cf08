"""Figure 15.1: what a query may read, with the causal triangle and without it, and what is scored."""

from collections.abc import Sequence
from itertools import product

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from bertch15.figures.style import new_figure, own_look, plain_axes
from bertch15.palette import BLUE, GREY, INK, ORANGE
from bertch15.visibility import visibility
from bertch15.vocabulary import PAD, Vocabulary

READABLE, CLOSED, SCORED, UNSCORED = "●", "×", "✓", "–"
"""The marks in the cells. Marks tell the cells apart without any colour."""


@own_look()
def controls(vocabulary: Vocabulary, ids: Tensor, selected: Tensor) -> tuple[Figure, str]:
    """Draw Figure 15.1 in three panels: causal visibility, full visibility, and the selector as a column.

    ids: one sentence (1, T) int64. selected: (1, T) bool, True where the original token is a target.
    Keys that are [PAD] are hatched.
    Raises ValueError for more than one sentence and for another shape of `selected`.

    Returns the figure and one sentence with its key numbers.
    """
    if ids.dim() != 2 or len(ids) != 1 or selected.shape != ids.shape:
        shapes = f"{tuple(ids.shape)} and {tuple(selected.shape)}"
        raise ValueError(f"ids and selected must be one sentence (1, T), got shapes {shapes}")
    tokens, padding = vocabulary.decode(ids)[0], (ids == PAD)[0]
    causal, full = visibility(ids, "causal")[0], visibility(ids, "full")[0]
    counts = int(causal.sum()), int(full.sum()), int(selected.sum())

    figure = new_figure(9.8, 3.9)
    first, second, third = figure.subplots(1, 3, width_ratios=(len(tokens), len(tokens), 2.4))
    draw_visibility(first, f"Causal visibility: {counts[0]} cells", tokens, causal, padding)
    draw_visibility(second, f"Full visibility: {counts[1]} cells", tokens, full, padding)
    draw_selection(third, f"Selector: {counts[2]} of {len(tokens)}", tokens, selected[0])
    marks = f"{READABLE} the query may read the key    {CLOSED} it may not (hatched: the key is [PAD])"
    figure.supxlabel(f"{marks}    {SCORED} scored    {UNSCORED} not scored", fontsize=9, color=INK)

    scored = ", ".join(token for token, chosen in zip(tokens, selected[0].tolist(), strict=True) if chosen)
    sentence = (
        f"Rows are queries, columns are keys. Causal visibility opens {counts[0]} of {full.numel()} cells, full "
        f"visibility {counts[1]}; in both, the column of each [PAD] key is closed and its row is not. "
        f"The selector opens nothing: it names the {counts[2]} of {len(tokens)} positions that are scored "
        f"({scored})."
    )
    return figure, sentence


def draw_visibility(axes: Axes, title: str, tokens: Sequence[str], visible: Tensor, padding: Tensor) -> None:
    """Draw one matrix (T, T): a filled cell with a dot where the query may read the key, a cross elsewhere."""
    plain_axes(axes, title)
    for query, key in product(range(len(tokens)), repeat=2):
        readable = bool(visible[query, key])
        hatch = "////" if padding[key] and not readable else ""
        draw_cell(axes, key, query, READABLE if readable else CLOSED, BLUE if readable else "", hatch)
    name_the_tokens(axes, tokens)
    axes.set_xticks(range(len(tokens)), tokens, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.5, len(tokens) - 0.5)
    axes.set_xlabel("key (is read)", fontsize=9, color=INK)
    axes.set_ylabel("query (reads)", fontsize=9, color=INK)


def draw_selection(axes: Axes, title: str, tokens: Sequence[str], selected: Tensor) -> None:
    """Draw the selector (T,) as a column: a filled cell with a tick where the position is scored."""
    plain_axes(axes, title)
    for position, chosen in enumerate(selected.tolist()):
        draw_cell(axes, 0, position, SCORED if chosen else UNSCORED, ORANGE if chosen else "")
    name_the_tokens(axes, tokens)
    axes.set_xticks([])
    axes.set_xlim(-0.5, 1.9)  # the title needs more room than the column
    axes.set_xlabel("scored?", fontsize=9, color=INK, loc="left")
    axes.set_ylabel("position", fontsize=9, color=INK)


def draw_cell(axes: Axes, column: int, row: int, mark: str, colour: str, hatch: str = "") -> None:
    """Draw one cell with its mark; no colour means an open frame."""
    cell = Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, facecolor=colour or "white", edgecolor=GREY)
    cell.set_linewidth(0.6)
    cell.set_hatch(hatch)
    axes.add_patch(cell)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if hatch else None
    ink = "white" if colour == BLUE else INK
    axes.text(column, row, mark, ha="center", va="center", fontsize=11, color=ink, bbox=box)


def name_the_tokens(axes: Axes, tokens: Sequence[str]) -> None:
    """Write the tokens down the left side, the first on top, without ticks or frame."""
    axes.set_yticks(range(len(tokens)), tokens)
    axes.set_ylim(len(tokens) - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
