"""nbgrader releases the exercises as the student versions, and grades answers to one of them.

`make grade-test` runs this: it adds nbgrader to the environment of the book, which nothing else needs.
"""

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

pytestmark = pytest.mark.grade

ROOT = Path(__file__).resolve().parent.parent
SOLUTIONS, STUDENT = ROOT / "notebooks" / "solutions", ROOT / "notebooks" / "exercises"
EXERCISES = sorted(path.stem for path in STUDENT.glob("*.ipynb"))
GRADED = "2_counting"
COMMANDS = [
    f"nbgrader generate_assignment {GRADED} --create",
    f"nbgrader autograde {GRADED}",
    f"nbgrader generate_feedback {GRADED}",
    "nbgrader export",
]


def run(course: Path, command: str) -> None:
    """Run a command in a course's folder, as the teacher's page says it. It must ask for nothing."""
    scripts = str(Path(sys.executable).parent)  # nbgrader calls other programs of its environment by their names
    environment = {**os.environ, "PATH": os.pathsep.join([scripts, os.environ["PATH"]])}
    done = subprocess.run(
        [*command.split()],
        cwd=course,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def open_course(folder: Path, assignment: str, names: list[str]) -> Path:
    """Lay out a course with one assignment of some exercises."""
    source = folder / "source" / assignment
    source.mkdir(parents=True)
    shutil.copy(SOLUTIONS / "nbgrader_config.py", folder)
    for name in names:
        shutil.copy(SOLUTIONS / f"{name}.ipynb", source)
    return folder


def right(cell: NotebookNode, solution: NotebookNode) -> None:
    cell.source = solution.source


def wrong(cell: NotebookNode, solution: NotebookNode) -> None:
    """Take the masked positions for the scored ones, and say of 12 % that it is an expectation."""
    slips = {"first": 'answers["first"]["scored"] = 240', "twelve": 'answers["twelve"] = "a"'}
    cell.source = f"{solution.source}\n{slips.get(cell.metadata.nbgrader.grade_id, '')}"


def empty(cell: NotebookNode, solution: NotebookNode) -> None:
    """Leave the stub."""


def broken(cell: NotebookNode, solution: NotebookNode) -> None:
    cell.source = "answers = undefined"


ANSWERS: dict[str, tuple[Callable[[NotebookNode, NotebookNode], None], float]] = {
    "right": (right, 11.0),
    "wrong": (wrong, 9.0),  # two of eleven lines
    "empty": (empty, 0.0),
    "broken": (broken, 0.0),
}


def handed_in(answer: Callable[[NotebookNode, NotebookNode], None]) -> NotebookNode:
    """The student version with its answer cells filled in, and the graded cell forged: nbgrader puts it back."""
    notebook = nbformat.read(STUDENT / f"{GRADED}.ipynb", as_version=4)
    reference = nbformat.read(SOLUTIONS / f"{GRADED}.ipynb", as_version=4)
    solutions = {cell.metadata.nbgrader.grade_id: cell for cell in reference.cells if "nbgrader" in cell.metadata}
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        if about.get("solution"):
            answer(cell, solutions[about.grade_id])
        if about.get("grade"):
            cell.source = "11.0"
    return notebook


@pytest.fixture(scope="module")
def grades(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The exported row of everybody who handed in."""
    course = open_course(tmp_path_factory.mktemp("graded"), GRADED, [GRADED])
    for student, (answer, _) in ANSWERS.items():
        folder = course / "submitted" / student / GRADED
        folder.mkdir(parents=True)
        nbformat.write(handed_in(answer), folder / f"{GRADED}.ipynb")
    for command in COMMANDS:
        run(course, command)
    assert len(list((course / "feedback").rglob("*.html"))) == len(ANSWERS)
    with (course / "grades.csv").open(encoding="utf-8") as table:
        return {row["student_id"]: row for row in csv.DictReader(table)}


@pytest.mark.parametrize("student", ANSWERS)
def test_an_answer_gains_its_points(student: str, grades: dict[str, dict[str, str]]) -> None:
    assert (float(grades[student]["score"]), float(grades[student]["max_score"])) == (ANSWERS[student][1], 11.0)


def test_what_is_released_is_the_student_version(tmp_path: Path) -> None:
    course = open_course(tmp_path, "all", EXERCISES)
    run(course, "nbgrader generate_assignment all --create")
    for name in EXERCISES:
        released, ours = (
            nbformat.read(folder / f"{name}.ipynb", as_version=4)
            for folder in (course / "release" / "all", STUDENT)
        )
        assert [(cell.cell_type, cell.source) for cell in released.cells] == [
            (cell.cell_type, cell.source) for cell in ours.cells
        ]


def test_the_teachers_page_says_these_commands() -> None:
    page = (SOLUTIONS / "text" / "teachers_page.md").read_text(encoding="utf-8").splitlines()
    assert [command for command in COMMANDS if command not in page] == []
