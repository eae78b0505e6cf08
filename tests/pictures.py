"""What a figure holds, as plain values, and how far two pictures are apart.

`python tests/pictures.py` writes tests/data/figures.json anew: after a change of a figure that was meant.
"""

import json
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import ft2font
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text
from matplotlib.ticker import ScalarFormatter

from bertch15.figures.gallery import NAMES, Gallery
from bertch15.figures.style import DPI, own_look
from bertch15.lab import run

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "tests" / "data" / "figures.json"
FIGURES = ROOT / "figures"

BLOCK = 8
"""Pixels along the side of the squares in which pictures are compared: about the size of one digit."""


def text_engine() -> str:
    """Name what decides how letters come out, to the pixel."""
    freetype = ft2font.__freetype_version__
    return f"matplotlib {'.'.join(matplotlib.__version__.split('.')[:2])}, freetype {freetype}"


def numbers(values: Any) -> list[float]:
    """Round to five decimals, one more than is compared."""
    return [round(float(value), 5) + 0.0 for value in np.ravel(values)]


def named_ticks(axis: Axis) -> list[str]:
    """Give an axis' tick labels where a figure has set them; matplotlib's own choice may change."""
    if isinstance(axis.get_major_formatter(), ScalarFormatter):
        return []
    return [label.get_text() for label in axis.get_ticklabels()]


def grouped(pairs: list[tuple[str, list[float]]]) -> dict[str, list[list[float]]]:
    """Put the places of everything that looks the same under one name."""
    groups: dict[str, list[list[float]]] = defaultdict(list)
    for look, place in pairs:
        groups[look].append(place)
    return dict(groups)


def texts_of(texts: list[Text]) -> list[tuple[str, list[float]]]:
    return [(f"{t.get_text()} {to_hex(t.get_color())}", numbers(t.get_position())) for t in texts if t.get_text()]


def patches_of(axes: Axes) -> list[tuple[str, list[float]]]:
    found = []
    for patch in axes.patches:
        face = to_hex(patch.get_facecolor()) if patch.get_fill() else "open"
        look = f"{face} {to_hex(patch.get_edgecolor())} {patch.get_hatch() or ''}".strip()
        if isinstance(patch, FancyArrowPatch):
            ends: Any = patch  # its two ends have no public name
            found.append((f"arrow {look}", numbers(ends._posA_posB)))
        else:
            box = patch.get_path().get_extents(patch.get_patch_transform())
            found.append((f"box {look}", numbers(box.bounds)))
    return found


def lines_of(axes: Axes) -> list[tuple[str, list[float]]]:
    found = []
    for line in axes.lines:
        marker = f"{line.get_marker()} {to_hex(line.get_markerfacecolor())}"
        found.append((f"{to_hex(line.get_color())} {line.get_linestyle()} {marker}", numbers(line.get_xydata())))
    for collection in axes.collections:
        colour = to_hex(collection.get_edgecolor()[0])  # type: ignore[arg-type]
        found += [(f"{colour} {type(collection).__name__}", numbers(p.vertices)) for p in collection.get_paths()]
    return found


def panel(axes: Axes) -> dict[str, Any]:
    """Put down what a panel holds, without anything that depends on fonts."""
    legend = axes.get_legend()
    return {
        "title": axes.get_title(loc="left"),
        "labels": [axes.get_xlabel(), axes.get_ylabel()],
        "limits": numbers((*axes.get_xlim(), *axes.get_ylim())),
        "ticks": [named_ticks(axes.xaxis), named_ticks(axes.yaxis)],
        "legend": [text.get_text() for text in legend.get_texts()] if legend else [],
        "texts": grouped(texts_of(list(axes.texts))),
        "patches": grouped(patches_of(axes)),
        "lines": grouped(lines_of(axes)),
        "images": [numbers(image.get_array()) for image in axes.images],
    }


def summary(figure: Figure, sentence: str) -> dict[str, Any]:
    """Put down what a figure holds: its sentence, its size in inches, the words around its panels, its panels."""
    return {
        "sentence": sentence,
        "inches": numbers(figure.get_size_inches()),
        "words": [figure.get_suptitle(), figure.get_supxlabel(), figure.get_supylabel()],
        "panels": [panel(axes) for axes in figure.axes],
    }


def difference(stored: Any, found: Any, closeness: float, where: str = "") -> str:
    """Say where two summaries part, numbers by more than `closeness`; an empty string if nowhere."""
    if isinstance(stored, dict) and isinstance(found, dict):
        if sorted(stored) != sorted(found):
            return f"{where}: {sorted(stored.keys() ^ found.keys())} on one side only"
        pairs = [(f"{where}/{key}", stored[key], found[key]) for key in stored]
    elif isinstance(stored, list) and isinstance(found, list):
        if len(stored) != len(found):
            return f"{where}: {len(stored)} stored, {len(found)} found"
        pairs = [(f"{where}/{place}", *both) for place, both in enumerate(zip(stored, found, strict=True))]
    elif isinstance(stored, float) and isinstance(found, float):
        return "" if abs(stored - found) <= closeness else f"{where}: {stored} stored, {found} found"
    else:
        return "" if stored == found else f"{where}: {stored!r} stored, {found!r} found"
    return next((text for at, one, other in pairs if (text := difference(one, other, closeness, at))), "")


