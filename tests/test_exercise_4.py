"""Exercise 4: a matched comparison passes, and each way of not matching it is named."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bertch15 import check, finetuning
from bertch15.check.exercise_4 import pairs
from bertch15.fast.training import pretrain_together
from bertch15.pretraining import Pretrained, State
from bertch15.recipe import SEEDS, Recipe

STUDENT = Path(__file__).resolve().parent.parent / "notebooks" / "exercises" / "4_probe.ipynb"
SAID = "because the families lie apart already"

pytestmark = [pytest.mark.usefixtures("state_guard", "one_thread"), pytest.mark.filterwarnings("error")]


def loop(
    model: finetuning.Classifier,
    examples: tuple[torch.Tensor, torch.Tensor],
    groups: list[dict[str, Any]],
    updates: int,
    make: Callable[..., torch.optim.Optimizer] = torch.optim.Adam,
) -> finetuning.Classifier:
    optimiser = make(groups)
    for _ in range(updates):
        optimiser.zero_grad(set_to_none=False)
        F.cross_entropy(model(examples[0]), examples[1]).backward()
        optimiser.step()
    return model


def fit(recipe: Recipe, seed: int, start: State, budget: int, kind: str, **other: Any) -> finetuning.Classifier:
    """A right answer, and a wrong one for each keyword."""
    task = finetuning.make_task(recipe.language(), other.get("split", seed), budget)
    model = finetuning.new_classifier(recipe, other.get("head", seed), other.get("begin", start))
    if "draw" in other:
        model.head = nn.Linear(recipe.width, 2)
    rates = other.get("rates", (recipe.head_rate, recipe.encoder_rate))
    groups = [{"params": list(model.head.parameters()), "lr": rates[0]}]
    if kind == other.get("moves", "full") or "both move" in other:
        groups.append({"params": list(model.encoder.parameters()), "lr": rates[1]})
    updates = other.get("updates", recipe.adaptation_updates)
    examples = getattr(task, other.get("part", "train"))
    return loop(model, examples, groups, updates, other.get("make", torch.optim.Adam))


def by_the_book(recipe: Recipe, seed: int, start: State, budget: int, kind: Any) -> finetuning.Adapted:
    return finetuning.adapt(replace(recipe, adaptation=kind), seed, start, budget)


def in_place(recipe: Recipe, seed: int, start: State, budget: int, kind: str) -> finetuning.Classifier:
    model = fit(recipe, seed, start, budget, kind)
    for name, tensor in model.encoder.state_dict().items():
        start[name].copy_(tensor)
    return model


def frozen_too_late(recipe: Recipe, seed: int, start: State, budget: int, kind: str) -> finetuning.Classifier:
    """The optimiser has the encoder all the same, and weight decay pulls at it."""
    model = finetuning.new_classifier(recipe, seed, start)
    for p in model.encoder.parameters():
        p.grad = torch.zeros_like(p)
    model.encoder.requires_grad_(kind == "full")
    examples = finetuning.make_task(recipe.language(), seed, budget).train
    groups = [{"params": model.head.parameters(), "lr": recipe.head_rate}]
    groups.append({"params": model.encoder.parameters(), "lr": recipe.encoder_rate})
    return loop(model, examples, groups, recipe.adaptation_updates, torch.optim.AdamW)


def says(part: str, **answers: Any) -> tuple[str, str]:
    ((_, state, message),) = check.probe(answers, part).parts
    return state, message


def varied(**other: Any) -> Callable[..., Any]:
    return lambda recipe, seed, start, budget, kind: fit(recipe, seed, start, budget, kind, **other)


def stub(recipe: Any, seed: Any, start: Any, budget: Any, kind: Any) -> Any:
    """As in the student version."""
    ...


@pytest.mark.parametrize("answers", [..., None, {}, {"adapted": stub, "pairs": {400: ..., 600: ...}, "runs": ()}])
def test_the_stub_is_not_attempted(answers: Any) -> None:
    verdict = check.probe(answers)
    assert [name for name, *_ in verdict.parts] == ["adapted", "pairs", "winner", "too much"]
    assert {state for _, state, _ in verdict.parts} == {"not attempted"}
    assert verdict.score(8) == 0


def test_a_part_that_is_no_part_is_an_error_of_the_book() -> None:
    with pytest.raises(ValueError, match="parts must be among"):
        check.probe({}, "pears")
    assert "dictionary" in check.probe([1, 2]).parts[0][2]


# The function


@pytest.mark.parametrize("function", [fit, by_the_book])
def test_a_matched_comparison_is_right(function: Any) -> None:
    assert says("adapted", adapted=function) == ("right", "")


SWAPPED = (Recipe().encoder_rate, Recipe().head_rate)
NOT_MATCHED = [
    (varied(draw=True), "different heads"),
    (varied(head=6050), "five seeds need five heads"),
    (varied(split=6050), "another split|labelled words, batches"),
    (lambda r, s, *rest: fit(r, s, *rest, split=s + 1), "other labelled words"),
    (varied(part="covered"), "words that test it"),
    (varied(moves="probe"), "probe's encoder moved"),
    (varied(**{"both move": True}), "probe's encoder moved"),
    (frozen_too_late, "probe's encoder moved"),
    (varied(moves="neither"), "a probe with a probe"),
    (varied(rates=SWAPPED), "at the encoder's rate"),
    (varied(rates=(2e-3, 2e-3)), "at one rate"),
    (varied(rates=(2e-4, 2e-4)), "at the encoder's rate"),
    (lambda r, *rest: fit(r, *rest, updates=2 * r.adaptation_updates), "Compare, one by one"),
    (lambda r, *rest: fit(r, *rest, updates=160 * bool(r.adaptation_updates)), "another number of updates"),
    (varied(make=torch.optim.SGD), "not plain Adam"),
    (varied(updates=160), "no updates"),
    (in_place, "trains the checkpoint itself"),
    (lambda r, *rest: fit(r, *rest, begin=finetuning.new_classifier(r, 1, rest[1]).encoder.state_dict()), ""),
    (lambda *given: None if given else 0, "gave NoneType"),
    (lambda *given: 1 / 0, "raised ZeroDivisionError"),
    (lambda: 1, "raised TypeError"),
    (17, "A function was expected"),
]


@pytest.mark.parametrize(("function", "fragment"), NOT_MATCHED)
def test_what_is_not_matched_is_named(function: Any, fragment: str) -> None:
    state, message = says("adapted", adapted=function)
    if not fragment:  # the same weights under another way of loading them: matched
        assert state == "right"
        return
    assert state == "not yet"
    assert any(one in message for one in fragment.split("|")), message


def test_scratch_is_no_checkpoint() -> None:
    def from_scratch(recipe: Recipe, seed: int, start: State, budget: int, kind: str) -> finetuning.Classifier:
        other = {name: torch.zeros_like(tensor) for name, tensor in start.items()}
        return fit(recipe, seed, start, budget, kind, begin=other)

    assert "not at the checkpoint" in says("adapted", adapted=from_scratch)[1]


def test_the_arguments_are_what_counts() -> None:
    """A function that reads the chapter's recipe in place of its argument makes updates nobody asked for."""
    assert "no updates" in says("adapted", adapted=lambda _, *rest: by_the_book(Recipe(), *rest))[1]


