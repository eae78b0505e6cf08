import re
from dataclasses import replace
from typing import Any

import pytest
from chapter import chapter

from bertch15 import lab
from bertch15.display.printed import corruption_lines, lines, source_lines
from bertch15.recipe import Recipe

pytestmark = pytest.mark.usefixtures("state_guard")

ROWS = (
    "lab.source",
    "lab.words",
    "lab.encoder",
    "lab.selected",
    "lab.eligible",
    "lab.rate",
    "lab.shares",
    "lab.budget1",
    "lab.budget2",
    "lab.budget4",
    "lab.wins",
    "geometry.initial",
    "geometry.after",
)


def numbers(text: str) -> list[str]:
    """Give the numbers of a text as they are written, sign and per cent sign included."""
    return re.findall(r"[-+]?\d[\d,]*(?:\.\d+)?%?", text)


def stand_together(wanted: list[str], line: str) -> bool:
    found = numbers(line)
    return any(found[i : i + len(wanted)] == wanted for i in range(len(found)))


def test_every_row_of_the_lab_is_held(ledger: dict[str, Any]) -> None:
    ids = [row["id"] for row in ledger["rows"]]
    assert [i for i in ids if i.startswith(("lab.", "geometry."))] == list(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_the_lab_prints_the_row(name: str, ledger: dict[str, Any]) -> None:
    (row,) = (row for row in ledger["rows"] if row["id"] == name)
    printed = list(lines(chapter()))
    if row["match"] == "literal":
        assert row["printed"] in printed
    else:
        assert row["match"] == "numbers"
        wanted = numbers(row["printed"])
        assert any(stand_together(wanted, line) for line in printed), (
            f"{wanted} stand in none of these:\n" + "\n".join(printed)
        )


def test_the_shares_before_rounding() -> None:
    # The selected and the branches of all five runs: 124,071, 15,467 and 15,481 of 155,019.
    assert chapter().selected == 124_071 + 15_467 + 15_481 == 155_019
    assert [round(share, 5) for share in chapter().shares] == [0.80036, 0.09977, 0.09987]


def test_the_source_lines_are_counted_and_not_recited() -> None:
    found = list(source_lines(replace(Recipe(), exposure=2, width=24, heads=2, inner=48, blocks=1)))
    # 24 x (115 + 10) embeddings, 24 x 72 + 72 and 24 x 24 + 24 attention, 24 x 48 + 48 and 48 x 24 + 24, 4 x 24.
    assert found == [
        "source: 400 sentences; vocabulary: 115 tokens",
        "covered/uncovered token strings: 40 / 40",
        f"encoder parameters: {3000 + 1800 + 600 + 1200 + 1176 + 96:,}",
    ]


@pytest.mark.parametrize(("seeds", "runs"), [((6050,), "one run"), ((6050, 6051), "two runs")])
def test_the_number_of_runs_is_named(seeds: tuple[int, ...], runs: str) -> None:
    result = lab.run(replace(Recipe(), updates=1, adaptation_updates=0), seeds)
    first = next(corruption_lines(result))
    assert first == f"selected targets across {runs}: {result.selected}"


def test_a_run_without_updates_prints_zeros() -> None:
    result = lab.run(replace(Recipe(), updates=0, adaptation_updates=0), tuple(range(7)))
    assert list(corruption_lines(result)) == [
        "selected targets across 7 runs: 0",
        "eligible positions: 0",
        "realized selection rate: 0.000%",
        "realized mask/random/unchanged shares: 0.00% / 0.00% / 0.00%",
    ]