@own_look()
def pixels(figure: Figure) -> np.ndarray:
    """Draw a figure: (height, width, 3), from 0 to 255."""
    figure.set_dpi(DPI)
    assert isinstance(figure.canvas, FigureCanvasAgg)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3].astype(np.float32)


@cache
def picture(name: str) -> np.ndarray:
    """Read a stored picture: (height, width, 3), from 0 to 255. Nobody may change what it returns."""
    return imread(FIGURES / f"{name}.png")[..., :3] * np.float32(255)


def places(figure: Figure) -> list[list[float]]:
    """Give the place of each panel, in shares of the figure, as it was last drawn."""
    return [numbers(axes.get_position().bounds) for axes in figure.axes]


def put_in_place(figure: Figure, where: list[list[float]]) -> None:
    """Put each panel where it was, so that wider or narrower words do not move it."""
    figure.set_layout_engine("none")
    for axes, bounds in zip(figure.axes, where, strict=True):
        axes.set_position((bounds[0], bounds[1], bounds[2], bounds[3]))


def outside_words(figure: Figure, shape: tuple[int, int]) -> np.ndarray:
    """Give 1 where a pixel of the figure, as last drawn, lies well outside all words, else 0: (height, width)."""
    kept = np.ones(shape, np.float32)
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_text() and text.get_visible():
            box = text.get_window_extent()
            across, along = 4 + 0.1 * box.width, 4 + 0.1 * box.height  # letters of another engine may be wider
            left, right = (int(max(0, x)) for x in (box.x0 - across, box.x1 + across))
            top, bottom = (int(max(0, shape[0] - y)) for y in (box.y1 + along, box.y0 - along))
            kept[top:bottom, left:right] = 0
    return kept


def apart(one: np.ndarray, other: np.ndarray, kept: np.ndarray | None = None) -> float:
    """Say how far two pictures are apart: the mean difference in the worst square, from 0 to 255.

    A square may be found one pixel beside its place. kept: 0 where a pixel is not to count.
    """
    assert one.shape == other.shape, f"the pictures have the shapes {one.shape} and {other.shape}"
    around = np.pad(other, ((1, 1), (1, 1), (0, 0)), mode="edge")

    def squares(rows: slice, columns: slice, down: int = 0, right: int = 0) -> np.ndarray:
        beside = around[rows.start + 1 + down : rows.stop + 1 + down, columns.start + 1 + right :]
        gap = np.abs(one[rows, columns] - beside[:, : columns.stop - columns.start]).mean(2)
        gap = gap if kept is None else gap * kept[rows, columns]
        return gap.reshape(len(gap) // BLOCK, BLOCK, -1, BLOCK).mean((1, 3))

    height, width = (size // BLOCK * BLOCK for size in one.shape[:2])
    as_they_stand = squares(slice(0, height), slice(0, width))
    unlike = np.argwhere(as_they_stand > 1)
    if not len(unlike):
        return float(as_they_stand.max())
    first, last = unlike.min(0) * BLOCK, (unlike.max(0) + 1) * BLOCK
    area = slice(int(first[0]), int(last[0])), slice(int(first[1]), int(last[1]))
    moved = [squares(*area, down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    return float(np.min(moved, axis=0).max())


def words_and_colours(svg: str) -> tuple[list[str], dict[str, int]]:
    """Give what an SVG says, as noted beside the outlines of its letters, and how often it takes each colour."""
    colours: dict[str, int] = defaultdict(int)
    for colour in re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", svg):
        colours[colour] += 1
    return re.findall(r"<!-- (.*?) -->", svg), dict(colours)


def outlines(svg: str) -> np.ndarray:
    """Give all coordinates of an SVG's shapes and letters, in points, in their order."""
    return np.array(re.findall(r"-?[\d.]+", " ".join(re.findall(r' d="(.*?)"', svg, re.DOTALL))), float)


def main() -> int:
    """Write the summaries of all figures, and the places of their panels as the stored pictures have them."""
    gallery, stored, where = Gallery.of(run()), {}, {}
    for name in NAMES:
        figure, sentence = gallery.draw(name)
        pixels(figure)
        stored[name], where[name] = summary(figure, sentence), places(figure)
    content = {"drawn with": text_engine(), "places": where, "figures": stored}
    STORED.write_text(as_json(content) + "\n", encoding="utf-8")
    return 0


def as_json(value: Any, indent: str = "") -> str:
    """Write JSON with a line for each entry of a dict, and lists in one line where they hold no dict."""
    inner = indent + " "
    if isinstance(value, dict) and value:
        rows = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {as_json(value[key], inner)}" for key in value]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return "[\n" + ",\n".join(inner + as_json(item, inner) for item in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
