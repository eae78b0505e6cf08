"""The figure of attention weights: what stands in its cells, and what its sentence says."""

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from torch import Tensor

from bertch15.figures.attention import attention
from bertch15.figures.style import png
from bertch15.pretraining import new_encoder, seeded
from bertch15.recipe import Recipe
from bertch15.visibility import visibility

TOKENS = ["[CLS]", "rain", "[MASK]", "[PAD]"]
FIRST = torch.tensor(
    [[0.2, 0.3, 0.5, 0.0], [0.1, 0.1, 0.8, 0.0], [0.0, 0.96, 0.04, 0.0], [1 / 3, 1 / 3, 1 / 3, 0.0]]
)
SECOND = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.25, 0.5, 0.25, 0.0], [0.62, 0.3, 0.08, 0.0], [1.0, 0.0, 0.0, 0.0]])


def panels(query: int = 2) -> list[Axes]:
    figure, _ = attention(TOKENS, {"first": FIRST, "second": SECOND}, query)
    return figure.axes


def cells(axes: Axes) -> list[list[str]]:
    """The texts of a panel, row by row, put where they stand in the picture."""
    size = (len(axes.get_yticks()), len(axes.get_xticks()))
    grid = [[""] * size[1] for _ in range(size[0])]
    for text in axes.texts:
        column, row = map(int, text.get_position())
        assert text.get_position() == (column, row), "a text stands beside the middle of its cell"
        assert not grid[row][column], "two texts stand in one cell"
        grid[row][column] = text.get_text()
    return grid


def test_each_cell_holds_its_weight_in_hundredths_and_each_closed_key_a_mark():
    first, second = panels()
    assert cells(first) == [["20", "30", "50", "×"], ["10", "10", "80", "×"], ["0", "96", "4", "×"]]
    assert cells(second) == [["100", "0", "0", "×"], ["25", "50", "25", "×"], ["62", "30", "8", "×"]]


def test_rows_are_the_queries_that_are_read_and_columns_are_all_keys():
    for axes, title in zip(panels(), ("first", "second"), strict=True):
        assert axes.get_title(loc="left") == title
        assert [label.get_text() for label in axes.get_yticklabels()] == TOKENS[:3]
        assert [label.get_text() for label in axes.get_xticklabels()] == TOKENS
        assert (axes.get_ylabel(), axes.get_xlabel()) == ("query", "key")


def test_the_shades_are_the_weights_on_one_scale_for_all_panels():
    for axes, weights in zip(panels(), (FIRST, SECOND), strict=True):
        (image,) = axes.images
        assert image.get_array().tolist() == weights[:3].tolist()  # type: ignore[union-attr]
        assert image.get_clim() == (0, 1)
        assert to_hex(image.cmap(0.0)) == "#ffffff"


def test_dark_cells_carry_white_numbers():
    colours = {text.get_text(): to_hex(text.get_color()) for axes in panels() for text in axes.texts}
    white = {text for text, colour in colours.items() if colour == "#ffffff"}
    assert white == {"80", "96", "100"}


@pytest.mark.parametrize("query", [0, 2])
def test_the_row_of_the_query_is_framed(query: int):
    for axes in panels(query):
        (frame,) = [patch for patch in axes.patches if isinstance(patch, Rectangle) and not patch.get_fill()]
        assert round(frame.get_y()) == query
        assert frame.get_y() < query < frame.get_y() + frame.get_height() < query + 0.5
        assert frame.get_x() + frame.get_width() > len(TOKENS) - 1


def test_the_sentence_says_where_the_query_reads_and_what_an_even_spread_would_be():
    sentence = attention(TOKENS, {"first": FIRST, "second": SECOND}, 2)[1]
    assert "over the 3 tokens that are not [PAD]" in sentence
    assert "The framed query [MASK] reads, in first, most from rain (about 1.0)" in sentence
    assert "in second, most from [CLS] (about 0.6)" in sentence
    assert sentence.endswith("each key would get 0.33.")


def test_the_rows_of_a_real_encoder_add_up_and_nothing_goes_to_padding():
    recipe = Recipe()
    words = recipe.language().vocabulary
    with seeded(6050):
        encoder = new_encoder(recipe)
    ids = words.encode(["after rain the [MASK] blooms"], 10)
    maps = {str(n): m[0].mean(0) for n, m in enumerate(encoder.attention_weights(ids, visibility(ids)))}
    figure, sentence = attention(words.decode(ids)[0], maps, query=4)
    assert "would get 0.14." in sentence  # 1 / 7
    for axes in figure.axes:
        rows = cells(axes)
        assert [row[7:] for row in rows] == [["×"] * 3] * 7
        sums = [sum(map(int, row[:7])) for row in rows]
        assert all(abs(total - 100) <= 3 for total in sums), sums  # seven roundings of at most one half
    assert png(figure).startswith(b"\x89PNG")


def test_no_text_is_cut_off_or_stands_on_another():
    figure, _ = attention(TOKENS, {"first": FIRST, "second": SECOND}, 2)
    figure.draw_without_rendering()  # places the texts
    whole = figure.bbox
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in (*axes.texts, *axes.get_yticklabels())]
        boxes += [axes.xaxis.label.get_window_extent(), axes.yaxis.label.get_window_extent()]
        for box in (*boxes, *(label.get_window_extent() for label in axes.get_xticklabels())):
            assert whole.x0 <= box.x0 < box.x1 <= whole.x1
            assert whole.y0 <= box.y0 < box.y1 <= whole.y1
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize(
    ("weights", "query", "message"),
    [
        (FIRST[:3, :3], 2, r"'first' must have shape \(4, 4\), got \(3, 3\)"),
        (torch.full((4, 4), 0.25), 2, r"'first' spends weight on \[PAD\] keys"),
        (FIRST, 3, "query must lie in 0 to 2, got 3"),
        (FIRST, -1, "query must lie in 0 to 2, got -1"),
    ],
)
def test_maps_and_queries_that_make_no_sense_are_refused(weights: Tensor, query: int, message: str):
    with pytest.raises(ValueError, match=message):
        attention(TOKENS, {"first": weights}, query)
