"""The guards around nbval: what it would let pass, stands here."""

import ast
import difflib
import json
import re
from pathlib import Path

import jupytext
import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
NOTEBOOKS, SOLUTIONS, EXERCISES = (
    sorted(folder.glob("*.ipynb")) for folder in (FOLDER, FOLDER / "solutions", FOLDER / "exercises")
)
TEXTS = ROOT / "notebooks" / "text"
ALLOWED_TAGS = {"try-it", "solution-only"}
MOST_LINES = 15
OF_A_MACHINE = "|".join(("home", "root", "Users", "tmp"))  # where readers and builders keep their files
WIDGET = "application/vnd.jupyter.widget-view+json"
WRITTEN = {path.stem.split("_")[1] for path in NOTEBOOKS if path.stem.startswith("15_")}


def name_of(page: Path) -> str:
    return page.relative_to(FOLDER).with_suffix("").as_posix()


pages = pytest.mark.parametrize("page", [*NOTEBOOKS, *SOLUTIONS, *EXERCISES], ids=name_of)
twins = pytest.mark.parametrize("page", [*NOTEBOOKS, *SOLUTIONS], ids=name_of)


def read(page: Path) -> nbformat.NotebookNode:
    return nbformat.read(page, as_version=4)


def code_cells(page: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in read(page).cells if cell.cell_type == "code"]


def printed(cell: nbformat.NotebookNode) -> str:
    """All text of a cell's outputs."""
    parts = []
    for output in cell.outputs:
        data = output.get("data", {})
        parts += [output.get("text", ""), data.get("text/markdown", ""), data.get("text/plain", "")]
    return "\n".join(part for part in parts if part)


def must_print(source: str, answered: bool = True) -> bool:
    """Whether a run of this cell gives an output: it prints at its top level, or ends in a value.

    Where nothing is answered yet, as in a student version, what stands under a condition is not printed.
    """
    body = ast.parse(source).body
    passed = ast.FunctionDef if answered else ast.FunctionDef | ast.If
    calls = [node for top in body if not isinstance(top, passed) for node in ast.walk(top)]
    prints = any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "print" for n in calls)
    return prints or (bool(body) and isinstance(body[-1], ast.Expr) and ".update(" not in ast.unparse(body[-1]))


def twin_difference(page: Path, text: Path) -> str:
    """What parts a notebook from its text: type, source or tags of a cell."""

    def cells(notebook: nbformat.NotebookNode) -> list[str]:
        lines = []
        for cell in notebook.cells:
            lines.append(f"--- {cell.cell_type} {sorted(cell.metadata.get('tags', []))}")
            lines += cell.source.splitlines()
        return lines

    both = cells(jupytext.read(text)), cells(read(page))
    return "\n".join(difflib.unified_diff(*both, "text", "notebook", lineterm=""))


def faults(page: Path) -> list[str]:
    """What nbval does not look at in a stored notebook, each fault in a sentence."""
    notebook, found = read(page), []
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        found.append("the kernel must be named python3")
    if "widgets" in notebook.metadata:
        found.append("widget state is stored in the metadata")
    for number, cell in enumerate(code_cells(page), start=1):
        tags = set(cell.metadata.get("tags", []))
        if cell.execution_count != number:
            found.append(f"code cell {number} has execution count {cell.execution_count}")
        if must_print(cell.source, answered=page.parent.name != "exercises") and not cell.outputs:
            found.append(f"code cell {number} should have an output and has none")
        if len(cell.source.splitlines()) > MOST_LINES:
            found.append(f"code cell {number} has more than {MOST_LINES} lines")
        if not tags <= ALLOWED_TAGS:
            found.append(f"code cell {number} has the tags {sorted(tags - ALLOWED_TAGS)}")
        for output in cell.outputs:
            if output.output_type == "error" or output.get("name") == "stderr":
                found.append(f"code cell {number} stores an error or something written to standard error")
            if WIDGET in output.get("data", {}):
                found.append(f"code cell {number} stores a widget, which is lost without its kernel")
            plain = output.get("data", {}).get("text/plain", "")
            if "Image object" in plain and "image/png" not in output.data:
                found.append(f"code cell {number} lost its picture")
            if "image/png" in output.get("data", {}) and not output.metadata.get("image/png", {}).get("alt"):
                found.append(f"code cell {number} shows a picture without a sentence for those who cannot see it")
        if re.search(rf"(/({OF_A_MACHINE})/|[A-Z]:\\\\|ipykernel_\d)", printed(cell)):
            found.append(f"code cell {number} shows a path of the machine it ran on")
        if re.search(r" at 0x[0-9a-f]{6,}", printed(cell)):
            found.append(f"code cell {number} shows where an object stood in memory")
    return found


def test_every_notebook_has_its_text_and_every_text_its_notebook() -> None:
    assert len(NOTEBOOKS) >= 2
    assert [page.stem for page in NOTEBOOKS] == sorted(text.stem for text in TEXTS.glob("*.md"))
    texts = (FOLDER / "solutions" / "text").glob("*.md")
    assert [page.stem for page in SOLUTIONS] == sorted(text.stem for text in texts)


@twins
def test_notebook_and_text_agree(page: Path) -> None:
    difference = twin_difference(page, page.parent / "text" / f"{page.stem}.md")
    target = "notebooks" if page.parent == FOLDER else "exercises"
    assert not difference, f"notebook and text have parted; edit the text, then run: make {target}\n{difference}"


