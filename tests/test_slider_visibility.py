"""The visibility explorer under sliders: the picture of each state, and the controls that lead to it."""

import re
from html import unescape
from itertools import product
from typing import Literal

import ipywidgets as widgets
import pytest

from bertch15.demonstrations.visibility_explorer.controls import visibility_explorer
from bertch15.demonstrations.visibility_explorer.model import reading
from bertch15.demonstrations.visibility_explorer.view import visibility_view
from bertch15.palette import BLUE, ORANGE

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

Kind = Literal["full", "causal"]
TOKENS = ["[CLS]", "the", "bank", "rose", "[SEP]", "[PAD]"]
SETTINGS: list[tuple[Kind, bool]] = [("full", True), ("full", False), ("causal", True), ("causal", False)]
# How many cells are open in each setting, and in the row of each query.
ROWS = {
    ("full", True): [5] * 6,
    ("full", False): [6] * 6,
    ("causal", True): [1, 2, 3, 4, 5, 5],
    ("causal", False): [1, 2, 3, 4, 5, 6],
}
TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")
BOX = re.compile(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" fill="([^"]+)"')


@pytest.mark.parametrize(("kind", "closed"), SETTINGS)
def test_the_matrix_tells_open_from_closed_by_mark_and_colour(kind: Kind, closed: bool) -> None:
    html = visibility_view(2, kind, closed).html
    opened = sum(ROWS[kind, closed])
    marks = TEXT.findall(html)
    assert (marks.count("●"), marks.count("×")) == (opened, 36 - opened)
    cells = [fill for _, _, width, height, fill in BOX.findall(html) if width == height == "40"]
    assert (cells.count(BLUE), cells.count("white")) == (opened, 36 - opened)


def test_marks_stand_in_their_cells_row_by_row() -> None:
    marks = "".join(mark for mark in TEXT.findall(visibility_view(0, "causal").html) if mark in "●×")
    assert marks == "●×××××●●××××●●●×××●●●●××●●●●●×●●●●●×"


@pytest.mark.parametrize("query", range(6))
def test_the_row_of_the_picked_query_is_framed(query: int) -> None:
    html = visibility_view(query).html
    frames = re.findall(
        r'<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)" fill="none" stroke="([^"]+)"', html
    )
    assert frames == [("82", str(56 + 40 * query), "244", "44", ORANGE)]
    assert f"attention weights of {TOKENS[query]}" in html


@pytest.mark.parametrize(("kind", "closed"), SETTINGS)
@pytest.mark.parametrize("query", range(6))
def test_the_weights_are_bars_with_numbers_and_closed_keys_have_none(query: int, kind: Kind, closed: bool) -> None:
    html = visibility_view(query, kind, closed).html
    read = reading(query, kind, closed)
    bars = [float(width) for _, _, width, height, fill in BOX.findall(html) if height == "22"]
    assert bars == pytest.approx(
        [max(1, 330 * w) for w, v in zip(read.weights, read.visible, strict=True) if v], 1e-3
    )
    for weight, open_ in zip(read.weights, read.visible, strict=True):
        assert f">{weight:.2f}</text>" in html if open_ else ">0   × closed</text>" in html
    assert html.count("× closed") == 6 - ROWS[kind, closed][query]


@pytest.mark.parametrize(("kind", "closed"), SETTINGS)
@pytest.mark.parametrize("query", range(6))
def test_the_text_says_keys_sum_and_exact_noughts(query: int, kind: Kind, closed: bool) -> None:
    shown = visibility_view(query, kind, closed)
    opened = ROWS[kind, closed][query]
    lines = shown.text.splitlines()
    assert lines[0] == (
        f"query {query} {TOKENS[query]}, {kind} visibility, padding {'closed' if closed else 'open'}"
    )
    assert lines[1].split() == ["key", *TOKENS]
    assert lines[2].split() == ["may", "read", *"●" * opened, *"×" * (6 - opened)]
    numbers = lines[3].split()[1:]
    assert numbers[opened:] == ["0"] * (6 - opened)
    assert sum(map(float, numbers)) == pytest.approx(1, abs=0.005 * opened)
    assert lines[4] == f"{TOKENS[query]} may read {opened} of 6 keys: {' '.join(TOKENS[:opened])}."
    shut = (
        f"closed keys with a weight of exactly 0: {6 - opened} of {6 - opened}"
        if opened < 6
        else "no key is closed"
    )
    assert lines[5] == f"Its weights sum to 1.00; {shut}."
    assert all(line in unescape(shown.html) for line in lines[4:])


READ, TRIANGLE, FILLER = "Padding is read", "the triangle closes it", "filler itself"


@pytest.mark.parametrize(
    ("query", "kind", "closed", "expected"),
    [
        (2, "full", True, set()),
        (2, "full", False, {READ}),
        (2, "causal", True, set()),
        (2, "causal", False, {TRIANGLE}),
        (5, "full", True, {FILLER}),
        (5, "full", False, {READ, FILLER}),
        (5, "causal", True, {FILLER}),
        (5, "causal", False, {READ, FILLER}),
    ],
)
def test_what_the_padding_does_is_said(query: int, kind: Kind, closed: bool, expected: set[str]) -> None:
    text = visibility_view(query, kind, closed).text
    assert {phrase for phrase in (READ, TRIANGLE, FILLER) if phrase in text} == expected


def test_padding_that_is_read_is_a_warning() -> None:
    shown = visibility_view(2, "full", False)
    assert shown.text.splitlines()[-1].startswith("! Padding is read")
    assert "! Padding is read" in shown.html
    assert "!" not in visibility_view(2).text


def test_open_padding_says_how_much_attention_it_takes() -> None:
    share = reading(2, "full", padding_closed=False).weights[5]
    assert f"{share:.0%} of this query's attention goes to filler" in visibility_view(2, "full", False).text


@pytest.mark.parametrize("query", [-1, 6])
def test_a_query_that_is_no_position_is_refused(query: int) -> None:
    with pytest.raises(ValueError, match="query must be a position"):
        visibility_view(query)


def test_the_controls_lead_to_every_state() -> None:
    explorer = visibility_explorer()
    assert explorer.values == {"query": 2, "kind": "full", "padding_closed": True}
    shown = set()
    for query, (kind, closed) in product(range(6), SETTINGS):
        explorer.set(query=query, kind=kind, padding_closed=closed)
        assert (explorer.picture.value, explorer.text) == visibility_view(query, kind, closed)
        shown.add(explorer.text)
    assert len(shown) == 24


def test_one_move_repaints() -> None:
    explorer = visibility_explorer()
    explorer.controls["query"].value = 4
    assert explorer.text.startswith("query 4 [SEP], full")
    explorer.controls["kind"].value = "causal"
    assert explorer.text.startswith("query 4 [SEP], causal")
    explorer.controls["padding_closed"].value = False
    assert "padding open" in explorer.text


def test_every_control_has_a_name_and_the_query_shows_its_token() -> None:
    controls = visibility_explorer().controls
    assert [control.description for control in controls.values()] == ["query", "visibility", "padding keys"]
    assert [name for name, _ in controls["query"].options] == [f"{n} {token}" for n, token in enumerate(TOKENS)]


def test_a_hundred_of_them_moved_a_hundred_times_leave_nothing() -> None:
    before = len(widgets.widget._instances)
    for _ in range(100):
        visibility_explorer().close()
    one = visibility_explorer()
    alive = len(widgets.widget._instances)
    for turn in range(100):
        one.set(query=turn % 6, kind="causal" if turn % 2 else "full")
    assert len(widgets.widget._instances) == alive
    one.close()
    assert len(widgets.widget._instances) == before
