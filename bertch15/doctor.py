"""The check of a machine: is everything here that the book needs, and if not, what is to be done?

It imports a package only to look at it, so that it can say what is missing where anything is missing, and it
leaves no file and no process behind.
"""

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from pathlib import Path

import bertch15

REBUILD = (
    "Make the environment anew: delete the folder .venv, then `make env` "
    "(PowerShell: `.\\make env`, conda: `conda env update -f environment.yml`)"
)
KERNEL_LIMIT = 60.0
"""Seconds that the kernel may take to start and answer."""
COMPILED = ("torch", "numpy")
"""The packages that can be installed and yet fail to load, for want of a library of the system."""
QUESTION = "import json, sys, bertch15; print(json.dumps([sys.prefix, bertch15.__version__]))"


@dataclass(frozen=True)
class Finding:
    """What was seen, whether it is as the book needs it, and what to do if it is not."""

    ok: bool
    seen: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"[OK] {self.seen}" if self.ok else f"[FAIL] {self.seen}. {self.remedy}."


def guarded(what: str, look: Callable[[], Finding]) -> Finding:
    """Look; whatever goes wrong in looking is a finding too."""
    try:
        return look()
    except Exception as error:
        return Finding(False, f"{what}: {type(error).__name__}: {error}", REBUILD)


def examine(limit: float = KERNEL_LIMIT) -> Iterator[Finding]:
    """Look at Python, the packages, the notebooks' kernel, the widgets and the folders, one after another.

    limit: how many seconds the kernel may take.
    """
    yield guarded("bertch15", book_finding)
    yield guarded("Python", python_finding)
    for requirement in requirements():
        yield guarded(requirement, partial(package_finding, requirement))
    yield guarded("kernel python3", partial(kernel_finding, limit))
    yield guarded("widgets", widget_finding)
    yield guarded("notebooks folder", lambda: folder_finding("the notebooks' folder", notebooks_folder()))
    yield guarded("Jupyter's runtime folder", lambda: folder_finding("Jupyter's runtime folder", runtime_folder()))


def requirements() -> list[str]:
    """Give the base requirements that the installed package declares; none if it is not installed."""
    try:
        declared = metadata.requires("bertch15") or []
    except metadata.PackageNotFoundError:
        return []
    return [text for text in declared if "extra ==" not in text]


def book_finding() -> Finding:
    """Compare the package that is imported with the one that is installed."""
    folder = Path(bertch15.__file__).parent
    try:
        installed = metadata.version("bertch15")
    except metadata.PackageNotFoundError:
        return Finding(False, f"bertch15 is not installed in {sys.prefix}, only read from {folder}", REBUILD)
    if installed != bertch15.__version__:
        seen = f"bertch15 {bertch15.__version__} from {folder}, but {installed} is installed"
        return Finding(False, seen, REBUILD)
    return Finding(True, f"bertch15 {installed} from {folder}")


def python_finding() -> Finding:
    """Compare the Python at hand with the range that the installed package declares."""
    from packaging.specifiers import SpecifierSet

    needed = metadata.metadata("bertch15")["Requires-Python"]
    version = platform.python_version()
    ok = SpecifierSet(needed).contains(version, prereleases=True)
    return Finding(ok, f"Python {version} in {sys.prefix} (needed: {needed})", f"Install a Python {needed}")


def package_finding(text: str) -> Finding:
    """Compare an installed version with its requirement, for instance `torch>=2.4`."""
    from packaging.requirements import Requirement

    requirement = Requirement(text)
    name, needed = requirement.name, requirement.specifier
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(False, f"{name} is missing (needed: {needed})", REBUILD)
    if not needed.contains(version, prereleases=True):
        return Finding(False, f"{name} {version} (needed: {needed})", REBUILD)
    if name in COMPILED:
        try:
            import_module(name)
        except Exception as error:
            return Finding(False, f"{name} {version} does not load: {error}", REBUILD)
    return Finding(True, f"{name} {version} (needed: {needed})")


