"""The exercises: each student version comes from its solution, gives nothing away, and runs untouched."""

import ast
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import exercises
import jupytext
import nbformat
import pytest
from jupytext.config import load_jupytext_configuration_file, notebook_formats
from nbformat import NotebookNode

import notebooks

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks" / "exercises"
SOLUTIONS = ROOT / "notebooks" / "solutions"
TEXTS = sorted(path for path in (SOLUTIONS / "text").glob("*.md") if exercises.is_exercise(path.stem))
STATES = re.compile(r"[✓✗○] [^:<\n]*: (right|not yet|not attempted)\b")
KEYS = {"grade", "grade_id", "locked", "schema_version", "solution", "task"}

each = pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.stem)


def student(text: Path) -> NotebookNode:
    return nbformat.read(FOLDER / f"{text.stem}.ipynb", as_version=4)


def solution(text: Path) -> NotebookNode:
    return nbformat.read(SOLUTIONS / f"{text.stem}.ipynb", as_version=4)


def cells(notebook: NotebookNode) -> list[tuple[str, str, dict[str, Any]]]:
    """What a notebook says, without what it printed: kind, source and metadata of its cells."""
    return [(cell.cell_type, cell.source, dict(cell.metadata)) for cell in notebook.cells]


def written(notebook: NotebookNode) -> str:
    """All text of a notebook: sources and outputs."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output.get("text", "") + "\n".join(map(str, output.get("data", {}).values())) for output in outputs]
    return "\n".join([*(cell.source for cell in notebook.cells), *shown])


def states(notebook: NotebookNode) -> list[str]:
    """The state of every part of every verdict that a notebook shows."""
    outputs = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    return STATES.findall(
        "\n".join(data.get(kind, "") for data in outputs for kind in ("text/plain", "text/html"))
    )


def for_nbgrader(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if "nbgrader" in cell.metadata]


def graded_cell(notebook: NotebookNode) -> NotebookNode:
    (cell,) = [cell for cell in for_nbgrader(notebook) if cell.metadata.nbgrader.grade]
    return cell


def score(notebook: NotebookNode) -> float:
    """The points that the graded cell shows, read as nbgrader reads them."""
    (shown,) = [output for output in graded_cell(notebook).outputs if output.output_type == "execute_result"]
    return float(shown.data["text/plain"])


def regions(text: Path) -> list[list[str]]:
    """The regions of a solution, each as its lines that say more than brackets or the opening of a list."""
    found: list[list[str]] = []
    inside = False
    for line in map(str.strip, text.read_text(encoding="utf-8").splitlines()):
        if line in (exercises.BEGIN, exercises.END):
            inside = line == exercises.BEGIN
            found += [[]] * inside
        elif inside and re.search(r"\w{3}", line) and not line.endswith(("[", "(", "{")):
            found[-1] = [*found[-1], line]
    return [region for region in found if region]


def leaks(lines: set[str], notebook: NotebookNode) -> list[str]:
    """The lines of a solution that a notebook has too, and whatever marks a solution."""
    found = sorted(lines & {line.strip() for line in written(notebook).splitlines()})
    found += [mark for mark in ("BEGIN SOLUTION", "END SOLUTION") if mark in written(notebook)]
    return found + [cell.source for cell in notebook.cells if "solution-only" in cell.metadata.get("tags", [])]


def metadata_faults(notebook: NotebookNode) -> list[str]:
    """What nbgrader would stumble over or grade wrongly, each fault in a sentence."""
    found, marked = [], for_nbgrader(notebook)
    names = [cell.metadata.nbgrader.grade_id for cell in marked]
    found += [f"the grade_id {name} is there twice" for name in sorted({n for n in names if names.count(n) > 1})]
    for cell in marked:
        about, name = cell.metadata.nbgrader, cell.metadata.nbgrader.grade_id
        if set(about) - {"points"} != KEYS or about.schema_version != 3 or about.task:
            found.append(f"{name} is not described by schema 3")
        if about.solution == about.locked:
            found.append(f"{name}: a cell is either for the answer or locked")
        if ("points" in about) != about.grade or (about.grade and about.solution):
            found.append(f"{name}: points belong to the graded cell, which is no answer")
    found += [
        f"a check can be edited: {cell.source}"
        for cell in notebook.cells
        if re.search(r"\bcheck\.\w+\(", cell.source)
        and cell.cell_type == "code"
        and not {"locked", "solution"} & {key for key, value in cell.metadata.get("nbgrader", {}).items() if value}
    ]
    graded = [cell for cell in marked if cell.metadata.nbgrader.grade]
    if len(graded) != 1:
        return [*found, f"{len(graded)} cells are graded"]
    last = ast.unparse(ast.parse(graded[0].source).body[-1])
    if not re.search(rf"\.score\({graded[0].metadata.nbgrader.points}\)$", last):
        found.append("the graded cell does not end in .score(points) with the points of its metadata")
    return found


def structure_faults(text: Path, notebook: NotebookNode) -> list[str]:
    """The parts that an exercise lacks."""
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    wanted = [f"# Exercise {text.stem[0]}: ", "**What you will do.** ", "**What you need.** ", "**Time.** About "]
    wanted += ["](../15_", "[start page](../index.ipynb)"]
    found = [f"no {part}" for part in wanted if part not in prose]
    hints = re.findall(r"<details>\s*<summary>Hint (\d)</summary>\n\n.+?</details>", prose, re.DOTALL)
    if "".join(hints) != "123" * max(1, len(hints) // 3) or prose.count("<details>") != len(hints):
        found.append(f"hints are numbered {hints}, not 1 to 3 with an empty line after each summary")
    if "bertch15.__version__" not in code[0]:
        found.append("the first code cell does not say which version it wants")
    if "[start page]" not in notebook.cells[-1].source:
        found.append("the last cell does not lead back")
    return found


def test_all_exercises_are_there() -> None:
    assert [text.stem[0] for text in TEXTS] == list("1234567")
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == [text.stem for text in TEXTS]


@each
def test_the_student_version_comes_from_the_solution(text: Path) -> None:
    version = exercises.student_version(jupytext.read(text))
    notebooks.named_cells(version)
    assert cells(student(text)) == cells(version), "the exercise has parted from its source; run: make exercises"
    assert [cell.id for cell in student(text).cells] == [cell.id for cell in version.cells]


@each
def test_the_solution_keeps_what_nbgrader_needs(text: Path) -> None:
    assert cells(solution(text)) == cells(jupytext.read(text)), "run: make exercises"


@each
def test_the_student_version_gives_no_solution_away(text: Path) -> None:
    lines = set(chain(*regions(text)))
    assert lines
    assert leaks(lines, student(text)) == []


@each
def test_nbgrader_can_release_and_grade_it(text: Path) -> None:
    assert metadata_faults(student(text)) == []


@each
def test_it_has_the_parts_of_an_exercise(text: Path) -> None:
    assert structure_faults(text, student(text)) == []


@each
def test_untouched_it_is_not_attempted(text: Path) -> None:
    # nbval runs the notebook and holds it to these outputs.
    assert set(states(student(text))) == {"not attempted"}
    assert repr(score(student(text))) == "0.0"


@each
def test_the_solution_is_right_and_gains_all_points(text: Path) -> None:
    assert set(states(solution(text))) == {"right"}
    assert score(solution(text)) == graded_cell(solution(text)).metadata.nbgrader.points


@each
def test_the_start_page_and_the_readme_name_it_as_it_names_itself(text: Path) -> None:
    names = text, notebooks.TEXTS / "index.md", ROOT / "README.md"
    source, start, readme = (path.read_text(encoding="utf-8") for path in names)
    (title,) = re.findall(r"^# Exercise \d: (.+)$", source, re.MULTILINE)
    (minutes,) = re.findall(r"^\*\*Time\.\*\* About (\d+) minutes", source, re.MULTILINE)
    (row,) = [line for line in start.splitlines() if f"](exercises/{text.stem}.ipynb)" in line]
    number = text.stem[0]
    assert row.startswith(f"| {number} | [{title}](")
    assert row.endswith(f"| {minutes} |")
    assert f"| [{number} {title}](notebooks/exercises/{text.stem}.ipynb) |" in readme


@pytest.mark.parametrize("folder", [FOLDER, SOLUTIONS], ids=lambda folder: folder.name)
def test_jupyterlab_writes_no_text_beside_what_is_saved(folder: Path) -> None:
    settings = load_jupytext_configuration_file(str(folder / ".jupytext.toml"))
    formats = notebook_formats(nbformat.v4.new_notebook(), settings, str(folder / "1.ipynb"))
    assert [form["extension"] for form in formats] == [".ipynb"]


@cache
def said_by_checks() -> str:
    """All text in the checks' source, pieces that stand one after the other joined."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "bertch15" / "check").rglob("*.py")]
    strings = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return "\n".join(text for text in strings if isinstance(text, str))


