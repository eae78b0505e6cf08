"""The figure of three snapshots: what stands in its panels, and what its sentence says."""

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from bertch15.figures.apart import apart
from bertch15.figures.style import png
from bertch15.geometry import Cosines
from bertch15.trajectory import Apart, Moment

POINTS = {
    0: ((0.1, 0.0), (0.0, 0.2), (-0.1, 0.0), (0.0, -0.2)),
    200: ((-1.0, 0.0), (-0.5, 0.5), (0.5, -0.5), (1.0, 0.0)),
    600: ((-2.0, 0.5), (-2.0, -0.5), (2.0, -0.5), (2.0, 0.5)),
}
COSINES = {0: Cosines(-0.0347, -0.016), 200: Cosines(0.0709, -0.1161), 600: Cosines(0.5323, -0.5517)}
LOSSES = {0: 4.971, 200: 1.374, 600: 0.716}
SHARES = {0: 0.0505, 200: 0.142, 600: 0.6341}


def run() -> Apart:
    moments = [Moment(step, POINTS[step], COSINES[step], LOSSES[step], SHARES[step]) for step in POINTS]
    return Apart(("zeru", "vate", "tosa", "vene"), (0, 0, 1, 1), tuple(moments))


def panels() -> list[Axes]:
    return apart(run(), (0, 200, 600))[0].axes


def test_each_word_stands_at_its_place_in_the_look_of_its_family():
    for axes, step in zip(panels(), POINTS, strict=True):
        first, second = axes.lines
        for line, words in ((first, POINTS[step][:2]), (second, POINTS[step][2:])):
            assert line.get_xydata().tolist() == [list(point) for point in words]  # type: ignore[union-attr]
        assert (first.get_marker(), second.get_marker()) == ("o", "s")
        assert (to_hex(first.get_color()), to_hex(second.get_color())) == ("#1f5fa8", "#e08a1e")
        assert first.get_linestyle() == second.get_linestyle() == "None"


def test_all_panels_have_one_scale_that_holds_all_words():
    limits = {(*axes.get_xlim(), *axes.get_ylim()) for axes in panels()}
    ((left, right, low, high),) = limits
    assert left == low == -right == -high
    assert 2.0 < right < 2.4
    assert {axes.get_aspect() for axes in panels()} == {1.0}


def test_each_panel_names_its_update_and_its_numbers():
    assert [axes.get_title(loc="left") for axes in panels()] == ["update 0", "update 200", "update 600"]
    assert [axes.get_xlabel() for axes in panels()] == [
        "within −0.0347, between −0.0160\nloss 4.97",
        "within 0.0709, between −0.1161\nloss 1.37",
        "within 0.5323, between −0.5517\nloss 0.72",
    ]
    legend = panels()[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["family 0", "family 1"]


def test_the_sentence_says_the_numbers():
    assert apart(run(), (0, 200, 600))[1] == (
        "The 4 covered words in the plane of the last snapshot's two main directions, one scale for all; "
        "the plane holds 5%, 14%, 63% of the words' spread. "
        "Within, between and loss (mean of the 20 updates before; at 0, of the first batch): "
        "at 0, -0.0347, -0.0160, 4.97; at 200, 0.0709, -0.1161, 1.37; at 600, 0.5323, -0.5517, 0.72."
    )


def test_nothing_is_cut_off_or_stands_on_another():
    figure, _ = apart(run(), (0, 200, 600))
    assert png(figure).startswith(b"\x89PNG")
    figure.draw_without_rendering()
    whole, boxes = figure.bbox, []
    for axes in figure.axes:
        boxes += [axes.title.get_window_extent(), axes.xaxis.label.get_window_extent()]
        boxes += [axes._left_title.get_window_extent()]  # type: ignore[attr-defined]
    boxes = [box for box in boxes if box.width > 0]
    assert len(boxes) == 6
    for box in boxes:
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_a_snapshot_that_was_not_taken_is_refused():
    with pytest.raises(ValueError, match="no snapshot after 100 updates"):
        apart(run(), (0, 100))
