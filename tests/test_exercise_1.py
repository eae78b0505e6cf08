"""Exercise 1: the right matrices in every form, and what each wrong answer is told."""

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch

from bertch15 import check
from bertch15.check.exercise_1 import drawing, matrices
from bertch15.check.kit import calling
from bertch15.check.kit.verdict import untouched

ROOT = Path(__file__).resolve().parent.parent
CAUSAL = """
1000 0000
1100 0000
1110 0000
1111 0000
1111 1000
1111 1100
1111 1100
1111 1100
"""
FULL = "11111100\n" * 8
SAID = "because of what I wrote on my paper"
RIGHT = {
    "causal": CAUSAL,
    "full": FULL,
    "cells": {"causal": 33, "full": 48},
    "cells of real queries": {"causal": 21, "full": 36},
    "scored": 2,
    "neighbours": "c",
    "neighbours because": SAID,
    "leak": "a",
    "leak because": SAID,
}
PARTS = [name for name in RIGHT if "because" not in name]
NUMBERS = re.compile(r"\b(33|48|21|36)\b")

pytestmark = [pytest.mark.usefixtures("state_guard"), pytest.mark.filterwarnings("error")]


def array(text: str) -> np.ndarray:
    return np.array([[mark == "1" for mark in row.replace(" ", "")] for row in text.split("\n") if row])


CAUSAL_ARRAY, FULL_ARRAY = array(CAUSAL), array(FULL)
WITH_DIAGONAL = np.eye(8, dtype=bool)


def part(name: str, answer: Any, **others: Any) -> tuple[str, str]:
    """State and message of one part, for an answer to it."""
    ((shown, state, says),) = check.visibility({name: answer, **others}, name).parts
    assert shown == name
    return state, says


def without(found: np.ndarray, rows: Any = slice(0), columns: Any = slice(0)) -> np.ndarray:
    """A matrix with some rows and columns closed."""
    closed = found.copy()
    closed[rows], closed[:, columns] = False, False
    return closed


@pytest.mark.parametrize("answers", [..., None, {}, {"causal": ...}, {"cells": {"causal": ..., "full": ...}}])
def test_the_stub_is_not_attempted(answers: Any) -> None:
    verdict = check.visibility(answers)
    assert [name for name, _, _ in verdict.parts] == PARTS
    assert {state for _, state, _ in verdict.parts} == {"not attempted"}
    assert verdict.score(7) == 0


def test_a_function_without_a_body_is_not_attempted() -> None:
    def stub(query: int, key: int) -> Any: ...

    assert part("causal", stub)[0] == "not attempted"


def test_the_right_answers_gain_all_points() -> None:
    verdict = check.visibility(RIGHT)
    assert verdict.right
    assert verdict.score(7) == 7


@pytest.mark.parametrize("missing", PARTS)
def test_each_part_is_one_point(missing: str) -> None:
    assert check.visibility({**RIGHT, missing: ...}).score(7) == 6
    assert part(missing, ...)[0] == "not attempted"


FORMS: list[Callable[[np.ndarray], Any]] = [
    lambda m: m,
    lambda m: m.tolist(),
    lambda m: m.astype(int).tolist(),
    lambda m: tuple(map(tuple, m.tolist())),
    lambda m: m.astype(float),
    lambda m: m.astype(np.uint8)[None],
    lambda m: np.broadcast_to(m, (1, 1, 8, 8)),
    lambda m: torch.tensor(m),
    lambda m: torch.tensor(m).half()[None, None].requires_grad_(),
    lambda m: list(torch.tensor(m)),
    lambda m: ["".join("01"[int(mark)] for mark in row) for row in m],
    lambda m: lambda query, key: m[query, key],
    lambda m: lambda query, key, spare=0: torch.tensor(m)[query, key].int(),
]


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_a_matrix_may_come_in_any_form(form: int) -> None:
    assert part("causal", FORMS[form](CAUSAL_ARRAY)) == ("right", "")
    assert part("full", FORMS[form](FULL_ARRAY)) == ("right", "")
    assert part("causal", FORMS[form](FULL_ARRAY))[0] == "not yet"


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("causal", lambda query, key, padding: key <= query and not padding[key]),
        ("causal", lambda query, key, padding: (key <= query) & ~padding[key]),
        ("causal", lambda query, key: key <= query and key < 6),
        ("full", lambda query, key, padding: 1 - int(padding[key])),
        ("full", lambda query, key: key < 6),
    ],
)
def test_a_rule_may_stand_for_a_matrix(kind: str, rule: Any) -> None:
    assert part(kind, rule) == ("right", "")


