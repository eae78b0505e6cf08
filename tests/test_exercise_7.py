"""Exercise 7: a tie is told from a copy, a design from seven others, and the guards by what they do."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
import torch
from chapter import same
from torch import Tensor, nn
from torch.nn import functional as F

from bertch15 import check
from bertch15.check.exercise_7.designs import GUARDS, pretrain_with
from bertch15.pretraining import Pretrained, PretrainingHead, new_head, pretrain
from bertch15.recipe import Recipe

STUDENT = Path(__file__).resolve().parent.parent / "notebooks" / "exercises" / "7_tied.ipynb"
SAID = "because a tied row has two uses"
KEPT = (True, False, False, False, True)

pytestmark = [pytest.mark.usefixtures("state_guard", "one_thread"), pytest.mark.filterwarnings("error")]


def says(part: str, answers: dict[str, Any]) -> tuple[str, str]:
    ((_, state, message),) = check.tied(answers, part).parts
    return state, message


def stub(*given: Any) -> Any:
    """As in the student version."""
    ...


@pytest.mark.parametrize(
    "answers",
    [
        ...,
        None,
        {},
        {
            "tied_rows": stub,
            "make_head": stub,
            "run": None,
            "moved": {"control": ..., "source": ...},
            "guards": dict.fromkeys(GUARDS, ...),
        },
    ],
)
def test_the_stub_is_not_attempted(answers: Any) -> None:
    verdict = check.tied(answers)
    assert [name for name, *_ in verdict.parts] == ["audit", "design", "moved", "reading", "guards"]
    assert {state for _, state, _ in verdict.parts} == {"not attempted"}
    assert verdict.score(10) == 0


# The audit


def by_gradient(head: nn.Module, embedding: nn.Parameter) -> Tensor:
    logits = head(torch.randn(4, embedding.shape[1]), embedding)
    (logits * torch.randn(logits.shape)).sum().backward()
    if embedding.grad is None:
        return torch.zeros(len(embedding))
    return embedding.grad.abs().sum(1) > 0


@torch.no_grad()
def by_change(head: nn.Module, embedding: nn.Parameter) -> list[int]:
    hidden = torch.randn(4, embedding.shape[1])
    before = head(hidden, embedding)
    return (head(hidden, embedding + 1) != before).any(0).int().tolist()


@torch.no_grad()
def one_row_at_a_time(head: nn.Module, embedding: nn.Parameter) -> np.ndarray:
    hidden, found = torch.ones(1, embedding.shape[1]), []
    hidden[0, 0] = -2.0
    for row in range(len(embedding)):
        before = head(hidden, embedding)[0, row].item()
        embedding[row, 0] += 5
        found.append(head(hidden, embedding)[0, row].item() != before)
    return np.array(found)


@pytest.mark.parametrize("function", [by_gradient, by_change, one_row_at_a_time])
def test_a_tie_is_found_in_several_ways(function: Any) -> None:
    assert says("audit", {"tied_rows": function}) == ("right", "")


def of_values(head: Any, embedding: Tensor) -> Tensor:
    """Wrong: what is equal is taken for one."""
    return (head.decoder.weight == embedding).all(1)


def of_both(head: Any, embedding: Tensor) -> Tensor:
    """Wrong: the gradient, or else equal values in what the head keeps."""
    found = by_gradient(head, nn.Parameter(embedding.detach().clone())).bool()
    for tensor in head.state_dict().values():
        if tensor.shape == embedding.shape:
            found = found | (tensor == embedding).all(1)
    return found


@pytest.mark.parametrize(
    ("function", "fragment"),
    [
        (of_values, "not kept in the decoder"),
        (of_both, "a copy is equal at first"),
        (lambda head, embedding: head.tied, "Not every head has the same attributes"),
        (
            lambda head, embedding: getattr(head, "tied", by_change(head, embedding)),
            "what a head says of itself",
        ),
        (lambda head, embedding: ~by_gradient(head, embedding).bool(), "other way round"),
        (lambda head, embedding: torch.ones(len(embedding)), "not kept in the decoder"),
        (lambda head, embedding: by_gradient(head, embedding).roll(1), "not kept in the decoder"),
        (lambda head, embedding: head.decoder.weight is embedding, "One answer for each"),
        (lambda head, embedding: 1 / 0, "raised ZeroDivisionError"),
        ("yes", "A function was expected"),
    ],
)
def test_what_only_looks_tied_is_named(function: Any, fragment: str) -> None:
    state, message = says("audit", {"tied_rows": function})
    assert state == "not yet"
    assert fragment in message


# The design


def source_tokens(recipe: Recipe) -> set[str]:
    """The right answers, from the sentences as text."""
    return {token for sentence in recipe.language().sentences for token in sentence.split()}


def head_of(recipe: Recipe, tokens: set[str], make: Callable[..., nn.Module] = PretrainingHead) -> nn.Module:
    vocabulary = recipe.language().vocabulary
    rows = torch.tensor([token in tokens for token in vocabulary.tokens])
    return make(recipe.width, len(vocabulary), rows)


def right(recipe: Recipe) -> nn.Module:
    return head_of(recipe, source_tokens(recipe))


class Reading(PretrainingHead):
    """Reads the embedding's numbers and gives no gradient back."""

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        return super().forward(hidden, embedding.detach())


