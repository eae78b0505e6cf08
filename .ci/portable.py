"""Run every page and every solution under conditions of other machines: `make portable`.

It prints a table, pages by conditions, with each printed number that moved, and then the numbers that stand closer
to a rounding boundary than three times their spread. The exit code is 1 if there is either.

What is done stands in build/portable, one file a page and condition, so that a run which was ended goes on where
it was. A change of the package, of a page or of the tools begins it anew.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import environments
from moved import SPREADS, moved, too_close
from one_page import FIGURES, stored, texts

from bertch15.fast.worker import cores

ROOT = Path(__file__).resolve().parent.parent
CI = ROOT / ".ci"
STARTUP = CI / "startup"
RESULTS = ROOT / "build" / "portable"
PAGE_SECONDS = 1800
UNKNOWN_SECONDS = 20.0


@dataclass(frozen=True)
class Condition:
    """A machine that stands for others.

    variables: what its environment sets. python: whose packages run. pictures: whether they are compared too, byte
    for byte; another matplotlib draws them in bytes of its own.
    """

    name: str
    variables: dict[str, str] = field(default_factory=dict, hash=False)
    python: Path = Path(sys.executable)
    pictures: bool = True

    def environment(self) -> dict[str, str]:
        """Give the variables of a process under this condition."""
        paths = [str(STARTUP), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths), **self.variables}


AS_IT_IS = Condition("as it is")
KERNELS = [
    Condition("ATen default", {"ATEN_CPU_CAPABILITY": "default"}),
    Condition("ATen avx2", {"ATEN_CPU_CAPABILITY": "avx2"}),
    Condition("MKL compatible", {"MKL_CBWR": "COMPATIBLE"}),
    Condition("MKL avx2", {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}),
    Condition("MKL sse4.2", {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}),
]
THREADS = [Condition(f"{n} threads", {"OMP_NUM_THREADS": str(n), "MKL_NUM_THREADS": str(n)}) for n in (2, 4)]


def every_condition(seeds: int) -> list[Condition]:
    """Give all conditions: so many seeds of rounding noise, and the environments that `make environments` made."""
    drawn = metadata.version("matplotlib")
    others = [
        Condition(one.name, {}, one.interpreter, pictures=one.version("matplotlib") == drawn)
        for one in environments.made()
    ]
    return [AS_IT_IS, *noise(range(1, seeds + 1)), *KERNELS, *THREADS, *others]


def noise(seeds: Iterable[int]) -> list[Condition]:
    """Give one condition of rounding noise for each seed."""
    return [Condition(f"noise {seed}", {"BERTCH15_NOISE": str(seed)}) for seed in seeds]


class Portable:
    """The runs of some pages under some conditions, with what is done kept on disk."""

    def __init__(self, units: list[str], conditions: list[Condition]) -> None:
        self.units, self.conditions = units, conditions
        self.folder = RESULTS / self.digest()

    def digest(self) -> str:
        """Give a hash of all that decides a result."""
        inside = list((ROOT / "bertch15").rglob("*.py"))
        tools = [CI / "notebooks.py", CI / "constraints.txt", CI / "one_page.py", *STARTUP.glob("*.py")]
        digest = hashlib.sha256()
        for path in sorted([*inside, *tools, *texts().values()]):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()[:12]

    def file(self, unit: str, condition: Condition) -> Path:
        """Name the file of a result."""
        return self.folder / condition.name.replace(" ", "_") / (unit.replace("/", "_") + ".json")

    def result(self, unit: str, condition: Condition) -> dict[str, Any] | None:
        """Give a result, None if it is still to be had."""
        try:
            return json.loads(self.file(unit, condition).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def run_one(self, unit: str, condition: Condition, share: int = 1) -> float:
        """Run one page under one condition in a process of its own, on a share of the cores; give the seconds."""
        target = self.file(unit, condition)
        target.parent.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        command = [str(condition.python), str(CI / "one_page.py"), unit, str(target)]
        done = subprocess.run(
            command,
            env={**condition.environment(), "PYTHON_CPU_COUNT": str(share)},  # the lab starts no more processes
            capture_output=True,
            text=True,
            timeout=PAGE_SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"{unit} under {condition.name!r} did not run:\n{done.stderr[-2000:]}")
        return time.monotonic() - start

    def run(self, jobs: int) -> None:
        """Run what is still to be had, so many at a time, and say how much is left."""
        asked = [(u, c) for c in self.conditions for u in self.units if self.result(u, c) is None]
        if not asked:
            return
        waiting = [unit for unit, _ in asked]
        with ThreadPoolExecutor(jobs) as crew:
            share = max(1, cores() // jobs)
            futures = {crew.submit(self.run_one, *pair, share): pair for pair in asked}
            try:
                for future in as_completed(futures):
                    unit, condition = futures[future]
                    seconds = future.result()
                    waiting.remove(unit)
                    left = sum(map(self.length, waiting)) / jobs / 60
                    print(
                        f"{len(asked) - len(waiting)} of {len(asked)}: {unit} under {condition.name!r}, "
                        f"{seconds:.0f} s; about {left:.0f} minutes left",
                        flush=True,
                    )
            except BaseException:
                crew.shutdown(wait=False, cancel_futures=True)
                raise

    def length(self, unit: str) -> float:
        """Guess how long a page runs: what it took last, wherever a result of it is kept."""
        found = sorted(RESULTS.glob(f"*/*/{unit.replace('/', '_')}.json"), key=lambda path: path.stat().st_mtime)
        return json.loads(found[-1].read_text(encoding="utf-8"))["seconds"] if found else UNKNOWN_SECONDS

    def report(self) -> int:
        """Print the table, what moved, and what may; give how many lines there were to be said."""
        said: list[str] = []
        rows = []
        for unit in self.units:
            expected, cells = stored(unit), []
            where: dict[str, list[str]] = defaultdict(list)
            for condition in self.conditions:
                run = self.result(unit, condition)
                assert run is not None
                lines = moved(expected, run, pictures=condition.pictures)
                cells.append(str(len(lines) or "."))
                for line in lines:
                    where[line].append(condition.name)
            said += [f"{unit}, {line}  ({', '.join(names)})" for line, names in where.items()]
            rows.append((unit, cells))
        print("\n" + table([c.name for c in self.conditions], rows))
        close = [f"{unit}, {line}" for unit in self.units for line in self.closest(unit)]
        told = (("moved", said), (f"closer to a rounding boundary than {SPREADS} times the spread", close))
        for heading, lines in told:
            print(f"\n{heading}: {len(lines)}")
            print(*(f"  {line}" for line in lines), sep="\n")
        return len(said) + len(close)

    def closest(self, unit: str) -> Iterator[str]:
        """Name the numbers of a page that stand too close, over all conditions."""
        results = {c.name: self.result(unit, c) for c in self.conditions}
        return too_close({name: run for name, run in results.items() if run is not None})


def table(names: list[str], rows: list[tuple[str, list[str]]]) -> str:
    """Lay out pages by conditions: a point where nothing moved, else how many lines did."""
    first = max(len(unit) for unit, _ in rows)
    widths = [max(len(name), 1) for name in names]
    lines = [" " * first + "  " + "  ".join(names)]
    for unit, cells in rows:
        lines.append(f"{unit:{first}}  " + "  ".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True)))
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Do what the command line asks; give the exit code."""
    parser = argparse.ArgumentParser(description="Run the pages under conditions of other machines.")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds of rounding noise, from 1 on")
    parser.add_argument(
        "--noise", type=int, nargs="+", metavar="SEED", help="these seeds of noise and nothing else"
    )
    parser.add_argument("--under", nargs="+", metavar="CONDITION", help="these conditions alone; all by default")
    parser.add_argument("--pages", nargs="+", metavar="NAME", help="these pages alone; all by default")
    parser.add_argument("--jobs", type=int, default=cores(), help="how many at a time")
    asked = parser.parse_args(arguments)
    conditions = noise(asked.noise) if asked.noise else every_condition(asked.seeds)
    named, units = [condition.name for condition in conditions], [*texts(), FIGURES]
    for what, wanted, known in (("page", asked.pages, units), ("condition", asked.under, named)):
        if unknown := sorted(set(wanted or ()) - set(known)):
            parser.error(f"no {what} named {', '.join(unknown)}; there are {', '.join(known)}")
    runs = Portable(asked.pages or units, [c for c in conditions if c.name in (asked.under or named)])
    runs.run(asked.jobs)
    return 1 if runs.report() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
