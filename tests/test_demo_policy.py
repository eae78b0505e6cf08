"""The mask policy on a sentence: strips, counts and remarks, without a widget in sight."""

import itertools
from math import sqrt

import fresh
import pytest

from bertch15.demonstrations.mask_policy.model import DRAWS, MOST_DRAWS, Outcome, Strip, demonstrate
from bertch15.demonstrations.mask_policy.words import SENTENCES, VOCABULARY, WORDS, read

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

SENTENCE = "the boat reached the bank"
FRAMED = ("[CLS]", "the", "boat", "reached", "the", "bank", "[SEP]", "[PAD]")
ORDINARY = range(1, 6)


def strip(**settings) -> Strip:
    shown = demonstrate(SENTENCE, **settings).strip
    assert shown is not None
    return shown


def said(shown: Outcome) -> str:
    return " ".join(shown.remarks)


@pytest.mark.parametrize("redraw", range(40))
def test_each_letter_says_what_became_of_its_token(redraw: int) -> None:
    shown = strip(rate=0.5, mask_share=0.4, random_share=0.3, redraw=redraw)
    assert shown.original == FRAMED
    for slot, (before, after, letter) in enumerate(
        zip(shown.original, shown.corrupted, shown.letters, strict=True)
    ):
        assert letter in ("MRU." if slot in ORDINARY else " ")
        assert (letter == "M") == (after == "[MASK]")
        assert letter in "MR" or after == before
        assert letter != "R" or not after.startswith("[")
        assert shown.targets[slot] == (before if letter in "MRU" else "")


def test_all_letters_are_met_in_forty_draws() -> None:
    met = {c for n in range(40) for c in strip(rate=0.5, mask_share=0.4, random_share=0.3, redraw=n).letters}
    assert met == set("MRU. ")


@pytest.mark.parametrize(("mask_share", "random_share", "letter"), [(1, 0, "M"), (0, 1, "R"), (0, 0, "U")])
def test_at_rate_one_every_ordinary_token_takes_the_only_branch(
    mask_share: float, random_share: float, letter: str
) -> None:
    shown = strip(rate=1.0, mask_share=mask_share, random_share=random_share)
    assert shown.letters == (" ", *letter * 5, " ", " ")
    assert shown.targets == ("", "the", "boat", "reached", "the", "bank", "", "")
    assert (shown.corrupted[0], *shown.corrupted[6:]) == ("[CLS]", "[SEP]", "[PAD]")


def test_a_redraw_is_another_draw_and_comes_again() -> None:
    draws = [strip(rate=0.5, redraw=number) for number in range(10)]
    assert draws == [strip(rate=0.5, redraw=number) for number in range(10)]
    assert len(set(draws)) > 5


def test_realised_counts_stand_beside_what_to_expect() -> None:
    shown = demonstrate(SENTENCE, rate=0.4, mask_share=0.5, random_share=0.2)
    selection, *branches = shown.counts
    assert DRAWS == 400
    assert (selection.total, selection.expected) == (2000, 0.4)
    assert selection.bounds() == pytest.approx((0.4 - 4 * sqrt(0.24 / 2000), 0.4 + 4 * sqrt(0.24 / 2000)))
    assert [count.expected for count in branches] == pytest.approx([0.5, 0.2, 0.3])
    assert [count.total for count in branches] == [selection.count] * 3
    assert sum(count.count for count in branches) == selection.count
    # Four deviations: 800 +- 88, and of about 800 about 400 +- 57, 160 +- 45, 240 +- 52.
    assert 712 <= selection.count <= 888
    for count, (low, high) in zip(branches, [(300, 500), (90, 240), (160, 330)], strict=True):
        assert low < count.count < high
        assert count.within


@pytest.mark.parametrize("redraw", range(20))
def test_the_chapters_policy_keeps_within_its_bounds_and_needs_no_remark(redraw: int) -> None:
    shown = demonstrate(SENTENCE, redraw=redraw)
    assert shown.strip is not None
    assert all(count.within for count in shown.counts)
    assert [count.expected for count in shown.counts] == pytest.approx([0.15, 0.8, 0.1, 0.1])
    assert bool(shown.remarks) == (not any(shown.strip.targets))


TRAP, NO_MASK, NO_TARGET, NO_CONTEXT = (
    "copy trap",
    "never shows [MASK]",
    "no position is ever selected",
    "no context",
)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"rate": 0.5}, set()),
        ({"rate": 0.5, "mask_share": 0.0, "random_share": 0.0}, {TRAP, NO_MASK}),
        ({"rate": 0.5, "mask_share": 0.2, "random_share": 0.2}, {TRAP}),
        ({"rate": 0.5, "mask_share": 0.3, "random_share": 0.3}, set()),
        ({"rate": 0.5, "mask_share": 0.0, "random_share": 1.0}, {NO_MASK}),
        ({"rate": 0.5, "mask_share": 1.0, "random_share": 0.0}, set()),
        ({"rate": 0.0}, {NO_TARGET}),
        ({"rate": 0.0, "mask_share": 0.0, "random_share": 0.0}, {NO_TARGET}),
        ({"rate": 1.0}, {NO_CONTEXT}),
    ],
)
def test_what_is_wrong_with_a_policy_is_said(settings: dict, expected: set[str]) -> None:
    remarks = said(demonstrate(SENTENCE, **settings))
    assert {phrase for phrase in (TRAP, NO_MASK, NO_TARGET, NO_CONTEXT) if phrase in remarks} == expected
    assert bool(remarks) == bool(expected)


