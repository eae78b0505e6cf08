"""Rebuild the notebooks from their text: `python .ci/notebooks.py [15_6_transfer_lab ...]`, all pages by default.

The text twins in notebooks/text/ are the source. A page is executed from top to bottom in a kernel of its own,
and written only if every cell ran. Nothing that differs from run to run is stored: no times, no temporary names,
no widgets, of which the text that they show stays. So a second rebuild changes no byte.
"""

import asyncio
import hashlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty

import jupytext
import nbformat
from jupyter_client.channels import AsyncZMQSocketChannel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS, TEXTS = ROOT / "notebooks", ROOT / "notebooks" / "text"
CELL_SECONDS = 300
WIDGET = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
QUIET = {
    "BERTCH15_PROGRESS": "0",  # no bars in stored outputs
    "IPYKERNEL_CELL_NAME": "<cell>",  # a stable name in warnings
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}


async def patient_get_msg(self: AsyncZMQSocketChannel, timeout: float | None = None) -> dict:
    """Wait for a message, looking again every 0.2 s.

    nbclient answers Output widgets on the socket that it waits on, and its own sending can eat the wake-up: then
    it would wait for ever with the message at the door.
    """
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = 0.2 if end is None else max(0.0, min(0.2, end - time.monotonic()))
        if await self.socket.poll(int(left * 1000)):
            return await self._recv()
        if end is not None and time.monotonic() >= end:
            raise Empty


def named_cells(notebook: NotebookNode) -> None:
    """Give every cell an id that depends on its content alone, so that a rebuild changes no id."""
    seen: set[str] = set()
    for cell in notebook.cells:
        count = 0
        while (name := hashlib.sha256(f"{cell.cell_type}{cell.source}{count}".encode()).hexdigest()[:12]) in seen:
            count += 1
        seen.add(name)
        cell.id = name


def tidy(text: Path) -> None:
    """Format the code cells of a text as `make check` wants them, where ruff is installed."""
    if importlib.util.find_spec("ruff") is None:
        return
    page = text.parent.parent / f"{text.stem}.draft.ipynb"  # beside the pages, so that their settings hold
    try:
        notebook = jupytext.read(text)
        jupytext.write(notebook, page)
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(page)], check=True)
        formatted = [cell.source for cell in nbformat.read(page, as_version=4).cells]
    finally:
        page.unlink(missing_ok=True)
    if formatted != [cell.source for cell in notebook.cells]:
        for cell, source in zip(notebook.cells, formatted, strict=True):
            cell.source = source
        jupytext.write(notebook, text, fmt="md:myst")


def execute(text: Path) -> NotebookNode:
    """Run a page from its text and give the notebook with its outputs."""
    return executed(jupytext.read(text), text.parent.parent, text.name)


def executed(
    notebook: NotebookNode, folder: Path, name: str, kernel_options: tuple[str, ...] = ()
) -> NotebookNode:
    """Run a notebook in a folder and give it with its outputs; its name is for messages.

    Raises CellExecutionError for a cell that fails and ValueError for one that writes to standard error.
    """
    named_cells(notebook)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        record_timing=False,
        extra_arguments=list(kernel_options),
        coalesce_streams=True,  # else a slow cell's prints are stored in as many pieces as they came in
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL})  # without widget state and Python's version
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and output.name == "stderr":
                raise ValueError(f"{name} writes to standard error: {output.text}")
            output.get("data", {}).pop(WIDGET, None)  # without its kernel a page would show "model not found"
    return notebook


def rebuild(name: str) -> bool:
    """Rebuild one page; say whether the stored notebook changed."""
    text = TEXTS / f"{name}.md"
    tidy(text)
    return stored(execute(text), NOTEBOOKS / f"{name}.ipynb")


def stored(notebook: NotebookNode, page: Path) -> bool:
    """Store a notebook in one step; say whether that changed anything."""
    new = nbformat.writes(notebook) + "\n"
    if page.exists() and page.read_text(encoding="utf-8") == new:
        return False
    draft = page.with_suffix(".part")
    draft.write_text(new, encoding="utf-8")
    draft.replace(page)
    return True


def main(names: list[str], texts: Path = TEXTS, rebuild: Callable[[str], bool] = rebuild) -> int:
    """Rebuild the named pages of a folder of texts, or all; the exit code is 1 if one of them fails."""
    names = [name.removesuffix(".md").removesuffix(".ipynb") for name in names]
    known = sorted(path.stem for path in texts.glob("*.md"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no page named {', '.join(unknown)}; the pages are {', '.join(known)}", file=sys.stderr)
        return 2
    os.environ.update(QUIET)
    AsyncZMQSocketChannel.get_msg = patient_get_msg  # type: ignore[method-assign]
    if sys.platform == "win32":
        asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy())
    failed = 0
    for name in names or known:
        start = time.monotonic()
        try:
            state = "rebuilt" if rebuild(name) else "unchanged"
        except (CellExecutionError, ValueError, TimeoutError) as error:
            failed, state = 1, f"FAILED\n{error}"
        print(f"{name}: {state} ({time.monotonic() - start:.0f} s)", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
