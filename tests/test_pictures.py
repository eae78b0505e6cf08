"""The figures as files: what they hold, how they look, and that the pages and the README show the same.

A figure is held twice. Its data are compared as values, exactly in words and to four decimals in numbers. Its
picture is compared with the stored one, square by square, which finds what no value tells: an artist that hides
another, a colour that has turned white. How letters come out depends on matplotlib and its FreeType. Where they
are not those that drew the stored pictures, the panels are put where the stored ones stand and the words are
left out; these are held as values there as everywhere.
"""

import base64
import json
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from chapter import chapter
from matplotlib import rc_context, rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import Rectangle
from pictures import (
    FIGURES,
    ROOT,
    STORED,
    apart,
    difference,
    outlines,
    outside_words,
    picture,
    pixels,
    put_in_place,
    summary,
    text_engine,
    words_and_colours,
)

from bertch15 import lab
from bertch15.figures.gallery import NAMES, Drawn, Gallery, svg, write_figures
from bertch15.figures.style import DPI, png
from bertch15.geometry import Cosines
from bertch15.palette import BLUE

pytestmark = pytest.mark.usefixtures("state_guard")

FOUR_DECIMALS = 1e-4
"""As closely as the geometry comes out on every CPU; all else in the figures comes out closer."""
SAME_PICTURE = 5.0
"""Of 255, in the worst square. Beside the words, versions 3.8 and 3.11 of matplotlib differ by at most 0.9."""
TENTH_OF_A_PIXEL = 72 / DPI / 10
"""In points, as an SVG counts."""

Change = Callable[[Figure], Any]

stored: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8"))


@cache
def gallery() -> Gallery:
    return Gallery.of(chapter())


@cache
def kept(name: str) -> tuple[bytes, str]:
    """A figure that nobody has looked at or changed, kept to be copied, and its sentence."""
    figure, sentence = gallery().draw(name)
    return pickle.dumps(figure), sentence


def draw(name: str) -> Drawn:
    """Give a copy of a figure, to be looked at or changed."""
    content, sentence = kept(name)
    figure = pickle.loads(content)
    FigureCanvasAgg(figure)
    return figure, sentence


FILES = [f"{name}{ending}" for name in NAMES for ending in (".png", ".svg")]
EMPTIED, DELETED = "figure_15_2.svg", "figure_15_3.png"


