"""The chapter's side claims, each held within a bound that leaves room for other machines.

Most are held on what the pages print: there the experiment is run, whole, each time that the pages are tested, and
the stored numbers are those that come out. An author who stores other numbers is told here what they must still
say. A bound is far wider than what was measured over five seeds and far narrower than the effect.
"""

from collections import Counter
from dataclasses import replace
from functools import cache
from math import log
from pathlib import Path
from statistics import fmean

import nbformat
import pytest
import torch
from prose import printed

from bertch15 import lab
from bertch15.corruption import Policy
from bertch15.fast.training import Job, adapt_together, pretrain_together
from bertch15.finetuning import label_order
from bertch15.geometry import word_geometry
from bertch15.language import CueNoise, Language
from bertch15.pretraining import reproducible
from bertch15.recipe import Recipe
from bertch15.vocabulary import PAD

pytestmark = pytest.mark.usefixtures("state_guard")

BASE = Recipe()
SEEDS = (6050, 6051)
NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


@cache
def lines(section: str) -> list[str]:
    """Give what a section's page prints, line by line."""
    (page,) = NOTEBOOKS.glob(f"{section.replace('.', '_')}_*.ipynb")
    return printed(nbformat.read(page, as_version=4)).splitlines()


def line(section: str, start: str) -> str:
    """Give the rest of the one line of a page that starts so."""
    (found,) = (each for each in lines(section) if each.startswith(start))
    return found.removeprefix(start)


def numbers(text: str) -> list[float]:
    """Read a row of numbers that stand between bars, strokes, or blanks."""
    return [float(word) for word in text.replace("|", " ").replace("/", " ").replace(",", " ").split()]


# Corruption


@pytest.mark.parametrize("kind", ["own", "full"])
def test_the_copy_trap_closes(kind: str) -> None:
    loss, *transfer = numbers(line("15.1", f"all unchanged | {kind} |"))
    assert loss < 0.02
    assert 0.35 < fmean(transfer) < 0.65
    assert fmean(numbers(line("15.1", "80/10/10 | full |"))[1:]) > 0.9


def test_in_the_copy_trap_the_families_stay_together() -> None:
    with reproducible():
        (run,) = pretrain_together(
            replace(BASE, policy=Policy(mask_share=0.0, random_share=0.0), updates=400), [6050]
        )
    assert abs(word_geometry(run.recipe, run.pretrained).within) < 0.1
    assert run.losses[-50:].mean() < 0.05


def test_eligible_padding_flatters_the_loss() -> None:
    loss, ordinary, _ = numbers(line("15.3", "ordinary and padding |"))
    loss_without, ordinary_without, _ = numbers(line("15.3", "ordinary |"))
    assert loss < loss_without - 0.15
    # The ordinary targets are no better answered than by the run that never saw padding as a target.
    assert ordinary > ordinary_without - 0.1


def test_masks_written_once_are_learned_by_heart() -> None:
    trained_on, anew = numbers(line("15.3", "one copy |").removesuffix("near chance, 0.33 to 0.67 | "))
    assert trained_on < 0.2
    assert anew > 1.5
    assert numbers(line("15.3", "drawn anew |"))[1] < 1.0  # the same updates do generalise


def test_a_tied_decoder_moves_all_withheld_rows_at_once() -> None:
    result = lab.run(replace(BASE, decoder="tied", updates=1, adaptation_updates=1), SEEDS)
    assert [one.moved for one in result.replicates] == [40, 40]


# Visibility and objective


def next_token_floor(language: Language) -> float:
    """Give the conditional entropy of the next token given all before it, in nats, [SEP] included."""
    rows = [row[row != PAD].tolist() for row in language.source_ids]
    prefixes = Counter(tuple(row[:i]) for row in rows for i in range(1, len(row)))
    longer = Counter(tuple(row[: i + 1]) for row in rows for i in range(1, len(row)))
    return -sum(n * log(n / prefixes[p[:-1]]) for p, n in longer.items()) / longer.total()


