"""Make `.venv-html`, where the static edition is built; `--tests` adds what looks at pages in a browser.

It lies apart from `.venv`: what builds the edition is no part of what the book runs on. pip is asked at every
call, which takes a second, and no network where all is in place.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from env import ROOT, Environment, pip_trouble, run_shown, told

CONSTRAINTS = ".ci/html-constraints.txt"
BUILDS, TESTS = ["nbconvert", "latex2mathml", "ziamath"], ["pytest", "playwright"]


def update(root: Path, tests: bool, run: "Callable[[list[str], Path], tuple[int, str]]" = run_shown) -> None:
    """Bring `.venv-html` of the checkout `root` up to date, `tests`: with what they need. Raises Trouble."""
    html = Environment(root, run, name=".venv-html")
    if not has_pip(html.python):
        html.create()
    command = [str(html.python), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:", "--constraint", CONSTRAINTS]
    code, said = run(command + BUILDS + (TESTS if tests else []), root)
    if code:
        raise pip_trouble(said)


def has_pip(python: Path) -> bool:
    """Say whether this interpreter runs and has pip, which an environment gets last."""
    command = [str(python), "-I", "-c", "import pip"]
    try:
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def asked_for_tests() -> bool:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Bring .venv-html up to date.")
    parser.add_argument("--tests", action="store_true", help="add pytest and playwright")
    return parser.parse_args().tests


if __name__ == "__main__":
    sys.exit(told(lambda: update(ROOT, asked_for_tests())))
