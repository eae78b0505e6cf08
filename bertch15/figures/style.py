"""The look that all figures share, and the way a page shows one.

Figures are made without pyplot: none is left open, and no global setting changes. Colours keep apart for
colour-blind readers and in grey; the background is opaque, so that a dark theme does not swallow the text.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager

from IPython.display import Image, Markdown, display
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bertch15.palette import GREY, INK

DPI = 110

FONT = {"font.family": "DejaVu Sans", "mathtext.fontset": "dejavusans"}
"""The font that matplotlib brings along, so that words are as wide on one machine as on another."""


@contextmanager
def own_look() -> Iterator[None]:
    """Set matplotlib's defaults and its own font for a block or, as a decorator, for a function.

    Whatever style a reader prefers is set aside while the book draws, and is back afterwards.
    """
    with style.context(["default", FONT]):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure, inches wide and high, with a white background."""
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain_axes(axes: Axes, title: str) -> None:
    """Give a panel its title at the left and take away the frame's upper and right sides."""
    axes.set_title(title, loc="left", fontsize=10, color=INK, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(labelsize=9, colors=INK)


@own_look()
def png(figure: Figure) -> bytes:
    """Draw a figure as a PNG that is the same, byte for byte, whenever the figure is."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def show(name: str, drawn: tuple[Figure, str]) -> None:
    """Show a figure on a page and its sentence below; the sentence is also the text for who cannot see it."""
    figure, sentence = drawn
    display(Image(png(figure), format="png", alt=sentence, width=int(figure.get_figwidth() * DPI)))
    display(Markdown(f"**{name}.** {sentence}"))
