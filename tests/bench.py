"""What the fast engine is worth: `make bench`. The plain listing and the lab, side by side, on this machine.

Each measurement is a fresh process; its clock starts after the imports. A round measures everything once, so that
what else the machine does falls on all alike; the table shows medians over the rounds. Printed, never asserted.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import psutil

CASES = {
    "plain listing, 1 thread": ["plain", "1"],
    "plain listing, 2 threads": ["plain", "2"],
    "plain listing, 4 threads": ["plain", "4"],
    "lab.run, five seeds": ["fast", "5"],
    "lab.run, one seed": ["fast", "1"],
    "lab.run, ten seeds": ["fast", "10"],
}


def measure(kind: str, count: int) -> None:
    """Run one case in this process and print its seconds and its scores as JSON."""
    import torch

    seeds = range(6050, 6050 + count) if kind == "fast" else range(6050, 6055)
    if kind == "plain":
        import listing

        torch.set_num_threads(count)
        start = time.perf_counter()
        found = listing.run(seeds)
        seconds = time.perf_counter() - start
        scores = {str(s): [found[s]["outcomes"][b, "pretrained"]["covered"][0] for b in (1, 2, 4)] for s in seeds}
    else:
        from bertch15 import lab

        start = time.perf_counter()
        replicates = lab.run(seeds=seeds).replicates
        seconds = time.perf_counter() - start
        scores = {
            str(r.seed): [outcome.covered.correct for outcome in r.outcomes["pretrained"]] for r in replicates
        }
    print(json.dumps({"seconds": seconds, "scores": scores}))


def watched(arguments: list[str]) -> tuple[dict, float]:
    """Run one measurement; give its result and the peak memory in MB of its process and all that it started."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--measure", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    peak, family = 0.0, psutil.Process(process.pid)
    while process.poll() is None:
        try:
            sizes = [one.memory_info().rss for one in (family, *family.children(recursive=True))]
            peak = max(peak, sum(sizes) / 1e6)
        except psutil.NoSuchProcess:
            pass
        time.sleep(0.05)
    assert process.stdout is not None
    return json.loads(process.stdout.read()), peak


def main(rounds: int) -> None:
    """Measure every case once a round and print the table of medians."""
    seconds: dict[str, list[float]] = {name: [] for name in CASES}
    peaks = dict.fromkeys(CASES, 0.0)
    scores: dict[str, list[int]] = {}
    for turn in range(1, rounds + 1):
        for name, arguments in CASES.items():
            result, peak = watched(arguments)
            seconds[name].append(result["seconds"])
            peaks[name] = max(peaks[name], peak)
            for seed, found in result["scores"].items():
                if scores.setdefault(seed, found) != found:
                    print(f"seed {seed}: {name} finds {found}, another case {scores[seed]}", file=sys.stderr)
            print(f"round {turn} of {rounds}: {name}: {result['seconds']:.1f} s", file=sys.stderr, flush=True)
    fast = median(seconds["lab.run, five seeds"])
    print(f"{os.cpu_count()} cores; medians of {rounds} rounds; imports excluded\n")
    print("| case | seconds | over lab.run, five seeds | peak memory |\n| --- | --- | --- | --- |")
    for name in CASES:
        middle = median(seconds[name])
        print(f"| {name} | {middle:.1f} | {middle / fast:.1f} | {peaks[name]:.0f} MB |")
    imports = [sys.executable, "-c", "import time, torch, numpy; t = time.perf_counter(); import bertch15; "]
    imports[-1] += "print(time.perf_counter() - t)"
    extra = float(subprocess.run(imports, capture_output=True, text=True, check=True).stdout)
    print(f"\nimport bertch15, after torch and numpy: {extra:.3f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("KIND", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], int(options.measure[1]))
    else:
        main(options.rounds)
