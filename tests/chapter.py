"""What several test files need: the chapter's runs, each made once, and what tells what a test does or leaves."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from once import once

from bertch15 import lab
from bertch15.pretraining import Pretrained, State, pretrain
from bertch15.recipe import Recipe


@once
def chapter() -> lab.LabResult:
    """Run the lab as the chapter does: five seeds, all budgets."""
    return lab.run()


@once
def plain() -> Pretrained:
    """Run the whole pretraining of seed 6050 by the plain loop. Nobody may change what it returns."""
    return pretrain(Recipe(), 6050)


def same(first: State, second: State) -> bool:
    """Say whether two sets of weights agree to the last bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def calls(act: Callable[[], object]) -> int:
    """Count the functions that an act calls, Python's and C's: how much it does, on a machine of any speed."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


def settings() -> dict[str, Any]:
    """Take down what a library may change for everybody: random streams, threads, flags, dtype."""
    return {
        "random state": torch.get_rng_state().tolist(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "gradients": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "fill": torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
    }


@contextmanager
def unusual_settings_kept() -> Iterator[None]:
    """Set what no default would restore by chance, and check that it is still so after the block."""
    stream, found = torch.get_rng_state(), settings()
    try:
        torch.set_num_threads(2)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.manual_seed(1)
        torch.rand(3)
        before = settings()
        yield
        after = settings()
        changed = [name for name in before if after[name] != before[name]]
        assert not changed, f"the run left these settings changed: {changed}"
    finally:
        torch.set_rng_state(stream)
        torch.set_num_threads(found["threads"])
        torch.use_deterministic_algorithms(found["deterministic"], warn_only=found["warn only"])
        torch.utils.deterministic.fill_uninitialized_memory = found["fill"]  # type: ignore[attr-defined]