# The pairs


@cache
def runs() -> tuple[Pretrained, ...]:
    """Five runs with two checkpoints that have nothing to do with each other, short enough for a test."""
    small = Recipe(width=24, heads=2, inner=48, blocks=1)
    recipe = replace(small, updates=2, adaptation_updates=12, encoder_rate=5e-3)
    made = pretrain_together(recipe, SEEDS)
    starts = [*made[1:], made[0]]
    return tuple(
        replace(run, snapshots={2: other.scratch, 4: run.pretrained})
        for run, other in zip(made, starts, strict=True)
    )


@cache
def measured(part: str = "covered", scratch: bool = False) -> dict[int, np.ndarray]:
    """All pairs, by the plain loop."""

    def accuracy(run: Pretrained, step: int, kind: str) -> float:
        start = run.scratch if scratch else run.snapshots[step]
        return getattr(by_the_book(run.recipe, run.seed, start, 1, kind), part).accuracy

    return {
        step: np.array([[accuracy(run, step, kind) for kind in ("probe", "full")] for run in runs()])
        for step in (2, 4)
    }


@pytest.mark.parametrize(
    "form", [np.ndarray.tolist, np.array, torch.tensor, lambda table: tuple(map(tuple, table.tolist()))]
)
def test_the_right_pairs_in_every_form(form: Any) -> None:
    pairs = {step: form(table) for step, table in measured().items()}
    assert says("pairs", pairs=pairs, runs=runs()) == ("right", "")


