"""Exercise 3: assertions that hold pass, and each assertion that is too lax or too strict is told why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from torch.nn import functional as F

from bertch15 import check
from bertch15.check.exercise_3.assertions import TRIALS, cases
from bertch15.check.exercise_3.faults import SIZES, sound
from bertch15.check.kit import calling
from bertch15.vocabulary import CLS, PAD, SEP

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.usefixtures("state_guard")


def shapes(ids, hidden, selected, selected_hidden, logits, targets, size):
    assert hidden.shape == (*ids.shape, hidden.shape[-1])
    assert selected.shape == ids.shape
    assert selected.dtype == torch.bool
    count = int(selected.sum())
    assert selected_hidden.shape == (count, hidden.shape[-1])
    assert logits.shape == (count, size)
    assert targets.shape == (count,)
    assert targets.dtype == torch.int64


def rows(ids, hidden, selected, selected_hidden, targets):
    assert torch.equal(selected_hidden, hidden[selected])
    assert torch.equal(targets, ids[selected])


def specials(ids, selected):
    assert not torch.isin(ids[selected], torch.tensor([PAD, CLS, SEP])).any()


def expected_loss(dense, ids, selected):
    wanted = torch.where(selected, ids, -100).flatten()
    return F.cross_entropy(dense.flatten(0, 1), wanted, reduction="sum") / max(1, int(selected.sum()))


def losses(dense, ids, selected, loss):
    assert abs(loss - expected_loss(dense, ids, selected)) < 5e-6


RIGHT: dict[str, Callable[..., None]] = {"shapes": shapes, "rows": rows, "specials": specials, "losses": losses}


def stub(*arguments: Any) -> None:
    """A docstring, and nothing done."""
    ...


def told(name: str, assertion: Any) -> tuple[str, str]:
    ((part, state, says),) = check.shapes(**{name: assertion}).parts
    assert part == name
    return state, says


def test_the_stub_is_not_attempted() -> None:
    for verdict in (check.shapes(), check.shapes(stub, stub, stub, stub), check.shapes(losses=stub)):
        assert {state for _, state, _ in verdict.parts} == {"not attempted"}
        assert verdict.score(8) == 0


def test_the_right_assertions_gain_all_points() -> None:
    verdict = check.shapes(*RIGHT.values())
    assert verdict.right, verdict
    assert verdict.score(8) == 8
    assert check.shapes(**{**RIGHT, "rows": stub}).score(8) == 6


def shapes_by_axes(ids, hidden, selected, selected_hidden, logits, targets, size):
    if hidden.dim() != 3 or tuple(hidden.shape[:2]) != tuple(ids.shape):
        raise AssertionError
    if selected.dtype is not torch.bool or list(selected.shape) != list(ids.shape):
        raise AssertionError
    wanted = ([selected.sum(), hidden.size(2)], [selected.sum(), size], [selected.sum()])
    for tensor, shape in zip((selected_hidden, logits, targets), wanted, strict=True):
        assert list(tensor.shape) == shape
    assert not targets.is_floating_point()


def rows_by_loop(ids, hidden, selected, selected_hidden, targets):
    places = [(b, t) for b in range(len(ids)) for t in range(ids.shape[1]) if selected[b][t]]
    for m, (b, t) in enumerate(places):
        assert targets[m] == ids[b, t]
        assert (selected_hidden[m] == hidden[b, t]).all()


def specials_by_loop(ids, selected):
    for row, marks in zip(ids.tolist(), selected.tolist(), strict=True):
        assert all(token not in (PAD, CLS, SEP) for token, mark in zip(row, marks, strict=True) if mark)


def losses_by_formula(dense, ids, selected, loss):
    surprise = -dense.log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    torch.testing.assert_close(
        loss, (surprise * selected).sum() / selected.sum().clamp(min=1), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("name", "assertion"),
    [
        ("shapes", shapes_by_axes),
        ("rows", rows_by_loop),
        ("specials", specials_by_loop),
        ("losses", losses_by_formula),
    ],
)
def test_the_same_in_other_words_is_right(name: str, assertion: Callable[..., None]) -> None:
    assert told(name, assertion) == ("right", "")


def axes_only(ids, hidden, selected, selected_hidden, logits, targets, size):
    assert (hidden.dim(), selected.dim(), selected_hidden.dim(), logits.dim(), targets.dim()) == (3, 2, 2, 2, 1)


def by_hidden(ids, hidden, selected, selected_hidden, logits, targets, size):
    assert selected.shape == hidden.shape[:2]
    assert selected.dtype == torch.bool
    shapes(selected, hidden, selected, selected_hidden, logits, targets, size)


def with_each_other(ids, hidden, selected, selected_hidden, logits, targets, size):
    assert hidden.shape == (*ids.shape, hidden.shape[-1])
    assert selected.shape == ids.shape
    assert selected.dtype == torch.bool
    assert selected_hidden.shape == (int(selected.sum()), hidden.shape[-1])
    assert logits.shape == (*targets.shape, size)
    assert targets.dtype == torch.int64


def no_kinds(ids, hidden, selected, selected_hidden, logits, targets, size):
    shapes(ids, hidden, selected.bool(), selected_hidden, logits, targets.long(), size)


def apart_by_size(ids, hidden, selected, selected_hidden, logits, targets, size):
    assert hidden.shape[0] != hidden.shape[1], "batch and time exchanged"
    shapes(ids, hidden, selected, selected_hidden, logits, targets, size)


def never_nothing(ids, hidden, selected, selected_hidden, logits, targets, size):
    assert len(targets) > 0
    shapes(ids, hidden, selected, selected_hidden, logits, targets, size)


def fixed_width(ids, hidden, selected, selected_hidden, logits, targets, size):
    assert hidden.shape[-1] == 6


def shapes_as_answer(ids, hidden, selected, selected_hidden, logits, targets, size):
    return logits.shape == (int(selected.sum()), size)


def shapes_by_torch(ids, hidden, selected, selected_hidden, logits, targets, size):
    assert torch.equal(hidden[selected], selected_hidden)
    shapes(ids, hidden, selected, selected_hidden, logits, targets, size)


def other_error(ids, hidden, selected, selected_hidden, logits, targets, size):
    if logits.shape != (int(selected.sum()), size):
        raise ValueError("logits")


def rows_by_shape(ids, hidden, selected, selected_hidden, targets):
    assert len(selected_hidden) == len(targets) == int(selected.sum())


def rows_as_sets(ids, hidden, selected, selected_hidden, targets):
    assert sorted(targets.tolist()) == sorted(ids[selected].tolist())
    assert torch.equal(selected_hidden, hidden[selected])


def states_only(ids, hidden, selected, selected_hidden, targets):
    assert torch.equal(selected_hidden, hidden[selected])


def rows_by_column(ids, hidden, selected, selected_hidden, targets):
    assert torch.equal(targets, ids.T[selected.T])


def specials_by_size(ids, selected):
    assert (ids[selected] > 4).all()


def first_column(ids, selected):
    assert not selected[:, 0].any()


def frame_by_place(ids, selected):
    assert not selected[:, 0].any()
    assert not (selected & (ids == PAD)).any()
    for row, marks in zip(ids, selected, strict=True):
        assert not marks[int((row == SEP).nonzero()[-1])]


def all_for_any(ids, selected):
    never = torch.isin(ids, torch.tensor([PAD, CLS, SEP]))
    assert not selected[never].all()


def must_select(ids, selected):
    specials(ids, selected)
    assert selected.any()


def exactly(dense, ids, selected, loss):
    assert loss == expected_loss(dense, ids, selected)


def roughly(dense, ids, selected, loss):
    assert abs(loss - expected_loss(dense, ids, selected)) < 0.05


def nan_passes(dense, ids, selected, loss):
    if abs(loss - expected_loss(dense, ids, selected)) > 5e-6:
        raise AssertionError


def mean_of_nothing(dense, ids, selected, loss):
    wanted = torch.where(selected, ids, -100).flatten()
    assert abs(loss - F.cross_entropy(dense.flatten(0, 1), wanted)) < 5e-6


def skips_nothing(dense, ids, selected, loss):
    if selected.any():
        losses(dense, ids, selected, loss)


def ignores_padding_only(dense, ids, selected, loss):
    assert abs(loss - F.cross_entropy(dense.flatten(0, 1), ids.flatten(), ignore_index=PAD)) < 5e-6


def undecided(ids, selected):
    assert (selected & (ids == CLS)) == False  # noqa: E712


def always(*arguments):
    raise AssertionError


def endless(*arguments):
    while True:
        pass


WRONG = [
    ("shapes", axes_only, "14 of 20 faults get through: "),
    ("shapes", by_hidden, "1 of 20 faults gets through: hidden states and `selected`"),
    ("shapes", with_each_other, "faults gets through: logits and targets one row too few, alike"),
    ("shapes", no_kinds, "which index sentences"),
    ("shapes", no_kinds, "targets as floating-point numbers"),
    ("shapes", apart_by_size, "condemns a sound batch (B=6, T=6"),
    ("shapes", apart_by_size, "equal by chance"),
    ("shapes", never_nothing, "M=0"),
    ("shapes", fixed_width, "Does a number of one batch stand in it?"),
    ("shapes", always, "It condemns every batch"),
    ("shapes", shapes_as_answer, "returned a bool. An assertion raises"),
    ("shapes", shapes_by_torch, "raised IndexError"),
    ("specials", undecided, "Nothing is wrong there."),
    ("shapes", shapes_by_torch, "Assert first what the next line relies on"),
    ("shapes", other_error, "raised ValueError: logits"),
    ("shapes", 5, "A function was expected, got int"),
    ("rows", rows_by_shape, "every one of the 8 faults through"),
    ("rows", rows_as_sets, "targets in ascending order"),
    ("rows", states_only, "targets taken from what the model reads"),
    ("rows", rows_by_column, "sentence by sentence, left to right"),
    ("specials", specials_by_size, "condemns a batch that selects [UNK]"),
    ("specials", first_column, "[PAD] selected"),
    ("specials", frame_by_place, "1 of 5 faults gets through: the [SEP] between two sentences selected"),
    ("specials", all_for_any, "[CLS] selected"),
    ("specials", must_select, "a batch may select nothing"),
    ("losses", exactly, "last digits of float32"),
    ("losses", roughly, "a loss wrong in its fourth digit"),
    ("losses", nan_passes, "1 of 9 faults gets through: a loss that is not a number"),
    ("losses", mean_of_nothing, "of nothing selected the loss is 0"),
    ("losses", skips_nothing, "a loss that is not a number (with B=3, T=6, d=4, V=9, M=0)"),
    ("losses", ignores_padding_only, "It condemns every batch"),
]


@pytest.mark.parametrize(("name", "assertion", "fragment"), WRONG)
def test_a_wrong_assertion_is_told_what_it_misses(name: str, assertion: Any, fragment: str) -> None:
    state, says = told(name, assertion)
    assert state == "not yet"
    assert fragment in says


def test_a_loop_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "SECONDS", 0.2)
    assert "took longer than 0.2 seconds" in told("rows", endless)[1]


def test_a_meddling_assertion_harms_nothing() -> None:
    def meddling(ids, hidden, selected, selected_hidden, targets):
        rows(ids, hidden, selected, selected_hidden, targets)
        torch.manual_seed(1)
        torch.set_num_threads(1)
        for tensor in (ids, hidden, selected, selected_hidden, targets):
            tensor.zero_()

    before = torch.get_rng_state(), torch.get_num_threads()
    assert told("rows", meddling) == ("right", "")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]


def test_the_sound_batches_hold_the_coincidences() -> None:
    batch, length, width, vocabulary, count = zip(*SIZES, strict=True)
    for one, other in ((batch, length), (width, vocabulary), (count, batch), (count, vocabulary), (count, width)):
        assert any(a == b for a, b in zip(one, other, strict=True))
        assert any(a != b for a, b in zip(one, other, strict=True))
    assert {0, 1} <= set(count)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_sound_batch_is_sound(sizes: tuple[int, int, int, int, int]) -> None:
    p = sound(sizes)
    found = (*p.ids.shape, p.hidden.shape[2], p.size, int(p.selected.sum()))
    assert found == sizes
    assert not torch.isin(p.ids[p.selected], torch.tensor([PAD, CLS, SEP])).any()
    assert bool((p.corrupted[p.selected] != p.targets).all())
    surprise = [-float(p.dense[b, t].softmax(-1)[p.ids[b, t]].log()) for b, t in p.selected.nonzero().tolist()]
    assert float(p.loss) == pytest.approx(sum(surprise) / len(surprise) if surprise else 0.0, abs=1e-5)


@pytest.mark.parametrize("name", TRIALS)
def test_each_fault_leaves_a_trace_somewhere(name: str) -> None:
    whole, faulty = cases(name)
    assert set(faulty) == set(TRIALS[name].faults)
    assert all(faulty.values())
    assert len(whole) >= len(SIZES)


def test_where_batch_and_time_are_equal_only_values_tell() -> None:
    _, faulty = cases("shapes")
    assert not [c for c in faulty["`selected` with batch and time exchanged"] if c.sizes.startswith("B=6, T=6")]
    _, faulty = cases("rows")
    turned = [c for fault, found in faulty.items() if fault.startswith("states of a selection") for c in found]
    assert [c.sizes for c in turned] == ["B=6, T=6, d=4, V=9, M=8"]


def test_the_student_version_holds_no_assertion() -> None:
    notebook = nbformat.read(ROOT / "notebooks" / "exercises" / "3_shapes.ipynb", as_version=4)
    functions = [c.source for c in notebook.cells if c.cell_type == "code" and c.source.startswith("def ")]
    assert len(functions) == 4
    assert all(source.splitlines()[-1] == "    ...  # your code here" for source in functions)
    assert not any("    assert " in source for source in functions)