@pages
def test_nothing_hides_from_nbval(page: Path) -> None:
    assert faults(page) == []


@pages
def test_the_page_names_the_version_it_belongs_to(page: Path) -> None:
    assert "bertch15.__version__" in "\n".join(cell.source for cell in code_cells(page))


@pytest.mark.parametrize("page", [p for p in NOTEBOOKS if p.stem.startswith("15_")], ids=lambda path: path.stem)
def test_the_page_has_the_parts_that_every_page_has(page: Path) -> None:
    text = "\n".join(cell.source for cell in read(page).cells if cell.cell_type == "markdown")
    for part in ("**What you will do.**", "**What you need.**", "**Time.**", "## Summary", "index.ipynb"):
        assert part in text, f"the page has no {part}"
    invited = [cell for cell in code_cells(page) if "try-it" in cell.metadata.get("tags", [])]
    assert len(invited) == 1, "one marked cell invites the reader to change something"


@pages
def test_links_to_other_pages_lead_somewhere(page: Path) -> None:
    for cell in read(page).cells:
        text = cell.source if cell.cell_type == "markdown" else printed(cell)
        for target in re.findall(r"\]\(([^)#:]+\.ipynb)\)", text):
            assert (page.parent / target).exists(), f"{target} is linked and does not exist"


def ledger_rows() -> list[dict]:
    rows = json.loads((ROOT / "tests" / "data" / "printed-numbers.json").read_text(encoding="utf-8"))["rows"]
    return [row for row in rows if row["section"].removeprefix("15.") in WRITTEN]


def numbers(text: str) -> list[str]:
    """All numbers of a text, signs and thousands kept, percent signs too."""
    return re.findall(r"[-+]?\d[\d,]*(?:\.\d+)?%?", text)


def shows(row: dict, text: str) -> bool:
    """Whether a text shows a row of the ledger, by the row's own rule."""
    if row["match"] == "literal":
        return row["printed"] in text.splitlines()
    return set(numbers(row["printed"])) <= set(numbers(text))


@pytest.mark.parametrize("row", ledger_rows(), ids=lambda row: row["id"])
def test_every_number_of_the_ledger_is_printed_by_its_section(row: dict) -> None:
    section = row["section"].replace(".", "_")
    (page,) = [page for page in NOTEBOOKS if page.stem.startswith(f"{section}_")]
    assert any(shows(row, printed(cell)) for cell in code_cells(page)), f"no cell prints {row['printed']!r}"


def test_the_ledger_of_a_written_section_is_not_empty() -> None:
    assert {row["section"] for row in ledger_rows()} >= {"15.6"}


def spoiled(tmp_path: Path, change) -> Path:
    """A copy of the transfer lab's page with one thing changed."""
    notebook = read(ROOT / "notebooks" / "15_6_transfer_lab.ipynb")
    change(notebook)
    path = tmp_path / "15_6_transfer_lab.ipynb"
    nbformat.write(notebook, path)
    return path


def first_printing(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    return next(cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs)


SPOILS = {
    "stripped": (
        lambda nb: [c.update(outputs=[], execution_count=None) for c in nb.cells if c.cell_type == "code"],
        "execution count None",
    ),
    "outputs stripped, counts kept": (lambda nb: first_printing(nb).update(outputs=[]), "has none"),
    "an ignored output": (
        lambda nb: first_printing(nb).metadata.update(tags=["nbval-ignore-output"]),
        "nbval-ignore",
    ),
    "standard error": (
        lambda nb: first_printing(nb).outputs.append(nbformat.v4.new_output("stream", name="stderr", text="oh")),
        "standard error",
    ),
    "widget state": (lambda nb: nb.metadata.update(widgets={"state": {}}), "widget state"),
    "a widget": (
        lambda nb: first_printing(nb).outputs.append(
            nbformat.v4.new_output("display_data", {WIDGET: {"model_id": "0"}, "text/plain": "a slider"})
        ),
        "stores a widget",
    ),
    "another kernel": (lambda nb: nb.metadata.kernelspec.update(name="conda-env-me"), "python3"),
    "an address": (
        lambda nb: first_printing(nb).outputs.append(
            nbformat.v4.new_output("stream", text="<Legend at 0x7f4695e92150>")
        ),
        "in memory",
    ),
    "a machine's path": (
        lambda nb: first_printing(nb).outputs.append(nbformat.v4.new_output("stream", text="/home/me/x")),
        "path of the machine",
    ),
}


@pytest.mark.parametrize("name", SPOILS)
def test_the_guards_catch_what_they_are_there_for(name: str, tmp_path: Path) -> None:
    change, complaint = SPOILS[name]
    found = faults(spoiled(tmp_path, change))
    assert any(complaint in fault for fault in found), f"nothing was said about: {name}"


def test_a_cell_edited_only_in_the_text_is_seen(tmp_path: Path) -> None:
    text = (TEXTS / "15_6_transfer_lab.md").read_text(encoding="utf-8")
    edited = tmp_path / "edited.md"
    edited.write_text(text.replace("recipe = Recipe()", "recipe = Recipe(updates=601)"), encoding="utf-8")
    assert "601" in twin_difference(ROOT / "notebooks" / "15_6_transfer_lab.ipynb", edited)
