"""Rebuild the exercises: `python .ci/exercises.py [2_counting ...]`, all of them by default.

The source of an exercise is the text of its solution, notebooks/solutions/text/2_counting.md. It gives two
notebooks, both executed from top to bottom: notebooks/solutions/2_counting.ipynb, with everything, and
notebooks/exercises/2_counting.ipynb, which is what a student gets. There each region between BEGIN SOLUTION and
END SOLUTION is one line to fill in, as nbgrader would leave it, and cells tagged `solution-only` are gone. A text
whose name begins with a letter is a page for teachers and has no student version.
"""

import re
import sys
from copy import deepcopy

import jupytext
from nbformat import NotebookNode

import notebooks

SOLUTIONS, EXERCISES = notebooks.NOTEBOOKS / "solutions", notebooks.NOTEBOOKS / "exercises"
TEXTS = SOLUTIONS / "text"
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = "...  # your code here"
TEACHERS_TAG = "solution-only"


def is_exercise(name: str) -> bool:
    """Say whether a text gives a student version."""
    return name[0].isdigit()


def without_solution(source: str) -> str:
    """Put the stub in place of each marked region. Raises ValueError for markers that do not go in pairs."""
    lines, inside = [], False
    for line in source.split("\n"):
        if line.strip() in (BEGIN, END):
            if inside is (line.strip() == BEGIN):
                raise ValueError(f"a region of a solution is begun or ended twice in the cell\n{source}")
            inside = not inside
            if inside:
                lines.append(re.sub(r"\S.*", STUB, line))
        elif "BEGIN SOLUTION" in line or "END SOLUTION" in line:
            raise ValueError(f"nbgrader would take this line for a marker: {line}")
        elif not inside:
            lines.append(line)
    if inside:
        raise ValueError(f"a region of a solution is not ended in the cell\n{source}")
    return "\n".join(lines)


def student_version(solution: NotebookNode) -> NotebookNode:
    """Give the notebook that a student gets, not executed. Raises ValueError where nbgrader would give another."""
    version = deepcopy(solution)
    version.cells = [cell for cell in version.cells if TEACHERS_TAG not in cell.metadata.get("tags", [])]
    for cell in version.cells:
        source = without_solution(cell.source)
        answered = cell.metadata.get("nbgrader", {}).get("solution", False)
        if answered != (source != cell.source):
            raise ValueError(
                f"nbgrader's `solution` and a marked region belong together in the cell\n{cell.source}"
            )
        cell.source = source
    return version


def rebuild(name: str) -> bool:
    """Rebuild an exercise and its solution; say whether a stored notebook changed."""
    text = TEXTS / f"{name}.md"
    notebooks.tidy(text)
    solution = jupytext.read(text)
    versions = {SOLUTIONS: solution}
    if is_exercise(name):
        versions[EXERCISES] = student_version(solution)
    changed = False
    for folder, notebook in versions.items():
        folder.mkdir(exist_ok=True)
        done = notebooks.executed(notebook, folder, f"{folder.name}/{name}")
        changed |= notebooks.stored(done, folder / f"{name}.ipynb")
    return changed


if __name__ == "__main__":
    sys.exit(notebooks.main(sys.argv[1:], TEXTS, rebuild))
