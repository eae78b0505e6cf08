"""Exercise 2: the right counts in every form, for any seed, and what each wrong count is told."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch

from bertch15 import check
from bertch15.check.exercise_2 import branches, counts
from bertch15.check.exercise_2.branches import CHAPTER, NAMES, Instance

ROOT = Path(__file__).resolve().parent.parent
FIRST = {"selected": 300, "masked": 240, "random": 30, "unchanged": 30, "scored": 300}
SAID = "because of what I wrote on my paper"
SEEDS = [*range(60), "wug", "Ada Lovelace", -1, 10**12]

pytestmark = [pytest.mark.usefixtures("state_guard"), pytest.mark.filterwarnings("error")]


def by_hand(task: Instance) -> dict[str, int]:
    """The five counts in whole numbers, from nothing but what the task says."""
    selected, rest = divmod(task.eligible * task.rate, 100)
    assert rest == 0
    found = {"selected": selected, "scored": selected}
    for name in ("masked", "random", "unchanged"):
        found[name], rest = divmod(selected * getattr(task, name), 100)
        assert rest == 0
    assert sum(found[name] for name in ("masked", "random", "unchanged")) == selected
    return found


def task_of(seed: int | str) -> Instance:
    task = check.instance(seed)
    assert isinstance(task, Instance)
    return task


def first(**changes: Any) -> dict[str, tuple[str, str]]:
    """State and message of each count of the chapter's policy, with some counts answered otherwise."""
    parts = check.counting({"first": {**FIRST, **changes}}, "first").parts
    return {name: (state, says) for name, state, says in parts}


def right(seed: int | str = 7) -> dict[str, Any]:
    own = by_hand(task_of(seed))
    return {"first": FIRST, "seed": seed, "own": own, "twelve": "b", "twelve because": SAID}


@pytest.mark.parametrize(
    "answers", [..., None, {}, {"first": ..., "seed": ...}, {"first": dict.fromkeys(FIRST, ...), "own": {}}]
)
def test_the_stub_is_not_attempted(answers: Any) -> None:
    verdict = check.counting(answers)
    names = [name for name, _, _ in verdict.parts]
    assert names == [*NAMES, *(f"own {name}" for name in NAMES), "twelve"]
    assert {state for _, state, _ in verdict.parts} == {"not attempted"}
    assert verdict.score(11) == 0
    assert repr(check.instance(...)).startswith("○ not attempted")


def test_the_right_answers_gain_all_points() -> None:
    assert check.counting(right()).right
    assert check.counting(right()).score(11) == 11


def test_each_count_is_one_point() -> None:
    for name in NAMES:
        assert check.counting({**right(), "first": {**FIRST, name: ...}}).score(11) == 10
        assert first(**{name: ...})[name][0] == "not attempted"


@pytest.mark.parametrize(
    "answer",
    [
        FIRST,
        {name: float(number) for name, number in FIRST.items()},
        {name: np.int64(number) for name, number in FIRST.items()},
        {name: torch.tensor(number) for name, number in FIRST.items()},
        {name: [number] for name, number in FIRST.items()},
        {name: f"{number:,}" for name, number in FIRST.items()},
        {"selected": 0.15 * 2000, "masked": 0.12 * 2000, "random": 300 * 0.1, "unchanged": 300 * (1 - 0.8 - 0.1)}
        | {"scored": 300},
        list(FIRST.values()),
        tuple(FIRST.values()),
        np.array([*FIRST.values()]),
        torch.tensor([*FIRST.values()]).double(),
    ],
)
def test_counts_may_come_in_any_form(answer: Any) -> None:
    parts = check.counting({"first": answer}, "first").parts
    assert [(state, says) for _, state, says in parts] == [("right", "")] * 5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_gives_a_task_of_its_own(seed: int | str) -> None:
    task = task_of(seed)
    assert task == task_of(seed)
    assert task.masked + task.random + task.unchanged == 100
    assert len({task.masked, task.random, task.unchanged}) == 3
    own = by_hand(task)
    verdict = check.counting({"seed": seed, "own": own}, "own")
    assert verdict.right, verdict
    # Who does not know the rule gets another number.
    for name, number in {
        "random": task.eligible * task.random / 100,
        "scored": own["masked"],
        "unchanged": task.eligible - own["selected"],
        "masked": own["random"],
        "selected": own["masked"],
    }.items():
        parts = check.counting({"seed": seed, "own": own | {name: number}}, "own").parts
        state = {part: state for part, state, _ in parts}
        assert state[f"own {name}"] == "not yet"


def test_tasks_differ_and_stay_as_they_are() -> None:
    assert len({task_of(seed) for seed in SEEDS}) > 50
    assert len(counts.tasks()) > 1000
    assert task_of(np.int64(7)) == task_of(7)  # type: ignore[arg-type]
    # On every machine and in every year: what a teacher has graded must not change.
    assert task_of(1812) == Instance(eligible=1200, rate=30, masked=60, random=25, unchanged=15)
    assert "1,200 eligible positions, 30 % of them" in repr(task_of(1812))


@pytest.mark.parametrize("seed", [2.5, [1], object()])
def test_other_seeds_are_no_seeds(seed: object) -> None:
    assert "choose a seed" in repr(check.instance(seed))
    parts = check.counting({"seed": seed, "own": [1] * 5}, "own").parts
    assert {says for _, _, says in parts} == {"Choose your seed first."}


