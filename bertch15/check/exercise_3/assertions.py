"""Exercise 3: assertions between hidden states and targets, tried on sound batches and on planted faults."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bertch15.check.exercise_3.faults import (
    LOSS_FAULTS,
    ROW_FAULTS,
    SHAPE_FAULTS,
    SIZES,
    SPECIAL_FAULTS,
    Fault,
    Pipeline,
    paired,
    sound,
    with_unknown,
)
from bertch15.check.kit.calling import TooLong, call, no_function
from bertch15.check.kit.verdict import RIGHT, Part, Verdict, careful, wrong
from bertch15.check.kit.wording import let_through, listed

Assertion = Callable[..., None]


@dataclass(frozen=True)
class Case:
    """One batch for an assertion: what it is in words, its sizes in words, and the arguments."""

    says: str
    sizes: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Trial:
    """How one assertion is tried.

    arguments: what it is given of a pipeline. faults: by name. real: whether two lists of arguments differ in what
    this assertion is about. condemned: what it probably means to condemn a sound batch.
    """

    arguments: Callable[[Pipeline], tuple[Any, ...]]
    faults: dict[str, Fault]
    real: Callable[[tuple[Any, ...], tuple[Any, ...]], bool]
    condemned: str


def _other_form(found: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    pairs = [(a, b) for a, b in zip(found, expected, strict=True) if isinstance(a, Tensor)]
    return any(a.shape != b.shape or a.dtype != b.dtype for a, b in pairs)


def _other_values(found: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    return any(not torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def _other_loss(found: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    gap = (found[-1] - expected[-1]).abs()
    return bool(gap.isnan() or gap > 1e-4)


TRIALS = {
    "shapes": Trial(
        lambda p: (p.ids, p.hidden, p.selected, p.selected_hidden, p.logits, p.targets, p.size),
        SHAPE_FAULTS,
        _other_form,
        "Sizes may be equal by chance, and M may be one or nought: assert what must be equal, and nothing else.",
    ),
    "rows": Trial(
        lambda p: (p.ids, p.hidden, p.selected, p.selected_hidden, p.targets),
        ROW_FAULTS,
        _other_values,
        "The order of the rows is the one in which `hidden[selected]` reads: sentence by sentence, left to right.",
    ),
    "specials": Trial(
        lambda p: (p.ids, p.selected),
        SPECIAL_FAULTS,
        _other_values,
        "Only [CLS], [SEP] and [PAD] are never selected; [UNK] stands for a word; a batch may select nothing.",
    ),
    "losses": Trial(
        lambda p: (p.dense, p.ids, p.selected, p.loss),
        LOSS_FAULTS,
        _other_loss,
        "Two sums in another order differ in the last digits of float32; and of nothing selected the loss is 0.",
    ),
}


def _pipelines(name: str) -> list[tuple[str, Pipeline]]:
    """Give the sound batches of a trial, each in words."""
    batches = [("a sound batch", p) for p in map(sound, SIZES)]
    if name == "specials":
        batches += [("a batch of sentence pairs", paired(p)) for _, p in batches[:3]]
        batches += [("a batch that selects [UNK]", with_unknown(p)) for _, p in batches[:3]]
    if name == "losses":
        exact = [
            replace(p, loss=-p.logits.double().log_softmax(-1).gather(1, p.targets[:, None]).mean().float())
            for _, p in batches
            if len(p.targets)
        ]
        batches += [("a sound batch, summed in double precision", p) for p in exact]
    return batches


def cases(name: str) -> tuple[list[Case], dict[str, list[Case]]]:
    """Give the sound cases, and for each fault the batches in which it leaves a trace."""
    trial, batches = TRIALS[name], _pipelines(name)
    whole = [Case(says, p.describe(), trial.arguments(p)) for says, p in batches]
    faulty = {}
    for fault, plant in trial.faults.items():
        planted = [
            replace(case, arguments=trial.arguments(plant(p))) for case, (_, p) in zip(whole, batches, strict=True)
        ]
        pairs = zip(planted, whole, strict=True)
        faulty[fault] = [found for found, expected in pairs if trial.real(found.arguments, expected.arguments)]
    return whole, faulty


def _ran(assertion: Assertion, case: Case, where: str, advice: str) -> tuple[bool, str]:
    """Call an assertion: whether it raised AssertionError, and what went wrong if it did something else."""
    copies = [a.clone() if isinstance(a, Tensor) else a for a in case.arguments]
    outcome = call(assertion, *copies)
    if isinstance(outcome.error, TooLong):
        return False, f"At {where} your function {outcome.failed}"
    if outcome.failed:
        return False, f"At {where} your function {outcome.failed}. {advice}"
    if outcome.returned is not None:
        kind = type(outcome.returned).__name__
        return False, f"Your function returned a {kind}. An assertion raises AssertionError, or it is silent."
    return outcome.error is not None, ""


def _condemned(name: str, assertion: Assertion, cases: list[Case]) -> str:
    """Say which sound batches are condemned; empty if none is."""
    condemned = []
    for case in cases:
        raised, problem = _ran(assertion, case, f"{case.says} ({case.sizes})", "Nothing is wrong there.")
        if problem:
            return problem
        condemned += [case] * raised
    if len(condemned) == len(cases):
        return (
            "It condemns every batch, the sound ones too: an assertion must hold where nothing is wrong, whatever "
            "the sizes."
        )
    if name == "shapes" and len(condemned) > len(cases) / 2:
        return (
            f"It condemns {len(condemned)} of {len(cases)} sound batches, the first with {condemned[0].sizes}. "
            "Does a number of one batch stand in it?"
        )
    if condemned:
        return f"It condemns {condemned[0].says} ({condemned[0].sizes}). {TRIALS[name].condemned}"
    return ""


def _let_through(assertion: Assertion, faulty: dict[str, list[Case]]) -> str:
    """Say which faults get through, and of those that are caught at times, where not; empty if none does."""
    through = []
    for fault, cases in faulty.items():
        missed = []
        for case in cases:
            raised, problem = _ran(
                assertion, case, f"the fault “{fault}”", "Assert first what the next line relies on."
            )
            if problem:
                return problem
            missed += [case.sizes] * (not raised)
        if missed:
            through.append(fault if len(missed) == len(cases) else f"{fault} (with {missed[0]})")
    if len(through) == len(faulty):
        return f"It lets every one of the {len(faulty)} faults through, wholly or at times: {listed(through)}."
    return let_through(through, len(faulty))


@careful
def _tried(name: str, assertion: Assertion) -> Part:
    if refused := no_function(assertion):
        return refused
    whole, faulty = cases(name)
    says = _condemned(name, assertion, whole) or _let_through(assertion, faulty)
    return wrong(says) if says else RIGHT


def shapes(
    shapes: Assertion | None = None,
    rows: Assertion | None = None,
    specials: Assertion | None = None,
    losses: Assertion | None = None,
) -> Verdict:
    """Try the assertions of exercise 3; those that are not given are left out.

    Each raises AssertionError for a faulty batch and returns None for a sound one:
    shapes(ids, hidden, selected, selected_hidden, logits, targets, size), size being V;
    rows(ids, hidden, selected, selected_hidden, targets); specials(ids, selected);
    losses(dense, ids, selected, loss), with the dense logits (B, T, V) and the loss that was reported.
    """
    given = {"shapes": shapes, "rows": rows, "specials": specials, "losses": losses}
    asked = {name: answer for name, answer in given.items() if answer is not None} or given
    return Verdict("shapes", tuple((name, *_tried(name, answer)) for name, answer in asked.items()))  # type: ignore[arg-type]
