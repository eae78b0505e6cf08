"""One page under one condition, for `make portable`: `python .ci/one_page.py 15_6_transfer_lab RESULT.json`.

It runs in a process of its own, whose environment is the condition.
"""

import hashlib
import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BEGIN_NOTES = "--IPKernelApp.exec_lines=['import notes', 'notes.begin()', 'del notes']"
FIGURES = "figures"
"""The name of what is no page: the figures that are files."""
NO_FIGURE = "15_6_page.png"
"""A screenshot, made by hand."""


def texts() -> dict[str, Path]:
    """Name the pages and the solutions, each with its text."""
    found = {path.stem: path for path in sorted((ROOT / "notebooks" / "text").glob("*.md"))}
    solutions = sorted((ROOT / "notebooks" / "solutions" / "text").glob("*.md"))
    return found | {f"solutions/{path.stem}": path for path in solutions}


def run_here(unit: str, target: Path) -> None:
    """Run one page, or make the figures, in this process and its kernel; write what came out as JSON."""
    start, found = time.monotonic(), dict[str, Any](error="", cells=[], notes=[])
    if unit == FIGURES:
        found["files"] = made_figures(target.with_suffix(".figures"))
    else:
        notes = target.with_suffix(".notes")
        notes.unlink(missing_ok=True)
        os.environ["BERTCH15_NOTES"] = str(notes)
        found |= executed(texts()[unit])
        if notes.exists():
            found["notes"] = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
            notes.unlink()
    found["seconds"] = time.monotonic() - start
    draft = target.with_suffix(".part")
    draft.write_text(json.dumps(found), encoding="utf-8")
    draft.replace(target)


def executed(text: Path) -> dict[str, Any]:
    """Execute a page; give the outputs of its cells as text, or the error that ended it."""
    import jupytext
    from jupyter_client.channels import AsyncZMQSocketChannel
    from nbclient.exceptions import CellExecutionError

    import notebooks

    os.environ.update({**notebooks.QUIET, "OMP_NUM_THREADS": os.environ["OMP_NUM_THREADS"]})
    AsyncZMQSocketChannel.get_msg = notebooks.patient_get_msg  # type: ignore[method-assign]
    try:
        notebook = notebooks.executed(jupytext.read(text), text.parent.parent, text.name, (BEGIN_NOTES,))
    except (CellExecutionError, ValueError, TimeoutError) as error:
        return {"error": str(error)}
    return {"cells": shown(notebook)}


def made_figures(folder: Path) -> dict[str, str]:
    """Draw the figures that are files; give the digest of each."""
    from bertch15.figures.gallery import Gallery, write_figures
    from bertch15.lab import run

    folder.mkdir(exist_ok=True)
    files = list(write_figures(Gallery.of(run()), folder))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def shown(notebook: Any) -> list[dict[str, str]]:
    """Give what each code cell shows: by kind of output its text, and the digest of each picture."""
    cells = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        found: dict[str, str] = defaultdict(str)
        for output in cell.outputs:
            if output.output_type == "stream":
                found["print"] += output.text
            for kind, content in output.get("data", {}).items():
                if kind.startswith("image/png"):
                    content = hashlib.sha256(content.encode().replace(b"\n", b"")).hexdigest()
                if kind.startswith(("text/", "image/")):
                    found[kind] += content + "\n"
        cells.append(dict(found))
    return cells


def stored(unit: str) -> dict[str, Any]:
    """Give what the book shows: a page's stored outputs, or the files of the figures."""
    if unit == FIGURES:
        files = [path for path in (ROOT / "figures").iterdir() if path.name != NO_FIGURE]
        return {"files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}}
    import nbformat

    text = texts()[unit]
    return {"cells": shown(nbformat.read(text.parent.parent / f"{text.stem}.ipynb", as_version=4))}


if __name__ == "__main__":
    run_here(sys.argv[1], Path(sys.argv[2]))
