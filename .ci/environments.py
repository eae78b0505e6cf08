"""Throw-away environments with other versions: `python .ci/environments.py`, in build/environments.

The oldest versions that pyproject.toml admits, the tested ones on each newer Python that this machine has, and the
newest of everything. `make portable` then runs the pages in those that could be made too, and
`build/environments/oldest/bin/python -m pytest -n auto` runs the tests in one of them. What cannot be had is said.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "environments"
NEWER = ("3.12", "3.13", "3.14")
MADE = "made"  # a file in an environment that is complete


@dataclass(frozen=True)
class Wanted:
    """An environment to be made: its name, the Python to make it with, and pip's constraints."""

    name: str
    python: str
    constraints: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where it stands."""
        return FOLDER / self.name

    @property
    def interpreter(self) -> Path:
        """Its Python."""
        return self.folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    def version(self, package: str) -> str:
        """Look up which version of a package stands in it, once it is made; empty if none does."""
        lines = (self.folder / MADE).read_text(encoding="utf-8").splitlines()
        return next((line.partition("==")[2] for line in lines if line.partition("==")[0] == package), "")


def dependencies() -> list[str]:
    """Give what the book and its tests ask for, with its ranges."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["test"]]


def oldest(ranges: list[str]) -> tuple[str, ...]:
    """Pin each package to the first version that its range admits. Raises ValueError for a range without one."""
    pins = []
    for line in ranges:
        found = re.match(r"([\w-]+)>=([\d.]+)", line)
        if found is None:
            raise ValueError(f"{line!r} names no oldest version")
        pins.append(f"{found[1]}=={found[2]}")
    return tuple(pins)


def wanted() -> list[Wanted]:
    """Name the environments, those of Pythons that this machine does not have as well."""
    tested = tuple((ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines())
    newer = [Wanted(f"python{version}", f"python{version}", tested) for version in NEWER]
    return [Wanted("oldest", "python3.11", oldest(dependencies())), *newer, Wanted("newest", "python3.11")]


def made() -> list[Wanted]:
    """Name the environments that stand complete."""
    return [one for one in wanted() if (one.folder / MADE).exists()]


def make(one: Wanted) -> str:
    """Make an environment anew; give why it could not be had, empty if it could."""
    if not works(one.python):
        return f"this machine has no {one.python}"
    shutil.rmtree(one.folder, ignore_errors=True)
    subprocess.run([one.python, "-m", "venv", str(one.folder)], check=True)
    constraints = one.folder / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in one.constraints), encoding="utf-8")
    command = [str(one.interpreter), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:", "--constraint", str(constraints), "--editable", f"{ROOT}[test]"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return "\n".join(line for line in done.stderr.splitlines() if line.startswith("ERROR"))
    versions = subprocess.run(
        [str(one.interpreter), "-I", "-m", "pip", "freeze"], capture_output=True, text=True, check=True
    ).stdout
    (one.folder / MADE).write_text(versions, encoding="utf-8")
    return ""


def works(python: str) -> bool:
    """Say whether there is such a Python; a name on the PATH may be a stand-in that only says so."""
    try:
        return subprocess.run([python, "-c", "pass"], capture_output=True).returncode == 0
    except OSError:
        return False


def main(names: list[str]) -> int:
    """Make the named environments, or all that are not there yet, and say what cannot be."""
    known = {one.name: one for one in wanted()}
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no environment named {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    standing = {one.name for one in made()}
    for name in names or [name for name in known if name not in standing]:
        print(f"{name}: {make(known[name]) or 'made'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
