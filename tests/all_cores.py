"""A pytest plugin: with pytest-xdist the tests are shared out among processes, a file to each at a time.

A notebook's cells need each other, and so do some fixtures of a test file; so a file stays whole and in order. The
longest files come first, so that none of them begins when all the others are done. Without pytest-xdist nothing of
this happens: the same tests run one after another.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import once
import psutil
import pytest
from how_far import file_of, known_seconds, seconds_of

from bertch15.fast.worker import cores

MEMORY = 1_500_000_000
"""Bytes that a process of the tests takes together with the kernel of its notebook."""


def processes(cores: int, memory: int) -> int:
    """Give how many processes to share the tests among: one a core, if the free memory (in bytes) allows it."""
    return max(1, min(cores, memory // MEMORY))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Answer `-n auto`, unless the variable of pytest-xdist does."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    return processes(cores(), psutil.virtual_memory().available)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep files whole and in the order that they come in, whatever --dist says."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process where to leave what the others need too. The folder goes when the session does."""
    config = node.config
    if not hasattr(config, "bertch15_shared"):
        config.bertch15_shared = TemporaryDirectory(prefix="bertch15-tests-")
        config.add_cleanup(config.bertch15_shared.cleanup)
    node.workerinput["shared"] = config.bertch15_shared.name


def pytest_configure(config: pytest.Config) -> None:
    """In one of several processes: take its share of the cores, and no more."""
    told = getattr(config, "workerinput", None)
    if told is not None:
        once.folder = Path(told["shared"])
        # Runs of the lab, here and in the kernels that are started from here, would take all cores each.
        os.environ["PYTHON_CPU_COUNT"] = str(max(1, cores() // told["workercount"]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first where files are shared out."""
    if hasattr(config, "workerinput"):
        seconds = seconds_of([item.nodeid for item in items], known_seconds())
        items.sort(key=lambda item: -seconds[file_of(item.nodeid)])
