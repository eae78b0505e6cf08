from pathlib import Path

import once
import pytest

MADE: list[int] = []


def number() -> int:
    MADE.append(1)
    return 6050 + len(MADE)


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    MADE.clear()


def test_alone_a_process_makes_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "folder", None)
    made = once.once(number)
    assert MADE == []
    assert [made(), made()] == [6051, 6051]


def test_several_processes_make_it_once_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("filelock", reason="without the extra `test` there is one process alone")
    monkeypatch.setattr(once, "folder", tmp_path)
    here, there = once.once(number), once.once(number)  # as two processes have it
    assert [here(), there(), here()] == [6051] * 3
    assert len(MADE) == 1
    monkeypatch.setattr(once, "folder", tmp_path.parent / "another session")
    once.folder.mkdir()  # type: ignore[union-attr]
    assert once.once(number)() == 6052


def test_what_failed_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails_first() -> int:
        MADE.append(1)
        if len(MADE) == 1:
            raise OSError("no room")
        return 7

    monkeypatch.setattr(once, "folder", tmp_path)
    made = once.once(fails_first)
    with pytest.raises(OSError, match="no room"):
        made()
    assert made() == 7
