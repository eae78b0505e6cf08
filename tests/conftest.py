import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from chapter import settings

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def trace() -> dict[str, Any]:
    """Checkpoints along the lab, seed by seed: where an implementation departs first."""
    return json.loads((DATA / "lab-trace.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def ledger() -> dict[str, Any]:
    """The numbers that the chapter prints, and how closely each must come out."""
    return json.loads((DATA / "printed-numbers.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give what the checks of the exercises call all the time that a slow machine needs; a test may set less."""
    monkeypatch.setattr("bertch15.check.kit.calling.SECONDS", 600.0)


@pytest.fixture
def state_guard() -> Iterator[None]:
    """Fail the test that leaves any global state of torch other than it found it."""
    before = settings()
    yield
    after = settings()
    changed = [name for name, value in before.items() if after[name] != value]
    assert not changed, f"the test left global state changed: {changed}"


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Compute with one thread: for tensors this small, several only wait for each other on a busy machine."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)
