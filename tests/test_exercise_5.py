"""Exercise 5: paired gains, the three gates, and a test that stays as it was declared."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch

from bertch15 import check, lab
from bertch15.check.exercise_5.prediction import Declared
from bertch15.finetuning import Score
from bertch15.lab import LabResult
from bertch15.recipe import Recipe

STUDENT = Path(__file__).resolve().parent.parent / "notebooks" / "exercises" / "5_gates.ipynb"
SAID = "because I read the table line by line"
RIGHT = {"scarce": "b", "hungry": "c", "covers": "a", "bitwise": "c", "surprise": "b"}
SENTENCE = {"scarce": "gates", "hungry": "gates", "covers": "gates", "bitwise": "bitwise", "surprise": "surprise"}
PREDICTION = {
    "sentences": 2,
    "labels": 4,
    "seeds": [6050, 6052],
    "lowest": 0.6,
    "highest": 0.85,
    "because": "two sentences are a quarter of eight",
}

pytestmark = [pytest.mark.usefixtures("state_guard"), pytest.mark.filterwarnings("error")]


def says(part: str, answers: dict[str, Any]) -> tuple[str, str]:
    ((_, state, message),) = check.gates(answers, part).parts
    return state, message


def stub(result: Any, words: Any) -> Any:
    """As in the student version."""
    ...


@pytest.mark.parametrize(
    "answers",
    [
        ...,
        None,
        {},
        {
            "gains": stub,
            "unsupported": [..., ...],
            "prediction": dict.fromkeys(PREDICTION, ...),
            "declared": check.declare(...),
            "trial": None,
            "held": ...,
        },
    ],
)
def test_the_stub_is_not_attempted(answers: Any) -> None:
    verdict = check.gates(answers)
    assert [name for name, *_ in verdict.parts] == [
        "gains", "scarce", "hungry", "covers", "bitwise", "unsupported", "prediction", "held", "surprise"
    ]  # fmt: skip
    assert {state for _, state, _ in verdict.parts} == {"not attempted"}
    assert verdict.score(9) == 0


# Gains


def accuracies(result: LabResult, words: str, arm: str) -> list[list[float]]:
    """(seeds, budgets)"""
    return [[getattr(o, words).accuracy for o in one.outcomes[arm]] for one in result.replicates]


def paired(result: LabResult, words: str) -> np.ndarray:
    scratch, pretrained = (np.array(accuracies(result, words, arm)) for arm in ("scratch", "pretrained"))
    return (pretrained - scratch).T


def by_hand(result: LabResult, words: str) -> list[list[float]]:
    count = len(result.recipe.budgets)
    rows: list[list[float]] = [[] for _ in range(count)]
    for one in result.replicates:
        for budget in range(count):
            pair = [getattr(one.outcomes[arm][budget], words) for arm in ("scratch", "pretrained")]
            rows[budget].append(pair[1].correct / pair[1].total - pair[0].correct / pair[0].total)
    return rows


def of_counts(result: LabResult, words: str) -> list[list[int]]:
    def score(one: lab.Replicate, arm: str, budget: int) -> Score:
        return getattr(one.outcomes[arm][budget], words)

    budgets = range(len(result.recipe.budgets))
    return [
        [score(r, "pretrained", b).correct - score(r, "scratch", b).correct for r in result.replicates]
        for b in budgets
    ]


def sorted_apart(result: LabResult, words: str) -> np.ndarray:
    scratch, pretrained = (np.sort(accuracies(result, words, arm), axis=0) for arm in ("scratch", "pretrained"))
    return (pretrained - scratch).T


@pytest.mark.parametrize(
    "function", [paired, by_hand, lambda r, w: torch.tensor(paired(r, w), dtype=torch.float32)]
)
def test_paired_gains_in_every_form(function: Any) -> None:
    assert says("gains", {"gains": function}) == ("right", "")


def test_the_gains_are_those_that_the_lab_prints() -> None:
    """The right answer is not the check's own: the table of the chapter has the covered gains too."""
    result = lab.run(replace(Recipe(), updates=1, adaptation_updates=1), (6050, 6051))
    assert np.allclose(paired(result, "covered"), [row.gains for row in result.rows], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "fragment"),
    [
        (lambda r, w: -paired(r, w), "sign is turned"),
        (lambda r, w: paired(r, w).mean(1), "is a mean"),
        (lambda r, w: [row.delta for row in r.rows], "is a mean"),
        (lambda r, w: paired(r, w).T, "rows should be the budgets"),
        (lambda r, w: paired(r, w)[:, 1:], "one column a seed"),
        (lambda r, w: [row.gains for row in r.rows], "gives the gains of the covered ones"),
        (lambda r, w: paired(r, "uncovered"), "gives the gains of the uncovered ones"),
        (lambda r, w: paired(r, "train"), "words that were taught"),
        (of_counts, "These are counts"),
        (lambda r, w: np.transpose(accuracies(r, w, "pretrained")), "pretrained arm alone"),
        (sorted_apart, "sorted by itself"),
        (
            lambda r, w: (
                (np.array(accuracies(r, w, "pretrained")) - np.mean(accuracies(r, w, "scratch"), axis=0)).T
            ),
            "scratch arm of the same seed",
        ),
        (lambda r, w: 100 * paired(r, w), "per cent"),
        (lambda r, w: paired(r, w) ** 2, "off by up to"),
        (lambda r, w: "much", "could not be read"),
        (lambda r, w: r.nothing, "raised AttributeError"),
        (0.5, "A function was expected"),
    ],
)
def test_other_gains_are_named(function: Any, fragment: str) -> None:
    state, message = says("gains", {"gains": function})
    assert state == "not yet"
    assert fragment in message


