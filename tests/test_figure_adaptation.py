from functools import cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from bertch15.encoder import Encoder
from bertch15.figures.adaptation import adaptation
from bertch15.figures.style import png
from bertch15.finetuning import new_classifier
from bertch15.palette import INK, ORANGE
from bertch15.pretraining import copy_state, seeded
from bertch15.recipe import Recipe

pytestmark = pytest.mark.usefixtures("state_guard")

Point = tuple[float, float]

TOKENS = ["[CLS]", "we", "found", "the", "zeru", "today", "[SEP]"]
ENCODER = ["token + position embeddings", "block 1", "block 2"]  # from below upwards
HEADS = {
    "sequence head": ("one state", "(B, d) → (B, K)"),
    "token head": ("every state", "(B, T, d) → (B, T, K)"),
    "span head": ("start and end scores", "(B, T, d) → 2 × (B, T)"),
}


@cache
def drawn() -> tuple[Figure, str]:
    """Draw the figure for the lab's encoder. Nobody may change what it returns."""
    with seeded(1):
        start = copy_state(Encoder())
    return adaptation(TOKENS, new_classifier(Recipe(), 6050, start))


def boxes() -> dict[str, Bbox]:
    """All boxes by their names, in the coordinates of the drawing."""
    found = {}
    for patch in drawn()[0].axes[0].patches:
        if isinstance(patch, Rectangle) and str(patch.get_gid()).startswith("box: "):
            found[str(patch.get_gid()).removeprefix("box: ")] = Bbox.from_bounds(*patch.get_bbox().bounds)
    return found


def arrows() -> dict[str, tuple[Point, Point]]:
    """All arrows by their names: where they start and where their point is."""
    found = {}
    for patch in drawn()[0].axes[0].patches:
        if isinstance(patch, FancyArrowPatch):
            inner: Any = patch  # its two ends have no public name
            start, end = inner._posA_posB
            name = str(patch.get_gid()).removeprefix("arrow: ")
            found[name] = (float(start[0]), float(start[1])), (float(end[0]), float(end[1]))
    return found


def line(name: str) -> Line2D:
    (found,) = [one for one in drawn()[0].axes[0].lines if one.get_gid() == f"line: {name}"]
    return found


def corners(name: str) -> list[Point]:
    """The points of a line in their order."""
    return [(float(x), float(y)) for x, y in np.asarray(line(name).get_xydata())]


def texts() -> list[Text]:
    return [text for text in drawn()[0].axes[0].texts if text.get_text()]


def extents() -> dict[str, Bbox]:
    """What each text covers, in the coordinates of the drawing."""
    figure = drawn()[0]
    assert isinstance(figure.canvas, FigureCanvasAgg)
    figure.canvas.draw()
    back = figure.axes[0].transData.inverted()
    return {t.get_text(): t.get_window_extent(figure.canvas.get_renderer()).transformed(back) for t in texts()}


def touches(point: Point, box: Bbox) -> bool:
    """Whether a point lies on the edge of a box."""
    inside = box.padded(0.01).contains(*point)
    return inside and not box.padded(-0.01).contains(*point)


def holds(box: Bbox, inner: Bbox) -> bool:
    return box.x0 <= inner.x0 and box.y0 <= inner.y0 and inner.x1 <= box.x1 and inner.y1 <= box.y1


# Boxes and words


def test_the_boxes_are_tokens_encoder_states_heads_and_loss() -> None:
    rows = [f"{kind} {place}" for kind in ("token", "state") for place in range(7)]
    assert set(boxes()) == {*rows, "encoder", *ENCODER, "heads", *HEADS, "loss"}


def test_the_levels_stand_one_above_the_other() -> None:
    found = boxes()
    levels = [
        found["token 0"],
        *(found[name] for name in ENCODER),
        found["state 0"],
        found["span head"],
        found["loss"],
    ]
    assert all(below.y1 < above.y0 for below, above in pairwise(levels))
    assert all(holds(found["encoder"], found[name]) for name in ENCODER)
    assert all(holds(found["heads"], found[name]) for name in HEADS)
    assert found["token 3"].y1 < found["encoder"].y0
    assert found["encoder"].y1 < found["state 3"].y0 < found["state 3"].y1 < found["heads"].y0


def test_every_box_holds_its_words() -> None:
    found, covered = boxes(), extents()
    expected = {f"token {place}": [token] for place, token in enumerate(TOKENS)}
    expected |= {f"state {place}": [f"$h_{{{place}}}$"] for place in range(7)}
    expected |= {name: [name] for name in ENCODER}
    expected |= {name: [name, *lines] for name, lines in HEADS.items()}
    expected |= {"loss": ["task loss on a few labels"]}
    for name, lines in expected.items():
        assert [text for text, extent in covered.items() if holds(found[name], extent)] == lines, name


def test_the_margins_name_ids_encoder_states_and_heads_beside_their_boxes() -> None:
    found, covered = boxes(), extents()
    for beginning, name in (
        ("ids $x$", "token 0"),
        ("encoder", "encoder"),
        ("states", "state 0"),
        ("heads", "heads"),
    ):
        (text,) = [t for t in covered if t.startswith(beginning)]
        assert covered[text].x1 < found["encoder"].x0
        assert found[name].y0 < (covered[text].y0 + covered[text].y1) / 2 < found[name].y1
    assert any("pretrained" in t and "theta_0" in t for t in covered)
    assert any("g_\\varphi" in t and "new" in t for t in covered)