def test_the_trap_says_how_many_targets_can_be_copied() -> None:
    assert "60% of the targets" in said(demonstrate(SENTENCE, 0.5, 0.2, 0.2))
    assert "100% of the targets" in said(demonstrate(SENTENCE, 0.5, 0.0, 0.0))


@pytest.mark.parametrize("shares", [(0.8, 0.4), (1.0, 0.1), (0.5, 1.0), (1.0, 1.0)])
def test_shares_over_one_are_told_and_not_raised(shares: tuple[float, float]) -> None:
    shown = demonstrate(SENTENCE, 0.15, *shares)
    assert (shown.strip, shown.counts) == (None, ())
    for number in (f"[MASK] {shares[0]:.0%}", f"random {shares[1]:.0%}", f"make {sum(shares):.0%}", "lower one"):
        assert number in said(shown)
    assert str(shown) == f"! {said(shown)}"


def test_shares_over_one_leave_what_is_said_of_the_sentence() -> None:
    assert "[UNK]: xylophone" in said(demonstrate("the xylophone", 0.15, 0.8, 0.5))


@pytest.mark.parametrize("tenths", range(11))
def test_shares_that_sum_to_one_are_no_more_than_one(tenths: int) -> None:
    shown = demonstrate(SENTENCE, 0.5, tenths / 10, (10 - tenths) / 10)
    assert shown.counts[3].count == 0
    assert "more than there are" not in said(shown)


def test_a_last_digit_over_one_is_rounding() -> None:
    assert demonstrate(SENTENCE, 0.5, 0.7, 0.3 + 1e-12).strip is not None
    assert demonstrate(SENTENCE, 0.5, 0.7, 0.301).strip is None


@pytest.mark.parametrize("settings", [{"rate": 1.5}, {"rate": -0.1}, {"mask_share": -0.1}, {"random_share": 1.2}])
def test_what_no_slider_can_give_is_an_error(settings: dict) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(settings))} must lie in \[0, 1\]"):
        demonstrate(SENTENCE, **settings)


def test_a_draw_without_a_target_says_how_often_that_happens() -> None:
    shown = [demonstrate("the bank", redraw=number) for number in range(200)]
    empty = [one for one in shown if one.strip is not None and not any(one.strip.targets)]
    # .85 squared is .7225: of 200 draws 144.5 +- 4 x 6.3 are without a target.
    assert 119 <= len(empty) <= 170
    assert all("72% of sentences with 2 ordinary tokens" in said(one) for one in empty)
    assert all(not one.remarks for one in shown if one not in empty)


@pytest.mark.parametrize("sentence", ["", "   ", "[CLS] [SEP] [PAD]"])
def test_a_sentence_with_nothing_to_select_says_so(sentence: str) -> None:
    shown = demonstrate(sentence, rate=1.0, mask_share=1.0, random_share=0.0)
    assert "no ordinary token" in said(shown)
    assert shown.strip is not None
    assert not any(shown.strip.targets)
    assert shown.counts[0].total == 0


def test_of_a_long_sentence_the_first_words_are_used() -> None:
    shown = demonstrate(" ".join(WORDS[:30]))
    assert shown.strip is not None
    assert shown.strip.original[1:-2] == WORDS[:12]
    assert "first 12 words" in said(shown)
    assert "first" not in said(demonstrate(" ".join(WORDS[:12]), rate=1.0))


def test_a_word_that_is_not_in_the_vocabulary_is_said_to_be_unknown() -> None:
    shown = demonstrate(
        "the Donaudampfschifffahrtsgesellschaft reached éclair\t銀行 bank", rate=1.0, mask_share=1.0
    )
    assert shown.strip is None, "1.0 and the usual 0.1 are too much"
    shown = demonstrate("the Donaudampfschifffahrtsgesellschaft reached éclair\t銀行 bank", 1.0, 1.0, 0.0)
    assert shown.strip is not None
    assert shown.strip.original == (
        *("[CLS]", "the", "[UNK]", "reached", "[UNK]", "[UNK]", "bank"),
        *("[SEP]", "[PAD]"),
    )
    assert shown.strip.targets[2] == "[UNK]"
    assert "[UNK]: donaudampfschifffah…, éclair, 銀行." in said(shown)
    assert f"the {len(WORDS)} words" in said(shown)


def test_of_many_unknown_words_a_few_are_named_and_each_once() -> None:
    remarks = " ".join(read("x1 x1 the x2 x3 x4 x5 x6").remarks)
    assert "x1, x2, x3, x4 and 2 more" in remarks
    assert not read("the bank rose").remarks


def test_capitals_and_punctuation_go_and_that_is_said() -> None:
    assert read("The bank rose.") == (("the", "bank", "rose"), ("Capitals and punctuation are left out.",))
    assert read("the [MASK], – rose").words == ("the", "[MASK]", "rose")