def kernel_finding(limit: float) -> Finding:
    """Start the kernel `python3` and ask it who it is, within `limit` seconds."""
    with tempfile.TemporaryDirectory(prefix="bertch15-") as folder:
        prefix, version = ask_kernel(Path(folder), time.monotonic() + limit)
    if Path(prefix).resolve() != Path(sys.prefix).resolve():
        remedy = (
            "Start JupyterLab by `make lab`; `jupyter kernelspec list` shows the kernel that hides the book's own"
        )
        return Finding(False, f"kernel python3 is another Python's, that of {prefix}", remedy)
    if version != bertch15.__version__:
        seen = f"kernel python3 imports bertch15 {version}, not {bertch15.__version__}"
        return Finding(False, seen, REBUILD)
    return Finding(True, f"kernel python3 starts, is this Python and imports bertch15 {version}")


def ask_kernel(folder: Path, deadline: float) -> tuple[str, str]:
    """Give the prefix of the kernel `python3` and the version of bertch15 that it imports.

    All files go into `folder`. deadline: in the seconds of `time.monotonic`. Raises RuntimeError with what went
    wrong and the last line that the kernel wrote.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import KernelManager
    from jupyter_core.paths import jupyter_path

    # Jupyter's default list of folders is the same, and makes the folder ~/.ipython when it is asked for.
    specs = KernelSpecManager(kernel_dirs=jupyter_path("kernels"))
    connection = str(folder / "kernel.json")
    manager = KernelManager(kernel_name="python3", kernel_spec_manager=specs, connection_file=connection)
    elsewhere = {"IPYTHONDIR": str(folder), "JUPYTER_RUNTIME_DIR": str(folder)}
    said: list[str] = []

    def hear(message: dict) -> None:
        said.append(message["content"].get("text") or message["content"].get("evalue") or "")

    with (folder / "stderr.txt").open("w+b") as stderr:
        manager.start_kernel(cwd=str(folder), env={**os.environ, **elsewhere}, stdout=stderr, stderr=stderr)
        client = manager.blocking_client()
        try:
            client.start_channels()
            client.wait_for_ready(timeout=max(0.0, deadline - time.monotonic()))
            left = max(0.0, deadline - time.monotonic())
            reply = client.execute_interactive(QUESTION, store_history=False, output_hook=hear, timeout=left)
        except (RuntimeError, TimeoutError) as error:
            reason = "no answer in time" if time.monotonic() >= deadline else str(error)
            stderr.seek(0)
            last = stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise RuntimeError(f"{reason} {last}".strip()) from error
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"{reply['content']['ename']}: {reply['content']['evalue']}")
    prefix, version = json.loads("".join(said))
    return prefix, version


def widget_finding() -> Finding:
    """Look for the part of ipywidgets that JupyterLab loads, in this Python's own folder."""
    folder = Path(sys.prefix, "share", "jupyter", "labextensions", "@jupyter-widgets", "jupyterlab-manager")
    try:
        version = json.loads((folder / "package.json").read_text(encoding="utf-8"))["version"]
    except (OSError, ValueError, KeyError):
        return Finding(False, f"JupyterLab's widget extension is not in {folder}", REBUILD)
    return Finding(True, f"JupyterLab's widget extension {version}")


def notebooks_folder() -> Path:
    """Give the folder of the book's notebooks; the current one where the package lies apart from the book."""
    folder = Path(bertch15.__file__).parent.parent / "notebooks"
    return folder if folder.is_dir() else Path.cwd()


def runtime_folder() -> Path:
    """Give the folder in which Jupyter keeps the files of running kernels."""
    from jupyter_core.paths import jupyter_runtime_dir

    return Path(jupyter_runtime_dir())


def folder_finding(what: str, folder: Path) -> Finding:
    """Say whether files can be made in a folder, or the folder itself where it does not exist yet."""
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        remedy = "Give yourself the right to write there, or move the book to a folder of your own"
        return Finding(False, f"{what}, {folder}, cannot be written: {error.strerror}", remedy)
    return Finding(True, f"{what}, {folder}, can be written")