@cache
def written() -> tuple[dict[str, bool], dict[str, bytes]]:
    """Write all figures over the stored ones, two of them spoiled: which are new, and what stands there then."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        for name in FILES:
            shutil.copy(FIGURES / name, folder)
        (folder / EMPTIED).write_bytes(b"")
        (folder / DELETED).unlink()
        new = {path.name: changed for path, changed in write_figures(gallery(), folder).items()}
        return new, {path.name: path.read_bytes() for path in folder.iterdir()}


Looked = tuple[dict[str, Any], np.ndarray, Figure]
"""What a figure holds, its pixels with the panels where the stored ones stand, and the figure as it was drawn."""


def looked_at(name: str, change: Change = lambda figure: None) -> Looked:
    """Look at a figure once, changed or not, for all that is to be found in it."""
    figure, sentence = draw(name)
    change(figure)
    found = summary(figure, sentence)
    put_in_place(figure, stored["places"][name])
    return found, pixels(figure), figure


@cache
def unchanged(name: str) -> Looked:
    """Look at a figure as it is. Nobody may change what this returns."""
    return looked_at(name)


def from_stored_beside_words(name: str, looked: Looked) -> float:
    """How far a figure is from its stored picture outside of the words."""
    _, drawn, figure = looked
    return apart(picture(name), drawn, outside_words(figure, drawn.shape[:2]))


# What the figures hold and how they look


def test_every_figure_is_stored_in_both_forms_and_no_other():
    found = {path.name for path in FIGURES.iterdir()} - {"15_6_page.png"}
    assert found == {f"{name}{ending}" for name in NAMES for ending in (".png", ".svg")}
    assert list(stored["figures"]) == list(stored["places"]) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_holds_what_is_stored(name: str):
    assert difference(stored["figures"][name], unchanged(name)[0], FOUR_DECIMALS) == "", (
        "if meant: python tests/pictures.py"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_looks_like_its_stored_picture(name: str):
    if text_engine() == stored["drawn with"]:
        drawn = imread(BytesIO(written()[1][f"{name}.png"]))[..., :3] * np.float32(255)
        assert apart(picture(name), drawn) < SAME_PICTURE, "if meant: make figures"
    assert from_stored_beside_words(name, unchanged(name)) < SAME_PICTURE, "if meant: make figures"


@pytest.mark.parametrize("name", NAMES)
def test_the_svg_says_and_shows_the_same(name: str):
    before, drawn = (FIGURES / f"{name}.svg").read_text(encoding="utf-8"), written()[1][f"{name}.svg"].decode()
    assert len(words_and_colours(before)[0]) > 5
    assert words_and_colours(before) == words_and_colours(drawn), "if meant: make figures"
    if text_engine() == stored["drawn with"]:
        assert np.abs(outlines(before) - outlines(drawn)).max() < TENTH_OF_A_PIXEL, "if meant: make figures"


def shaken(result: lab.LabResult, by: float) -> lab.LabResult:
    """The same result, its cosines changed in a digit that nobody reads."""

    def changed(cosines: Cosines) -> Cosines:
        return Cosines(cosines.within + by, cosines.between - by)

    return replace(
        result,
        replicates=tuple(
            replace(r, initial=changed(r.initial), after=changed(r.after)) for r in result.replicates
        ),
    )


@pytest.mark.parametrize("by", [2e-6, -2e-6])
def test_the_bytes_of_a_figure_depend_on_no_digit_that_it_does_not_print(by: float):
    whole = gallery()
    noise = torch.Generator().manual_seed(15)
    weights = {
        name: t + by * torch.rand(t.shape, generator=noise) * t.abs() for name, t in whole.pretrained.items()
    }
    other = Gallery(shaken(whole.result, by), weights)
    for name in ("figure_15_4", "attention_weights"):
        assert svg(other.draw(name)[0]) == written()[1][f"{name}.svg"], name


def test_figure_15_4_shows_the_numbers_that_the_chapter_prints(ledger: dict[str, Any]):
    printed = {row["id"]: row["printed"] for row in ledger["rows"]}
    accuracy, gains, geometry = draw("figure_15_4")[0].axes
    covered, scratch, uncovered, scratch_uncovered = (
        list(np.asarray(line.get_ydata())) for line in accuracy.lines[1:]
    )
    for place, budget in enumerate((1, 2, 4)):
        line = printed[f"lab.budget{budget}"]
        assert f"scratch={scratch[place]:.3f}, pretrained={covered[place]:.3f}" in line
        assert f"uncovered={scratch_uncovered[place]:.3f}/{uncovered[place]:.3f}" in line
        (mean,) = [text.get_text() for text in gains.texts if text.get_position()[0] == place]
        assert f"delta={mean.removeprefix('mean').strip()}," in line
    dots = [height for line in gains.lines for height in np.asarray(line.get_ydata()) if line.get_marker() == "o"]
    assert len(dots) == 15
    assert min(dots) > 0
    bars = [f"{bar.get_height():.4f}" for bar in geometry.patches if isinstance(bar, Rectangle)]
    assert [text.get_text().replace("−", "-") for text in geometry.texts] == bars
    assert all(value in printed["geometry.initial"] for value in bars[:2])
    assert all(value in printed["geometry.after"] for value in bars[2:])


# A change is found


def recolour(panel: int, patch: int) -> Change:
    def change(figure: Figure) -> None:
        before = figure.axes[panel].patches[patch].get_facecolor()
        figure.axes[panel].patches[patch].set_facecolor(BLUE)
        assert before != figure.axes[panel].patches[patch].get_facecolor()

    return change


def reword(panel: int, old: str, new: str) -> Change:
    def change(figure: Figure) -> None:
        text = next(text for text in figure.axes[panel].texts if text.get_text() == old)
        text.set_text(new)

    return change


def restretch(panel: int, bar: int, by: float) -> Change:
    def change(figure: Figure) -> None:
        patch: Any = figure.axes[panel].patches[bar]
        patch.set_height(patch.get_height() * by)

    return change


def reweigh(figure: Figure) -> None:
    image = figure.axes[1].images[0]
    weights = np.array(image.get_array())
    weights[0, 0] = 0.3
    image.set_data(weights)


def move_dot(figure: Figure) -> None:
    line = figure.axes[1].lines[0]
    heights = np.array(line.get_ydata())
    heights[1] += 0.03
    line.set_ydata(heights)


SHAPES: dict[str, tuple[str, Change]] = {
    "15.1, a closed cell opened": ("figure_15_1", recolour(0, 1)),
    "15.2, a bar of 850 drawn as 816": ("figure_15_2", restretch(0, 0, 0.96)),
    "attention, the shade of one weight": ("attention_weights", reweigh),
    "15.3, a box filled": ("figure_15_3", recolour(0, 3)),
    "15.4, one gain of fifteen": ("figure_15_4", move_dot),
    "15.4, a cosine of 0.53 drawn as 0.48": ("figure_15_4", restretch(2, 2, 0.9)),
    "15.5, a closed cell opened": ("figure_15_5", recolour(1, 1)),
}
WORDS: dict[str, tuple[str, Change]] = {
    "15.1, a mark": ("figure_15_1", reword(0, "×", "●")),
    "15.1, the tick": ("figure_15_1", reword(2, "✓", "–")),
    "15.2, a count": ("figure_15_2", reword(1, "15", "16")),
    "attention, a number": ("attention_weights", reword(1, "53", "54")),
    "15.3, a shape": ("figure_15_3", reword(0, "(B, d) → (B, K)", "(B, d) → (B, T)")),
    "15.4, a digit": ("figure_15_4", reword(2, "0.5323", "0.5333")),
    "15.4, a sign": ("figure_15_4", reword(2, "−0.5517", "0.5517")),
    "15.5, a mark": ("figure_15_5", reword(1, "×", "●")),
    "15.5, a target": ("figure_15_5", reword(2, "→ <1>", "→ <0>")),
}


@cache
def changed(what: str) -> Looked:
    """Look at a changed figure. Nobody may change what this returns."""
    return looked_at(*(SHAPES | WORDS)[what])


@pytest.mark.parametrize("what", [*SHAPES, *WORDS])
def test_a_change_is_found_in_what_a_figure_holds(what: str):
    name, _ = (SHAPES | WORDS)[what]
    assert difference(stored["figures"][name], changed(what)[0], FOUR_DECIMALS).startswith("/panels/")


@pytest.mark.parametrize("what", SHAPES)
def test_a_changed_shape_is_found_in_the_picture_whatever_draws_the_letters(what: str):
    assert from_stored_beside_words(SHAPES[what][0], changed(what)) > 3 * SAME_PICTURE


@pytest.mark.parametrize("what", [*SHAPES, *WORDS])
def test_a_change_is_found_in_the_picture(what: str):
    name, _ = (SHAPES | WORDS)[what]
    assert apart(unchanged(name)[1], changed(what)[1]) > 3 * SAME_PICTURE


def test_a_changed_sentence_and_a_lost_panel_are_found():
    found = summary(*draw("figure_15_2"))
    assert difference(found, {**found, "sentence": "Of 1,000"}, 0).startswith("/sentence: ")
    assert difference(found, {**found, "panels": found["panels"][:1]}, 0) == "/panels: 2 stored, 1 found"


# The files


def test_writing_twice_changes_no_byte(tmp_path: Path):
    new, files = written()
    assert list(new) == FILES
    before = {name: (FIGURES / name).read_bytes() for name in FILES}
    assert new == {name: name in (EMPTIED, DELETED) or files[name] != before[name] for name in FILES}
    if files != before:  # this machine draws a hair otherwise than the one of the stored files, but always alike
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        assert not any(write_figures(gallery(), tmp_path).values())


@pytest.mark.parametrize("name", NAMES)
def test_the_background_is_white_and_opaque_to_the_edge(name: str):
    corners = imread(FIGURES / f"{name}.png")[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert corners.tolist() == [[1, 1, 1, 1]] * 4


def test_a_readers_own_style_changes_no_picture_and_is_back_afterwards():
    for name in ("figure_15_2", "figure_15_3"):  # bars, and words with mathematics
        own: dict[Any, Any] = {
            "font.family": "serif",
            "mathtext.fontset": "cm",
            "axes.facecolor": "black",
            "hatch.color": "red",
        }
        with rc_context({**own, "savefig.transparent": True}):
            drawn = {
                f"{name}{ending}": form(gallery().draw(name)[0]) for ending, form in ((".png", png), (".svg", svg))
            }
            assert rcParams["font.family"] == ["serif"]
            assert rcParams["savefig.transparent"] is True
        assert drawn.items() <= written()[1].items()


def test_an_unknown_figure_is_refused():
    with pytest.raises(ValueError, match=r"no figure is called 'figure_15_9'; they are figure_15_1, "):
        gallery().draw("figure_15_9")


# The pages and the README show the same


@cache
def shown() -> dict[str, bytes]:
    """Every picture stored in a page, under the text that stands for it."""
    found = {}
    for page in (ROOT / "notebooks").glob("15_*.ipynb"):
        for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                if "image/png" in output.get("data", {}):
                    text = output["metadata"]["image/png"]["alt"]
                    found[text] = base64.b64decode(output["data"]["image/png"])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_this_picture_with_this_sentence(name: str):
    _, sentence = kept(name)
    assert sentence in shown(), f"no page shows a picture with the text of {NAMES[name]}; make notebooks?"
    page = imread(BytesIO(shown()[sentence]))[..., :3] * np.float32(255)
    assert apart(picture(name), page) < SAME_PICTURE


@pytest.mark.parametrize("name", ["figure_15_1", "figure_15_2", "figure_15_3", "figure_15_4"])
def test_the_readme_shows_the_figure_with_its_sentence(name: str):
    readme = re.sub(r"\s+", " ", (ROOT / "README.md").read_text(encoding="utf-8"))
    _, sentence = kept(name)
    assert f"![{NAMES[name]}. {sentence}](figures/{name}.svg)" in readme
