"""Make `.venv`, the environment of the book, unless it stands already and nothing that decides it has changed.

`make env` runs it, with any Python from 3.11 on; `--extra check` adds the linters, `--extra grade` nbgrader,
`--extra test` what shares the tests out among all cores. It needs the standard library alone, and an older Python
can read it far enough to say that it is too old.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
CONSTRAINTS = ".ci/constraints.txt"
NO_NETWORK = re.compile(r"Retrying \(|connection broken|SSLError|ProxyError|timed out|HTTP error")
NO_WHEEL = re.compile(r"^ERROR: (ResolutionImpossible|No matching distribution found)", re.MULTILINE)
# On the disk while pip installs: the environment, the downloads, and their copies in pip's cache.
SPACE, SPACE_WITH_CUDA = "2 GB", "11 GB"
WHERE = "import bertch15; print(bertch15.__file__)"


class Trouble(Exception):
    """Something that the reader can mend, told in a sentence or two."""


def run_shown(command: "list[str]", root: Path) -> "tuple[int, str]":
    """Run a command in `root`; give its exit code and its standard error, which is also shown as it comes."""
    with subprocess.Popen(
        command, cwd=root, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace"
    ) as child:
        heard = []
        try:
            for line in child.stderr or ():
                sys.stderr.write(line)
                heard.append(line)
        except BaseException:
            child.terminate()
            raise
    return child.returncode, "".join(heard)


def pip_trouble(said: str) -> Trouble:
    """Give what to tell the reader when pip has failed and said this."""
    if NO_NETWORK.search(said):
        return Trouble(
            "pip could not reach the package index (its message stands above). Check the network; behind "
            "a proxy set HTTPS_PROXY, with a mirror PIP_INDEX_URL. Then run the same command again."
        )
    return Trouble(
        f"pip failed (its message stands above). Is the disk full? The installation takes about {SPACE}, with "
        f"a CUDA torch {SPACE_WITH_CUDA}. Mend the cause and run the same command again."
    )


def ladder(pins: str) -> "list[tuple[str, list[str]]]":
    """Give the constraints to try in turn, each with its name: the tested versions, their torch alone, none."""
    lines = [line for line in pins.splitlines() if line and not line.startswith("#")]
    torch = [line for line in lines if line.startswith("torch==")]
    return [
        ("the tested versions", lines),
        ("the tested torch with the newest of the rest", torch),
        ("the newest versions that pyproject.toml allows", []),
    ]


class Environment:
    """An environment of the checkout `root`: that of the book, `.venv`, or the one that `name` names.

    run(command, root) runs a command in a folder and gives its exit code and what it said on standard error.
    """

    def __init__(
        self, root: Path, run: "Callable[[list[str], Path], tuple[int, str]]" = run_shown, name: str = ".venv"
    ) -> None:
        self.root, self.run = root, run
        self.folder = root / name
        self.python = self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self.record = self.folder / "bertch15.json"

    def update(self, extras: "Iterable[str]" = ()) -> bool:
        """Bring the environment up to date; give whether there was anything to do. Raises Trouble.

        The record of a complete installation goes first and comes back last, so that one that failed or was
        interrupted is begun anew. Extras that were installed before stay.
        """
        known = self.read_record()
        had = known.get("extras")
        wanted = sorted({*extras, *(had if isinstance(had, list) else ())})
        due = {"place": self.place(), "files": self.fingerprint(), "extras": wanted}
        sound = known.get("place") == due["place"] and self.works()
        if sound and all(known.get(key) == value for key, value in due.items()):
            return False
        self.record.unlink(missing_ok=True)
        if not sound:
            self.create()
        versions = self.install(wanted)
        if not self.works():
            raise Trouble(
                "pip said that it was done, and yet the environment does not import the book's package. Does a "
                "variable such as PIP_TARGET, PIP_PREFIX or PIP_DRY_RUN send it elsewhere?"
            )
        self.silence_news()
        self.write_record({**due, "versions": versions})
        print(f"{self.folder} is ready, with {versions}.", flush=True)
        return True

    def place(self) -> str:
        """Name what an environment cannot survive a change of: the checkout's path and the kind of Python."""
        return f"{self.root} {sysconfig.get_config_var('EXT_SUFFIX')}"

    def fingerprint(self) -> str:
        """Give a hash of the files that decide which versions are installed."""
        digest = hashlib.sha256()
        for name in ("pyproject.toml", CONSTRAINTS):
            content = (self.root / name).read_bytes()
            digest.update(b"%d\n%s" % (len(content), content))
        return digest.hexdigest()

    def works(self) -> bool:
        """Say whether the environment's interpreter runs, and imports the package from this very checkout."""
        command = [str(self.python), "-I", "-c", WHERE]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return False
        found, here = Path(answer.stdout.strip()), self.root / "bertch15" / "__init__.py"
        return answer.returncode == 0 and found.resolve() == here.resolve()

    def read_record(self) -> "dict[str, object]":
        """Read what the last complete installation noted down; nothing if there was none."""
        try:
            record = json.loads(self.record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    def write_record(self, record: "dict[str, object]") -> None:
        """Note down a complete installation, in one step."""
        draft = self.record.with_suffix(".new")
        draft.write_text(json.dumps(record, indent=1), encoding="utf-8")
        draft.replace(self.record)

    def create(self) -> None:
        """Make an empty environment in place of whatever stands there."""
        if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
            raise Trouble(
                "This Python has no venv module. On Debian and Ubuntu: sudo apt install python3-venv. "
                "Then run the same command again."
            )
        version = sys.version.split()[0]
        print(f"Making {self.folder} with Python {version}; the first time takes some minutes.", flush=True)
        # The Python that runs this script may be the one in .venv; the one that it was made from can replace it.
        python = getattr(sys, "_base_executable", None) or sys.executable
        code, _ = self.run([python, "-m", "venv", "--clear", str(self.folder)], self.root)
        if code:
            raise Trouble(
                f"{self.folder} could not be made (the reason stands above). Close what uses it, JupyterLab and "
                "activated terminals too, delete the folder, and run the same command again."
            )

    def install(self, extras: "list[str]") -> str:
        """Install the book's packages and the book's own; give the name of the versions that could be had.

        Only wheels are taken: a package that has to be compiled fails late and with a long message.
        """
        pins = (self.root / CONSTRAINTS).read_text(encoding="utf-8")
        constraints = self.folder / "constraints.txt"
        book = f".[{','.join(extras)}]" if extras else "."
        # -I: packages on PYTHONPATH must not count as installed. The PIP_* variables still speak.
        command = [str(self.python), "-I", "-m", "pip", "install", "--disable-pip-version-check"]
        command += ["--only-binary", ":all:", "--constraint", str(constraints), "--editable", book]
        for name, lines in ladder(pins):
            constraints.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            code, said = self.run(command, self.root)
            if code == 0:
                return name
            if NO_NETWORK.search(said) or not NO_WHEEL.search(said):
                raise pip_trouble(said)
            print(f"This Python on this machine cannot have {name}.", flush=True)
        raise Trouble(
            "There are no ready-made packages of the book for this Python on this machine. Take another Python, "
            "for instance `make PYTHON=python3.12 env`, or the conda route of the README."
        )

    def silence_news(self) -> None:
        """Set this environment's JupyterLab neither to ask about news nor to look for updates."""
        settings = self.folder / "share" / "jupyter" / "lab" / "settings"
        settings.mkdir(parents=True, exist_ok=True)
        quiet = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
        (settings / "overrides.json").write_text(json.dumps(quiet), encoding="utf-8")


def told(work: "Callable[[], object]") -> int:
    """Do the work, and tell in a line what goes wrong; give the exit code. An old Python is told so."""
    if sys.version_info < OLDEST:
        oldest, this = (".".join(map(str, version[:3])) for version in (OLDEST, sys.version_info))
        print(f"The book needs Python {oldest} or newer; {sys.executable} is {this}.", file=sys.stderr)
        print("With a newer one installed, name it: make PYTHON=python3.12 env", file=sys.stderr)
        return 1
    try:
        work()
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"The environment could not be made: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; the same command begins anew.", file=sys.stderr)
        return 130
    return 0


def extras() -> "list[str]":
    """Read from the command line what to add."""
    parser = argparse.ArgumentParser(description="Bring .venv, the environment of the book, up to date.")
    parser.add_argument(
        "--extra", action="append", default=[], choices=["check", "grade", "test"], help="add a group of packages"
    )
    return parser.parse_args().extra


def main() -> int:
    """Do what the command line asks; give the exit code."""
    return told(lambda: Environment(ROOT).update(extras()))


if __name__ == "__main__":
    sys.exit(main())