# Choices


@pytest.mark.parametrize("question", RIGHT)
def test_a_choice_and_its_sentence(question: str) -> None:
    def answered(letter: Any, because: Any = SAID) -> tuple[str, str]:
        return says(question, {question: letter, f"{SENTENCE[question]} because": because})

    assert answered(RIGHT[question])[0] == answered(f" {RIGHT[question].upper()}")[0] == "right"
    assert "in a sentence of your own" in answered(RIGHT[question], ...)[1]
    hints = {answered(letter)[1] for letter in set("abcd") - {RIGHT[question]}}
    assert len(hints) == 3
    assert min(map(len, hints)) > 30
    assert "Choose one of" in answered(3)[1]


@pytest.mark.parametrize("answer", [["b", "d"], ("D", " b"), "bd", "b, d", {"d", "b"}, np.array(["b", "d"])])
def test_two_conclusions_in_any_order(answer: Any) -> None:
    assert says("unsupported", {"unsupported": answer}) == ("right", "")


@pytest.mark.parametrize(
    ("answer", "fragment"),
    [
        ("ab", "smallest budget"),
        (["c", "d"], "control words support"),
        (["b", "e"], "training words"),
        (["f", "d"], "five units"),
        (["a", "c"], "smallest budget support this one. The control words"),
        (["b"], "two letters"),
        (["b", "d", "e"], "two letters"),
        (["b", "x"], "two letters"),
        (7, "could not be read"),
    ],
)
def test_a_supported_conclusion_is_defended(answer: Any, fragment: str) -> None:
    state, message = says("unsupported", {"unsupported": answer})
    assert state == "not yet"
    assert fragment in message


# A test, declared


@pytest.mark.parametrize(
    "change",
    [{}, {"seeds": (6050, 6051, 6054)}, {"sentences": np.int64(8)}, {"lowest": 0, "highest": 0.3}, {"labels": 1}],
)
def test_a_test_that_can_fail_can_be_declared(change: dict[str, Any]) -> None:
    declared = check.declare({**PREDICTION, **change})
    assert isinstance(declared, Declared)
    assert declared.fingerprint in repr(declared)


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"lowest": 0.2, "highest": 1.0}, "would not be a test"),
        ({"lowest": 0.85, "highest": 0.6}, "below the highest"),
        ({"lowest": 60, "highest": 85}, "neither a count nor per cent"),
        ({"lowest": "low"}, "bounds are numbers"),
        ({"seeds": [6050]}, "an anecdote"),
        ({"seeds": [6050, 6050]}, "an anecdote"),
        ({"seeds": 6050}, "list of whole numbers"),
        ({"seeds": [6050, 6051, 6052, 6053]}, "Two or three"),
        ({"sentences": 0}, "the run that you have seen"),
        ({"sentences": 9}, "1 to 8 sentences"),
        ({"sentences": "all"}, "1 to 8 sentences"),
        ({"labels": 3}, "are one of (1, 2, 4)"),
        ({"because": "just so"}, "Say why"),
        ({"because": ...}, "Say why"),
        ({"more": 1}, "with the keys"),
    ],
)
def test_what_cannot_fail_is_no_test(change: dict[str, Any], fragment: str) -> None:
    prediction = {**PREDICTION, **change}
    declared = check.declare(prediction)
    assert not declared.ready
    assert fragment in repr(declared)
    state, message = says("prediction", {"prediction": prediction, "declared": declared})
    assert state == "not yet"
    assert fragment in message


