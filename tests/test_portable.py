"""What `make portable` rests on: noise on every weight, notes of what is printed, and an honest comparison.

Everything is tried on sources and results made up here; the pages themselves are run by `.ci/run`.
"""

import inspect
import json
import os
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import environments
import moved
import nbformat
import one_page
import portable
import pytest
import torch
from fresh import without_grammar

from bertch15 import doctor

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = """
import json, torch
from bertch15.encoder import Encoder
from bertch15.pretraining import new_head, seeded
from bertch15.recipe import Recipe
with seeded(6050):
    parts = {"encoder": Encoder(), "head": new_head(Recipe()), "classifier": torch.nn.Linear(48, 2)}
def numbers(state, name):
    return {f"{name}{key}": tensor.double().flatten().tolist() for key, tensor in state.items()}
found = {}
for name, part in parts.items():
    found |= numbers(part.state_dict(), f"{name}.")
"""
"""Makes all weights that are drawn at the beginning."""

TWICE = """
def drawn():
    torch.manual_seed(6050)
    return torch.nn.Linear(48, 2).weight
first = drawn(); torch.nn.Linear(3, 3); found["twice"] = [torch.equal(first, drawn())]
"""

WORKER = """
import os, time
from dataclasses import replace
from bertch15.fast.worker import Worker
from bertch15.fast.training import pretrain_together
tiny = replace(Recipe(), updates=3)
os.environ["BERTCH15_NOISE"] += " " * bool(os.environ["BERTCH15_NOISE"])  # the same seed, written otherwise
worker = Worker(pretrain_together, tiny, [6050])
here = pretrain_together(tiny, [6050])
while not worker.finished:
    time.sleep(0.05)
for where, (run,) in {"here": here, "there": worker.result}.items():
    for state in ("scratch", "pretrained", "head"):
        found |= numbers(getattr(run, state), f"{where} {state} ")
worker.close()
"""

Found = dict[str, torch.Tensor]


