"""The figure of 15.4: where each token of one sentence reads."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from bertch15.figures.style import new_figure, own_look, plain_axes
from bertch15.palette import BLUE, GREY, INK, ORANGE
from bertch15.vocabulary import PAD, SPECIALS

CLOSED = "×"
SHADES = LinearSegmentedColormap.from_list("weight", ["white", BLUE])


@own_look()
def attention(tokens: Sequence[str], maps: Mapping[str, Tensor], query: int) -> tuple[Figure, str]:
    """Draw attention weights as matrices, one panel a map: rows are queries, columns are keys.

    tokens: the T tokens of one sentence, [PAD] last. maps: a (T, T) matrix of weights for each panel's title.
    query: the position whose row is framed and read out, in [0, number of tokens that are not [PAD]).
    Rows of [PAD] queries are left out, because nobody reads them. Each number is a weight in hundredths.
    Raises ValueError for a map of another shape, for one that spends weight on [PAD], and for a query that is
    no token.

    Returns the figure and one sentence with its key numbers.
    """
    real = sum(token != SPECIALS[PAD] for token in tokens)
    if not 0 <= query < real:
        raise ValueError(f"query must lie in 0 to {real - 1}, got {query}")
    for title, weights in maps.items():
        if weights.shape != (len(tokens), len(tokens)):
            raise ValueError(f"{title!r} must have shape {(len(tokens),) * 2}, got {tuple(weights.shape)}")
        if weights[:real, real:].any():
            raise ValueError(f"{title!r} spends weight on [PAD] keys")
    figure = new_figure(5.3 * len(maps), 4.4)
    panels = figure.subplots(1, len(maps), squeeze=False)[0]
    for axes, (title, weights) in zip(panels, maps.items(), strict=True):
        draw_weights(axes, title, tokens, weights[:real], query)

    read = []
    for title, weights in maps.items():
        key = int(weights[query].argmax())
        read.append(f"in {title}, most from {tokens[key]} (about {weights[query, key]:.1f})")
    sentence = (
        f"Rows are queries, columns keys, numbers hundredths of a row's weight; each row sums to 1 over the "
        f"{real} tokens that are not [PAD], and {CLOSED} marks a closed key, whose weight is exactly 0. "
        f"The framed query {tokens[query]} reads, {'; '.join(read)}. "
        f"Spread evenly, each key would get {1 / real:.2f}."
    )
    return figure, sentence


def draw_weights(axes: Axes, title: str, tokens: Sequence[str], weights: Tensor, query: int) -> None:
    """Draw one matrix: weights (queries, T), a number in each open cell, a mark in each closed one.

    The shade is that of the number in the cell: what is drawn does not depend on digits that nobody reads.
    """
    queries, keys = weights.shape
    weights = (100 * weights).round() / 100
    plain_axes(axes, title)
    axes.imshow(weights.numpy(), cmap=SHADES, vmin=0, vmax=1, aspect="auto")
    for row in range(queries):
        for column in range(keys):
            weight = float(weights[row, column])
            closed = column >= queries
            axes.text(
                column,
                row,
                CLOSED if closed else f"{100 * weight:.0f}",
                ha="center",
                va="center",
                fontsize=9,
                color="white" if weight > 0.75 else INK,
            )
    axes.axvspan(queries - 0.5, keys - 0.5, facecolor=GREY, alpha=0.2)
    axes.add_patch(Rectangle((-0.47, query - 0.47), keys - 0.06, 0.94, fill=False, edgecolor=ORANGE, linewidth=2))
    axes.set_xticks(range(keys), tokens, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(queries), tokens[:queries])
    axes.tick_params(length=0)
    axes.set_xlabel("key", fontsize=9)
    axes.set_ylabel("query", fontsize=9)