def test_a_declaration_cannot_be_changed_after_the_run() -> None:
    prediction = dict(PREDICTION)
    declared = check.declare(prediction)
    assert says("prediction", {"prediction": prediction, "declared": declared})[0] == "right"
    prediction["lowest"] = 0.65
    assert "declared before the run" in says("prediction", {"prediction": prediction, "declared": declared})[1]
    assert "Run the cell" in says("prediction", {"prediction": prediction, "declared": check.declare(...)})[1]
    with pytest.raises(AttributeError):
        declared.lowest = 0.65  # type: ignore[misc, union-attr]


def test_every_field_is_part_of_the_fingerprint() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"sentences": 3},
        {"labels": 2},
        {"seeds": [6050, 6051]},
        {"lowest": 0.61},
        {"highest": 0.86},
        {"because": "two sentences are not quite nothing"},
    ]
    declared = [check.declare({**PREDICTION, **change}) for change in changes]
    assert len({one.fingerprint for one in declared if isinstance(one, Declared)}) == len(changes)


def outcome_of(declared: Declared, uncovered: int, covered: int) -> LabResult:
    """What a run of the declaration would give, with invented scores of the pretrained arm."""
    made = lab.run(replace(Recipe(), updates=0, adaptation_updates=0), (6050,)).replicates[0]
    one = replace(made.outcomes["pretrained"][0], uncovered=Score(uncovered, 40), covered=Score(covered, 32))
    outcomes: dict[str, tuple[lab.Outcome, ...]] = {"scratch": (one,), "pretrained": (one,)}
    return LabResult(
        declared.recipe, tuple(replace(made, seed=seed, outcomes=outcomes) for seed in declared.seeds)
    )


@pytest.mark.parametrize(("uncovered", "held"), [(23, False), (24, True), (34, True), (35, False)])
def test_the_student_says_whether_it_held(uncovered: int, held: bool) -> None:
    declared = check.declare(PREDICTION)
    assert isinstance(declared, Declared)
    answers: dict[str, Any] = {"declared": declared, "trial": outcome_of(declared, uncovered, 16)}
    for answer in (held, int(held), np.bool_(held), torch.tensor(held)):
        assert says("held", {**answers, "held": answer}) == ("right", "")
    state, message = says("held", {**answers, "held": not held})
    assert state == "not yet"
    assert ("You read the covered words" in message) == held
    assert "True or False" in says("held", {**answers, "held": "yes"})[1]


def test_only_the_declared_run_counts() -> None:
    declared = check.declare(PREDICTION)
    other = check.declare({**PREDICTION, "sentences": 8})
    assert isinstance(declared, Declared)
    assert isinstance(other, Declared)
    for foreign in (other, replace(declared, seeds=(6050, 6051)), replace(declared, labels=2)):
        answers = {"declared": declared, "trial": outcome_of(foreign, 24, 16), "held": True}
        assert "not the one that was declared" in says("held", answers)[1]
    assert "no run to read" in says("held", {"declared": declared, "trial": None, "held": True})[1]


def test_what_runs_is_what_was_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = check.declare(PREDICTION)
    assert isinstance(declared, Declared)
    asked: list[Any] = []
    run: Callable[..., None] = lambda *given: asked.append(given)  # noqa: E731
    monkeypatch.setattr(lab, "run", run)
    declared.run()
    assert asked == [(replace(Recipe(), exposure=2, budgets=(4,)), (6050, 6052), None)]
    assert declared.recipe.exposure == 2


def test_the_student_version_trains_nothing_and_gives_no_answer() -> None:
    notebook = nbformat.read(STUDENT, as_version=4)
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}
    for name in ("lab", "rows", "trial", "which"):
        assert cells[name].outputs == []
    text = "\n".join(cell.source for cell in notebook.cells)
    assert not any(f'"{letter}"' in text for letter in "abcdef")
    assert not any(value in text for value in ("0.642", "0.550", "0.975", ".43", ".86", ".98"))