def python(source: str, **variables: str) -> str:
    """Run a source under a condition; give what it prints."""
    environment = portable.Condition("tried", variables).environment()
    done = subprocess.run(
        [sys.executable, "-c", source], env=environment, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def found(noise: str, *sources: str) -> Found:
    """Run sources in one new process, under a seed of noise; give the numbers that they find."""
    said = json.loads(python("".join(sources) + "print(json.dumps(found))", BERTCH15_NOISE=noise))
    return {name: torch.tensor(numbers, dtype=torch.float64) for name, numbers in said.items()}


@cache
def plain() -> Found:
    """The same numbers without noise: found in this process, and in a worker that starts as the others do."""
    space: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as told:
        for name, value in portable.Condition("tried", {"BERTCH15_NOISE": ""}).environment().items():
            told.setenv(name, value)
        exec(WEIGHTS + WORKER, space)
    return {name: torch.tensor(numbers, dtype=torch.float64) for name, numbers in space["found"].items()}


@cache
def noisy() -> Found:
    return found("1", WEIGHTS, TWICE, WORKER)


def starting(prefix: str, numbers: Found) -> Found:
    return {name.removeprefix(prefix): t for name, t in numbers.items() if name.startswith(prefix)}


def test_noise_is_of_the_size_of_one_rounding_and_on_every_weight() -> None:
    for part in ("encoder.", "head.", "classifier."):
        weights = starting(part, noisy())
        assert weights
        for name, exact in starting(part, plain()).items():
            if not exact.any() or part + name == "head.tied":
                continue
            relative = (weights[name] / exact - 1)[exact != 0]
            # Normal noise of 6e-8, and twice the half unit that float32 rounds by: at most 5 x 6e-8 + 2 x 6e-8.
            assert relative.abs().max() < 4.2e-7, name
            if len(relative) > 40:
                assert 3e-8 < relative.std() < 1.2e-7, name
                assert (relative != 0).double().mean() > 0.25, name


def test_noise_depends_on_the_seed() -> None:
    assert not torch.equal(noisy()["classifier.weight"], found("2", WEIGHTS)["classifier.weight"])


def test_equal_weights_get_equal_noise() -> None:
    assert noisy()["twice"].tolist() == [1]


def test_noise_depends_on_nothing_but_the_seed_so_a_worker_process_is_under_the_same_condition() -> None:
    for numbers in (plain(), noisy()):
        here, there = starting("here ", numbers), starting("there ", numbers)
        assert len(here) > 30
        assert here.keys() == there.keys()
        assert all(torch.equal(here[name], there[name]) for name in here)
    for name in ("here scratch token_embedding.weight", "here pretrained token_embedding.weight"):
        assert not torch.equal(plain()[name], noisy()[name])


SHOWN = "import inspect; from bertch15 import doctor; print(inspect.getsource(doctor.kernel_finding))"
"""Shows a function with f-strings, in a module that does without torch."""
CELL = """
x = 0.12345
print(f"{x:.3f} {x!r} {2:d} {x:>{8}.{2}%}", "{:.2f} {:.1f}".format(x, 10.0), round(x, 1), round(7.6), f"{1}")
print(x < 0.2, 0.1 <= x < 1, 5 > 3, x if x > -1 else 0)
"""

MYST = "---\njupytext:\n  text_representation:\n    extension: .md\n    format_name: myst\n---\n\n"


def test_notes_hold_each_number_before_it_is_rounded_and_change_no_output_and_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        f"{MYST}```{{code-cell}} ipython3\n{CELL}\n```\n```{{code-cell}} ipython3\n{SHOWN}\n```\n",
        encoding="utf-8",
    )
    (tmp_path / "folder").mkdir()
    text = tmp_path / "folder" / "page.md"  # a page's text stands in a folder beside it
    page.rename(text)
    source = "import sys; from pathlib import Path; sys.path.insert(0, '.ci'); import one_page, json; "
    source += f"print(json.dumps(one_page.executed(Path({str(text)!r}))))"
    notes = tmp_path / "notes"
    monkeypatch.setenv("PYTHONPATH", str(without_grammar(tmp_path)), prepend=os.pathsep)
    cell, shown = json.loads(python(source, BERTCH15_NOTES=str(notes)))["cells"]
    assert cell["print"] == "0.123 0.12345 2   12.35% 0.12 10.0 0.1 8 1\nTrue True True 0.12345\n"
    lines = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
    assert [(line["form"], line["value"]) for line in lines] == [
        (".3f", 0.12345),
        (">8.2%", 0.12345),
        (".2f", 0.12345),
        (".1f", 10.0),
        (".1f", 0.12345),
        ("against 0.2", 0.12345),
        ("against 0.1", 0.12345),
        ("against 1.0", 0.12345),
        ("against -1.0", 0.12345),
    ]
    assert {line["cell"] for line in lines} == {1}
    assert {line["where"] for line in lines} == {"cell:2", "cell:3"}
    assert shown["print"] == inspect.getsource(doctor.kernel_finding) + "\n", "the source that a page shows"
    assert 'imports bertch15 {version}"' in shown["print"]


# What moved


def page_of(*cells: dict[str, str], error: str = "") -> dict[str, Any]:
    return {"cells": list(cells), "error": error}


BEFORE = {"print": "loss 0.579\nseed 6052: within 0.4264\n", "image/png": "a"}


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({**BEFORE, "print": BEFORE["print"].replace("0.579", "0.592")}, "cell 1: 0.579 -> 0.592  in  loss 0.579"),
        ({**BEFORE, "print": BEFORE["print"].replace("loss", "Loss")}, "cell 1: 'loss 0.579' -> 'Loss 0.579'"),
        ({**BEFORE, "print": "loss 0.579\n"}, "cell 1: 2 -> 1 lines"),
        ({**BEFORE, "image/png": "b"}, "cell 1: another picture"),
        ({**BEFORE, "text/html": "<b>1</b>\n"}, "cell 1: 0 -> 1 lines"),
    ],
)
def test_what_moved_is_named(after: dict[str, str], says: str) -> None:
    assert moved.moved(page_of(BEFORE), page_of(after)) == [says]


def test_what_did_not_move_is_not_named() -> None:
    assert moved.moved(page_of(BEFORE), page_of(dict(BEFORE))) == []
    assert moved.moved(page_of(BEFORE), page_of({**BEFORE, "image/png": "b"}), pictures=False) == []


