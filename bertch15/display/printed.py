"""The lines that the chapter prints of the lab, at the precision at which they reproduce."""

from collections.abc import Iterator

from bertch15.encoder import count_parameters
from bertch15.lab import LabResult
from bertch15.pretraining import new_encoder, seeded
from bertch15.recipe import Recipe


def source_lines(recipe: Recipe) -> Iterator[str]:
    """Say how large the source and the encoder are."""
    language = recipe.language()
    covered, uncovered = (sum(map(len, half)) for half in (language.covered, language.uncovered))
    with seeded(0):
        size = count_parameters(new_encoder(recipe))
    yield f"source: {len(language.sentences)} sentences; vocabulary: {len(language.vocabulary)} tokens"
    yield f"covered/uncovered token strings: {covered} / {uncovered}"
    yield f"encoder parameters: {size:,}"


NUMBERS = {1: "one run", 2: "two runs", 3: "three runs", 4: "four runs", 5: "five runs"}


def corruption_lines(result: LabResult) -> Iterator[str]:
    """Say what the selector and the three branches did over all updates."""
    count = len(result.replicates)
    masked, randomised, unchanged = result.shares
    yield f"selected targets across {NUMBERS.get(count, f'{count} runs')}: {result.selected:,}"
    yield f"eligible positions: {result.eligible:,}"
    yield f"realized selection rate: {result.selected / max(1, result.eligible):.3%}"
    yield f"realized mask/random/unchanged shares: {masked:.2%} / {randomised:.2%} / {unchanged:.2%}"


def accuracy_lines(result: LabResult) -> Iterator[str]:
    """Give the table, one line a budget, and the count of paired wins."""
    yield from map(str, result.rows)
    wins, pairs = sum(row.wins for row in result.rows), sum(len(row.gains) for row in result.rows)
    yield f"{wins} of {pairs} paired covered-type comparisons are won by the pretrained arm"


def geometry_lines(result: LabResult) -> Iterator[str]:
    """Give the centred cosines of the first replicate, before and after pretraining."""
    first = result.replicates[0]
    yield f"initial within/between: {first.initial.within:.4f} / {first.initial.between:.4f}"
    yield f"after MLM within/between: {first.after.within:.4f} / {first.after.between:.4f}"


def lines(result: LabResult) -> Iterator[str]:
    """Give all lines that the chapter prints of the lab."""
    yield from source_lines(result.recipe)
    yield from corruption_lines(result)
    yield from accuracy_lines(result)
    yield from geometry_lines(result)
