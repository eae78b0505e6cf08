"""The progress bar of a run, in a notebook or in a terminal.

BERTCH15_PROGRESS=0 in the environment takes every bar away.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bertch15.pretraining import Progress

SWITCH = "BERTCH15_PROGRESS"


@contextmanager
def bar(what: str) -> Iterator[Progress | None]:
    """Draw a bar named `what`: yields a callback for `progress=` that is told the updates done and their total.

    In a notebook the bar is a widget, elsewhere text on standard error. It appears at the first call, stays where
    it is when the run ends or fails, and begins anew when a second run counts from the start.
    Yields None, and draws nothing, if the environment variable BERTCH15_PROGRESS is "0".
    """
    if os.environ.get(SWITCH) == "0":
        yield None
        return
    drawn: Any = None

    def progress(done: int, total: int) -> None:
        nonlocal drawn
        if drawn is None:
            from tqdm.auto import tqdm

            drawn = tqdm(total=total, desc=what, unit=" updates", mininterval=0.2)
        if total != drawn.total or done < drawn.n:
            drawn.reset(total)
        drawn.update(done - drawn.n)

    try:
        yield progress
    finally:
        if drawn is not None:
            drawn.close()