def test_a_page_that_fails_or_has_other_cells_has_moved() -> None:
    assert moved.moved(page_of(BEFORE), page_of(error="...\nKeyError: 'x'")) == ["fails: KeyError: 'x'"]
    assert "other cells" in moved.moved(page_of(BEFORE, BEFORE), page_of(BEFORE))[0]


def test_a_figure_that_is_a_file_has_moved_if_a_byte_did() -> None:
    stored = {"files": {"a.svg": "1", "b.svg": "2"}}
    assert moved.moved(stored, {"files": {"a.svg": "1", "b.svg": "3"}, "error": ""}) == [
        "b.svg is another picture"
    ]
    assert moved.moved(stored, {"files": {"a.svg": "1"}, "error": ""}) == ["b.svg is another picture"]
    assert moved.moved(stored, {"files": {"a.svg": "1"}, "error": ""}, pictures=False) == []


# How close it stands


@pytest.mark.parametrize(
    ("form", "value", "step", "far"),
    [
        (".3f", 0.5784, 0.001, 0.0001),
        ("+.3f", -0.5784, 0.001, 0.0001),
        (".0%", 0.123, 0.01, 0.002),
        (">8.2f", 2.5, 0.01, 0.005),
        (".2g", 123.4, 10, 1.6),
        (".1e", 0.0123, 1e-3, 2e-4),
        (".2f", 0.001, 0.01, 0.001),  # below it stands -0.00
        (".2f", 0.0, 0.01, 0.005),
    ],
)
def test_how_far_a_number_stands_from_another_print(form: str, value: float, step: float, far: float) -> None:
    assert moved.step_of(form, value) == pytest.approx(step)
    assert moved.margin(value, step) == pytest.approx(far)


def noted(*values: float, form: str = ".3f", shown: str | None = None) -> dict[str, dict[str, Any]]:
    cells = [{"print": f"{values[0]:{form}}" if shown is None else shown}]
    return {
        str(i): {"error": "", "cells": cells, "notes": [{"cell": 1, "where": "cell:1", "form": form, "value": v}]}
        for i, v in enumerate(values)
    }


def test_a_number_that_moves_near_a_boundary_is_named() -> None:
    assert len(list(moved.too_close(noted(0.42631, 0.42634, form=".4f")))) == 1
    assert list(moved.too_close(noted(0.42631, 0.42631, form=".4f"))) == []  # it does not move
    assert (
        list(moved.too_close(noted(0.42600, 0.42601, form=".4f"))) == []
    )  # 0.00004 from a boundary, moves by 0.00001
    assert len(list(moved.too_close(noted(0.42600, 0.42602, form=".4f")))) == 1


def test_a_bound_that_a_number_is_held_against() -> None:
    assert len(list(moved.too_close(noted(0.58, 0.60, form="against 0.65", shown="")))) == 1  # 0.05, moves by 0.02
    assert list(moved.too_close(noted(0.58, 0.59, form="against 0.65", shown=""))) == []


def test_a_number_that_is_not_shown_or_not_rounded() -> None:
    assert list(moved.too_close(noted(0.42631, 0.42634, form=".4f", shown="nothing"))) == []
    assert len(list(moved.too_close(noted(0.25, 0.5, form="")))) == 1  # printed in full, each digit counts


# All of them


class Tried(portable.Portable):
    """Runs that only note what they were asked."""

    asked: list[tuple[str, str]]

    def run_one(self, unit: str, condition: portable.Condition, share: int = 1) -> float:
        self.asked.append((unit, condition.name))
        target = self.file(unit, condition)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_suffix(".part")  # in one step, as results are: the other thread reads them meanwhile
        draft.write_text(json.dumps({"seconds": 1.0, **page_of(BEFORE), "notes": []}), encoding="utf-8")
        draft.replace(target)
        return 1.0


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tried:
    monkeypatch.setattr(portable, "RESULTS", tmp_path)
    tried = Tried(["index", "solutions/4_probe"], [portable.AS_IT_IS, *portable.noise([3])])
    tried.asked = []
    return tried