def first(change: Callable[[np.ndarray], Any]) -> dict[int, Any]:
    """The right pairs, those of the first checkpoint changed."""
    return {2: change(measured()[2]), 4: measured()[4]}


MISTAKEN = [
    (lambda: measured("train"), "words that were taught"),
    (lambda: measured("uncovered"), "control words"),
    (lambda: measured(scratch=True), "before any pretraining"),
    (lambda: {2: measured()[4], 4: measured()[2]}, "the other checkpoint"),
    (lambda: first(lambda t: t[:, ::-1]), "columns are exchanged"),
    (lambda: first(lambda t: np.sort(t, axis=0)), "a row is one seed"),
    (lambda: first(lambda t: t[::-1]), "not in the order of the runs"),
    (lambda: first(lambda t: t.T), "One row a seed"),
    (lambda: first(lambda t: t.mean(0)), "hides the pairs"),
    (lambda: first(lambda t: t[:, 0] - t[:, 1]), "hides the pairs"),
    (lambda: first(lambda t: 100 * t), "neither counts nor per cent"),
    (lambda: first(lambda t: t * 38), "neither counts nor per cent"),
    (lambda: first(lambda t: np.clip(t + 2 / 38, 0, 1)), "off by up to"),
    (lambda: first(lambda t: "high"), "could not be read"),
    (lambda: measured()[2], "checkpoints (2, 4)"),
    (lambda: {2: measured()[2]}, "checkpoints (2, 4)"),
]


@pytest.mark.parametrize(("make", "fragment"), MISTAKEN)
def test_mistaken_pairs_are_named(make: Callable[[], Any], fragment: str) -> None:
    state, message = says("pairs", pairs=make(), runs=runs())
    assert state == "not yet"
    assert fragment in message
    for table in measured().values():
        assert not any(f"{value:.3f}" in message for value in table.flatten())


def test_a_word_too_many_or_too_few_is_not_right() -> None:
    for place, word in ((0, -1 / 38), (9, 1 / 38)):
        table = measured()[2].copy()
        table.flat[place] += word
        assert table.max() <= 1
        assert says("pairs", pairs={**measured(), 2: table}, runs=runs())[0] == "not yet"


def test_a_word_on_the_boundary_may_fall_on_either_side() -> None:
    """A head of zeros leaves every word in doubt: then any count is right, and where it is not, none but one."""
    model = finetuning.new_classifier(runs()[0].recipe, 6050, runs()[0].scratch)
    ids = finetuning.make_task(Recipe().language(), 6050, 1).covered[0]
    adapted = finetuning.Adapted(model, torch.zeros(0), *[finetuning.Score(0, 38)] * 3)
    assert pairs.doubtful(adapted, ids) == 0
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.copy_(torch.tensor([0.0, pairs.DOUBT / 2]))
    assert pairs.doubtful(adapted, ids) == 38
    expected, doubts = torch.tensor([[0.5, 1.0]]), torch.tensor([[1, 0]])
    moved = torch.tensor([[1 / 38, 0.0]])
    assert pairs.alike(expected + moved, expected, doubts)
    assert not pairs.alike(expected + 2 * moved, expected, doubts)
    assert not pairs.alike(expected - moved.flip(1), expected, doubts)


def test_pairs_need_runs() -> None:
    assert "once your function is right" in says("pairs", pairs=measured(), runs=())[1]


# What it means


@pytest.mark.parametrize(("question", "right"), [("winner", "b"), ("too much", "c")])
def test_a_choice_and_its_sentence(question: str, right: str) -> None:
    def answered(letter: Any, because: Any = SAID) -> tuple[str, str]:
        return says(question, **{question: letter, f"{question} because": because})

    assert answered(right)[0] == answered(right.upper())[0] == "right"
    assert "in a sentence of your own" in answered(right, ...)[1]
    hints = {answered(letter)[1] for letter in set("abcd") - {right}}
    assert len(hints) == 3
    assert min(map(len, hints)) > 30
    assert "Choose one of" in answered("e")[1]


def test_the_student_version_trains_nothing_and_gives_no_answer() -> None:
    notebook = nbformat.read(STUDENT, as_version=4)
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}
    assert cells["runs"].outputs == cells["show-figure"].outputs == []
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "torch.optim.Adam(" not in text
    assert not any(f'"{letter}"' in text for letter in "abcd")
    assert not any(str(value) in text for value in (0.974, 0.684, 0.921))
