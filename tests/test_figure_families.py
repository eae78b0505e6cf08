import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from bertch15.figures.families import Prepared, families
from bertch15.figures.style import png
from bertch15.palette import BLUE

pytestmark = pytest.mark.usefixtures("state_guard")

BERT = ["[CLS]", "the", "boat", "reached", "the", "[MASK]", "at", "night", "[SEP]"]
GPT = ["[CLS]", "the", "boat", "reached", "the", "bank", "at", "night"]
GPT_TARGETS = ["the", "boat", "reached", "the", "bank", "at", "night", "[SEP]"]
ENCODER = ["the", "boat", "<0>", "bank", "at", "<1>", "[END]"]
DECODER = ["[START]", "<0>", "reached", "the", "<1>", "night"]
T5_TARGETS = ["<0>", "reached", "the", "<1>", "night", "[END]"]
T5_ROWS = [
    *["xxxxxxx......"] * 7,
    "xxxxxxxx.....",
    "xxxxxxxxx....",
    "xxxxxxxxxx...",
    "xxxxxxxxxxx..",
    "xxxxxxxxxxxx.",
    "xxxxxxxxxxxxx",
]
GPT_ROWS = ["x" * (q + 1) + "." * (7 - q) for q in range(8)]


def matrix(rows: list[str]) -> torch.Tensor:
    return torch.tensor([[mark == "x" for mark in row] for row in rows])


def three() -> list[Prepared]:
    masked = ["", "", "", "", "", "bank", "", "", ""]
    return [
        Prepared("BERT-style encoder", BERT, matrix(["x" * 9] * 9), masked),
        Prepared("GPT-style decoder", GPT, matrix(GPT_ROWS), GPT_TARGETS),
        Prepared("T5-style encoder-decoder", ENCODER + DECODER, matrix(T5_ROWS), [""] * 7 + T5_TARGETS, memory=7),
    ]


@pytest.fixture(scope="module")
def drawn() -> tuple[Figure, str]:
    return families(three())


def drawn_rows(axes: Axes, sign: str) -> list[str]:
    """Read the cells back as rows of text: by their mark, or by their colour where sign is "colour"."""
    length = len(axes.get_yticklabels())
    cells = [["?"] * length for _ in range(length)]
    if sign == "colour":
        for patch in axes.patches:
            key, query = (round(corner + 0.5) for corner in patch.get_xy())  # type: ignore[attr-defined]
            cells[query][key] = "x" if to_hex(patch.get_facecolor()) == BLUE else "."
    else:
        for text in axes.texts:
            if text.get_text() in "●×":
                key, query = (round(place) for place in text.get_position())
                cells[query][key] = "x" if text.get_text() == "●" else "."
    return ["".join(row) for row in cells]


@pytest.mark.parametrize("sign", ["colour", "mark"])
def test_the_cells_are_open_where_a_query_may_read(drawn: tuple[Figure, str], sign: str):
    rows = [drawn_rows(axes, sign) for axes in drawn[0].axes]
    assert rows == [["x" * 9] * 9, GPT_ROWS, T5_ROWS]


def test_the_rows_carry_what_is_read_and_what_is_answered(drawn: tuple[Figure, str]):
    expected = [(BERT, {5: "bank"}), (GPT, dict(enumerate(GPT_TARGETS)))]
    expected.append((ENCODER + DECODER, dict(enumerate(T5_TARGETS, start=7))))
    for axes, (reads, targets) in zip(drawn[0].axes, expected, strict=True):
        assert [label.get_text() for label in axes.get_yticklabels()] == reads
        assert [label.get_text() for label in axes.get_xticklabels()] == reads
        arrows = {t.get_position()[1]: t.get_text() for t in axes.texts if t.get_text().startswith("→")}
        assert arrows == {row: f"→ {target}" for row, target in targets.items()}


def test_lines_part_encoder_and_decoder_where_there_are_two(drawn: tuple[Figure, str]):
    assert [len(axes.lines) for axes in drawn[0].axes] == [0, 0, 2]
    across, down = drawn[0].axes[2].lines
    assert set(across.get_ydata()) == {6.5}  # type: ignore[arg-type]
    assert set(down.get_xdata()) == {6.5}  # type: ignore[arg-type]


def test_the_sentence_counts_positions_pairs_and_targets(drawn: tuple[Figure, str]):
    for counts in (
        "BERT-style encoder: 9 positions, 81 of 81 pairs open, 1 target;",
        "GPT-style decoder: 8 positions, 36 of 64 pairs open, 8 targets;",
        "T5-style encoder-decoder: 13 positions, 112 of 169 pairs open, 6 targets.",
    ):
        assert counts in drawn[1]


def test_the_picture_is_the_same_each_time(drawn: tuple[Figure, str]):
    assert png(families(three())[0]) == png(drawn[0])


@pytest.mark.parametrize(
    ("visible", "targets", "memory", "complaint"),
    [
        (torch.ones(8, 8), [""] * 9, 0, "9 positions want visible"),
        (torch.ones(9, 9), [""] * 8, 0, "9 targets, got .* and 8"),
        (torch.ones(9, 9), [""] * 9, 9, "memory must lie in 0 to 8, got 9"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    visible: torch.Tensor, targets: list[str], memory: int, complaint: str
):
    with pytest.raises(ValueError, match=complaint):
        Prepared("BERT", BERT, visible, targets, memory)