def test_what_is_done_is_not_done_again(runs: Tried, capsys: pytest.CaptureFixture[str]) -> None:
    runs.run(1)
    assert len(runs.asked) == 4
    assert "1 of 4: index under 'as it is'" in capsys.readouterr().out
    runs.file("index", portable.noise([3])[0]).unlink()
    runs.run(1)
    assert runs.asked[4:] == [("index", "noise 3")]


def test_a_changed_page_is_run_again(runs: Tried, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = runs.digest()
    assert before == runs.digest()
    other = ROOT / "notebooks" / "text" / "index.md"
    monkeypatch.setattr(portable, "texts", lambda: {"index": other})
    assert runs.digest() != before


def test_the_report_counts_what_moved(
    runs: Tried, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.run(1)
    monkeypatch.setattr(portable, "stored", lambda unit: page_of(BEFORE))
    assert runs.report() == 0
    spoiled = {**BEFORE, "print": BEFORE["print"].replace("0.579", "0.592")}
    target = runs.file("index", portable.noise([3])[0])
    target.write_text(json.dumps({"seconds": 1.0, **page_of(spoiled), "notes": []}), encoding="utf-8")
    capsys.readouterr()
    assert runs.report() == 1
    assert "index, cell 1: 0.579 -> 0.592  in  loss 0.579  (noise 3)" in capsys.readouterr().out


def test_a_stored_page_is_read_as_a_run_is() -> None:
    cells = one_page.stored("15_6_transfer_lab")["cells"]
    page = nbformat.read(ROOT / "notebooks" / "15_6_transfer_lab.ipynb", as_version=4)
    assert len(cells) == sum(cell.cell_type == "code" for cell in page.cells)
    assert any("encoder parameters: 43,920" in cell.get("print", "") for cell in cells)


@pytest.mark.parametrize("arguments", [["--pages", "15_99"], ["--under", "noise 77"]])
def test_what_does_not_exist_is_refused_in_words(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        portable.main(arguments)
    assert ended.value.code == 2
    assert f"named {arguments[1]}; there are" in capsys.readouterr().err


def test_no_word_of_the_noise_in_the_package() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "bertch15").rglob("*.py")]
    assert len(sources) > 50
    assert not [word for word in ("BERTCH15_NOISE", "BERTCH15_NOTES", "sitecustomize") if word in "".join(sources)]
    assert os.environ.get("BERTCH15_NOISE", "") == ""


# Environments with other versions


def test_the_oldest_versions_are_the_lower_bounds() -> None:
    assert environments.oldest(["torch>=2.4", "nbval>=0.11"]) == ("torch==2.4", "nbval==0.11")
    with pytest.raises(ValueError, match="'torch' names no oldest version"):
        environments.oldest(["torch"])
    assert [pin.split("==")[0] for pin in environments.oldest(environments.dependencies())][:2] == [
        "torch",
        "numpy",
    ]


def test_a_python_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    one = environments.Wanted("python3.99", "python3.99")
    assert environments.make(one) == "this machine has no python3.99"
    assert list(tmp_path.iterdir()) == []


def test_an_environment_that_was_made_is_a_condition_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    here = portable.AS_IT_IS.python
    assert {(one.python, one.pictures) for one in portable.every_condition(1)} == {(here, True)}
    oldest, newer, unfinished = environments.wanted()[:3]
    for one in (oldest, newer, unfinished):
        one.folder.mkdir()
    (oldest.folder / environments.MADE).write_text("matplotlib==3.0.0\nmatplotlib-inline==0.2.2\n")
    same = f"matplotlib=={metadata.version('matplotlib')}\n"
    (newer.folder / environments.MADE).write_text(f"contourpy==1.3.3\n{same}")
    made = [one for one in portable.every_condition(1) if one.python != here]
    assert [(one.name, one.python) for one in made] == [(one.name, one.interpreter) for one in (oldest, newer)]
    assert [one.pictures for one in made] == [False, True], "pictures count where matplotlib is this one"


def test_an_unknown_environment_is_refused_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert environments.main(["youngest"]) == 2
    assert "no environment named youngest; there are oldest, python3.12" in capsys.readouterr().err
