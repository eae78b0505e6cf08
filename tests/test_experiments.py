"""The chapter's side claims, each held within a bound that leaves room for other machines.

A bound is far wider than what was measured over five seeds and far narrower than the effect. Where a bound is
on an accuracy, two seeds take part (a seed's accuracy moves by several hundredths); where it is on a loss, one
does (a seed's loss moves by a few thousandths, and the effects are of tenths and more).
"""

from collections import Counter
from dataclasses import replace
from math import log
from statistics import fmean

import pytest
import torch
from chapter import plain
from torch.nn import functional as F

from bertch15 import lab
from bertch15.corruption import Corruption, Policy, corrupt
from bertch15.encoder import Encoder
from bertch15.fast.training import Job, adapt_together, pretrain_together
from bertch15.finetuning import label_order
from bertch15.geometry import word_geometry
from bertch15.language import CueNoise, Language
from bertch15.pretraining import (
    Pretrained,
    PretrainingHead,
    load_encoder,
    masked_question,
    new_head,
    next_token_question,
    question_loss,
    reproducible,
    seeded,
)
from bertch15.recipe import Recipe
from bertch15.visibility import visibility
from bertch15.vocabulary import PAD

pytestmark = pytest.mark.usefixtures("state_guard")

BASE = Recipe()
SEEDS = (6050, 6051)


def trained(recipe: Recipe) -> Pretrained:
    """Pretrain seed 6050 on the fast engine, in half the time of the plain loop and with its results."""
    with reproducible():
        return pretrain_together(recipe, [6050])[0]


def loaded(run: Pretrained) -> tuple[Encoder, PretrainingHead]:
    """Rebuild the trained model with its head."""
    with seeded(0):
        head = new_head(run.recipe)
    head.load_state_dict(run.head)
    return load_encoder(run.recipe, run.pretrained), head


def fresh(policy: Policy = BASE.policy) -> Corruption:
    """Corrupt the whole source as no run has seen it."""
    language = BASE.language()
    return corrupt(language.source_ids, language.pool, torch.Generator().manual_seed(1), policy)


@torch.no_grad()
def masked_loss(run: Pretrained, batch: Corruption) -> float:
    question = masked_question(batch, visibility(batch.ids, run.recipe.visibility))
    return question_loss(*loaded(run), question).item()


def accuracy(result: lab.LabResult, part: str = "covered") -> float:
    """Average the pretrained arm over seeds and budgets."""
    return fmean(getattr(row, part)["pretrained"] for row in result.rows)


# Corruption


def test_the_copy_trap_closes() -> None:
    result = lab.run(replace(BASE, policy=Policy(mask_share=0.0, random_share=0.0)), SEEDS)
    assert max(fmean(one.losses[-50:]) for one in result.replicates) < 0.02
    assert 0.35 < accuracy(result) < 0.65
    assert max(abs(one.after.within) for one in result.replicates) < 0.1


def test_eligible_padding_flatters_the_loss() -> None:
    run = trained(replace(BASE, policy=Policy(eligible="padding")))
    batch = fresh(run.recipe.policy)
    filler = batch.ids == PAD
    assert int((batch.selected & filler).sum()) > 100
    ordinary = replace(batch, selected=batch.selected & ~filler)
    assert masked_loss(run, batch) < masked_loss(run, ordinary) - 0.15
    # The ordinary targets are no better answered than by the run that never saw padding as a target.
    assert masked_loss(run, ordinary) > masked_loss(plain(), ordinary) - 0.1


def test_masks_written_once_are_learned_by_heart() -> None:
    run = trained(replace(BASE, static_masks=1))
    assert run.losses[-50:].mean() < 0.2
    assert masked_loss(run, fresh()) > 1.5
    assert masked_loss(plain(), fresh()) < 1.0  # drawn anew, the same updates do generalise


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


@torch.no_grad()
def forced_loss(run: Pretrained) -> float:
    """Score every next token in parallel, the whole sentence given."""
    ids = run.recipe.language().source_ids
    return question_loss(*loaded(run), next_token_question(ids, visibility(ids, run.recipe.visibility))).item()


@torch.no_grad()
def prefix_loss(run: Pretrained) -> float:
    """Score every next token from its prefix alone, as generation must."""
    encoder, head = loaded(run)
    ids = run.recipe.language().source_ids
    losses = []
    for length in range(1, int((ids != PAD).sum(-1).max())):
        rows = ids[ids[:, length] != PAD]
        prefix = rows[:, :length]
        hidden = encoder(prefix, visibility(prefix, run.recipe.visibility))[:, -1]  # (B, d)
        logits = head(hidden, encoder.token_embedding.weight)
        losses.append(F.cross_entropy(logits, rows[:, length], reduction="none"))
    assert sum(map(len, losses)) == 2040
    return torch.cat(losses).mean().item()


def test_full_visibility_leaks_the_next_token() -> None:
    run = trained(replace(BASE, objective="next token"))
    assert forced_loss(run) < 0.02
    assert prefix_loss(run) > 1.5


def test_a_causal_model_reaches_the_floor_and_its_two_schedules_agree() -> None:
    floor = next_token_floor(BASE.language())
    assert floor == pytest.approx(0.904835, abs=1e-6)
    run = trained(replace(BASE, objective="next token", visibility="causal"))
    assert floor < forced_loss(run) < floor + 0.03
    assert prefix_loss(run) == pytest.approx(forced_loss(run), rel=0, abs=2e-5)


# Coverage and controls


def test_shuffled_contexts_teach_no_family() -> None:
    result = lab.run(replace(BASE, shuffled=True), SEEDS)
    assert 0.35 < accuracy(result) < 0.65
    assert {row.train["pretrained"] for row in result.rows} == {1.0}


def test_withheld_words_transfer_once_they_are_exposed() -> None:
    result = lab.run(replace(BASE, exposure=8), SEEDS)
    assert accuracy(result, "uncovered") > 0.9
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


def test_counting_wins_where_the_noise_is_drawn_for_each_word() -> None:
    recipe = replace(BASE, noise=CueNoise(kind="drawn", count=2))
    counts = [counting_accuracy(recipe.language(), seed, budget) for seed in SEEDS for budget in recipe.budgets]
    assert accuracy(lab.run(recipe, SEEDS)) < fmean(counts) - 0.15


# Adaptation


def test_a_probe_does_as_well_as_full_fine_tuning() -> None:
    start = plain().pretrained
    jobs = [Job(6050, start, budget) for budget in BASE.budgets]
    with reproducible():
        full, probe = (
            fmean(one.covered.accuracy for one in adapt_together(replace(BASE, adaptation=kind), jobs))
            for kind in ("full", "probe")
        )
    assert full > 0.95
    assert word_geometry(BASE, start).within > 0.35
    assert probe >= full - 0.03
