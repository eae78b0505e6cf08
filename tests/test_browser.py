"""The demonstrations in JupyterLab, as a reader has them: `make browser-test`, in .venv-html with a browser."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest
from reader import PICTURE, ROOT, OpenPage, Shown, chromium, copy_of_the_book, jupyterlab

pytestmark = pytest.mark.browser

RUN_SECONDS = 120
LOST = ("model not found", "Error displaying widget")
BACK = {"ArrowRight": "ArrowLeft", "ArrowLeft": "ArrowRight"}
SCREENSHOTS = ROOT / "build" / "screenshots"


class Move(NamedTuple):
    """One move of a demonstration: what is pressed, where that leads, and what must then be read in the picture.

    name: the function that makes it. label: of the slider. control, value: the slider's name, and what the presses
    bring it to. before, after: words of the picture, known without the book's code.
    """

    name: str
    page: str
    label: str
    key: str
    times: int
    control: str
    value: float
    before: str
    after: str

    @property
    def cell(self) -> str:
        """What the source of the cell that shows it looks like."""
        return rf"^(\w+ = )?{self.name}\("


MOVES = [
    Move(
        name="visibility_explorer",
        page="15_1_separate_controls",
        label="query",
        key="ArrowRight",
        times=2,
        control="query",
        value=4,
        before="bank may read 5 of 6 keys",
        after="[SEP] may read 5 of 6 keys",  # all but the one padding
    ),
    Move(
        name="mask_policy",
        page="15_3_mlm_objective",
        label="selection rate",
        key="ArrowRight",
        times=10,
        control="rate",
        value=0.25,
        before="660.0",
        after="1,100.0",  # of 400 draws of 11 words
    ),
    Move(
        name="coming_apart",
        page="15_6_transfer_lab",
        label="after update",
        key="ArrowLeft",
        times=4,  # snapshots: 550, 500, 450, 400
        control="update",
        value=400,
        before="after update 600: within",
        after="after update 400: within",
    ),
    Move(
        name="own_lab",
        page="15_6_transfer_lab",
        label="updates",
        key="ArrowLeft",
        times=10,
        control="updates",
        value=100,
        before="asked for: select 15%; of these 80% [MASK], 10% random, 10% unchanged; 600 updates; seed 6050",
        after="asked for: select 15%; of these 80% [MASK], 10% random, 10% unchanged; 100 updates; seed 6050",
    ),
    Move(
        name="span_corruption",
        page="15_7_three_families",
        label="density",
        key="ArrowRight",
        times=7,
        control="density",
        value=0.5,
        before="Removed: 1 of 7 tokens",
        after="Removed: 4 of 7 tokens",  # round(1.05), and round(3.5), half to even
    ),
]
PAGES = sorted({move.page for move in MOVES})
moves = pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
pages = pytest.mark.parametrize("name", PAGES)


class Library:
    """JupyterLab over a copy of the book, and the browser; pages that have run stay open from test to test."""

    def __init__(self, browser: Any, address: str, notebooks: Path) -> None:
        self.browser, self.address, self.notebooks = browser, address, notebooks
        self.at_hand: dict[str, OpenPage] = {}

    def opened(self, name: str) -> OpenPage:
        """Open a page."""
        return OpenPage(self.browser, self.address, name)

    def ran(self, name: str) -> OpenPage:
        """Open a page and run it, if that has not been done."""
        if name not in self.at_hand:
            self.at_hand[name] = self.opened(name)
            assert self.at_hand[name].run(), f"{name} did not run through: {problems(self.at_hand[name])}"
        return self.at_hand[name]

    def written(self, name: str, source: str) -> OpenPage:
        """Open a page of one code cell."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3 (ipykernel)"}
        nbformat.write(notebook, self.notebooks / f"{name}.ipynb")
        return self.opened(name)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    from playwright.sync_api import Error, sync_playwright

    folder = tmp_path_factory.mktemp("reader")
    notebooks = copy_of_the_book(folder)
    with sync_playwright() as playwright:
        try:
            browser = chromium(playwright)
        except Error as error:
            if "Executable doesn't exist" not in error.message:
                raise
            pytest.skip(f"NOT CHECKED, there is no browser here: {error.message.splitlines()[0]}")
        with jupyterlab(notebooks, folder) as address:
            yield Library(browser, address, notebooks)
        browser.close()


def problems(page: OpenPage) -> list[str]:
    """All that may have gone wrong on a page, wherever it is told."""
    found = [f"asked for {address}" for address in page.outside]
    found += [f"console: {complaint}" for complaint in page.complaints]
    found += [f"log console: {count}" for count in [page.log_messages()] if count]
    for output in page.outputs():
        if output["output_type"] == "error":
            found.append(f"cell: {output['ename']}: {output['evalue']}")
        elif output.get("name") == "stderr":
            found.append(f"standard error: {output['text']}")
    return found


def fresh(library: Library, move: Move) -> Shown:
    """Run the cell of a demonstration once more, and wait for the new one."""
    page = library.ran(move.page)
    old = Shown(page, move.cell).picture
    assert page.tab.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell')") is True
    page.tab.wait_for_function("old => !old.isConnected", arg=old)
    return Shown(page, move.cell)


def view_of(page: OpenPage, move: Move) -> str:
    """Give the picture that the pure function draws after a move of the demonstration that was shown last."""
    lines = [
        "import json",
        "shown = Out[max(Out)]",
        f"values = {{**shown.values, {move.control!r}: {move.value!r}}}",
    ]
    lines.append("print(json.dumps(shown.view(**values).html))")
    return json.loads(page.ask("\n".join(lines)))