def test_full_visibility_leaks_the_next_token() -> None:
    assert line("15.7", "full visibility, loss in one pass below 0.02: ") == "True"
    assert float(line("15.7", "full    loss in one pass 0.0, from prefixes alone ")) > 1.5


def test_a_causal_model_reaches_the_floor_and_its_two_schedules_agree() -> None:
    floor = next_token_floor(BASE.language())
    assert floor == pytest.approx(0.904835, abs=1e-6)
    assert floor - 0.005 < float(line("15.7", "loss over the source: ")) < floor + 0.035
    assert lines("15.7").count("largest difference below 5e-5: True") == 1


# Coverage and controls


def test_shuffled_contexts_teach_no_family() -> None:
    recipe = replace(BASE, shuffled=True, updates=400)  # after which the chapter's contexts have taught it
    with reproducible():
        runs = pretrain_together(recipe, SEEDS)
        jobs = [Job(run.seed, run.pretrained, budget) for run in runs for budget in BASE.budgets]
        fits = adapt_together(recipe, jobs)
    assert 0.35 < fmean(fit.covered.accuracy for fit in fits) < 0.65
    assert {fit.train.accuracy for fit in fits} == {1.0}
    assert numbers(line("15.5", "full |"))[3] > 0.9  # the same, of contexts that are not shuffled


def test_withheld_words_transfer_once_they_are_exposed() -> None:
    assert float(line("15.8", "sentences of each word: 8   right: ").split()[0]) > 0.9
    assert 0.35 < float(line("15.8", "sentences of each word: 0   right: ").split()[0]) < 0.65
    result = lab.run(replace(BASE, exposure=8, updates=60, adaptation_updates=1), SEEDS)
    assert [one.moved for one in result.replicates] == [40, 40]


def counting_accuracy(language: Language, seed: int, budget: int) -> float:
    """Classify covered words by the nearest centroid of their co-occurrence counts, with the lab's labels."""
    counts = {word: torch.zeros(len(language.vocabulary)) for family in language.covered for word in family}
    for sentence in language.sentences:
        (word,) = counts.keys() & set(sentence.split())
        for token in sentence.replace(word, "").split():
            counts[word][language.vocabulary.id(token)] += 1
    table = torch.stack([torch.stack([counts[word] for word in family]) for family in language.covered])
    order = torch.tensor(label_order(seed))  # (2, 20)
    labelled, tested = (
        torch.stack([table[f, order[f, part]] for f in (0, 1)]) for part in (slice(budget), slice(budget, None))
    )
    nearest = torch.cdist(tested, labelled.mean(1)).argmin(-1)  # (2, 20 - budget)
    return (nearest == torch.tensor([[0], [1]])).float().mean().item()


def test_counting_recovers_the_families_of_the_chapters_language() -> None:
    scores = {counting_accuracy(BASE.language(), seed, budget) for seed in lab.SEEDS for budget in BASE.budgets}
    assert scores == {1.0}
    assert numbers(line("15.6", "counting finds the families too | counting").split("|")[0]) == [1.0] * 3


def test_counting_wins_where_the_noise_is_drawn_for_each_word() -> None:
    recipe = replace(BASE, noise=CueNoise(kind="drawn", count=2))
    table = [[counting_accuracy(recipe.language(), seed, budget) for seed in SEEDS] for budget in BASE.budgets]
    masked, counted = line("15.6", "MLM ").split(", counting ")
    assert numbers(counted) == pytest.approx([fmean(row) for row in table], abs=5e-4)
    assert fmean(numbers(masked)) < fmean(numbers(counted)) - 0.15


# Adaptation


def test_a_probe_does_as_well_as_full_fine_tuning() -> None:
    full, probe = (numbers(line("15.5", f"{kind} |"))[-1] for kind in ("full", "probe"))
    assert full > 0.95
    assert probe >= full - 0.03
    assert fmean(numbers(line("15.6", "probe, seed 6050, 1/2/4 labels: "))) > 0.95