def test_the_sentences_to_choose_from_are_known_and_fit() -> None:
    assert 3 <= len(SENTENCES) <= 4
    assert min(len(sentence.split()) for sentence in SENTENCES) <= 3
    for sentence in SENTENCES:
        assert read(sentence) == (tuple(sentence.split()), ())
        assert set(sentence.split()) <= set(WORDS)
    assert 60 <= len(WORDS) == len(VOCABULARY) - 5


def test_a_random_token_is_an_ordinary_word_and_any_of_them() -> None:
    drawn = {
        token for n in range(300) for token in strip(rate=1.0, mask_share=0, random_share=1, redraw=n).corrupted
    }
    # 1,500 draws from about 100 words: one of them is missed with a chance of about 100 e^-15.
    assert drawn == {*WORDS, "[CLS]", "[SEP]", "[PAD]"}


def test_one_token() -> None:
    shown = demonstrate("bank", 1.0, 1.0, 0.0, draws=1)
    assert str(shown.strip).splitlines()[2].split() == ["input", "[CLS]", "[MASK]", "[SEP]", "[PAD]"]
    assert [(count.count, count.total) for count in shown.counts] == [(1, 1), (1, 1), (0, 1), (0, 1)]


@pytest.mark.parametrize("draws", [1, 2, 400, 2000])
def test_as_many_draws_are_counted_as_asked_for(draws: int) -> None:
    shown = demonstrate(SENTENCE, 1.0, 0.0, 1.0, draws=draws)
    assert [(count.count, count.total) for count in shown.counts] == [
        *((5 * draws, 5 * draws), (0, 5 * draws)),
        *((5 * draws, 5 * draws), (0, 5 * draws)),
    ]
    assert ("in 1 draw:" if draws == 1 else f"in {draws:,} draws:") in str(shown)


def test_more_draws_go_on_where_fewer_stopped() -> None:
    runs = [demonstrate(SENTENCE, 0.5, draws=draws, redraw=7) for draws in (1, 2, 3, 50, 51, 1999, 2000)]
    assert len({run.strip for run in runs}) == 1
    counts = [[count.count for count in run.counts] for run in runs]
    assert all(a <= b for fewer, more in itertools.pairwise(counts) for a, b in zip(fewer, more, strict=True))
    assert runs[0].strip is not None
    assert counts[0][0] == sum(map(bool, runs[0].strip.targets))


def test_a_single_draw_is_not_forced_to_select() -> None:
    shown = [demonstrate("bank", 0.15, redraw=number, draws=1) for number in range(200)]
    selected = sum(one.counts[0].count for one in shown)
    assert 10 <= selected <= 50  # 30 +- 4 x 5.05
    none = next(one for one in shown if one.counts[0].count == 0)
    assert str(none).count("nothing to count") == 3


@pytest.mark.parametrize("draws", [0, -1, 2001])
def test_a_number_of_draws_that_is_not_to_be_had_is_an_error(draws: int) -> None:
    assert MOST_DRAWS == 2000
    with pytest.raises(ValueError, match=f"draws must be 1 to 2000, got {draws}"):
        demonstrate(SENTENCE, draws=draws)


def test_a_count_out_of_bounds_is_explained() -> None:
    # One word at 0.02: of 200 first draws about four select it, 1 where 0.02 +- 0.56 are expected.
    shown = [demonstrate("bank", 0.02, redraw=number, draws=1) for number in range(300)]
    outside = [one for one in shown if one.counts[0].count == 1]
    assert outside
    assert all("OUTSIDE" in str(one) and "outside four deviations" in said(one) for one in outside)
    assert all("OUTSIDE" not in str(one) for one in shown if one not in outside)


def test_the_printed_strip_has_its_columns_under_one_another() -> None:
    shown = Strip(("[CLS]", "a", "long", "[SEP]"), ("[CLS]", "[MASK]", "it", "[SEP]"), (" ", "M", "R", " "))
    assert str(shown).splitlines() == [
        "sentence  [CLS]  a       long  [SEP]",
        "branch           M       R",
        "input     [CLS]  [MASK]  it    [SEP]",
        "target           a       long",
    ]


def test_the_printed_text_holds_strip_legend_counts_and_remarks() -> None:
    shown = demonstrate(SENTENCE, 0.4, 0.0, 0.0, redraw=2)
    lines = str(shown).splitlines()
    assert "\n".join(lines[:4]) == str(shown.strip)
    assert all(f"{letter} " in lines[4] for letter in "MRU.")
    assert lines[5] == "in 400 draws:"
    assert lines[6].split()[:3] == ["selected", "of", "eligible"]
    assert f"{shown.counts[0].count} of  2000   expected   800.0   within  712.4 to  887.6" in lines[6]
    assert lines[10:] == [f"! {remark}" for remark in shown.remarks]


@pytest.mark.parametrize("view", ["mask_policy", "visibility_explorer"])
def test_no_widget_library_is_needed(view: str) -> None:
    assert fresh.seen()[view] == []