@each
def test_the_teachers_page_quotes_what_the_check_says(text: Path) -> None:
    page = (SOLUTIONS / "text" / "teachers_page.md").read_text(encoding="utf-8")
    assert f"### Exercise {text.stem[0]}: " in page
    section = page.split(f"### Exercise {text.stem[0]}: ")[1].split("\n#")[0]
    quotes = re.findall(r"“…?([^”…]+)…?”", section)
    assert len(quotes) >= 3
    assert [quote for quote in quotes if quote not in said_by_checks()] == []


def test_nbgrader_is_told_what_stands_for_an_answer_and_what_is_left_out() -> None:
    told = (SOLUTIONS / "nbgrader_config.py").read_text(encoding="utf-8").splitlines()
    assert f'c.ClearSolutions.code_stub = {{"python": "{exercises.STUB}"}}' in told
    assert any(line.startswith(f"c.Execute.timeout = {notebooks.CELL_SECONDS} ") for line in told)
    assert f'c.TagRemovePreprocessor.remove_cell_tags = ["{exercises.TEACHERS_TAG}"]' in told


class TestRunning:
    def run(self, source: str, folder: Path) -> NotebookNode:
        cells = [nbformat.v4.new_code_cell(source, metadata={"nbgrader": {"grade_id": "one"}})]
        return notebooks.executed(nbformat.v4.new_notebook(cells=cells), folder, "a page")

    def test_a_notebook_runs_in_its_folder_and_keeps_its_metadata(self, tmp_path: Path) -> None:
        folder = tmp_path / "its folder"
        folder.mkdir()
        (cell,) = self.run("from pathlib import Path\nprint(Path.cwd().name)", folder).cells
        assert (cell.outputs[0].text, cell.execution_count) == ("its folder\n", 1)
        assert cell.metadata == {"nbgrader": {"grade_id": "one"}}

    def test_one_that_warns_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="a page writes to standard error: beware"):
            self.run("import sys\nprint('beware', file=sys.stderr)", tmp_path)