@pytest.mark.parametrize("kind", ["causal", "full"])
def test_a_rule_for_any_row_is_tried_on_others(kind: str) -> None:
    def by_heart(query: int, key: int, padding: torch.Tensor) -> bool:
        return key < 6 and (key <= query or kind == "full")

    assert part(kind, by_heart) == ("not yet", part(kind, by_heart)[1])
    assert "for a row of another length" in part(kind, by_heart)[1]
    lengths = [len(row) for row in matrices.rows()]
    assert len(set(lengths)) > 3
    assert any(row.any() for row in matrices.rows())
    assert not all(row.any() for row in matrices.rows())


TRIANGLE = np.tril(np.ones((8, 8), dtype=bool))
EVERYTHING = np.ones((8, 8), dtype=bool)
WRONG_MATRICES = {
    "inverted causal": ("causal", ~CAUSAL_ARRAY, "inverted"),
    "inverted full": ("full", ~FULL_ARRAY, "inverted"),
    "rows of padding closed too": ("causal", without(CAUSAL_ARRAY, rows=[6, 7]), "rows of [PAD] are closed"),
    "rows of padding closed too, full": ("full", without(FULL_ARRAY, rows=[6, 7]), "rows of [PAD] are closed"),
    "rows in place of columns": ("full", FULL_ARRAY.T, "Rows and columns are exchanged"),
    "rows in place of columns, triangle": ("causal", without(TRIANGLE, rows=[6, 7]), "rows of [PAD] are closed"),
    "the triangle alone": ("causal", TRIANGLE, "Padding keys are open"),
    "everything": ("full", EVERYTHING, "Padding keys are open"),
    "transposed": ("causal", CAUSAL_ARRAY.T, "Rows and columns are exchanged"),
    "the future": ("causal", np.triu(EVERYTHING) & FULL_ARRAY, "triangle is turned round"),
    "the future with padding": ("causal", np.triu(EVERYTHING), "triangle is turned round"),
    "diagonal closed": ("causal", CAUSAL_ARRAY & ~WITH_DIAGONAL, "diagonal is closed"),
    "diagonal closed, full": ("full", FULL_ARRAY & ~WITH_DIAGONAL, "diagonal is closed"),
    "selected column closed": ("causal", without(CAUSAL_ARRAY, columns=[2]), "selected word's column is closed"),
    "selected column closed, full": ("full", without(FULL_ARRAY, columns=[2]), "selected word's column is closed"),
    "frame closed": ("full", without(FULL_ARRAY, columns=[0, 5]), "[CLS] and [SEP] are closed"),
    "no triangle": ("causal", FULL_ARRAY, "what stands to their right"),
    "a triangle": ("full", CAUSAL_ARRAY, "triangle in the full matrix"),
    "two faults": ("full", without(EVERYTHING, columns=[2]), "Padding keys are open"),
    "two faults, the other": ("full", without(EVERYTHING, columns=[2]), "selected word's column"),
    "added to scores": ("full", np.where(FULL_ARRAY, 0.0, -np.inf)[None, None], "adds to the scores"),
    "added, finite": ("causal", np.where(CAUSAL_ARRAY, 0.0, -10_000.0), "adds to the scores"),
    "weights": ("full", FULL_ARRAY / 6, "True or False"),
    "a mark a key": ("full", FULL_ARRAY[0], "one mark a key"),
    "a mark a key, 4-D": ("full", FULL_ARRAY[:1][None, None], "one mark a key"),
    "without padding": ("causal", CAUSAL_ARRAY[:6, :6], "padding slots are left out"),
    "wrong size": ("causal", TRIANGLE[:7, :7], "size is wrong"),
    "one number": ("causal", 1, "one number"),
    "ragged": ("causal", [[1] * (query + 1) for query in range(8)], "differ in length"),
    "other marks": ("causal", "x" * 8, "the marks 0 and 1"),
    "no pattern": ("full", without(FULL_ARRAY, rows=[4], columns=[3]), "query 0, [CLS]"),
    "no pattern, causal": ("causal", without(CAUSAL_ARRAY, rows=[4]), "query 4, calm"),
    "tilde": ("full", lambda query, key: ~(key >= 6), "`not` is meant"),
    "raises": ("full", lambda query, key: [][key], "rule raised IndexError"),
    "gives nothing": ("full", lambda query, key: print(end=""), "rule raised TypeError"),
    "three, wrong": ("full", lambda query, key, padding: not padding[query], "Rows and columns are exchanged"),
    "a word": ("causal", object(), "array was expected"),
}


