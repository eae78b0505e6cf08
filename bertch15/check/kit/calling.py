"""Calling a student's function: one that raises, loops or meddles becomes an outcome and leaves no trace."""

import ctypes
import dis
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bertch15.check.kit.verdict import EMPTY, Part, wrong
from bertch15.settings import reproducible

SECONDS = 10.0
"""How long one call may take. A call that does its work takes a small part of it."""


class TooLong(BaseException):
    """The call did not end in time; no Exception, so that `except Exception` lets it pass."""


@dataclass(frozen=True)
class Outcome:
    """What became of a call: what it returned, or what it raised."""

    returned: Any = None
    error: BaseException | None = None

    @property
    def failed(self) -> str:
        """What went wrong, in words; empty if the call returned or raised AssertionError."""
        if self.error is None or isinstance(self.error, AssertionError):
            return ""
        if isinstance(self.error, TooLong):
            return f"took longer than {SECONDS:g} seconds. Does a loop in it never end?"
        return f"raised {type(self.error).__name__}: {' '.join(str(self.error).split())[:120]}"


@contextmanager
def undisturbed(seed: int) -> Iterator[None]:
    """Seed every global stream, hold torch's settings, and at the end give back all of them as they were."""
    streams = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002  # it is to be kept
    with reproducible(), torch.enable_grad():
        # The student's code owes nobody determinism to the bit, and `put_` would raise.
        torch.set_deterministic_debug_mode("default")
        try:
            torch.random.default_generator.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            yield
        finally:
            torch.random.default_generator.set_state(streams[0])
            random.setstate(streams[1])
            np.random.set_state(streams[2])  # noqa: NPY002


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooLong in this thread after so many seconds, and again each second for code that swallows it."""
    caller, done = ctypes.c_ulong(threading.get_ident()), threading.Event()

    def interrupt() -> None:
        wait = seconds
        while not done.wait(wait):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(caller, ctypes.py_object(TooLong))
            wait = 1.0

    watch = threading.Thread(target=interrupt, daemon=True)
    try:
        watch.start()
        yield
    finally:
        while watch.is_alive():
            try:
                done.set()
                watch.join()
            except TooLong:  # it came in the very moment in which the call ended
                continue
        ctypes.pythonapi.PyThreadState_SetAsyncExc(caller, None)


def call(function: Callable[..., Any], *arguments: Any, seed: int = 15) -> Outcome:
    """Call a student's function. It may raise, loop, or draw from global streams; give it copies of the arguments.

    A loop is ended after `SECONDS`; one that never leaves a library's compiled code is not.
    """
    with undisturbed(seed):
        try:
            with time_limit(SECONDS):
                return Outcome(function(*arguments))
        except (Exception, TooLong, SystemExit) as error:
            return Outcome(error=error.with_traceback(None))


def no_function(answer: object, expected: str = "") -> Part | None:
    """Say what is to be said where an answer is no function, or still the stub; None if it can be called.

    expected: how the function is called; if it is not given, the kind of the answer is named instead.
    """
    if unwritten(answer):
        return EMPTY
    if not callable(answer):
        return wrong(
            "A function was expected" + (f": {expected}." if expected else f", got {type(answer).__name__}.")
        )
    return None


def unwritten(function: object) -> bool:
    """Say whether a function is still the stub: `...`, or a body that does nothing and returns None."""
    if function is ... or function is None:
        return True
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("RESUME", "NOP", "COPY_FREE_VARS")]
    returns = {"LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
    return all(step.opname in returns and step.argval is None for step in steps)