class Copying(PretrainingHead):
    """Takes a copy of the rows at the first call."""

    def __init__(self, width: int, vocabulary: int, rows: Tensor) -> None:
        super().__init__(width, vocabulary)
        self.rows: Tensor | None = rows

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        if self.rows is not None:
            self.decoder.weight.data[self.rows] = embedding.detach()[self.rows]
            self.rows = None
        return super().forward(hidden, embedding)


class Scribbling(PretrainingHead):
    """Writes into the embedding."""

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        logits = super().forward(hidden, embedding)
        embedding.data[~self.tied] *= 1.01
        return logits


class Stopped(PretrainingHead):
    """Reads all rows of the embedding, and lets the gradient through to the tied ones alone."""

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        weight = torch.where(self.tied[:, None], embedding, embedding.detach())
        return F.linear(self.norm(F.gelu(self.dense(hidden))), weight, self.decoder.bias)


def words(recipe: Recipe, half: str) -> set[str]:
    return {word for family in getattr(recipe.language(), half) for word in family}


def chapters_rows(recipe: Recipe) -> nn.Module:
    """The right rows of the chapter's corpus, whatever the recipe."""
    rows = torch.zeros(115, dtype=torch.bool)
    rows[Recipe().language().pool] = True
    return PretrainingHead(recipe.width, 115, rows)


@pytest.mark.parametrize(
    "make_head",
    [
        right,
        lambda recipe: new_head(replace(recipe, decoder="tied source rows")),
        lambda recipe: head_of(recipe, source_tokens(recipe), Stopped),
    ],
)
def test_designs_that_keep_the_controls(make_head: Any) -> None:
    assert says("design", {"make_head": make_head}) == ("right", "")


def without_names(recipe: Recipe) -> nn.Module:
    return head_of(recipe, source_tokens(recipe) - words(recipe, "uncovered"))


@pytest.mark.parametrize(
    ("make_head", "fragment"),
    [
        (lambda r: new_head(replace(r, decoder="tied")), "Every row is tied"),
        (new_head, "Nothing is tied"),
        (lambda r: head_of(r, words(r, "uncovered")), "control rows that are tied"),
        (lambda r: head_of(r, source_tokens(r) | words(r, "uncovered")), "Control words are among"),
        (lambda r: head_of(r, source_tokens(r) | {"[UNK]"}), "Special tokens"),
        (lambda r: head_of(r, source_tokens(r) | {"[CLS]", "[SEP]", "[MASK]"}), "Special tokens"),
        (lambda r: head_of(r, source_tokens(r) | {"[PAD]"}), "Special tokens"),
        (lambda r: head_of(r, words(r, "covered")), "cues and function words"),
        (lambda r: head_of(r, source_tokens(r) - {"the"}), "1 rows"),
        (lambda r: head_of(r, source_tokens(r), Reading), "gradient does not come back"),
        (lambda r: head_of(r, source_tokens(r), Copying), "A copy is no tie"),
        (lambda r: head_of(r, source_tokens(r), Scribbling), "writes into the embedding"),
        (chapters_rows, "rows of one corpus"),
        (without_names, "have sentences too"),
        (lambda r: torch.ones(115).bool(), "this is Tensor"),
        (lambda r: nn.Identity(), "raised|could not be read|should give logits"),
        (lambda r: 1 / 0, "raised ZeroDivisionError"),
        (115, "A function was expected"),
    ],
)
def test_another_design_is_named(make_head: Any, fragment: str) -> None:
    state, message = says("design", {"make_head": make_head})
    assert state == "not yet"
    assert any(one in message for one in fragment.split("|")), message
    assert "70" not in message