@pytest.mark.filterwarnings("ignore:Bitwise inversion")  # from 3.12 on Python says it as well
@pytest.mark.parametrize("case", WRONG_MATRICES)
def test_a_wrong_matrix_is_known_by_its_shape(case: str) -> None:
    kind, answer, fragment = WRONG_MATRICES[case]
    state, says = part(kind, answer)
    assert state == "not yet"
    assert fragment in says
    assert not NUMBERS.search(says)


def test_the_fewest_faults_are_told() -> None:
    assert part("causal", TRIANGLE)[1] == drawing.FAULTS["padding open"]
    assert part("full", FULL_ARRAY.T)[1] == drawing.FAULTS["exchanged"]


def test_a_loop_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(query: int, key: int) -> bool:
        while True:
            pass

    monkeypatch.setattr(calling, "SECONDS", 0.1)
    state, says = part("causal", endless)
    assert state == "not yet"
    assert "Does a loop in it never end?" in says


def test_a_check_leaves_the_answer_and_the_random_streams_alone() -> None:
    def meddling(query: int, key: int, padding: torch.Tensor) -> bool:
        torch.manual_seed(query)
        open_ = not bool(padding[key])
        padding[query] = False  # its own copy of the padding, it may think
        return open_

    given = torch.tensor(CAUSAL_ARRAY).float()
    kept = given.clone()
    part("causal", given)
    assert torch.equal(given, kept)
    before = matrices.PADDING.clone()
    part("full", meddling)
    assert torch.equal(matrices.PADDING, before)


@pytest.mark.parametrize("answer", [{"causal": 33, "full": 48}, (33, 48), [33.0, 48.0], np.array([33, 48])])
def test_counts_may_come_in_any_form(answer: Any) -> None:
    assert part("cells", answer) == ("right", "")
    assert part("cells of real queries", torch.tensor([21, 36])) == ("right", "")


@pytest.mark.parametrize(
    ("name", "answer", "fragment"),
    [
        ("cells", (21, 48), "The causal count: the rows of [PAD] are left out"),
        ("cells", (33, 36), "The full count: the rows of [PAD] are left out"),
        ("cells", (36, 48), "The causal count: the columns of [PAD] are counted as open"),
        ("cells", (33, 64), "The full count: the columns of [PAD] are counted as open"),
        ("cells", (31, 16), "closed cells are counted"),
        ("cells", (48, 33), "the other matrix"),
        ("cells", (27, 42), "diagonal is left out"),
        ("cells", (27, 40), "selected word's column is left out"),
        ("cells", (33, ...), "full count is still to be given"),
        ("cells", {"causal": 33}, "full count is still to be given"),
        ("cells", (33,), "Two counts are asked for"),
        ("cells", 33, "Two counts are asked for"),
        ("cells", (34, 48), "Count row by row"),
        ("cells of real queries", (33, 36), "only real queries are asked for"),
        ("cells of real queries", (21, 48), "only real queries are asked for"),
        ("cells of real queries", (21, 48), "the columns of [PAD] are counted as open"),
        ("cells of real queries", (27, 12), "closed cells are counted"),
        ("cells of real queries", (15, 30), "diagonal is left out"),
        ("cells of real queries", (36, 21), "the other matrix"),
    ],
)
def test_a_wrong_count_is_told_what_was_counted(name: str, answer: Any, fragment: str) -> None:
    state, says = part(name, answer)
    assert state == "not yet"
    assert fragment in says
    assert not NUMBERS.search(says)