def test_no_text_covers_another_or_leaves_the_figure() -> None:
    covered = extents()
    assert len(covered) == len(texts())  # no text stands twice
    for (one, first), (other, second) in combinations(covered.items(), 2):
        assert not first.overlaps(second), f"{one!r} and {other!r} overlap"
    axes = drawn()[0].axes[0]
    sheet = Bbox([[axes.get_xlim()[0], axes.get_ylim()[0]], [axes.get_xlim()[1], axes.get_ylim()[1]]])
    assert all(holds(sheet, extent) for extent in covered.values())


# The way up


def test_each_token_goes_through_the_encoder_to_a_state_of_its_own() -> None:
    found, ways = boxes(), arrows()
    for place in range(7):
        start, end = ways[f"token {place}"]
        assert touches(start, found[f"token {place}"])
        assert touches(end, found["encoder"])
        start, end = ways[f"state {place}"]
        assert touches(start, found["encoder"])
        assert touches(end, found[f"state {place}"])


def test_the_sequence_head_reads_one_state_and_the_others_all() -> None:
    found, ways = boxes(), arrows()
    start, end = ways["one state to sequence head"]
    assert touches(start, found["state 0"])
    assert touches(end, found["sequence head"])
    (left, height), (right, level) = corners("every state")
    assert left < right
    assert level == height
    for place in range(7):
        bottom, top = corners(f"state {place}")
        assert touches(bottom, found[f"state {place}"])
        assert top[1] == height
        assert left <= top[0] <= right
    for name in ("token head", "span head"):
        start, end = ways[f"every state to {name}"]
        assert start[1] == height
        assert left < start[0] < right
        assert touches(end, found[name])
    assert not any("every state to sequence" in name for name in ways)


def test_every_head_leads_to_the_loss() -> None:
    found, ways = boxes(), arrows()
    for name in HEADS:
        start, end = ways[f"{name} to loss"]
        assert touches(start, found[name])
        assert touches(end, found["loss"])


# The way back


def test_the_gradient_runs_from_the_loss_into_heads_blocks_and_embeddings_and_no_further() -> None:
    found, ways = boxes(), arrows()
    way = corners("gradient")
    assert touches(way[0], found["loss"])
    into = [ways[name] for name in ways if name.startswith("gradient")]
    reached = []
    for start, end in into:
        assert start[0] == way[-1][0]  # on the way down
        assert way[-1][1] <= start[1] < way[0][1]
        assert touches(end, found["encoder"]) or touches(end, found["heads"])
        reached += [name for name in (*ENCODER, "heads") if found[name].y0 < end[1] < found[name].y1]
    assert sorted(reached) == sorted([*ENCODER, "heads"])
    assert way[-1][1] > found["token 0"].y1  # ids have no gradient
    assert min(end[1] for _, end in into) == way[-1][1]


def test_a_probe_stops_it_between_heads_and_states() -> None:
    found, covered = boxes(), extents()
    (left, height), (right, level) = corners("stop")
    assert level == height
    assert found["state 0"].y1 < height < found["heads"].y0
    assert left < found["encoder"].x0
    assert right > max(x for x, _ in corners("gradient"))
    assert line("stop").is_dashed()
    assert covered["a probe\nstops here"].y0 > height > covered["fine-tuning\ngoes on"].y1


def test_the_gradient_is_told_from_the_data_by_colour_and_by_weight() -> None:
    patches = [patch for patch in drawn()[0].axes[0].patches if isinstance(patch, FancyArrowPatch)]
    looks = {"gradient": set(), "data": set()}  # type: dict[str, set]
    for patch in patches:
        kind = "gradient" if "gradient" in str(patch.get_gid()) else "data"
        looks[kind].add((to_hex(patch.get_edgecolor()), patch.get_linewidth()))
    assert looks == {"gradient": {(ORANGE, 3.0)}, "data": {(INK, 1.1)}}


# The sentence, and other encoders


def test_the_sentence_gives_the_key_numbers() -> None:
    sentence = drawn()[1]
    for part in ("7 tokens become 7 states of width 48", "all 7", "2 blocks", "43,920", "the 98 alone", "probe"):
        assert part in sentence, part


def test_a_deeper_encoder_has_its_blocks_drawn_and_counted() -> None:
    deeper = Recipe(blocks=4)
    with seeded(1):
        start = copy_state(Encoder(blocks=4))
    figure, sentence = adaptation(TOKENS[:3], new_classifier(deeper, 6050, start))
    names = [str(patch.get_gid()) for patch in figure.axes[0].patches]
    assert [name for name in names if "block" in name] == [f"box: block {place}" for place in (1, 2, 3, 4)]
    assert sum("gradient" in name for name in names) == 6  # heads, four blocks, embeddings
    assert "4 blocks" in sentence
    assert f"{43_920 + 2 * 18_960:,}" in sentence


def test_the_picture_is_the_same_byte_for_byte() -> None:
    assert png(drawn()[0]) == png(drawn.__wrapped__()[0])
