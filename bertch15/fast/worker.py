"""A function of the package, at work in a process of its own.

Threads would share one interpreter lock, and tensors this small spend as long in the interpreter as in arithmetic.
The process is a fresh interpreter, so it works alike on Linux, macOS and Windows, from a script or a notebook,
and it never runs the caller's own file. It ends with its parent, whatever ends the parent.
"""

import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import bertch15

PACKAGES = str(Path(bertch15.__file__).resolve().parent.parent)
SECONDS_BETWEEN_REPORTS = 0.1
CGROUP = Path("/sys/fs/cgroup")
"""Where Linux tells a container how much of the machine it may use."""


def cores() -> int:
    """Give how many cores this process may keep busy, at least 1.

    That is fewer than the machine has where a scheduler or a container allows fewer. PYTHON_CPU_COUNT has the last
    word, as it has for Python itself from 3.13 on.
    """
    told = os.environ.get("PYTHON_CPU_COUNT", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(count, quota(CGROUP))))


def quota(cgroup: Path) -> float:
    """Read how many cores' time a container is given: cgroup v2 first, then v1; infinite if nothing limits it."""
    with suppress(OSError, ValueError):
        given, period = (cgroup / "cpu.max").read_text().split()  # "max" where there is no limit
        return int(given) / int(period)
    with suppress(OSError, ValueError):
        given, period = ((cgroup / "cpu" / f"cpu.cfs_{what}_us").read_text() for what in ("quota", "period"))
        if int(given) > 0:  # -1 where there is no limit
            return int(given) / int(period)
    return math.inf


def arithmetic() -> dict[str, str]:
    """Give the environment variables by which the libraries under torch choose how to compute; not how fast."""
    families, counts = ("MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_"), ("_NUM_THREADS", "_VERBOSE")
    return {name: v for name, v in os.environ.items() if name.startswith(families) and not name.endswith(counts)}


AT_IMPORT = arithmetic()


def environment() -> dict[str, str]:
    """Give the environment in which a new process computes as this one does, on one thread.

    Torch chose its kernels when it was imported, and the new process is told that choice, whatever the variable
    says by now. The libraries under it do not say what they chose, and when.
    Raises RuntimeError if a variable that they read has changed since this module was imported.
    """
    now = arithmetic()
    for name in sorted(AT_IMPORT.keys() | now.keys()):
        if AT_IMPORT.get(name) != now.get(name):
            raise RuntimeError(
                f"the environment variable {name} has changed since the book was imported, so a new process might "
                "compute otherwise than this one: set it before Python starts (in a notebook, restart the kernel)"
            )
    from torch.backends.cpu import (
        get_cpu_capability,
    )  # not above: the process itself listens before it imports torch

    kernels = get_cpu_capability().lower().replace("no avx", "default").replace(" ", "")
    paths = [PACKAGES, *filter(None, [os.environ.get("PYTHONPATH")])]
    chosen = {"ATEN_CPU_CAPABILITY": kernels, "OMP_NUM_THREADS": "1"}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **chosen}


class Worker:
    """Start `function(*arguments, progress=...)` in a process; look at `done` and `finished`, then at `result`.

    error: in words, what the function raised, or why no process was started; empty if neither, or if the process
    died without a word.
    function: one of the package's, by whose name the process finds it; arguments and result must be picklable.
    Whoever starts a worker closes it, finished or not.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.done = 0
        self.error = ""
        self._result: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        work = pickle.dumps((function, arguments))
        try:
            surroundings = environment()
        except RuntimeError as error:
            self.error = str(error)
            return
        with suppress(OSError):  # no process, or one that died at once: then there is no result
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bertch15.fast.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=surroundings,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
            self._reader.start()
            assert self._process.stdin is not None
            self._process.stdin.write(len(work).to_bytes(8, "big") + work)
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            while True:
                what, value = pickle.load(self._process.stdout)
                if what == "done":
                    self.done = value
                elif what == "error":
                    self.error = value
                else:
                    self._result = value
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            pass

    @property
    def finished(self) -> bool:
        """Whether there is nothing more to wait for."""
        return not self._reader.is_alive()

    @property
    def result(self) -> Any:
        """What the function returned; None if the process could not do its work."""
        return self._result

    def close(self) -> None:
        """End the process, if it still runs, and wait until it is gone."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def end_with_parent(lifeline: IO[bytes]) -> None:
    """End this process when the parent lets go of its end of the line."""
    lifeline.read()
    os._exit(1)


def main() -> None:
    """Do one piece of work: read what from standard input, write progress and result to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which then ends this process
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    work = sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8), "big"))
    threading.Thread(target=end_with_parent, args=(sys.stdin.buffer,), daemon=True).start()
    last = 0.0

    def answer(what: str, value: Any) -> None:
        answers.write(pickle.dumps((what, value)))
        answers.flush()

    def progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            answer("done", done)

    try:
        function, arguments = pickle.loads(work)  # this imports torch, which takes a second or more
        answer("result", function(*arguments, progress=progress))
    except Exception as error:
        answer("error", f"{type(error).__name__}: {error}")
    os._exit(0)  # at once: Python would wait a second for the thread that reads standard input


if __name__ == "__main__":
    main()
