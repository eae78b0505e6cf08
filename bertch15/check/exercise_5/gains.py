"""Exercise 5, its function: gains that stay paired, seed by seed, tried on results that nobody had to train."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bertch15.check.kit.calling import call, no_function
from bertch15.check.kit.verdict import RIGHT, Part, as_tensor, careful, closeness, wrong
from bertch15.finetuning import Score
from bertch15.geometry import Cosines
from bertch15.lab import ARMS, LabResult, Outcome, Replicate
from bertch15.recipe import Recipe


def invented(budgets: tuple[int, ...], seeds: int, draw: int) -> LabResult:
    """Invent a result of the lab with random scores, so that a function is tried without any training."""
    generator = torch.Generator().manual_seed(draw)

    def score(total: int) -> Score:
        return Score(int(torch.randint(total + 1, (), generator=generator)), total)

    def outcome(budget: int) -> Outcome:
        return Outcome(score(2 * budget), score(40 - 2 * budget), score(40))

    nothing = Cosines(0.0, 0.0)
    made = [
        Replicate(seed, 0, (0, 0, 0), (), 0, nothing, nothing, {arm: tuple(map(outcome, budgets)) for arm in ARMS})
        for seed in range(seeds)
    ]
    return LabResult(replace(Recipe(), budgets=budgets), tuple(made))


def table(result: LabResult, words: str, arm: str, what: str = "accuracy") -> Tensor:
    """Give one arm's scores on one kind of words: (budgets, seeds)."""
    rows = [[getattr(getattr(o, words), what) for o in one.outcomes[arm]] for one in result.replicates]
    return torch.tensor(rows, dtype=torch.float64).T


def difference(result: LabResult, words: str, what: str = "accuracy") -> Tensor:
    """Subtract scratch from pretrained, seed by seed: (budgets, seeds)."""
    scratch, pretrained = (table(result, words, arm, what) for arm in ARMS)
    return pretrained - scratch


@careful
def check_gains(function: Any) -> Part:
    """Try the function on invented results of several shapes, with both kinds of words."""
    if refused := no_function(function, "gains(result, words)"):
        return refused
    for draw, (budgets, seeds) in enumerate((((1, 2, 4), 5), ((1, 2, 4), 3), ((3, 5), 4))):
        result = invented(budgets, seeds, draw)
        for words in ("covered", "uncovered"):
            outcome = call(function, result, words)
            if outcome.error is not None:
                return wrong(f"Your function {outcome.failed or 'ended in an AssertionError'}.")
            says = unpaired(as_tensor(outcome.returned).double(), result, words)
            if says:
                return wrong(says)
    return RIGHT


def unpaired(found: Tensor, result: LabResult, words: str) -> str:
    """Say which mistake an array of gains looks like; empty if none."""
    right = difference(result, words)
    if found.shape != right.shape:
        if found.numel() == len(right):
            return "One number a budget is a mean. Paired gains are one for each seed: the spread is the point."
        if found.shape == right.T.shape:
            return "The rows should be the budgets and the columns the seeds."
        return f"One row a budget and one column a seed were expected; this has shape {tuple(found.shape)}."
    other = "uncovered" if words == "covered" else "covered"
    sorted_arms = [table(result, words, arm).sort(1).values for arm in ARMS]
    pretrained = table(result, words, "pretrained")
    against_the_mean = pretrained - table(result, words, "scratch").mean(1, keepdim=True)
    mistakes = (
        (-right, "The sign is turned: a gain is what the pretrained arm has more than scratch."),
        (difference(result, other), f"Asked for {words} words, it gives the gains of the {other} ones."),
        (difference(result, "train"), "These are the words that were taught. Both arms may know them by heart."),
        (
            difference(result, words, "correct"),
            "These are counts; each budget leaves another number of words to test.",
        ),
        (
            table(result, words, "pretrained"),
            "This is the pretrained arm alone; a gain compares it with its twin.",
        ),
        (sorted_arms[1] - sorted_arms[0], "Each arm was sorted by itself: a gain belongs to one seed."),
        (against_the_mean, "Subtract the scratch arm of the same seed, not a mean."),
        (100 * right, "These are per cent; accuracies are shares, and so are their differences."),
    )
    for guess, says in ((right, ""), *mistakes):
        if closeness(found, guess, within=1e-6) in ("exact", "close"):
            return says
    return f"These are not the paired gains: {closeness(found, right, within=1e-6)}."
