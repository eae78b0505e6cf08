"""What the reader sees of a run of the tests: what is done, what is left, what failed."""

import json
from pathlib import Path

import how_far
import pytest
from how_far import Progress, seconds_of

ROOT = Path(__file__).resolve().parent.parent
IDS = ["tests/test_a.py::test_one", "tests/test_a.py::test_two[::x]", "book.ipynb::Cell 0", "new.py::T::test"]


def test_the_seconds_are_those_known_and_a_guess_for_new_files() -> None:
    assert seconds_of(
        [*IDS, "new.py::T::other"], {"book.ipynb": 60.0, "gone.py": 5.0, "tests/test_a.py": 20.0}
    ) == {
        "tests/test_a.py": 20.0,
        "book.ipynb": 60.0,
        "new.py": 0.1,
    }


@pytest.mark.parametrize(
    ("done", "processes", "elapsed", "expected"),
    [
        (0, 1, 0.0, "[  0 %, about 13 min left]"),
        (0, 2, 0.0, "[  0 %, about 7 min left]"),
        (1, 1, 200.0, "[ 25 %, about 10 min left]"),
        (1, 1, 410.0, "[ 25 %, about 20 min left]"),  # twice as slow as it was stored
        (1, 2, 205.0, "[ 25 %, about 10 min left]"),
        (2, 1, 400.0, "[ 50 %, about 7 min left]"),
        (3, 1, 795.0, "[ 99 %, about 10 s left]"),
        (4, 1, 800.0, "[100 %, about 10 s left]"),
    ],
)
def test_what_is_left_follows_the_pace_of_this_machine(
    done: int, processes: int, elapsed: float, expected: str
) -> None:
    progress = Progress(IDS, {"tests/test_a.py": 400.0, "book.ipynb": 395.0, "new.py": 5.0}, processes)
    for nodeid in IDS[:done]:
        progress.note(nodeid)
    assert progress.line(elapsed) == expected


def test_the_seconds_of_a_file_are_kept_when_all_its_tests_are_done() -> None:
    progress = Progress(IDS, {}, 1)
    for nodeid in (IDS[0], IDS[2]):
        progress.took[how_far.file_of(nodeid)] += 1.234
        progress.note(nodeid)
    assert progress.whole() == {"book.ipynb": 1.23}


def test_what_the_last_run_kept_goes_before_what_is_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(how_far, "STORED", tmp_path / "stored.json")
    monkeypatch.setattr(how_far, "KEPT", tmp_path / "kept.json")
    how_far.STORED.write_text('{"a.py": 1.0, "b.py": 2.0}')
    assert how_far.known_seconds() == {"a.py": 1.0, "b.py": 2.0}
    how_far.KEPT.write_text('{"b.py": 3.0}')
    assert how_far.known_seconds() == {"a.py": 1.0, "b.py": 3.0}


def test_the_stored_seconds_are_of_files_that_are_there() -> None:
    stored = json.loads(how_far.STORED.read_text(encoding="utf-8"))
    assert len(stored) > 50
    assert [name for name in stored if not (ROOT / name).is_file()] == []
    assert all(0 < seconds < 120 for seconds in stored.values())
