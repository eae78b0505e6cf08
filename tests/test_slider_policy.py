"""The mask policy under sliders: the picture of each state, and the controls that lead to it."""

import re
from typing import Any

import ipywidgets as widgets
import pytest
import torch

from bertch15.corruption import Count
from bertch15.demonstrations.frame.view import View
from bertch15.demonstrations.mask_policy import model
from bertch15.demonstrations.mask_policy.controls import mask_policy
from bertch15.demonstrations.mask_policy.model import demonstrate
from bertch15.demonstrations.mask_policy.view import counts_picture, policy_view, shares_picture, strip_picture
from bertch15.demonstrations.mask_policy.words import SENTENCES
from bertch15.palette import BLUE, ORANGE

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")
DISC = re.compile(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)" fill="([^"]+)"')
BOX = re.compile(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" fill="([^"]+)"')


def view(**changes) -> View:
    usual = {"own": "", "rate": 0.15, "mask_share": 0.8, "random_share": 0.1, "redraw": 715, "draws": 400}
    return policy_view(**{"sentence": SENTENCES[0], **usual, **changes})


@pytest.mark.parametrize(
    ("mask_share", "random_share", "letter", "colour"),
    [(1, 0, "M", BLUE), (0, 1, "R", ORANGE), (0, 0, "U", "white")],
)
def test_each_branch_has_its_colour_and_its_letter(
    mask_share: float, random_share: float, letter: str, colour: str
) -> None:
    strip = demonstrate("the bank rose", 1.0, mask_share, random_share).strip
    assert strip is not None
    drawn = strip_picture(strip)
    assert [fill for *_, fill in DISC.findall(drawn)] == [colour] * 3
    assert TEXT.findall(drawn).count(letter) == 3
    assert [fill for *_, fill in BOX.findall(drawn)] == ["white", colour, colour, colour, "white", "white"]


def test_the_strip_shows_before_branch_after_and_target_of_each_slot() -> None:
    strip = demonstrate(redraw=715).strip
    assert strip is not None
    words = TEXT.findall(strip_picture(strip))
    assert words[:4] == ["sentence", "branch", "model reads", "target"]
    # Slot by slot: the token, its branch unless it can have none, what is read, what is to be found.
    slots = iter(words[4:])
    for original, letter, corrupted, target in zip(
        strip.original, strip.letters, strip.corrupted, strip.targets, strict=True
    ):
        assert next(slots) == original
        if original not in ("[CLS]", "[SEP]", "[PAD]"):
            assert next(slots) == letter
        assert next(slots) == corrupted
        assert next(slots) == (target or "–")
    assert next(slots, None) is None


def test_the_shares_fill_the_bar_and_the_rest_is_shown() -> None:
    drawn = shares_picture(0.5, 0.2)
    bars = [(float(left), float(width), fill) for left, _, width, _, fill in BOX.findall(drawn)]
    assert bars == [(1, 130, BLUE), (131, 52, ORANGE), (183, 78, "white")]
    assert TEXT.findall(drawn) == ["M", "R", "U", "M [MASK] 50%, R random 20%, U unchanged 30%, the rest"]
    assert "stroke-dasharray" not in drawn


def test_shares_over_one_stand_out_of_the_bar() -> None:
    drawn = shares_picture(0.8, 0.5)
    assert [float(width) for _, _, width, _, _ in BOX.findall(drawn)] == [208, 130]
    assert "stroke-dasharray" in drawn
    assert "together 130%, over 100%" in drawn
    assert "unchanged" not in drawn


@pytest.mark.parametrize("tenths", range(11))
def test_shares_of_exactly_one_leave_no_rest_and_are_not_over(tenths: int) -> None:
    drawn = shares_picture(tenths / 10, (10 - tenths) / 10)
    assert "U unchanged 0%, the rest" in drawn
    assert "white" not in [fill for *_, fill in BOX.findall(drawn)]


def test_a_last_digit_over_one_is_rounding() -> None:
    assert "U unchanged 0%, the rest" in shares_picture(0.7, 0.3 + 1e-12)


def test_the_counts_stand_on_an_axis_between_their_bounds() -> None:
    counts = demonstrate(SENTENCES[0], 0.5, 0.5, 0.25, redraw=3, draws=100).counts
    drawn = counts_picture(counts)
    # The axis begins at 590 and is 280 long; each count is a dot at its share.
    dots = [float(x) for x, *_ in DISC.findall(drawn)]
    assert dots == pytest.approx([590 + 280 * count.count / count.total for count in counts], abs=0.01)
    expected_at = [float(x) + 1 for x, _, width, _, _ in BOX.findall(drawn) if width == "2"]
    assert expected_at == pytest.approx([590 + 280 * share for share in (0.5, 0.5, 0.25, 0.25)])
    bands = [(float(x), float(width)) for x, _, width, _, fill in BOX.findall(drawn) if fill == "#c3c8d0"]
    for (left, width), expected, count in zip(bands, (0.5, 0.5, 0.25, 0.25), counts, strict=True):
        spread = 4 * (expected * (1 - expected) / count.total) ** 0.5
        assert (left, width) == pytest.approx((590 + 280 * (expected - spread), 560 * spread), abs=0.01)
    assert f"{counts[0].count:,} of 1,100 = {counts[0].count / 1100:.1%}" in drawn
    assert "550.0   (483.7 to 616.3)" in drawn  # 550 +- 4 x sqrt(1100 / 4)


def test_a_count_out_of_bounds_is_marked() -> None:
    # Of a hundred, 50 are expected and 20 is four deviations: 71 are too many, 70 are not.
    assert "OUTSIDE" in counts_picture((Count("heads", 71, 100, 0.5),))
    assert "OUTSIDE" not in counts_picture((Count("heads", 70, 100, 0.5),))


def test_nothing_to_count_is_no_dot() -> None:
    drawn = counts_picture(demonstrate(rate=0.0).counts)
    assert drawn.count("nothing to count") == 3
    assert len(DISC.findall(drawn)) == 1


def test_the_text_says_what_the_picture_shows() -> None:
    shown = view(rate=0.3, draws=2000)
    heading, *rest = shown.text.splitlines()
    assert heading == "Selection rate 0.30. Of the selected: M [MASK] 80%, R random 10%, U unchanged 10%, the rest"
    assert "\n".join(rest) == str(demonstrate(SENTENCES[0], 0.3, redraw=715, draws=2000))
    for phrase in ("Selection rate 0.30", "Draw 715", "in 2,000 draws", "U unchanged 10%"):
        assert phrase in shown.html


@pytest.mark.parametrize(
    ("changes", "phrase"),
    [
        ({"mask_share": 0.0, "random_share": 0.0}, "copy trap"),
        ({"mask_share": 0.0}, "never shows [MASK]"),
        ({"rate": 0.0}, "no position is ever selected"),
        ({"random_share": 0.3}, "make 110% of the selected"),
        ({"own": "the xylophone"}, "read as [UNK]: xylophone"),
        ({"own": "[PAD]"}, "no ordinary token"),
        ({"own": "the bank " * 10}, "first 12 words"),
    ],
)
def test_warnings_stand_in_the_picture_and_in_the_text(changes: dict, phrase: str) -> None:
    shown = view(**changes)
    assert re.search(rf"<p [^>]*>! [^<]*{re.escape(phrase)}", shown.html)
    assert any(line.startswith("! ") and phrase in line for line in shown.text.splitlines())
    assert phrase not in view().text


def test_what_the_reader_types_cannot_become_markup() -> None:
    shown = view(own='<script> "quoted" & bank')
    assert "<script>" not in shown.html
    assert "&lt;script&gt;" in shown.html


def test_a_sentence_of_ones_own_goes_first_and_blanks_are_none() -> None:
    assert view(own="the rose").text == view(sentence="the rose").text
    assert view(own="  \t").text == view().text != view(own="the rose").text


def test_each_control_moves_what_is_shown() -> None:
    changes: dict = {"sentence": SENTENCES[2], "own": "the rose", "rate": 0.3, "mask_share": 0.5}
    changes |= {"random_share": 0.05, "redraw": 3, "draws": 1}
    demonstration = mask_policy()
    assert set(changes) == set(demonstration.controls)
    for name, value in changes.items():
        before = demonstration.text, demonstration.picture.value
        demonstration.controls[name].value = value
        assert demonstration.text != before[0], name
        assert demonstration.picture.value != before[1], name
    assert (demonstration.picture.value, demonstration.text) == policy_view(**changes)


def test_it_opens_with_the_chapters_policy_and_each_branch_once() -> None:
    demonstration = mask_policy()
    assert demonstration.text.endswith(str(demonstrate(SENTENCES[0], 0.15, 0.8, 0.1, 715, 400)))
    branches = demonstration.text.splitlines()[2].split()[1:]
    assert sorted(branches) == [*"." * 8, "M", "R", "U"]
    assert "!" not in demonstration.text


@pytest.mark.parametrize("mask_share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("random_share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("rate", [0.0, 1.0])
@pytest.mark.parametrize("draws", [1, 2000])
def test_no_corner_of_the_sliders_is_an_error(
    mask_share: float, random_share: float, rate: float, draws: int
) -> None:
    demonstration = mask_policy().set(mask_share=mask_share, random_share=random_share, rate=rate, draws=draws)
    assert demonstration.text.startswith("Selection rate")
    assert ("over 100%" in demonstration.text) == (mask_share + random_share > 1)
    assert demonstration.values["mask_share"] == mask_share
    assert demonstration.values["random_share"] == random_share


def test_the_sliders_end_where_they_should_and_have_names() -> None:
    controls = mask_policy().controls
    ends = {
        name: (controls[name].min, controls[name].max) for name in ("rate", "mask_share", "random_share", "draws")
    }
    assert ends == {"rate": (0, 1), "mask_share": (0, 1), "random_share": (0, 1), "draws": (1, 2000)}
    assert all(control.description for control in controls.values())
    assert len({control.description for control in controls.values()}) == len(controls)


def test_a_hundred_of_them_moved_a_hundred_times_leave_nothing() -> None:
    before = len(widgets.widget._instances)
    for _ in range(100):
        mask_policy().close()
    one = mask_policy()
    alive = len(widgets.widget._instances)
    for turn in range(100):
        one.set(redraw=turn, rate=turn / 100, draws=20 * turn + 1)
    assert len(widgets.widget._instances) == alive
    one.close()
    assert len(widgets.widget._instances) == before


def test_a_repaint_draws_once_however_many_draws_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is what makes it quick; how quick, `make latency` measures."""
    drawn: list[int] = []
    corrupt = model.corrupt

    def counted(ids: torch.Tensor, *given: Any) -> Any:
        drawn.append(len(ids))
        return corrupt(ids, *given)

    monkeypatch.setattr(model, "corrupt", counted)
    view(redraw=1, draws=2000)
    assert drawn == [model.MOST_DRAWS]
