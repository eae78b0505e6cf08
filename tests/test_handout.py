"""What students are handed: the whole book and every exercise, and no solution."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import nbformat
import pytest
from test_exercises import TEXTS, regions

ROOT = Path(__file__).resolve().parent.parent
PENCIL = {"1_visibility", "2_counting"}
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, encoding="utf-8")
    return done.stdout


def make_handout(checkout: Path, handout: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / ".ci" / "handout.py"), str(handout)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of the files as they stand here, and beside them something that git does not know."""
    folder = tmp_path_factory.mktemp("teacher") / "book"
    for name in git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")[:-1]:
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    (folder / "course" / "submitted").mkdir(parents=True)
    (folder / "course" / "submitted" / "anna.ipynb").write_text("{}", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def book(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The handout, unpacked."""
    folder = tmp_path_factory.mktemp("student")
    done = make_handout(checkout, folder / "handout.zip")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(TEXTS)} exercises" in done.stdout
    with ZipFile(folder / "handout.zip") as archive:
        assert archive.testzip() is None
        assert {name.split("/")[0] for name in archive.namelist()} == {"bertch15-handout"}
        programs = [entry.filename for entry in archive.infolist() if entry.external_attr >> 16 & 0o111]
        assert "bertch15-handout/.ci/run" in programs
        archive.extractall(folder)
    return folder / "bertch15-handout"


def files(book: Path) -> list[str]:
    return sorted(path.relative_to(book).as_posix() for path in book.rglob("*") if path.is_file())


@cache
def lines(path: Path) -> list[str]:
    """The lines of a file, empty ones left out; of a notebook those of its cells and of all that they show."""
    texts = [path.read_text(encoding="utf-8", errors="ignore")]
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        texts = [cell.source for cell in cells]
        texts += [
            text for output in outputs for text in (output.get("text", ""), *output.get("data", {}).values())
        ]
    return [line.strip() for text in texts for line in str(text).splitlines() if line.strip()]


def test_it_holds_what_git_tracks_but_for_what_is_the_teachers(book: Path, checkout: Path) -> None:
    missing = set(git(checkout, "ls-files", "-z").split("\0")[:-1]) - set(files(book))
    teachers = re.compile(r"notebooks/solutions/.+|tests/test_(exercise.*|grade|handout)\.py")
    assert [name for name in missing if not teachers.fullmatch(name)] == []
    assert [name for name in files(book) if teachers.fullmatch(name)] == []
    assert set(files(book)) <= set(git(checkout, "ls-files", "-z").split("\0"))


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.stem)
def test_every_exercise_is_handed_out_as_the_student_gets_it(text: Path, book: Path) -> None:
    ours = ROOT / "notebooks" / "exercises" / f"{text.stem}.ipynb"
    assert (book / "notebooks" / "exercises" / ours.name).read_bytes() == ours.read_bytes()


def leaked(region: list[str], text: list[str]) -> bool:
    """Whether a text has a region of a solution, or two lines of it in a row. One line may be common property."""
    runs = [region[n : n + 2] for n in range(max(1, len(region) - 1))]
    return any(run == text[n : n + len(run)] for run in runs for n in range(len(text)))


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.stem)
def test_no_solution_is_in_it(text: Path, book: Path) -> None:
    # What a page teaches and the package does may be what an answer in code needs, but never one with the pencil.
    passed_over = (
        ("figures/",) if text.stem in PENCIL else ("figures/", "bertch15/", "notebooks/15_", "notebooks/text/")
    )
    readable = [name for name in files(book) if not name.startswith(passed_over)]
    found = {name for name in readable for region in regions(text) if leaked(region, lines(book / name))}
    assert found == set()


def test_a_leaked_solution_would_be_seen() -> None:
    assert leaked(["a = 1", "b = 2", "c = 3"], ["x", "b = 2", "c = 3", "y"])
    assert leaked(["a = 1"], ["x", "a = 1"])
    assert not leaked(["a = 1", "b = 2"], ["a = 1", "x", "b = 2"])


def test_nothing_is_said_of_a_marked_region_but_where_it_is_made(book: Path) -> None:
    named = [name for name in files(book) if b"BEGIN SOLUTION" in (book / name).read_bytes()]
    assert named == [".ci/exercises.py", ".ci/handout.py"]


def test_links_lead_somewhere_in_it(book: Path) -> None:
    dead = []
    for page in [book / "README.md", *(book / "notebooks").rglob("*.ipynb")]:
        text = page.read_text(encoding="utf-8") if page.suffix == ".md" else "\n".join(lines(page))
        targets = [target for target in LINK.findall(text) if "://" not in target and "." in target]
        assert targets, f"{page.name} has no links"
        dead += [f"{page.name}: {target}" for target in targets if not (page.parent / target).exists()]
    assert dead == []


def test_make_lab_has_what_it_needs(book: Path) -> None:
    planned = subprocess.run(["make", "-n", "lab"], cwd=book, check=True, capture_output=True, text=True).stdout
    named = re.findall(r"(?<!\S)(?:\.ci|notebooks)/\S+", planned)
    assert sorted(named) == [".ci/env.py", "notebooks/index.ipynb"]
    assert all((book / name).is_file() for name in [*named, "pyproject.toml", ".ci/constraints.txt", "README.md"])


def test_the_package_in_it_is_whole(book: Path) -> None:
    program = "import bertch15.check as c; print(c.__file__)"
    done = subprocess.run([sys.executable, "-c", program], cwd=book, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == book / "bertch15" / "check" / "__init__.py"


def test_the_same_files_give_the_same_bytes(checkout: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    make_handout(checkout, first)
    for name in git(checkout, "ls-files", "-z").split("\0")[:-1]:
        os.utime(checkout / name, (1e9, 1e9))
    make_handout(checkout, second)
    assert first.read_bytes() == second.read_bytes()


def test_a_solution_in_a_notebook_stops_it(checkout: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(checkout, tmp_path / "copy")
    page = next((copy / "notebooks" / "exercises").glob("*.ipynb"))
    page.write_text(
        page.read_text(encoding="utf-8").replace("your code here", "### BEGIN SOLUTION"), encoding="utf-8"
    )
    done = make_handout(copy, tmp_path / "handout.zip")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{page.name} shows a solution" in done.stderr
    assert not (tmp_path / "handout.zip").exists()


@pytest.mark.parametrize("inside", [False, True], ids=["nowhere", "in another repository"])
def test_without_a_repository_it_says_so(inside: bool, checkout: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(checkout, tmp_path / "copy", ignore=shutil.ignore_patterns(".git"))
    if inside:
        git(tmp_path, "init", "--quiet")
    done = make_handout(copy, tmp_path / "handout.zip")
    assert done.returncode == 1
    assert "files that git tracks" in done.stderr
    assert not (tmp_path / "handout.zip").exists()
