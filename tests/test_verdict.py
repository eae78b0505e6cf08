"""Verdicts: what a student sees, and what a check makes of answers of any kind."""

import numpy as np
import pytest
import torch

from bertch15.check.kit.verdict import (
    EMPTY,
    RIGHT,
    Verdict,
    as_tensor,
    careful,
    chosen,
    closeness,
    sealed,
    untouched,
    wrong,
)

MIXED = Verdict("counting", (("selected", *RIGHT), ("masked", *wrong("A < B.")), ("kept", *EMPTY)))


def test_a_verdict_says_each_part_in_words() -> None:
    assert repr(MIXED).splitlines() == ["✓ selected: right", "✗ masked: not yet. A < B.", "○ kept: not attempted"]
    assert not MIXED.right
    assert MIXED.points == pytest.approx(1 / 3)
    assert Verdict("counting", (("selected", *RIGHT),)).right


@pytest.mark.parametrize(
    ("right", "parts", "most", "points"), [(0, 3, 6, "0.0"), (1, 3, 4, "1.33"), (3, 3, 6, "6.0")]
)
def test_the_score_is_a_number_that_nbgrader_reads(right: int, parts: int, most: int, points: str) -> None:
    verdict = Verdict("counting", (("", *RIGHT),) * right + (("", *EMPTY),) * (parts - right))
    assert repr(verdict.score(most)) == points  # nbgrader reads what the notebook shows


def test_a_score_never_exceeds_what_there_is_to_gain() -> None:
    everything = Verdict("counting", (("", *RIGHT),))
    assert everything.score(np.float64(0.666)) == 0.666  # rounded it would be .67, which nbgrader refuses
    assert type(everything.score(np.float64(0.666))) is float


def test_colour_is_never_alone_and_text_never_becomes_markup() -> None:
    html = MIXED._repr_html_()
    assert all(word in html for word in ("right", "not yet", "not attempted", "A &lt; B."))


@pytest.mark.parametrize("answer", [..., None, [..., ...], (..., [...]), {"a": ..., "b": None}])
def test_a_stub_is_known(answer: object) -> None:
    assert untouched(answer)


@pytest.mark.parametrize("answer", [0, False, "", [], {}, [..., 1], {"a": ..., "b": 0}, torch.zeros(2)])
def test_an_answer_is_no_stub(answer: object) -> None:
    assert not untouched(answer)


@pytest.mark.parametrize("answer", [[[1, 0]], [[True, False]], np.array([[1, 0]]), torch.tensor([[True, False]])])
def test_an_array_may_come_in_any_form(answer: object) -> None:
    assert as_tensor(answer).bool().tolist() == [[True, False]]


@pytest.mark.parametrize("answer", [[[1, 0], [1]], object(), "seven"])
def test_what_is_no_array_is_named(answer: object) -> None:
    with pytest.raises(ValueError, match=type(answer).__name__):
        as_tensor(answer)


def test_a_check_never_raises_at_an_answer() -> None:
    state, says = careful(lambda: 1 / 0)()  # type: ignore[arg-type, return-value]
    assert state == "not yet"
    assert "ZeroDivisionError" in says


@pytest.mark.parametrize(
    ("other", "word"), [([1.0, 2.0], "exact"), ([1.0, 2.0 + 1e-7], "close"), ([1.0, 2.5], "off by up to 5.0e-01")]
)
def test_a_comparison_says_how_close(other: list[float], word: str) -> None:
    found, expected = (torch.tensor(v, dtype=torch.float64) for v in (other, [1.0, 2.0]))
    assert closeness(found, expected, within=1e-5) == word


def test_a_choice_is_right_wrong_with_a_reason_or_no_choice() -> None:
    def answered(answer: object) -> tuple[str, str]:
        return chosen("why", answer, "abc", sealed("why", "b"), {"a": "Because of a.", "c": "Because of c."})

    assert answered(" B ") == RIGHT
    assert answered("c") == ("not yet", "Because of c.")
    assert answered(...) == EMPTY
    assert "Choose one of a, b, c" in answered("d")[1]
    for neither in (2, "", "ab"):
        assert "Choose one of" in answered(neither)[1]


def test_a_seal_belongs_to_its_question() -> None:
    assert sealed("why", "b") != sealed("how", "b") != sealed("how", "a")
