"""What several test files look at is made once, also where several processes share the tests."""

import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

folder: Path | None = None
"""Where the processes of one test session leave things for each other; None where there is one process alone."""


def once(make: Callable[[], T]) -> Callable[[], T]:
    """Have a function run once in a test session, whichever process asks first; the others wait for what it gives.

    Nobody may change what it returns. Nothing outlives the session: the folder is made and deleted with it.
    """

    @cache
    def made() -> T:
        if folder is None:
            return make()
        from filelock import FileLock  # comes with the extra that brings the other processes

        kept = folder / f"{make.__module__}.{make.__qualname__}.pickle"
        with FileLock(kept.with_suffix(".lock")):
            if not kept.exists():
                kept.write_bytes(pickle.dumps(make()))
            return pickle.loads(kept.read_bytes())

    return made
