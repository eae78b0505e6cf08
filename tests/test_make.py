"""The Makefile, and what Windows has in its place: make.bat, which hands its arguments to .ci/make.py."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import make
import psutil
import pytest
import reader

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "Makefile").read_text(encoding="utf-8")
MAKEFILE = TEXT.splitlines()
TARGETS = [line.split(":")[0] for line in MAKEFILE if re.match(r"[a-z-]+:", line)]
LAB = "{} -m jupyterlab --ip=127.0.0.1 notebooks/index.ipynb"

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no make")


def surroundings() -> dict[str, str]:
    """The environment without what an outer make, or its caller, has put there."""
    theirs = re.compile(r"MAKE.*|MFLAGS|PYTHON|LAB|SEEDS")
    return {name: value for name, value in os.environ.items() if not theirs.fullmatch(name)}


def planned_by_make(*words: str, path: str = os.environ["PATH"]) -> list[str]:
    """The lines of what GNU make would do; `path` is where it finds programs."""
    command = ["make", "--dry-run", "--no-print-directory", "-C", str(ROOT), *words]
    done = subprocess.run(command, env=surroundings() | {"PATH": path}, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


class TestMakefile:
    def test_jupyterlab_listens_on_this_machine_alone_and_keeps_its_token(self) -> None:
        (command,) = [line for line in MAKEFILE if "jupyterlab" in line]
        assert "--ip=127.0.0.1" in command
        assert command.endswith("notebooks/index.ipynb")
        assert "token" not in TEXT.replace("asks for its token", "")
        assert "password" not in TEXT

    def test_help_comes_first_and_lists_every_other_target(self) -> None:
        assert TARGETS[0] == "help"
        listed = [match[1] for line in MAKEFILE if (match := re.search(r'@echo "make ([\w-]+) ', line))]
        assert sorted(listed) == sorted(TARGETS[1:])

    def test_no_target_is_taken_for_a_file(self) -> None:
        (phony,) = [line for line in MAKEFILE if line.startswith(".PHONY:")]
        assert sorted(phony.split()[1:]) == sorted(TARGETS)

    @pytest.mark.parametrize("page", ["README.md", ".ci/run"])
    def test_what_is_told_to_make_is_a_target(self, page: str) -> None:
        told = re.findall(r"\bmake (?:[A-Z]+=\S+ )?([a-z-]+)\b", (ROOT / page).read_text(encoding="utf-8"))
        assert {"check", "test"} <= set(told) <= set(TARGETS)

    @posix
    @pytest.mark.parametrize(("user", "flags"), [("0", ["--allow-root"]), ("1000", [])])
    def test_root_alone_is_allowed_to_be_root(self, user: str, flags: list[str], tmp_path: Path) -> None:
        (tmp_path / "id").write_text(f'#!/bin/sh\n[ "$*" = -u ] && echo {user}\n')
        (tmp_path / "id").chmod(0o755)
        planned = planned_by_make("lab", path=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")[-1].split()
        plain = LAB.format(".venv/bin/python").split()
        assert planned == [*plain[:-1], *flags, plain[-1]]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What JupyterLab notes of itself once `make lab` has started it: its process, its port and its token."""
    port = reader.free_port()
    words = [f"LAB=--no-browser --port={port} --ServerApp.port_retries=0"]
    words += [
        "PYTHON=true",
        f"BOOK={sys.executable}",
    ]  # in the environment of the tests, which is not brought up to date
    log = tmp_path / "jupyterlab.log"
    with log.open("w") as written:
        server = subprocess.Popen(
            ["make", "-C", str(ROOT), "lab", *words],
            env=reader.settings(tmp_path, surroundings()),
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    try:
        reader.wait_until_it_answers(f"http://127.0.0.1:{port}/api", server, log)
        (noted,) = (tmp_path / "runtime_dir").glob("jpserver-*.json")
        yield json.loads(noted.read_text(encoding="utf-8")) | {"asked_for": port}
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(reader.STOP_SECONDS)


def answer(address: str) -> int:
    """The status of an answer."""
    try:
        with urlopen(address, timeout=20) as page:
            return page.status
    except HTTPError as error:
        return error.code


@posix
def test_make_lab_starts_whoever_calls_it_and_answers_this_machine_with_the_token_alone(
    started: dict[str, Any],
) -> None:
    assert started["port"] == started["asked_for"]
    address = f"http://127.0.0.1:{started['port']}/api/contents/index.ipynb?content=0"
    assert len(started["token"]) >= 40
    assert answer(address) == 403
    assert answer(f"{address}&token=guessed") == 403
    assert answer(f"{address}&token={started['token']}") == 200
    connections = psutil.Process(started["pid"]).net_connections("inet")
    listening = {connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN}
    assert ("127.0.0.1", started["port"]) in listening
    assert {host for host, _ in listening} == {"127.0.0.1"}


def planned(target: str, given: dict[str, str] | None = None, windows: bool = False, **environment: str) -> list:
    return list(make.Makefile(TEXT, given or {}, environment, windows).plan(target, set()))


class TestWithoutMake:
    """What .ci/make.py reads in the Makefile, held to GNU make."""

    @posix
    @pytest.mark.parametrize("target", TARGETS)
    @pytest.mark.parametrize(
        "given", [{}, {"PYTHON": "py -3.12", "LAB": "--no-browser --port=8889"}], ids=["plain", "with variables"]
    )
    def test_it_plans_what_make_plans(self, target: str, given: dict[str, str]) -> None:
        theirs = planned_by_make("AS_ROOT=", *(f"{name}={value}" for name, value in given.items()), target)
        assert theirs
        assert [command for _, command in planned(target, given)] == [shlex.split(line) for line in theirs]

    @pytest.mark.parametrize("target", TARGETS)
    def test_it_shows_what_make_shows(self, target: str) -> None:
        own = TEXT.split(f"\n{target}:")[1].split("\n\n")[0].splitlines()[1:]
        assert own
        shown = [shown for shown, _ in planned(target)][-len(own) :]
        assert shown == [not line.startswith("\t@") for line in own]

    @pytest.mark.parametrize("target", TARGETS)
    def test_on_windows_the_interpreters_alone_lie_elsewhere(self, target: str) -> None:
        places = {
            ".venv/bin/python": r".venv\Scripts\python.exe",
            ".venv-html/bin/python": r".venv-html\Scripts\python.exe",
        }
        expected = [(shown, [places.get(word, word) for word in command]) for shown, command in planned(target)]
        assert planned(target, windows=True) == expected
        assert "bin/python" not in str(expected)

    def test_the_lab_on_windows(self) -> None:
        env, lab = planned("lab", {"PYTHON": "python3.12", "LAB": "--no-browser"}, windows=True)
        assert env == (False, ["python3.12", ".ci/env.py"])
        flags = ["-m", "jupyterlab", "--ip=127.0.0.1", "--no-browser", "notebooks/index.ipynb"]
        assert lab == (True, [r".venv\Scripts\python.exe", *flags])

    def test_a_target_has_one_turn(self) -> None:
        makefile, had = make.Makefile(TEXT, {}, {}, False), set[str]()
        commands = [command for target in ("lab", "bench", "lab") for _, command in makefile.plan(target, had)]
        assert [command[1:3] for command in commands] == [
            [".ci/env.py"],
            ["-m", "jupyterlab"],
            ["tests/bench.py"],
        ]

    def test_the_command_line_wins_over_the_environment_and_that_over_the_file(self) -> None:
        assert planned("env")[0][1][0] == "python3"
        assert planned("env", PYTHON="python3.13")[0][1][0] == "python3.13"
        assert planned("env", {"PYTHON": "python3.12"}, PYTHON="python3.13")[0][1][0] == "python3.12"
        assert planned("lab", BOOK="python3.13")[1][1][0] == ".venv/bin/python"

    def test_a_program_with_a_blank_in_its_path_is_one_word(self, tmp_path: Path) -> None:
        program = tmp_path / "Program Files" / "python.exe"
        program.parent.mkdir()
        program.touch()
        assert planned("env", {"PYTHON": str(program)}) == [(False, [str(program), ".ci/env.py"])]

    @pytest.mark.parametrize(
        ("line", "named"),
        [
            ("\tcommand before any rule", "command before any rule"),
            ("include other.mk", "include other.mk"),
            ("a: b.c", "a: b.c"),
            ("%.o: x", "%.o: x"),
            ("NAME := value", "NAME := value"),
            ("a:\n\tone \\\n\ttwo", "may not go on"),
            ("a:\n\tone $(shell id)", "$(shell"),
            ("a:\n\tone $@", "$@"),
            ("a:\n\tone $(UNKNOWN)", "$(UNKNOWN)"),
            ("a: b", "no target 'b'"),
        ],
    )
    def test_what_it_does_not_know_it_does_not_misread(self, line: str, named: str) -> None:
        with pytest.raises(ValueError, match=re.escape(named)):
            list(make.Makefile(line, {}, {}, False).plan("a", set()))


WAIT = """
import time
print("up", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    print("asked back", flush=True)
    raise SystemExit(5)
"""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A checkout with .ci/make.py and a Makefile of its own, in a path that a shell would stumble over."""
    root = tmp_path / "a & b !c% (d)"
    (root / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "make.py", root / ".ci")
    (root / "say.py").write_text("import os, sys; print(sys.argv[1:], os.path.exists('say.py'))\n")
    (root / "fail.py").write_text("raise SystemExit(7)\n")
    (root / "wait.py").write_text(WAIT)
    recipes = {"help": '@echo "make  twice"', "say": '$(PYTHON) say.py "a b" $(WORDS)'}
    recipes |= {"wait": "@$(PYTHON) wait.py", "show": "$(PYTHON) -c pass $(WORDS)"}
    recipes |= {"fail": "@$(PYTHON) fail.py\n\t@$(PYTHON) say.py", "absent": "@no-such-program"}
    rules = "".join(f"{name}:\n\t{recipe}\n" for name, recipe in recipes.items())
    (root / "Makefile").write_text(f"PYTHON ?= python3\nWORDS ?=\n{rules}")
    return root


def make_py(book: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(book / ".ci" / "make.py"), *words]
    return subprocess.run(
        command, cwd=book.parent, env=surroundings() | environment, capture_output=True, text=True, timeout=60
    )


class TestCalledFromElsewhere:
    @pytest.mark.parametrize("words", [[], ["help"]])
    def test_the_first_target_is_the_help(self, book: Path, words: list[str]) -> None:
        done = make_py(book, *words, PATH=str(book))  # Windows has no program `echo`
        assert (done.returncode, done.stdout, done.stderr) == (0, "make  twice\n", "")

    def test_a_command_runs_in_the_books_folder_by_the_python_that_runs_the_script(self, book: Path) -> None:
        done = make_py(book, "WORDS=x y&z", "say")
        shown, said = done.stdout.splitlines()
        assert shown == f"{sys.executable} say.py a b x y&z"
        assert said == "['a b', 'x', 'y&z'] True"
        assert (done.returncode, done.stderr) == (0, "")

    def test_what_is_shown_can_be_written_in_any_encoding(self, book: Path) -> None:
        done = make_py(book, "WORDS=\u4e09", "show", PYTHONIOENCODING="cp1252")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("-c pass \\u4e09\n")

    def test_the_exit_code_is_that_of_the_command_that_failed_and_ends_it(self, book: Path) -> None:
        done = make_py(book, "fail", "say")
        assert (done.returncode, done.stdout) == (7, "")

    def test_a_program_that_is_not_there_is_named(self, book: Path) -> None:
        done = make_py(book, "absent")
        assert done.returncode == 127
        assert done.stderr.startswith("make: no-such-program could not be started: ")

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["say", "sya"], "make: there is no target 'sya'; there are help, say, wait, show, fail, absent"),
            (["WORD=x", "say"], "make: there is no variable 'WORD'; there are PYTHON, WORDS"),
        ],
    )
    def test_an_unknown_word_is_told_before_anything_runs(self, book: Path, words: list[str], told: str) -> None:
        done = make_py(book, *words)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{told}\n")

    @posix
    def test_ctrl_c_is_for_the_command(self, book: Path) -> None:
        command = [sys.executable, str(book / ".ci" / "make.py"), "wait"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
            assert child.stdout
            assert child.stdout.readline() == "up\n"
            time.sleep(0.2)  # until the command sleeps
            os.killpg(child.pid, signal.SIGINT)
            assert child.stdout.read() == "asked back\n"
        assert child.returncode == 5


class TestBatchFile:
    """make.bat, as far as it can be looked at without Windows."""

    content = (ROOT / "make.bat").read_bytes()
    lines = content.decode("ascii").splitlines()

    def test_every_line_ends_as_windows_wants_it(self) -> None:
        assert self.content.count(b"\n") == self.content.count(b"\r\n") == len(self.lines)

    def test_it_hands_all_its_words_to_the_script_beside_it_wherever_that_is(self) -> None:
        (call,) = [line for line in self.lines if "make.py" in line and not line.startswith("rem ")]
        assert call == r'%LAUNCHER% "%~dp0.ci\make.py" %*'
        assert (ROOT / ".ci" / "make.py").is_file()

    def test_an_exclamation_mark_in_a_path_stays_one_and_nothing_is_left_behind_in_the_shell(self) -> None:
        first, _, third = self.lines[:3]
        assert first == "@echo off"
        assert third == "setlocal EnableExtensions DisableDelayedExpansion"

    def test_it_takes_py_where_there_is_one_and_python_else(self) -> None:
        start = self.lines.index('set "LAUNCHER=py"')
        assert self.lines[start + 1] == 'where /q py || set "LAUNCHER=python"'
        assert self.lines[start + 2].startswith("%LAUNCHER% ")

    def test_its_exit_code_is_that_of_the_script(self) -> None:
        assert self.lines[-1] == "exit /b %ERRORLEVEL%"
        (between,) = self.lines[self.lines.index(r'%LAUNCHER% "%~dp0.ci\make.py" %*') + 1 : -1]
        assert between.startswith('if "%ERRORLEVEL%"=="9009" echo ')  # neither of them leaves another code


KINDS = [".ci/run", ".ci/env.py", ".ci/constraints.txt", "Makefile", "README.md", "environment.yml", "make.bat"]
KINDS += ["notebooks/index.ipynb", "notebooks/text/index.md", "figures/figure_15_1.svg", "figures/15_6_page.png"]


@pytest.mark.skipif(shutil.which("git") is None, reason="a clone is made by git")
@pytest.mark.parametrize("autocrlf", ["true", "input", "false"])
def test_a_clone_has_the_same_bytes_whatever_git_is_told_of_line_ends(autocrlf: str, tmp_path: Path) -> None:
    book, clone = tmp_path / "book", tmp_path / "clone"
    for name in [".gitattributes", *KINDS]:
        (book / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, book / name)
    setting = ["-c", f"core.autocrlf={autocrlf}", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init"], ["add", "--all"], ["commit", "--message", "the book"], ["clone", ".", str(clone)]):
        subprocess.run(["git", *setting, *words], cwd=book, check=True, capture_output=True)
    assert [name for name in KINDS if (clone / name).read_bytes() != (ROOT / name).read_bytes()] == []
    stored = subprocess.run(["git", "show", "HEAD:make.bat"], cwd=book, check=True, capture_output=True).stdout
    assert stored == (ROOT / "make.bat").read_bytes().replace(b"\r\n", b"\n")
    assert [name for name in KINDS if b"\r\n" in (clone / name).read_bytes() and name[-3:] != "png"] == [
        "make.bat"
    ]
