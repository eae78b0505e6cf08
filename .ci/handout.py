"""Write what students are handed: `python .ci/handout.py`, by default build/handout/bertch15-handout.zip.

It is the book as git tracks it, with the exercises and without their solutions, the tests that hold the answers,
the teacher's page, and the history. A first argument names another file. The same files give the same bytes.
"""

import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from zipfile import ZipFile, ZipInfo

ROOT = Path(__file__).resolve().parent.parent
HANDOUT = ROOT / "build" / "handout" / "bertch15-handout.zip"
FOLDER = "bertch15-handout"  # what the zip unpacks to
LEFT_OUT = ["notebooks/solutions/*", "tests/test_exercise*.py", "tests/test_grade.py", "tests/test_handout.py"]


def handed_out() -> dict[str, bool]:
    """Name the files to hand out, each with whether it is a program. Raises ValueError if git knows of none."""
    try:
        command = ["git", "ls-files", "--stage", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8").stdout
    except OSError:  # there is no git
        listed = ""
    if not listed:
        raise ValueError("The handout is made from the files that git tracks; here git tells of none.")
    files = {}
    for line in listed.split("\0")[:-1]:
        about, name = line.split("\t")
        if not any(fnmatch(name, pattern) for pattern in LEFT_OUT):
            files[name] = about.startswith("100755")
    return dict(sorted(files.items()))


def write(handout: Path) -> int:
    """Write the zip; give the number of its exercises. Raises ValueError if a solution would be in it."""
    handout.parent.mkdir(parents=True, exist_ok=True)
    draft, files = handout.with_suffix(".part"), handed_out()
    with ZipFile(draft, "w") as archive:  # not compressed: the bytes of a compressed one depend on the machine
        for name, program in files.items():
            content = (ROOT / name).read_bytes()
            if name.endswith(".ipynb") and b"BEGIN SOLUTION" in content:
                raise ValueError(f"{name} shows a solution; run: make exercises")
            entry = ZipInfo(f"{FOLDER}/{name}")  # dated 1980, as all of them are
            entry.create_system = 3  # Unix, so that what is a program stays one
            entry.external_attr = (0o100755 if program else 0o100644) << 16
            archive.writestr(entry, content)
    draft.replace(handout)
    return sum(fnmatch(name, "notebooks/exercises/*.ipynb") for name in files)


def main(arguments: list[str]) -> int:
    """Write the handout and say where it is; give the exit code."""
    handout = Path(arguments[0]) if arguments else HANDOUT
    try:
        count = write(handout)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"the book and {count} exercises, {handout.stat().st_size / 1e6:.1f} MB: {handout}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