@pytest.mark.parametrize(
    "answer", [2, 2.0, [2], (2,), {2}, np.int64(2), torch.tensor([2]), [0, 0, 1, 0, 0, 0, 0, 0], "wug"]
)
def test_the_scored_position_may_come_in_any_form(answer: Any) -> None:
    assert part("scored", answer) == ("right", "")


@pytest.mark.parametrize(
    ("answer", "fragment"),
    [
        (3, "count from 0"),
        ([1, 2, 3, 4], "may be selected"),
        ([0, 1, 2, 3, 4, 5], "Being read is not being scored"),
        (range(8), "Being read is not being scored"),
        ([True] * 8, "Being read is not being scored"),
        ([1, 3, 4], "read in the clear"),
        ([1, 1, 0, 1, 1, 1, 0, 0], "read in the clear"),
        ([6, 7], "Which word is selected?"),
        (4, "Which word is selected?"),
        ([], "Which word is selected?"),
        ("calm", "counted from 0"),
        (object(), "could not be read"),
    ],
)
def test_a_wrong_position_is_told_which_control_decides(answer: Any, fragment: str) -> None:
    state, says = part("scored", answer)
    assert state == "not yet"
    assert fragment in says
    assert not re.search(r"\b2\b|wug", says)


@pytest.mark.parametrize(
    ("name", "letter", "fragment"),
    [
        ("neighbours", "a", "because of a token's name"),
        ("neighbours", "b", "selection for visibility"),
        ("neighbours", "d", "being read for being scored"),
        ("leak", "b", "reads itself too, and nothing leaks"),
        ("leak", "c", "Padding keys are closed in both"),
        ("leak", "d", "brings no parameters"),
    ],
)
def test_a_wrong_reason_is_answered(name: str, letter: str, fragment: str) -> None:
    state, says = part(name, letter, **{f"{name} because": SAID})
    assert state == "not yet"
    assert fragment in says


@pytest.mark.parametrize("sentence", [..., "", "so it is", 5])
def test_a_letter_wants_a_sentence(sentence: Any) -> None:
    for name, letter in (("neighbours", " C "), ("leak", "A")):
        assert "in a sentence of your own" in part(name, letter, **{f"{name} because": sentence})[1]
        assert part(name, letter, **{f"{name} because": SAID})[0] == "right"
    for letter in ("e", "", "ab"):
        assert "Choose one of" in part("leak", letter)[1]


@pytest.mark.parametrize("answers", [5, "c", [CAUSAL], CAUSAL_ARRAY])
def test_anything_else_is_told_what_is_wanted(answers: Any) -> None:
    verdict = check.visibility(answers)
    assert {state for _, state, _ in verdict.parts} == {"not yet"}
    assert "dictionary" in repr(verdict)
    assert not untouched(answers)


def test_the_student_version_and_the_check_give_nothing_away() -> None:
    notebook = nbformat.read(ROOT / "notebooks" / "exercises" / "1_visibility.ipynb", as_version=4)
    said = "\n".join(cell.source + repr(cell.get("outputs", "")) for cell in notebook.cells)
    assert "Task 4" in said
    assert not NUMBERS.search(said)
    for source in map(inspect.getsource, (matrices, drawing)):
        constants = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
        assert not {33, 48, 21, 36} & {value for value in constants if isinstance(value, int)}
        assert not {*"abcd"} & {value for value in constants if isinstance(value, str)}
        assert not NUMBERS.search(source)
