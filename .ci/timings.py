"""Measure how long each page runs and write it into the start page's table: `python .ci/timings.py`.

In coarse classes, so that measuring again on the same machine changes nothing. The minutes to read are those of
the page's own header.
"""

import os
import re
import sys
import time

import jupytext

import notebooks

CLASSES = (10, 30, 60)
ROW = re.compile(
    r"^\| (?P<section>[\d., ]+) \| \[(?P<title>[^]]+)\]\((?P<name>\w+)\.ipynb\) \| (?P<what>[^|]+) \|"
)


def seconds_class(seconds: float) -> str:
    """Name the class of a running time."""
    for bound in CLASSES:
        if seconds < bound:
            return f"under {bound} s"
    return f"over {CLASSES[-1]} s"


def minutes_to_read(name: str) -> str:
    """Give the minutes that a page's header promises."""
    found = re.search(r"About (\d+) minutes", (notebooks.TEXTS / f"{name}.md").read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{name} does not say how many minutes it takes to read")
    return found.group(1)


def main() -> int:
    """Measure all pages of the table and rewrite its last two columns."""
    os.environ.update(notebooks.QUIET)
    index = notebooks.TEXTS / "index.md"
    lines = index.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        row = ROW.match(line)
        if row is None:
            continue
        start = time.monotonic()
        notebooks.execute(notebooks.TEXTS / f"{row['name']}.md")
        took = seconds_class(time.monotonic() - start)
        print(f"{row['name']}: {time.monotonic() - start:.0f} s", flush=True)
        lines[number] = f"{row.group()} {minutes_to_read(row['name'])} | {took} |"
    jupytext.write(jupytext.reads("\n".join(lines) + "\n", fmt="md:myst"), index, fmt="md:myst")
    print("now run: make notebooks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
