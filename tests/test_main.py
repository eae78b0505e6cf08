import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertch15 import __main__ as command
from bertch15 import doctor, lab
from bertch15.display import printed
from bertch15.doctor import Finding
from bertch15.recipe import SEEDS, Recipe

SMALL = replace(Recipe(), updates=2, adaptation_updates=1, budgets=(1,))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Recipe, Sequence[int], Any]]:
    """Note what the lab is asked for, and run a small one in its place, with the first seed asked for."""
    asked: list[tuple[Recipe, Sequence[int], Any]] = []
    run = lab.run

    def small(recipe: Recipe, seeds: Sequence[int], progress: Any) -> lab.LabResult:
        asked.append((recipe, seeds, progress))
        return run(SMALL, seeds[:1], progress)

    monkeypatch.setattr(lab, "run", small)
    monkeypatch.setenv("BERTCH15_PROGRESS", "0")
    return asked


Runs = list[tuple[Recipe, Sequence[int], Any]]


class TestLab:
    def test_it_runs_the_chapter_and_prints_its_lines(
        self, runs: Runs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert command.main(["lab"]) == 0
        assert runs == [(Recipe(), SEEDS, None)]
        expected = list(printed.lines(lab.run(SMALL, SEEDS, None)))
        assert capsys.readouterr().out.splitlines() == expected
        assert expected[0] == "source: 320 sentences; vocabulary: 115 tokens"

    def test_it_takes_seeds(self, runs: Runs) -> None:
        assert command.main(["lab", "--seeds", "7", "6050"]) == 0
        assert runs[0][1] == [7, 6050]

    def test_it_reports_progress_on_standard_error(
        self, runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("BERTCH15_PROGRESS", "1")
        assert command.main(["lab"]) == 0
        out, err = capsys.readouterr()
        assert "lab: 100%" in err
        assert "%|" not in out

    def test_it_writes_lines_and_numbers(self, runs: Runs, tmp_path: Path) -> None:
        path = tmp_path / "numbers.json"
        path.write_text("old")
        assert command.main(["lab", "--json", str(path)]) == 0
        expected = lab.run(SMALL, SEEDS, None)
        written = json.loads(path.read_text())
        assert written.pop("lines") == list(printed.lines(expected))
        assert written == json.loads(json.dumps(expected.to_dict()))
        assert [entry.name for entry in tmp_path.iterdir()] == ["numbers.json"]

    @pytest.mark.parametrize(
        "arguments",
        [["--seeds"], ["--seeds", "x"], ["--seeds", "-1"], ["--seeds", "1.5"], ["--seeds", str(2**63)]],
        ids=" ".join,
    )
    def test_bad_seeds_are_refused(
        self, arguments: list[str], runs: Runs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as caught:
            command.main(["lab", *arguments])
        assert caught.value.code == 2
        assert "error: argument --seeds: " in capsys.readouterr().err
        assert runs == []

    def test_a_seed_twice_is_refused(self, runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as caught:
            command.main(["lab", "--seeds", "1", "2", "1"])
        assert caught.value.code == 2
        assert "a seed stands twice in 1 2 1" in capsys.readouterr().err
        assert runs == []

    def test_the_largest_seed_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert lab.run(SMALL, [command.LARGEST_SEED]).replicates[0].seed == 2**63 - 1


def in_no_folder(folder: Path) -> Path:
    return folder / "missing" / "numbers.json"


def folder_itself(folder: Path) -> Path:
    return folder


def below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "numbers.json"


def device(folder: Path) -> Path:
    return Path(os.devnull)


def link_to_a_folder(folder: Path) -> Path:
    (folder / "link").symlink_to(folder)
    return folder / "link"


class TestJsonFile:
    @pytest.mark.parametrize("place", [in_no_folder, folder_itself, below_a_file, device, link_to_a_folder])
    def test_a_path_that_cannot_be_written_is_refused_before_the_run(
        self, place: Callable[[Path], Path], tmp_path: Path, runs: Runs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as caught:
            command.main(["lab", "--json", str(place(tmp_path))])
        assert caught.value.code == 2
        assert "error: argument --json: " in capsys.readouterr().err
        assert runs == []

    def test_a_write_protected_file_is_refused(
        self, tmp_path: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "numbers.json"
        path.touch()
        # A superuser may write anything, so that the file's own bits would not do.
        monkeypatch.setattr(os, "access", lambda asked, mode: asked != path)
        with pytest.raises(SystemExit):
            command.main(["lab", "--json", str(path)])
        assert "write-protected" in capsys.readouterr().err
        assert runs == []

    def test_a_link_is_followed(self, tmp_path: Path) -> None:
        (tmp_path / "link.json").symlink_to(tmp_path / "numbers.json")
        assert command.new_file(str(tmp_path / "link.json")) == (tmp_path / "numbers.json").resolve()

    @pytest.mark.parametrize("step", ["write_text", "replace"])
    def test_a_file_is_replaced_whole_or_not_at_all(
        self, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(self: Path, *_: object, **__: object) -> None:
            assert self != path
            self.open("w").close()
            raise OSError(28, "No space left on device")

        path = tmp_path / "numbers.json"
        command.write_whole(path, "old")
        monkeypatch.setattr(Path, step, full)
        with pytest.raises(OSError, match="No space"):
            command.write_whole(path, "the new")
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


class TestCheck:
    @pytest.mark.parametrize(
        ("findings", "code", "last"),
        [
            ([Finding(True, "a")], 0, "This machine has all that the book needs."),
            ([Finding(True, "a"), Finding(False, "b", "c")], 1, "To be mended: 1."),
        ],
    )
    def test_one_failure_decides_the_exit_code(
        self,
        findings: list[Finding],
        code: int,
        last: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(doctor, "examine", lambda: iter(findings))
        assert command.main(["check"]) == code
        assert capsys.readouterr().out.splitlines() == [*map(str, findings), last]

    def test_an_interruption_is_told_in_a_line(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def examine() -> Iterator[Finding]:
            yield Finding(True, "a")
            raise KeyboardInterrupt

        monkeypatch.setattr(doctor, "examine", examine)
        assert command.main(["check"]) == 130
        assert capsys.readouterr().err == "\nInterrupted.\n"


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main([])
    assert caught.value.code == 2


def test_a_missing_torch_is_told_in_a_line() -> None:
    program = (
        "import runpy, sys\n"
        "sys.modules['torch'] = None\n"
        "sys.argv = ['bertch15', 'lab']\n"
        "runpy.run_module('bertch15', run_name='__main__')\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.count("\n") == 1
    assert answer.stderr.endswith("See `python -m bertch15 check`.\n")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signal that stands for Ctrl-C in one process alone")
@pytest.mark.parametrize("under_way", [False, True], ids=["while importing", "under way"])
def test_interruption_ends_the_lab_at_once(under_way: bool) -> None:
    environment = {**os.environ, "BERTCH15_PROGRESS": "1", "PYTHON_CPU_COUNT": "2"}
    seeds = ["--seeds", *map(str, range(100))]  # a run that takes minutes if nothing ends it
    # A shell that runs the tests in the background lets them ignore the signal; the lab must not inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [sys.executable, *([] if under_way else ["-X", "importtime"]), "-m", "bertch15", "lab", *seeds],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stderr
    waited_for, read = b"updates/s" if under_way else b"numpy", b""
    while waited_for not in read:
        piece = os.read(process.stderr.fileno(), 4096)
        assert piece, read
        read += piece
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b"", "it went on to the end"
    assert b"100%" not in err
    assert err.endswith(b"\nInterrupted.\n")
    assert b"Traceback" not in err
