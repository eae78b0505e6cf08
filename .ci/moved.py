"""What of a page moved under other conditions, and what stands so close to another rounding that it may."""

import re
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

SPREADS = 3
"""How many times its spread a number has to stand away from where another one would be printed."""
NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def moved(expected: dict[str, Any], found: dict[str, Any], pictures: bool = True) -> list[str]:
    """Say, one line each, what parts a run of a page from the stored book; pictures: whether they count too."""
    if found["error"]:
        return ["fails: " + found["error"].strip().splitlines()[-1]]
    files, lines = expected.get("files", {}) if pictures else {}, []
    lines += [f"{name} is another picture" for name in sorted(files) if found["files"].get(name) != files[name]]
    if len(expected.get("cells", [])) != len(found.get("cells", [])):
        return ["the page has other cells than its stored notebook; rebuild it"]
    for number, (before, after) in enumerate(
        zip(expected.get("cells", []), found.get("cells", []), strict=True), start=1
    ):
        for kind in sorted(before.keys() | after.keys()):
            if kind.startswith("image/png") and not pictures:
                continue
            lines += [f"cell {number}: {line}" for line in parted(kind, before.get(kind, ""), after.get(kind, ""))]
    return lines


def parted(kind: str, before: str, after: str) -> Iterator[str]:
    """Name the numbers that differ in two texts, or the first line that differs in more than its numbers."""
    if before == after:
        return
    if kind == "image/png":
        yield "another picture"
        return
    for old, new in zip(before.splitlines(), after.splitlines(), strict=False):
        if old == new:
            continue
        if NUMBER.sub("#", old) == NUMBER.sub("#", new):
            pairs = zip(NUMBER.findall(old), NUMBER.findall(new), strict=True)
            changes = ", ".join(f"{a} -> {b}" for a, b in pairs if a != b)
            yield f"{changes}  in  {old.strip()[:100]}"
        else:
            yield f"{old.strip()[:100]!r} -> {new.strip()[:100]!r}"
    if len(before.splitlines()) != len(after.splitlines()):
        yield f"{len(before.splitlines())} -> {len(after.splitlines())} lines"


def step_of(form: str, value: float) -> float | None:
    """Give the unit in the last place that a format prints; None for a format that prints a number in full."""
    found = re.search(r"(?:\.(\d+))?([fFeEgG%])$|\.(\d+)$", form)
    if found is None:
        return None
    digits, kind = int(found[1] or found[3] or 6), (found[2] or "g").lower()
    if kind == "f":
        return 10.0**-digits
    if kind == "%":
        return 10.0 ** -(digits + 2)
    size = Decimal(value).adjusted() if value else 0
    return 10.0 ** (size - digits + (kind == "g"))


def margin(value: float, step: float) -> float:
    """Give how far a value stands from where another number, or another sign, would be printed."""
    places = value / step
    to_half = abs(abs(places) % 1 - 0.5) * step
    return min(to_half, abs(value)) if abs(places) < 0.5 and value else to_half


def room(form: str, values: list[float]) -> float:
    """Give how far the nearest of some values stands from where the page would show something else."""
    if form.startswith("against "):
        return min(abs(value - float(form.removeprefix("against "))) for value in values)
    step = step_of(form, values[0])
    return min(margin(value, step) for value in values) if step else 0.0


def too_close(runs: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Name the numbers of a page that stand closer to a boundary than three times their spread in these runs."""
    kept = [run for run in runs.values() if not run["error"]]
    series: dict[tuple, list[float]] = defaultdict(list)
    for run in kept:
        seen: dict[tuple, int] = defaultdict(int)
        for note in run["notes"]:
            place = (note["cell"], note["where"], note["form"])
            seen[place] += 1
            series[(*place, seen[place])].append(note["value"])
    for (cell, where, form, count), values in sorted(series.items()):
        spread = max(values) - min(values)
        if not spread or not is_shown(kept[0]["cells"], cell, where, form, values[0]):
            continue
        least = room(form, values)
        if least < SPREADS * spread:
            yield (
                f"cell {cell}: {min(values):.7g} to {max(values):.7g} as {form!r} ({where}, number {count}): "
                f"{least:.1e} from a boundary, spread {spread:.1e}"
            )


def is_shown(cells: list[dict[str, str]], cell: int, where: str, form: str, value: float) -> bool:
    """Say whether a number reaches the reader of a static page: in an output of its cell, or in a figure."""
    if form.startswith("against ") or ".figures." in where:
        return True
    return any(f"{value:{form}}".strip() in text for text in cells[cell - 1].values())
