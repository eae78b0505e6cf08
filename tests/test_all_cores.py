"""Tests shared out among processes: as many as may be used, files whole, and the same result without them."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import all_cores
import nbformat
import pytest
from fresh import without_grammar

from bertch15 import lab
from bertch15.fast import worker

ROOT = Path(__file__).resolve().parent.parent
NEEDS_XDIST = pytest.mark.skipif(
    importlib.util.find_spec("xdist") is None, reason="without the extra `test` the tests run one after another"
)
FILE = """
import os, pathlib, pytest
pathlib.Path(os.environ["NOTED"]).mkdir(exist_ok=True)
def note(what):
    pathlib.Path(os.environ["NOTED"], f"{what} {os.getpid()} {os.environ.get('PYTHON_CPU_COUNT')}").touch()
"""


@pytest.mark.parametrize(
    ("cores", "memory", "expected"),
    [(1, 16e9, 1), (2, 16e9, 2), (16, 8e9, 5), (2, 1e9, 1), (4, 0, 1)],
)
def test_a_process_for_each_core_that_the_memory_allows(cores: int, memory: float, expected: int) -> None:
    assert all_cores.processes(cores, int(memory)) == expected


class TestCores:
    @pytest.fixture(autouse=True)
    def no_container(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("PYTHON_CPU_COUNT", raising=False)
        monkeypatch.setattr(worker, "CGROUP", tmp_path)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)

    def test_a_machine_without_limits_gives_what_the_process_may_run_on(self) -> None:
        assert worker.cores() == 8

    @pytest.mark.parametrize(
        ("limit", "expected"),
        [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 8), ("3200000 100000", 8)],
    )
    def test_a_container_may_have_less(self, limit: str, expected: int, tmp_path: Path) -> None:
        (tmp_path / "cpu.max").write_text(f"{limit}\n")
        assert worker.cores() == expected

    @pytest.mark.parametrize(("quota", "expected"), [(200_000, 2), (-1, 8)])
    def test_an_older_container_too(self, quota: int, expected: int, tmp_path: Path) -> None:
        (tmp_path / "cpu").mkdir()
        (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
        assert worker.cores() == expected

    def test_a_system_without_affinity_counts_its_cores(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(os, "sched_getaffinity")
        monkeypatch.setattr(os, "cpu_count", lambda: 3)
        assert worker.cores() == 3
        monkeypatch.setattr(os, "cpu_count", lambda: None)
        assert worker.cores() == 1

    @pytest.mark.parametrize(("told", "expected"), [("3", 3), ("12", 12), ("0", 8), ("", 8), ("default", 8)])
    def test_the_variable_has_the_last_word(
        self, told: str, expected: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PYTHON_CPU_COUNT", told)
        assert worker.cores() == expected

    def test_the_lab_takes_no_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        started: list[object] = []

        def note(*work: object) -> None:
            started.append(work)
            raise RuntimeError("a process is started")

        monkeypatch.setattr(lab, "Worker", note)
        monkeypatch.setattr(lab, "replicates", lambda *_: [])
        monkeypatch.setenv("PYTHON_CPU_COUNT", "2")
        with pytest.raises(RuntimeError, match="a process is started"):
            lab.run()
        monkeypatch.setenv("PYTHON_CPU_COUNT", "1")
        with pytest.raises(KeyError):  # there are no results, and nobody was asked for one
            lab.run()
        assert len(started) == 1


def small_project(folder: Path) -> Path:
    """Three files of tests, a notebook whose second cell needs the first, and this project's own set-up."""
    (folder / "tests" / "data").mkdir(parents=True)
    shutil.copy(ROOT / "conftest.py", folder)
    for name in ("all_cores.py", "how_far.py", "once.py"):
        shutil.copy(ROOT / "tests" / name, folder / "tests")
    (folder / "tests" / "data" / "test-seconds.json").write_text(
        '{"tests/test_b.py": 9.0, "tests/test_c.py": 8.0}'
    )
    (folder / "pytest.ini").write_text(
        "[pytest]\ntestpaths = tests book.ipynb\npythonpath = tests\n"
        "addopts = --nbval --nbval-current-env --color=no -p no:cacheprovider\n"
    )
    for name in "abc":
        test = f"def test_%s():\n    note('{name}')\n"
        source = FILE + "".join(test % word for word in ("one", "two", "three", "four"))
        (folder / "tests" / f"test_{name}.py").write_text(source)
    shared = "import once\n@once.once\ndef made():\n    note('made')\n    return os.getpid()\n"
    (folder / "tests" / "common.py").write_text(FILE + shared)
    for name in "abc":
        with (folder / "tests" / f"test_{name}.py").open("a") as file:
            file.write("def test_shared():\n    from common import made\n    assert made() > 0\n")
    sources = ["number = 7", *["number += 1\nprint(number)"] * 6]
    cells = [nbformat.v4.new_code_cell(source, execution_count=n) for n, source in enumerate(sources, start=1)]
    for n, cell in enumerate(cells[1:], start=8):
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"{n}\n")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "book.ipynb")
    return folder


def run(folder: Path, *options: str) -> tuple[str, list[list[str]]]:
    """Run the small project; give what pytest says and what the tests noted: a word, a process, its cores."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON_CPU"))}
    paths = os.pathsep.join((str(ROOT), str(without_grammar(folder))))
    environment = {**kept, "NOTED": str(folder / "noted"), "PYTHONPATH": paths}
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr, sorted(path.name.split() for path in (folder / "noted").iterdir())


@NEEDS_XDIST
@pytest.mark.parametrize("dist", [[], ["--dist", "worksteal"]], ids=["by default", "asked otherwise"])
def test_files_stay_whole_and_what_they_share_is_made_once(tmp_path: Path, dist: list[str]) -> None:
    said, noted = run(small_project(tmp_path), "-n", "2", *dist)
    assert re.search(r"^=+ 22 passed in ", said.splitlines()[-1]), said
    processes = {
        word: {process for other, process, _ in noted if other == word} for word in ("a", "b", "c", "made")
    }
    assert [len(found) for found in processes.values()] == [1, 1, 1, 1]
    assert processes["b"] != processes["c"], "one process made what both need"
    assert {cores for *_, cores in noted} == {str(max(1, worker.cores() // 2))}
    begun = re.findall(r"left\] (\S+)", said)
    assert set(begun[:2]) == {"tests/test_b.py", "tests/test_c.py"}, "the longest files do not come first"
    assert sorted(begun) == ["book.ipynb", "tests/test_a.py", "tests/test_b.py", "tests/test_c.py"]


def test_one_after_another_gives_the_same(tmp_path: Path) -> None:
    said, noted = run(small_project(tmp_path), "-p", "no:xdist")
    assert re.search(r"^=+ 22 passed in ", said.splitlines()[-1]), said
    assert len({process for _, process, _ in noted}) == 1
    assert {cores for *_, cores in noted} == {"None"}
    assert re.findall(r"left\] (\S+)", said) == [
        "tests/test_a.py",
        "tests/test_b.py",
        "tests/test_c.py",
        "book.ipynb",
    ]
    assert [line for line in said.splitlines() if line.startswith(".")] == []
    kept = json.loads((tmp_path / "build" / "test-seconds.json").read_text(encoding="utf-8"))
    assert sorted(kept) == ["book.ipynb", "tests/test_a.py", "tests/test_b.py", "tests/test_c.py"]
    assert kept["tests/test_b.py"] < 9, "what was stored stands there still"