def text_of(element: Any) -> str:
    return " ".join(element.inner_text().split())


@moves
def test_a_move_from_the_keyboard_changes_what_is_shown(move: Move, library: Library) -> None:
    shown = fresh(library, move)
    first = shown.picture.inner_html()
    assert move.before in text_of(shown.picture)
    assert move.after not in text_of(shown.picture)
    shown.press(move.label, move.key, move.times)
    shown.wait_for(view_of(shown.page, move))
    assert move.after in text_of(shown.picture)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    shown.cell.screenshot(path=SCREENSHOTS / f"{move.name}.png")
    shown.press(move.label, BACK[move.key], move.times)
    shown.wait_for(first)
    assert problems(shown.page) == []


@moves
def test_a_cell_that_is_run_again_shows_one_demonstration(move: Move, library: Library) -> None:
    again = fresh(library, move)
    assert len(again.cell.query_selector_all(PICTURE)) == 1
    assert move.before in text_of(again.picture)
    assert problems(again.page) == []


LAB = next(move for move in MOVES if move.name == "own_lab")
WORKERS = """
import psutil
print(sum("bertch15.fast.worker" in child.cmdline() for child in psutil.Process().children()))
"""


def test_the_lab_stops_within_a_second_and_the_kernel_answers_meanwhile(library: Library) -> None:
    shown = fresh(library, LAB)
    shown.click("Start")
    shown.wait_for_status("Running", RUN_SECONDS)
    assert shown.page.ask("print(6 * 7)").strip() == "42"
    assert shown.page.ask(WORKERS).strip() == "1"
    assert shown.status.startswith("Running"), "the run must not have waited for the answer, nor ended before it"
    shown.click("Stop")
    shown.wait_for_status("Stopped at", 1)
    assert shown.page.ask(WORKERS).strip() == "0"
    assert "yours: not run yet" in text_of(shown.picture)
    assert problems(shown.page) == []


def test_the_lab_runs_to_its_end_and_shows_the_result(library: Library) -> None:
    shown = fresh(library, LAB)
    shown.press(LAB.label, LAB.key, LAB.times)
    shown.wait_for(view_of(shown.page, LAB))  # a click may overtake the last presses on their way to the kernel
    shown.click("Start")
    shown.wait_for_status("Done", RUN_SECONDS)
    assert LAB.after.replace("asked for", "yours") in text_of(shown.picture)
    shown.cell.screenshot(path=SCREENSHOTS / "own_lab_done.png")
    assert shown.page.ask(WORKERS).strip() == "0"
    assert problems(shown.page) == []


@pages
def test_a_page_opened_unrun_shows_its_stored_text(name: str, library: Library) -> None:
    unrun = f"unrun_{name}"
    shutil.copyfile(ROOT / "notebooks" / f"{name}.ipynb", library.notebooks / f"{unrun}.ipynb")
    page = library.opened(unrun)
    assert not page.trusted()
    for move in (move for move in MOVES if move.page == name):
        cell = page.cell(move.cell)
        cell.wait_for_selector(".jp-OutputArea-output pre")
        (stored,) = [output["data"]["text/plain"] for output in page.outputs(move.cell)]
        assert text_of(cell.query_selector(".jp-OutputArea-output")) == " ".join(stored.split())
        assert move.before in stored
        assert not any(words in cell.inner_text() for words in LOST)
    assert problems(page) == []
    page.close()


WIDGET = {"model_id": "0" * 32, "version_major": 2, "version_minor": 0}


def test_a_widget_that_is_lost_is_seen(library: Library) -> None:
    kind = "application/vnd.jupyter.widget-view+json"
    page = library.written("lost", f"display({{{kind!r}: {WIDGET!r}, 'text/plain': 'a slider'}}, raw=True)")
    assert page.run()
    page.tab.wait_for_function("words => words.some(w => document.body.innerText.includes(w))", arg=list(LOST))
    page.close()


FAULTS = {
    "a cell that fails": ("1 / 0", "ZeroDivisionError"),
    "standard error": ("import sys; print('oh', file=sys.stderr)", "oh"),
    "a picture from elsewhere": (
        "from IPython.display import HTML; HTML('<img src=\"https://example.org/a.png\">')",
        "example.org",
    ),
    "a script's error": (
        "from IPython.display import Javascript; Javascript('setTimeout(() => nowhere())')",
        "nowhere",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_goes_wrong_is_seen(fault: str, library: Library) -> None:
    source, told = FAULTS[fault]
    page = library.written("faulty", source)
    page.run()
    page.tab.wait_for_timeout(500)
    assert any(told in problem for problem in problems(page))
    page.close()


SILENT = """
from ipywidgets import IntSlider
slider = IntSlider(description="x")
slider.observe(lambda change: 1 / 0, "value")
slider
"""


def test_an_error_that_a_callback_loses_is_seen(library: Library) -> None:
    page = library.written("silent", SILENT)
    assert page.run()
    assert problems(page) == []
    page.tab.locator(".noUi-handle").press("ArrowRight")
    page.tab.wait_for_function("() => document.querySelector('.jp-LogConsoleStatusItem').innerText.trim()")
    assert any("log console: 1" in problem for problem in problems(page))
    page.close()
