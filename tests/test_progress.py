import importlib
import sys
import time
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel
from tqdm import tqdm

from bertch15.display.progress import SWITCH, bar


@pytest.fixture(autouse=True)
def switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with the bars on, whatever the tests as a whole were started with."""
    monkeypatch.delenv(SWITCH, raising=False)


def test_it_counts_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("lab") as progress:
        assert progress
        for done in (0, 12, 30):
            assert progress(done, 30) is None
    out, err = capsys.readouterr()
    assert out == ""
    assert "lab:   0%" in err
    assert "lab: 100%" in err
    assert " 30/30 " in err


def test_nothing_is_drawn_before_the_first_update(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("lab"):
        pass
    assert capsys.readouterr() == ("", "")


def test_the_switch_takes_it_away_and_needs_no_tqdm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SWITCH, "0")
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.delitem(sys.modules, bar.__module__)
    with importlib.import_module(bar.__module__).bar("lab") as progress:
        assert progress is None
    assert capsys.readouterr() == ("", "")


def test_another_value_of_the_switch_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    with bar("lab") as progress:
        assert progress is not None


def open_bars() -> int:
    return len(getattr(tqdm, "_instances", ()))


def test_an_error_closes_it_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with bar("lab") as progress:
            assert progress
            progress(7, 30)
            assert open_bars() == before + 1
            raise RuntimeError("half way")

    before = open_bars()
    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert open_bars() == before
    assert " 7/30 " in capsys.readouterr().err


def test_a_second_run_begins_anew(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("lab") as progress:
        assert progress
        for total in (30, 50):
            progress(1, total)
            time.sleep(0.3)
            progress(total, total)
    err = capsys.readouterr().err
    assert " 30/30 " in err
    assert " 50/50 " in err


def test_it_is_a_widget_in_a_notebook() -> None:
    manager, client = start_new_kernel(kernel_name="python3")
    outputs: list[dict[str, Any]] = []
    code = "from bertch15.display.progress import bar\nwith bar('lab') as progress:\n    progress(30, 30)"
    try:
        reply = client.execute_interactive(code, timeout=60, output_hook=outputs.append)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok"
    (content,) = [output["content"] for output in outputs if output["msg_type"] == "display_data"]
    assert "application/vnd.jupyter.widget-view+json" in content["data"]
    assert not [output for output in outputs if output["msg_type"] == "stream"]
