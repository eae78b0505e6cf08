"""Exercise 6: the student's audits, tried on a gallery of sound functions and of functions with one fault each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertch15.check.exercise_6.exhibits.corruption import CORRUPTION
from bertch15.check.exercise_6.exhibits.gallery import Exhibit, Function
from bertch15.check.exercise_6.exhibits.losses import LOSSES
from bertch15.check.exercise_6.exhibits.training import TRAINING
from bertch15.check.exercise_6.exhibits.visibility import VISIBILITY
from bertch15.check.kit.calling import TooLong, call, no_function
from bertch15.check.kit.verdict import RIGHT, Part, Verdict, careful, wrong
from bertch15.check.kit.wording import let_through

Audit = Callable[[Function], Any]

GALLERIES = {"corruption": CORRUPTION, "loss": LOSSES, "visibility": VISIBILITY, "training": TRAINING}


def answered(returned: Any) -> bool | None:
    """Read an audit's answer: True or False in any common form; None if it is neither."""
    if isinstance(returned, Tensor | np.ndarray | np.generic):
        values = np.asarray(returned).ravel().tolist()
        returned = values[0] if len(values) == 1 else None
    return returned if isinstance(returned, bool) else None


def observed(function: Function, changed: list[tuple[Tensor, Tensor]]) -> Function:
    """Wrap a function: each call adds the tensors that it wrote into to `changed`, with what they held before."""

    def candidate(*arguments: Any) -> Any:
        held = [(given, given.detach().clone()) for given in arguments if isinstance(given, Tensor)]
        try:
            return function(*arguments)
        finally:
            changed.extend((given, before) for given, before in held if not torch.equal(given, before))

    return candidate


def judged(audit: Audit, exhibit: Exhibit) -> tuple[bool, str]:
    """Let an audit judge one function: what it says, and what went wrong if it says nothing."""
    changed: list[tuple[Tensor, Tensor]] = []
    outcome = call(audit, observed(exhibit.new(), changed))
    for given, before in reversed(changed):  # the notebook goes on working with what a fault has written into
        given.detach().copy_(before)
    if isinstance(outcome.error, AssertionError):
        return False, ""
    at = "a sound function" if exhibit.sound else f"the fault “{exhibit.says}”"
    if isinstance(outcome.error, TooLong):
        return False, f"At {at} your audit {outcome.failed}"
    if outcome.failed:
        return False, f"At {at} your audit {outcome.failed}. An audit ends in True, False or a failed assertion."
    said = answered(outcome.returned)
    if said is None:
        kind = type(outcome.returned).__name__
        ends = "Does every way through it end in one of them?"
        return False, f"At {at} your audit returned {kind}, neither True nor False. {ends}"
    return said, ""


def summed_up(sound: dict[str, bool], faulty: dict[str, bool]) -> str:
    """Say in words what an audit let pass, given its answer for each exhibit; empty if all is well."""
    answers = [*sound.values(), *faulty.values()]
    condemned = [says for says, said in sound.items() if not said]
    through = [says for says, said in faulty.items() if said]
    if all(answers):
        return f"It calls everything sound: all {len(faulty)} faults get through."
    if not any(answers):
        return "It calls everything faulty: an audit that condemns the sound ones too finds nothing."
    if len(condemned) == len(sound):
        return "It condemns every sound function. Which of your demands is none of the contract's?"
    if len(condemned) == len(sound) - 1 and len(sound) > 2:
        return (
            f"It lets one sound function pass and condemns {len(condemned)} that keep the contract too. Compare "
            "with what was promised, and not with how one function happens to draw or compute."
        )
    if condemned:
        return f"It condemns a sound function: {condemned[0]}. It keeps the contract; what do you ask beyond it?"
    return let_through(through, len(faulty))


@careful
def tried(kind: str, audit: Audit) -> Part:
    """Try one audit on the gallery of its kind."""
    if refused := no_function(audit):
        return refused
    said: dict[bool, dict[str, bool]] = {True: {}, False: {}}
    for exhibit in GALLERIES[kind].exhibits:
        answer, problem = judged(audit, exhibit)
        if problem:
            return wrong(problem)
        said[exhibit.sound][exhibit.says] = answer
    says = summed_up(said[True], said[False])
    return wrong(says) if says else RIGHT


def audit(
    corruption: Audit | None = None,
    loss: Audit | None = None,
    visibility: Audit | None = None,
    training: Audit | None = None,
) -> Verdict:
    """Try the audits of exercise 6; those that are not given are left out.

    An audit gets one function of its kind and returns True if it is sound; False, or an AssertionError, if it is
    not. Global streams are seeded before each call and put back after it, so that a verdict does not change. What
    a faulty function has written into its arguments is put back too.
    """
    given = {"corruption": corruption, "loss": loss, "visibility": visibility, "training": training}
    asked = {kind: answer for kind, answer in given.items() if answer is not None} or given
    return Verdict("audit", tuple((kind, *tried(kind, answer)) for kind, answer in asked.items()))  # type: ignore[arg-type]
