"""Figure 15.1: which cells carry which mark, what names them, and what the sentence says."""

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from bertch15.figures.controls import controls
from bertch15.figures.style import png
from bertch15.vocabulary import Vocabulary

WORDS = Vocabulary.of(["the", "bank", "rose"])
TOKENS = ["[CLS]", "the", "bank", "rose", "[SEP]", "[PAD]"]
CAUSAL = ["●×××××", "●●××××", "●●●×××", "●●●●××", "●●●●●×", "●●●●●×"]
FULL = ["●●●●●×"] * 6
SELECTOR = ["–", "–", "✓", "–", "–", "–"]
IDS = torch.tensor([[2, 7, 5, 6, 3, 0]])  # [CLS] the bank rose [SEP] [PAD]
SELECTED = torch.tensor([[False, False, True, False, False, False]])


def drawn() -> tuple[Figure, str]:
    return controls(WORDS, IDS, SELECTED)


def marks(axes: Axes) -> list[str]:
    """The marks of a panel, row by row, put where they stand in the picture."""
    found = {text.get_position(): text.get_text() for text in axes.texts}
    assert len(found) == len(axes.texts), "two marks stand in one cell"
    columns, rows = (1 + max(int(place[i]) for place in found) for i in (0, 1))
    return ["".join(found[column, row] for column in range(columns)) for row in range(rows)]


def cells(axes: Axes) -> dict[tuple[int, int], Rectangle]:
    """The frames of a panel by (row, column)."""
    frames = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    found = {(round(f.get_y() + f.get_height() / 2), round(f.get_x() + f.get_width() / 2)): f for f in frames}
    assert len(found) == len(frames)
    return found


def test_the_three_panels_are_those_of_the_running_example():
    causal, full, selector = drawn()[0].axes
    assert marks(causal) == CAUSAL
    assert marks(full) == FULL
    assert marks(selector) == SELECTOR
    assert [sum(row.count(mark) for row in marks(axes)) for axes, mark in ((causal, "●"), (full, "●"))] == [20, 30]


def test_the_titles_count_the_cells():
    titles = [axes.get_title(loc="left") for axes in drawn()[0].axes]
    assert titles == ["Causal visibility: 20 cells", "Full visibility: 30 cells", "Selector: 1 of 6"]


def test_rows_are_queries_and_columns_are_keys_and_both_carry_the_tokens():
    causal, full, selector = drawn()[0].axes
    for axes in (causal, full):
        assert axes.get_ylabel() == "query (reads)"
        assert axes.get_xlabel() == "key (is read)"
        assert [label.get_text() for label in axes.get_xticklabels()] == TOKENS
        assert axes.get_xticks().tolist() == list(range(6))
    for axes in (causal, full, selector):
        assert [label.get_text() for label in axes.get_yticklabels()] == TOKENS
        assert axes.get_yticks().tolist() == list(range(6))
        assert axes.yaxis_inverted(), "the first query stands on top"
        assert not axes.xaxis_inverted()
    assert selector.get_xticklabels() == []


def test_colours_say_what_the_marks_say_and_only_padding_keys_are_hatched():
    causal, full, selector = drawn()[0].axes
    for axes, grid, filled in ((causal, CAUSAL, "●"), (full, FULL, "●"), (selector, SELECTOR, "✓")):
        frames = cells(axes)
        assert set(frames) == {(row, column) for row in range(6) for column in range(len(grid[0]))}
        for (row, column), frame in frames.items():
            assert (to_hex(frame.get_facecolor()) != "#ffffff") == (grid[row][column] == filled)
            assert bool(frame.get_hatch()) == (column == 5)


def test_the_marks_are_explained_under_the_panels():
    (figure, _), explained = drawn(), ("● the query may read", "× it may not", "✓ scored", "– not scored")
    legend = figure.get_supxlabel()
    assert [mark for mark in explained if mark not in legend] == []


def test_the_sentence_gives_the_counts_and_the_scored_token():
    sentence = drawn()[1]
    assert "Causal visibility opens 20 of 36 cells, full visibility 30" in sentence
    assert "names the 1 of 6 positions that are scored (bank)" in sentence


def test_another_sentence_gives_another_figure():
    ids = torch.tensor([[2, 7, 5, 6, 7, 3, 0, 0]])  # eight slots, two of them padding
    selected = torch.zeros(1, 8, dtype=torch.bool)
    selected[0, [1, 4]] = True
    figure, sentence = controls(WORDS, ids, selected)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["Causal visibility: 33 cells", "Full visibility: 48 cells", "Selector: 2 of 8"]
    assert marks(figure.axes[1]) == ["●●●●●●××"] * 8
    assert "(the, the)" in sentence


def test_nothing_is_cut_off_and_no_two_labels_overlap():
    figure, _ = drawn()
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()
    renderer = canvas.get_renderer()
    width, height = figure.canvas.get_width_height()
    for axes in figure.axes:
        labels = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title, axes.xaxis.label, axes.yaxis.label]
        boxes = [label.get_window_extent(renderer) for label in labels if label.get_text()]
        for box in boxes:
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= width
            assert box.y1 <= height
    titles = [axes._left_title.get_window_extent(renderer) for axes in figure.axes]  # type: ignore[attr-defined]
    assert all(title.x1 <= width for title in titles)
    assert titles[0].x1 < titles[1].x0
    assert titles[1].x1 < titles[2].x0


def test_the_same_figure_is_the_same_picture():
    assert png(drawn()[0]) == png(drawn()[0])


@pytest.mark.parametrize(
    ("ids", "selected"),
    [(IDS[0], SELECTED[0]), (IDS.repeat(2, 1), SELECTED.repeat(2, 1)), (IDS, SELECTED[:, :5])],
)
def test_what_is_not_one_sentence_is_refused(ids: torch.Tensor, selected: torch.Tensor):
    with pytest.raises(ValueError, match=r"must be one sentence \(1, T\), got shapes"):
        controls(WORDS, ids, selected)
