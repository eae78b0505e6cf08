"""Exercise 4: a probe against full fine-tuning, from one checkpoint and with everything else matched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bertch15.check.exercise_4.matching import KINDS, check_function
from bertch15.check.kit.reasons import Reason
from bertch15.check.kit.together import together
from bertch15.check.kit.verdict import EMPTY, RIGHT, Part, Verdict, as_tensor, careful, closeness, untouched, wrong
from bertch15.fast.training import Job, adapt_together
from bertch15.finetuning import Adapted, make_task
from bertch15.pretraining import Pretrained
from bertch15.settings import reproducible

BUDGET = 1
"""Labelled words per family in the pairs."""
DOUBT = 1e-4
"""A word whose two logits lie closer than this may be decided by rounding. Sums that are added in another order
move their difference by up to 6e-6; the closest word of the chapter's pairs stands at 6e-3."""

WINNER = Reason(
    "probe winner",
    "d425102786e4d88f",
    {
        "3e2d8e3bcc228873": "More freedom can fit more. Both arms fit their two words already: look at the "
        "pairs, not at what may move.",
        "bdf83599d01e2966": "Five seeds with everything else matched do say something: each pair compares two "
        "fits of one checkpoint.",
        "5999c50e0e8e5a81": "One pair is what speaks for this sentence, and by a single word. Read all pairs, of "
        "both checkpoints.",
    },
)
TOO_MUCH = Reason(
    "probe too much",
    "e44be6fbff143cd4",
    {
        "524599c6c29f5843": "This names its checkpoints and its task: it is what the pairs show.",
        "6b76c01f0b98f7ed": "A probe is a linear rule, and it is right on words that it was not taught. The "
        "sentence says no more than that.",
        "5af99e66e2d980c3": "Count what one word weighs: the sentence claims less than it might, not more.",
    },
)


@dataclass(frozen=True)
class Scores:
    """All accuracies of the pairs of one checkpoint, (seeds, 2) each: on test, on labelled, on control words.

    doubtful: how many test words rounding may put on either side, (seeds, 2) counts.
    """

    covered: Tensor
    train: Tensor
    uncovered: Tensor
    doubtful: Tensor


def scored(runs: Sequence[Pretrained], start: str | int) -> Scores:
    """Adapt all runs from a checkpoint, or from "scratch", both ways."""
    jobs = [
        Job(run.seed, run.scratch if start == "scratch" else run.snapshots[int(start)], BUDGET) for run in runs
    ]
    columns = []
    for kind in KINDS:
        with reproducible():
            columns.append(adapt_together(replace(runs[0].recipe, adaptation=kind), jobs))  # type: ignore[arg-type]
    tables = [
        torch.tensor([[getattr(one, words).accuracy for one in row] for row in zip(*columns, strict=True)])
        for words in ("covered", "train", "uncovered")
    ]
    language = runs[0].recipe.language()
    tests = [make_task(language, job.seed, job.budget).covered[0] for job in jobs]
    doubts = [[doubtful(one, ids) for one, ids in zip(column, tests, strict=True)] for column in columns]
    return Scores(tables[0], tables[1], tables[2], torch.tensor(doubts).T)


@torch.no_grad()
def doubtful(adapted: Adapted, ids: Tensor) -> int:
    """Count the sentences (n, T) whose two logits lie within `DOUBT` of each other."""
    logits = adapted.classifier(ids)
    return int(((logits[:, 0] - logits[:, 1]).abs() < DOUBT).sum())


def mistaken(found: Tensor, right: Scores, others: Sequence[tuple[Tensor, str]]) -> str:
    """Say which mistake an array of pairs looks like; empty if none. found is (seeds, 2)."""
    expected = right.covered
    if alike(found, right.train):
        return "These are scores on the words that were taught. They flatter every model; test on the others."
    if alike(found, right.uncovered):
        return "These are the control words, which no sentence holds. Test on the covered words without a label."
    if alike(found, expected.flip(1)):
        return "The columns are exchanged: the probe is the first of a pair."
    if alike(found.sort(0).values, expected.sort(0).values):
        rows, right_rows = (sorted((100 * t).round().tolist()) for t in (found, expected))
        if rows == right_rows:
            return "The pairs are whole, but not in the order of the runs."
        return (
            "Each column holds its numbers, but they no longer stand with their partners: a row is one seed. "
            "Columns that are sorted each by itself are not paired any more."
        )
    for table, says in others:
        if alike(found, table):
            return says
    gap = closeness(found.double(), expected.double(), within=0.0)
    return (
        f"These pairs are not what the matched comparison gives: {gap}. Does each number come from your function?"
    )


def alike(found: Tensor, expected: Tensor, doubtful: Tensor | None = None) -> bool:
    """Say whether two tables agree: to less than half a word, and to a word more for each doubtful one."""
    words = (found.double() - expected.double()).abs() * (40 - 2 * BUDGET)
    return bool((words < 0.5 + (0 if doubtful is None else doubtful)).all())


@careful
def check_pairs(answer: Any, runs: Any) -> Part:
    """Check the pairs of every checkpoint: `answer` gives for each step an array (seeds, 2)."""
    if untouched(answer):
        return EMPTY
    if untouched(runs) or not runs:
        return wrong("There is nothing to adapt yet: the runs are pretrained once your function is right.")
    steps = tuple(runs[0].snapshots)
    if not isinstance(answer, Mapping) or set(answer) != set(steps):
        return wrong(f"The pairs are a dictionary with the checkpoints {steps} as its keys.")
    tables = {}
    for step in steps:
        table = as_tensor(answer[step])
        if says := misshapen(table, len(runs)):
            return wrong(f"Checkpoint {step}: {says}")
        tables[step] = table
    right = {step: scored(runs, step) for step in steps}
    for step, table in tables.items():
        if not alike(table, right[step].covered, right[step].doubtful):
            others = [(right[other].covered, "These start from the other checkpoint.") for other in steps]
            others += [(scored(runs, "scratch").covered, "Both arms start at the weights before any pretraining.")]
            return wrong(f"Checkpoint {step}: {mistaken(table, right[step], others)}")
    return RIGHT


def misshapen(table: Tensor, seeds: int) -> str:
    """Say what is wrong with the form of an array of pairs; empty if nothing is."""
    if table.numel() in (1, 2) or tuple(table.shape) == (seeds,):
        return "A mean, or a list of differences, hides the pairs. Give one row for each seed: probe, full."
    if tuple(table.shape) != (seeds, len(KINDS)):
        return (
            f"One row a seed and two columns, probe and full, were expected; this has shape {tuple(table.shape)}."
        )
    if not bool(((table >= 0) & (table <= 1)).all()):
        return "Accuracies are shares, from 0 to 1: neither counts nor per cent."
    return ""


def probe(answers: Any, *names: str) -> Verdict:
    """Check exercise 4: `answers` is a dictionary; names: the parts to be shown, all of them by default."""
    return together(
        "probe",
        answers,
        names,
        {
            "adapted": lambda given: check_function(given.get("adapted")),
            "pairs": lambda given: check_pairs(given.get("pairs"), given.get("runs")),
            "winner": lambda given: WINNER.check(given.get("winner"), given.get("winner because")),
            "too much": lambda given: TOO_MUCH.check(given.get("too much"), given.get("too much because")),
        },
    )