class TestRegions:
    def test_a_region_is_one_line_as_far_in_as_its_marker(self) -> None:
        source = (
            "def area(w, h):\n    ### BEGIN SOLUTION\n    a = w * h\n    return a\n    ### END SOLUTION\narea(3)"
        )
        assert exercises.without_solution(source) == "def area(w, h):\n    ...  # your code here\narea(3)"

    def test_a_cell_may_have_several(self) -> None:
        source = "### BEGIN SOLUTION\na\n### END SOLUTION\nb\n### BEGIN SOLUTION\n### END SOLUTION"
        assert exercises.without_solution(source) == "...  # your code here\nb\n...  # your code here"

    @pytest.mark.parametrize(
        "source",
        [
            "### BEGIN SOLUTION\na",
            "a\n### END SOLUTION",
            "### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION",
            "### BEGIN SOLUTION\n### END SOLUTION\n### END SOLUTION",
            "### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION\n### END SOLUTION",
            "### END SOLUTION\na\n### BEGIN SOLUTION",
            "# BEGIN SOLUTION\na\n# END SOLUTION",
        ],
    )
    def test_markers_out_of_order_are_refused(self, source: str) -> None:
        with pytest.raises(ValueError, match=r"nbgrader|twice|not ended"):
            exercises.without_solution(source)

    @pytest.mark.parametrize(("source", "answer"), [("a", True), ("### BEGIN SOLUTION\n### END SOLUTION", False)])
    def test_a_region_and_its_metadata_go_together(self, source: str, answer: bool) -> None:
        cell = nbformat.v4.new_code_cell(source, metadata={"nbgrader": {"solution": answer}})
        with pytest.raises(ValueError, match="belong together"):
            exercises.student_version(nbformat.v4.new_notebook(cells=[cell]))

    def test_what_is_for_teachers_stays_with_them(self) -> None:
        told = nbformat.v4.new_markdown_cell("Because.", metadata={"tags": ["solution-only"]})
        kept = nbformat.v4.new_markdown_cell("Why?")
        version = exercises.student_version(nbformat.v4.new_notebook(cells=[kept, told]))
        assert [cell.source for cell in version.cells] == ["Why?"]