WRONG = [
    ("random", 200, "share of all eligible positions"),
    ("masked", 1600, "share of all eligible positions"),
    ("unchanged", 200, "share of all eligible positions"),
    ("random", 6, "of what [MASK] left over"),
    ("unchanged", 54, "of what [MASK] left over"),
    ("scored", 240, "[MASK] does not decide what is scored"),
    ("scored", 270, "that stay as they are are scored too"),
    ("scored", 2000, "Positions that are not selected are in this number"),
    ("scored", 1700, "what is not selected"),
    ("scored", 1760, "what shows no [MASK]"),
    ("scored", 1730, "what reads as it did before"),
    ("unchanged", 1700, "never selected"),
    ("unchanged", 1730, "never selected"),
    ("selected", 15, "a share"),
    ("selected", 0.15, "a share"),
    ("selected", "15 %", "a share"),
    ("masked", 80, "a share"),
    ("masked", 0.12, "a share"),
    ("random", 1.5, "a share"),
    ("scored", 15, "a share"),
    ("masked", 30, "order is exchanged"),
    ("unchanged", 240, "order is exchanged"),
    ("random", 240, "order is exchanged"),
    ("masked", 60, "does not become [MASK]"),
    ("masked", 300, "never becomes [MASK]"),
    ("random", 60, "two branches together"),
    ("unchanged", 60, "two branches together"),
    ("selected", 1700, "what is not selected"),
    ("selected", 2000, "may be selected"),
    ("selected", 240, "[MASK] branch alone"),
    ("selected", 270, "altered is not all"),
    ("selected", 301, "share of the eligible positions: which?"),
    ("random", 31, "share of the selected positions: which?"),
    ("scored", 301, "Which of the four controls"),
    ("scored", float("nan"), "Which of the four controls"),
    ("masked", -240, "share of the selected positions: which?"),
    ("masked", [1, 2], "one number is asked for"),
    ("masked", "many", "could not be read"),
    ("masked", object(), "an array was expected"),
]


@pytest.mark.parametrize(("name", "answer", "fragment"), WRONG)
def test_a_wrong_count_is_told_what_was_counted(name: str, answer: Any, fragment: str) -> None:
    found = first(**{name: answer})
    state, says = found[name]
    assert state == "not yet"
    assert fragment in says
    if answer != "many":
        assert not re.search(r"\d", says)
    assert [other for other in NAMES if found[other] != ("right", "")] == [name]


@pytest.mark.parametrize("seed", [3, "wug"])
def test_the_same_mistakes_are_known_in_any_task(seed: int | str) -> None:
    task, own = task_of(seed), by_hand(task_of(seed))
    rest = own["selected"] - own["masked"]
    cases = [
        ("random", task.eligible * task.random / 100, "share of all eligible positions"),
        ("random", rest * task.random / 100, "of what [MASK] left over"),
        ("random", own["unchanged"], "order is exchanged"),
        ("unchanged", own["random"], "order is exchanged"),
        ("unchanged", task.eligible - own["selected"], "never selected"),
        ("scored", own["masked"], "[MASK] does not decide"),
        ("scored", own["masked"] + own["random"], "are scored too"),
    ]
    for name, number, fragment in cases:
        parts = check.counting({"seed": seed, "own": {**own, name: number}}, "own").parts
        assert fragment in {part: says for part, _, says in parts}[f"own {name}"]


def test_a_mistake_is_told_where_it_was_made() -> None:
    found = first(selected=400, masked=320, random=40, unchanged=40, scored=400)
    follows = "This follows from your number of selected positions"
    assert "which?" in found["selected"][1]
    assert all(found[name][0] == "not yet" and follows in found[name][1] for name in NAMES[1:])


@pytest.mark.parametrize("answer", [300, [300] * 4, object()])
def test_five_counts_are_wanted(answer: Any) -> None:
    parts = check.counting({"first": answer}, "first").parts
    assert {state for _, state, _ in parts} == {"not yet"}
    assert {"could not be read" in says for _, _, says in parts} == {True}


@pytest.mark.parametrize(
    ("letter", "fragment"),
    [("a", "an expectation"), ("c", "not scored?"), ("d", "not eligible"), ("x", "Choose one")],
)
def test_a_wrong_reason_is_answered(letter: str, fragment: str) -> None:
    ((_, state, says),) = check.counting({"twelve": letter, "twelve because": SAID}, "twelve").parts
    assert state == "not yet"
    assert fragment in says


def test_a_letter_wants_a_sentence() -> None:
    assert "in a sentence of your own" in repr(check.counting({"twelve": "B"}, "twelve"))
    assert check.counting({"twelve": "B", "twelve because": SAID}, "twelve").right


@pytest.mark.parametrize("answers", [5, [300, 240, 30, 30, 300]])
def test_anything_else_is_told_what_is_wanted(answers: Any) -> None:
    verdict = check.counting(answers)
    assert {state for _, state, _ in verdict.parts} == {"not yet"}
    assert "dictionary" in repr(verdict)


def test_a_check_leaves_the_answer_alone() -> None:
    answers = right()
    answers["first"] = torch.tensor([*FIRST.values()])
    kept = answers["first"].clone()
    check.counting(answers)
    assert torch.equal(answers["first"], kept)
    assert set(answers) == set(right())


def test_the_student_version_and_the_check_give_nothing_away() -> None:
    notebook = nbformat.read(ROOT / "notebooks" / "exercises" / "2_counting.ipynb", as_version=4)
    said = "\n".join(cell.source + repr(cell.get("outputs", "")) for cell in notebook.cells)
    assert "Task 3" in said
    assert not re.search(r"\b(300|240|30|1700|1,700)\b", said)
    for source in map(inspect.getsource, (counts, branches)):
        constants = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
        assert not {300, 240, 1700} & {value for value in constants if isinstance(value, int)}
        assert not {*"abcd"} & {value for value in constants if isinstance(value, str)}
    public = {name for name in dir(CHAPTER) if not name.startswith("_")}
    assert public == {"eligible", "rate", "masked", "random", "unchanged"}
