"""A pytest plugin: a line for each file and notebook as its tests begin, with what is done and what is left.

It steps aside for `-v` and `-q`. The seconds of the last whole run are kept in build/; before there is one, those
stored with the tests serve. They are set right by how fast the tests go on this machine, as they go.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

KEPT = Path(__file__).resolve().parent.parent / "build" / "test-seconds.json"
STORED = Path(__file__).parent / "data" / "test-seconds.json"
SECONDS_A_TEST = 0.05
"""What a test of a new file is taken to need."""
BELIEF = 10.0
"""How many seconds of work this machine must have done before its own speed counts more than the stored one."""
SILENCE = 30.0
"""After so many seconds a line tells which test is being run, if no file has begun in the meantime."""


def file_of(nodeid: str) -> str:
    """Give the file that a test or a notebook's cell stands in."""
    return nodeid.partition("::")[0]


def known_seconds() -> dict[str, float]:
    """Read how long each file took, in the last run where there was one."""
    known = json.loads(STORED.read_text(encoding="utf-8"))
    return known | (json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {})


def seconds_of(nodeids: Iterable[str], known: dict[str, float]) -> dict[str, float]:
    """Give what each file of these tests will take, in seconds of one core."""
    counts = Counter(map(file_of, nodeids))
    return {file: known.get(file, SECONDS_A_TEST * count) for file, count in counts.items()}


class Progress:
    """What is done of the tests `nodeids` and what is left, shared among so many `processes`."""

    def __init__(self, nodeids: Iterable[str], known: dict[str, float], processes: int) -> None:
        nodeids, self.processes = list(nodeids), processes
        self.seconds = seconds_of(nodeids, known)
        self.counts = Counter(map(file_of, nodeids))
        self.done: Counter[str] = Counter()
        self.took: defaultdict[str, float] = defaultdict(float)

    def note(self, nodeid: str) -> None:
        """Count a test as done."""
        self.done[file_of(nodeid)] += 1

    def whole(self) -> dict[str, float]:
        """Give the seconds of the files that are done."""
        return {file: round(self.took[file], 2) for file, count in self.counts.items() if self.done[file] == count}

    def line(self, elapsed: float) -> str:
        """Say what share is done and how long the rest will take, after so many seconds."""
        total = sum(self.seconds.values())
        done = sum(self.seconds[file] * count / self.counts[file] for file, count in self.done.items())
        slowness = (elapsed * self.processes + BELIEF) / (done + BELIEF)
        left = (total - done) * slowness / self.processes
        about = f"about {round(left / 60)} min" if left >= 90 else f"about {max(1, round(left / 10)) * 10} s"
        return f"[{100 * done / total:3.0f} %, {about} left]"


class HowFar:
    """Listens to the process that reports; the others, among which tests are shared out, keep silent."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.began = config, time.monotonic()
        self.spoke, self.begun = self.began, set[str]()
        self.progress: Progress | None = None
        self.terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
        self.speaks = self.terminal is not None and config.get_verbosity() == 0

    def begin(self, nodeids: Iterable[str]) -> None:
        """Take down what is to be run, once it is known."""
        processes = getattr(self.config.option, "numprocesses", None) or 1
        self.progress = self.progress or Progress(nodeids, known_seconds(), processes)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self.begin(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.begin(ids)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        now, file = time.monotonic(), file_of(nodeid)
        if self.progress and self.speaks and (file not in self.begun or now - self.spoke > SILENCE):
            name = nodeid if file in self.begun else file
            self.terminal.ensure_newline()
            self.terminal.write_line(f"{self.progress.line(now - self.began)} {name}")
            self.spoke = now
            self.begun.add(file)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.progress is not None:
            self.progress.took[file_of(report.nodeid)] += report.duration
            if report.when == "teardown":
                self.progress.note(report.nodeid)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Instead of a letter for each test: none for one that passed, its name for one that failed."""
        if not self.speaks or report.when != "call" or report.outcome == "skipped" or hasattr(report, "wasxfail"):
            return None
        return report.outcome, "" if report.passed else f"failed: {report.nodeid}\n", report.outcome.upper()

    def pytest_sessionfinish(self) -> None:
        """Keep the seconds, but not those of a choice of tests."""
        option, source = self.config.option, self.config.args_source
        if self.progress is None or option.keyword or source is not pytest.Config.ArgsSource.TESTPATHS:
            return
        KEPT.parent.mkdir(exist_ok=True)
        kept = known_seconds() | self.progress.whole()
        KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", encoding="utf-8")


@pytest.hookimpl(trylast=True)  # when there is a terminal reporter
def pytest_configure(config: pytest.Config) -> None:
    """Listen, but in the one process that reports."""
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        listener = HowFar(config)
        if listener.speaks:
            listener.terminal.showfspath = False
            listener.terminal._show_progress_info = False  # pytest has no other switch that leaves `-q` its own
        config.pluginmanager.register(listener)