def test_the_loop_is_the_plain_one() -> None:
    for decoder in ("untied", "tied source rows"):
        recipe = replace(Recipe(), updates=3, decoder=decoder)
        run, head = pretrain_with(new_head, recipe, 6052)
        plain = pretrain(recipe, 6052)
        assert same(run.scratch, plain.scratch)
        assert same(run.pretrained, plain.pretrained)
        assert same(head.state_dict(), plain.head)
        assert torch.equal(run.losses, plain.losses)
        assert torch.equal(run.branches, plain.branches)
        assert torch.equal(run.eligible, plain.eligible)


# What moved


@cache
def short(decoder: Any = "tied source rows") -> Pretrained:
    return pretrain(replace(Recipe(), updates=20, decoder=decoder), 6050)


@pytest.mark.parametrize("form", [int, float, np.int64, torch.tensor])
def test_the_counts_in_every_form(form: Any) -> None:
    moved = {"control": form(0), "source": form(70)}
    assert says("moved", {"moved": moved, "run": short()}) == ("right", "")


@pytest.mark.parametrize(
    ("moved", "fragment"),
    [
        ({"control": 40, "source": 70}, "control: these are the rows that stayed"),
        ({"control": 0, "source": 0}, "source: these are the rows that stayed"),
        ({"control": 0, "source": 73}, "special tokens among them"),
        ({"control": 0, "source": 70 * 48}, "Did you count numbers"),
        ({"control": 0, "source": 69}, "not this many"),
        ({"control": [False] * 40, "source": 70}, "a number of rows"),
        ({"control": 0, "source": ...}, "could not be read"),
        ({"control": 0}, "Two counts"),
        (70, "Two counts"),
    ],
)
def test_other_counts_are_named(moved: Any, fragment: str) -> None:
    state, message = says("moved", {"moved": moved, "run": short()})
    assert state == "not yet"
    assert fragment in message
    assert "70" not in message


def test_counts_belong_to_their_run() -> None:
    moved = {"control": 40, "source": 70}
    assert says("moved", {"moved": moved, "run": short("tied")})[0] == "right"
    assert "once your head is right" in says("moved", {"moved": moved, "run": None})[1]


# Guards and reading


def test_the_guards_in_every_form() -> None:
    for form in (bool, int, np.bool_, torch.tensor):
        guards = dict(zip(GUARDS, map(form, KEPT), strict=True))
        assert says("guards", {"guards": guards}) == ("right", "")


FRAGMENTS = ("two moments hold", "does not pass through", "gradients that came before", "still see", "is over")


@pytest.mark.parametrize(("place", "fragment"), list(enumerate(FRAGMENTS)))
def test_each_guard_has_its_misconception(place: int, fragment: str) -> None:
    kept = [k != (i == place) for i, k in enumerate(KEPT)]
    state, message = says("guards", {"guards": dict(zip(GUARDS, kept, strict=True))})
    assert state == "not yet"
    assert fragment in message
    assert sum(other in message for other in FRAGMENTS) == 1


def test_guards_left_open_are_named() -> None:
    guards = {**dict(zip(GUARDS, KEPT, strict=True)), GUARDS[4]: ...}
    assert says("guards", {"guards": guards}) == ("not yet", f"Still open: {GUARDS[4]}.")
    assert "One True or False" in says("guards", {"guards": list(KEPT)})[1]
    assert "could not be read" in says("guards", {"guards": dict.fromkeys(GUARDS, "yes")})[1]


def test_a_choice_and_its_sentence() -> None:
    def answered(letter: Any, because: Any = SAID) -> tuple[str, str]:
        return says("reading", {"reading": letter, "reading because": because})

    assert answered("b")[0] == answered("B")[0] == "right"
    assert "in a sentence of your own" in answered("b", "so")[1]
    assert len({answered(letter)[1] for letter in "acd"}) == 3
    assert "Choose one of" in answered("yes")[1]


def test_the_student_version_trains_nothing_and_gives_no_answer() -> None:
    notebook = nbformat.read(STUDENT, as_version=4)
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}
    assert cells["run"].outputs == []
    assert not any("untied | 600" in str(output) for output in cells["table"].outputs)
    text = "\n".join(cell.source for cell in notebook.cells)
    assert not any(f'"{letter}"' in text for letter in "abcd")
    assert "rows[world.pool]" not in text
    assert "tied source rows" in text  # the table's line; how it is made is not said
