"""Do what the Makefile says, without make: make.bat hands its arguments over, since Windows has no make.

Of make's language it knows what the book's Makefile needs: NAME = words, NAME ?= words, $(NAME), rules with the
targets that go before, one command a line, and @ for a command that is not shown. What stands between ifeq and
endif is for Unix and is passed over. Anything else is an error, so that nothing is misread. There is no shell.

Like env.py it needs the standard library alone, and an older Python can read it.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = re.compile(r"(\w+) *(\??=) *(.*)")
RULE = re.compile(r"([a-z-]+):([a-z -]*)")
REFERENCE = re.compile(r"\$\((\w+)\)")
INTERPRETER = re.compile(r"(\.venv(?:-html)?)/bin/python")
WRONG_CALL, NOT_FOUND = 2, 127


def words(value: str) -> "list[str]":
    """Split the value of a variable at its blanks, unless the whole is the path of a file."""
    return [value] if Path(value).is_file() else value.split()


class Makefile:
    """The variables and rules of a Makefile.

    given: variables of the command line, which win. environment: those of the environment, which win over `?=`.
    windows: whether the environments' interpreters lie where Windows has them. Raises ValueError for a line that
    is not understood, and for a given variable that is not a `?=` of the file.
    """

    def __init__(
        self, text: str, given: "Mapping[str, str]", environment: "Mapping[str, str]", windows: bool
    ) -> None:
        self.variables: dict[str, list[str]] = {}
        self.needs: dict[str, list[str]] = {}
        self.recipes: dict[str, list[str]] = {}
        self.windows = windows
        chosen, target = set(), ""
        for line in relevant(text):
            variable, rule = VARIABLE.fullmatch(line), RULE.fullmatch(line)
            if line.startswith("\t") and target:
                self.recipes[target].append(line[1:])
            elif variable:
                name, sign, value = variable.groups()
                if sign == "?=":
                    chosen.add(name)
                    value = given.get(name, environment.get(name, value))
                self.variables[name] = words(value)
            elif rule:
                target = rule.group(1)
                self.needs[target], self.recipes[target] = rule.group(2).split(), []
            else:
                raise ValueError(f"the Makefile's line {line!r} is not understood")
        for name in given:
            if name not in chosen:
                raise ValueError(f"there is no variable {name!r}; there are {', '.join(sorted(chosen))}")

    def plan(self, target: str, planned: "set[str]") -> "Iterator[tuple[bool, list[str]]]":
        """Give the commands of a target, those of the targets before it first: whether to show it, and its words.

        planned: the targets that have had their turn; it grows. Raises ValueError for an unknown target.
        """
        if target not in self.recipes:
            raise ValueError(f"there is no target {target!r}; there are {', '.join(self.recipes)}")
        if target in planned:
            return
        planned.add(target)
        for other in self.needs[target]:
            yield from self.plan(other, planned)
        for line in self.recipes[target]:
            split = shlex.split(line.lstrip("@"))
            yield not line.startswith("@"), [word for written in split for word in self.expanded(written)]

    def expanded(self, word: str) -> "list[str]":
        """Give what a word of a command stands for. Raises ValueError for what is not a variable of the file."""
        match = REFERENCE.fullmatch(word)
        if match and match.group(1) in self.variables:
            return [inner for outer in self.variables[match.group(1)] for inner in self.expanded(outer)]
        if "$" in word:
            raise ValueError(f"the Makefile's word {word!r} is not understood")
        interpreter = INTERPRETER.fullmatch(word)
        if self.windows and interpreter:
            return [interpreter.group(1) + r"\Scripts\python.exe"]
        return [word]


def relevant(text: str) -> "Iterator[str]":
    """Give the lines that count: no comments, no blank ones, no list of phony targets, nothing for Unix.

    Raises ValueError for a line that goes on in the next one.
    """
    for_unix = False
    for line in text.splitlines():
        if line.endswith("\\"):
            raise ValueError(f"the Makefile's line {line!r} may not go on in the next one")
        if line.startswith("ifeq "):
            for_unix = True
        elif line == "endif":
            for_unix = False
        elif line.strip() and not for_unix and not line.startswith(("#", ".PHONY:")):
            yield line


def run(commands: "Iterable[tuple[bool, list[str]]]") -> int:
    """Run commands in turn, in the current folder, until one fails; give its exit code."""
    # Ctrl-C is for the command, as JupyterLab asks back. (A handler, unlike SIG_IGN, is not inherited by it.)
    signal.signal(signal.SIGINT, lambda *_: None)
    for shown, command in commands:
        if command[0] == "echo":
            print(*command[1:], flush=True)
            continue
        if shown:
            print(" ".join(command).encode("ascii", "backslashreplace").decode(), flush=True)
        try:
            code = subprocess.call(command)
        except OSError as error:
            print(f"make: {command[0]} could not be started: {error}", file=sys.stderr)
            return NOT_FOUND
        if code:
            return code
    return 0


def main(arguments: "list[str]") -> int:
    """Run targets, by default the first, with variables given as NAME=value; give the exit code."""
    given = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    targets = [argument for argument in arguments if "=" not in argument]
    os.chdir(str(ROOT))
    try:
        text = Path("Makefile").read_text(encoding="utf-8")
        makefile = Makefile(text, given, {"PYTHON": sys.executable, **os.environ}, os.name == "nt")
        planned: set[str] = set()
        commands: list[tuple[bool, list[str]]] = []
        for target in targets or list(makefile.recipes)[:1]:
            commands += makefile.plan(target, planned)
    except ValueError as error:
        print(f"make: {error}", file=sys.stderr)
        return WRONG_CALL
    return run(commands)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
