from dataclasses import replace
from typing import Any

import pytest
import torch
from chapter import plain, same, unusual_settings_kept
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_pre_hook

from bertch15.finetuning import Classifier, Score, adapt, evaluate, label_order, make_task, new_classifier
from bertch15.pretraining import Cancelled, State, copy_state, new_encoder, seeded
from bertch15.recipe import SEEDS, Recipe
from bertch15.visibility import visibility

pytestmark = pytest.mark.usefixtures("state_guard")

LANGUAGE = Recipe().language()
SHORT = replace(Recipe(), adaptation_updates=3)


def scratch(recipe: Recipe = Recipe(), seed: int = 6050) -> State:
    with seeded(seed):
        return copy_state(new_encoder(recipe))


def words(examples: tuple[Tensor, Tensor]) -> list[str]:
    return LANGUAGE.vocabulary.decode(examples[0][:, 4])


# Labels


@pytest.mark.parametrize("seed", SEEDS)
def test_labels_are_dealt_as_in_the_trace(seed: int, trace: dict[str, Any]) -> None:
    expected = trace["replicates"][str(seed)]
    assert label_order(seed) == (expected["label_order_family0"], expected["label_order_family1"])


def test_the_words_that_seed_6050_labels() -> None:
    task = make_task(LANGUAGE, 6050, 4)
    assert words(task.train) == ["raku", "zoda", "zisa", "zeru", "vene", "mutu", "tosa", "zira"]
    assert task.train[1].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(("budget", "tested"), [(1, 38), (2, 36), (4, 32)])
def test_training_covered_and_uncovered_words_are_disjoint_and_complete(budget: int, tested: int) -> None:
    task = make_task(LANGUAGE, 6053, budget)
    train, covered, uncovered = words(task.train), words(task.covered), words(task.uncovered)
    assert (len(train), len(covered), len(uncovered)) == (2 * budget, tested, 40)
    assert len({*train, *covered, *uncovered}) == 80
    assert {*train, *covered} == {*LANGUAGE.covered[0], *LANGUAGE.covered[1]}
    assert uncovered == [*LANGUAGE.uncovered[0], *LANGUAGE.uncovered[1]]


@pytest.mark.parametrize("part", ["train", "covered", "uncovered"])
def test_every_example_is_a_neutral_sentence_with_the_family_of_its_word(part: str) -> None:
    examples = getattr(make_task(LANGUAGE, 6051, 2), part)
    family = {w: f for half in (LANGUAGE.covered, LANGUAGE.uncovered) for f in (0, 1) for w in half[f]}
    assert examples[1].tolist() == [family[word] for word in words(examples)] == sorted(examples[1].tolist())
    for word, row in zip(words(examples), LANGUAGE.vocabulary.decode(examples[0]), strict=True):
        assert row == ["[CLS]", "we", "found", "the", word, "today", "[SEP]", "[PAD]", "[PAD]", "[PAD]"]


def test_a_larger_budget_holds_the_smaller_one() -> None:
    one, two, four = (words(make_task(LANGUAGE, 6052, budget).train) for budget in (1, 2, 4))
    assert {*one} < {*two} < {*four}


@pytest.mark.parametrize("budget", [-1, 0, 20])
def test_budgets_without_labels_or_without_a_test_are_refused(budget: int) -> None:
    with pytest.raises(ValueError, match="1 to 19"):
        make_task(LANGUAGE, 6050, budget)
    with pytest.raises(ValueError, match="1 to 19"):
        adapt(SHORT, 6050, plain().scratch, budget)


# Heads


@pytest.mark.parametrize("seed", SEEDS)
def test_heads_are_those_of_the_trace(seed: int, trace: dict[str, Any]) -> None:
    head = new_classifier(Recipe(), seed, plain().scratch).head
    expected = trace["replicates"][str(seed)]["head_weight[0,:4]"]
    assert head.weight[0, :4].tolist() == pytest.approx(expected, rel=0, abs=1e-5)


def test_both_arms_start_from_the_same_head_whatever_came_before() -> None:
    recipe = replace(Recipe(), adaptation_updates=0)
    first = copy_state(adapt(recipe, 6050, plain().scratch, 1).classifier.head)
    with torch.random.fork_rng():
        nn.Linear(48, 48)  # an unused layer, which draws from the global stream
        second = copy_state(adapt(recipe, 6050, plain().pretrained, 4).classifier.head)
    larger = replace(recipe, blocks=3, inner=64)  # an encoder that draws more, and other numbers
    third = copy_state(adapt(larger, 6050, scratch(larger), 1).classifier.head)
    assert same(first, second)
    assert same(first, third)


def test_every_seed_has_a_head_and_a_label_order_of_its_own() -> None:
    heads = {str(new_classifier(Recipe(), seed, plain().scratch).head.weight.tolist()) for seed in SEEDS}
    assert len(heads) == len({str(label_order(seed)) for seed in SEEDS}) == 5


@pytest.mark.parametrize(("kind", "reads_on"), [("full", True), ("causal", False)])
def test_the_head_reads_one_position_through_the_recipes_visibility(kind: Any, reads_on: bool) -> None:
    ids = make_task(LANGUAGE, 6050, 4).covered[0]
    later = ids.clone()
    later[:, 5] = LANGUAGE.vocabulary.id("near")
    classifier = new_classifier(replace(Recipe(), visibility=kind, readout=3), 6050, plain().pretrained)
    hidden = classifier.encoder(ids, visibility(ids, kind))
    assert torch.equal(classifier(ids), classifier.head(hidden[:, 3]))
    assert (not torch.equal(classifier(ids), classifier(later))) == reads_on


# What moves


def moved(before: State, after: State) -> dict[str, int]:
    return {name: int((before[name] != after[name]).sum()) for name in before}


@pytest.mark.parametrize(("budget", "rows", "numbers"), [(1, 8, 38_640), (4, 14, 38_928)])
def test_fine_tuning_moves_all_of_the_encoder_but_the_rows_that_do_not_occur(
    budget: int, rows: int, numbers: int
) -> None:
    adapted = adapt(Recipe(), 6050, plain().pretrained, budget)
    counts = moved(plain().pretrained, copy_state(adapted.classifier.encoder))
    assert counts["token_embedding.weight"] == rows * 48  # [CLS] we found the today [SEP] and the words
    assert counts["position_embedding.weight"] == 7 * 48
    assert sum(counts.values()) == numbers


@pytest.mark.parametrize(("adaptation", "stepped"), [("full", ("encoder", "head")), ("probe", ("head",))])
def test_a_probe_keeps_the_encoder_out_of_the_optimiser(adaptation: Any, stepped: tuple[str, ...]) -> None:
    start = plain().pretrained
    held: set[int] = set()

    def note(optimiser: torch.optim.Optimizer, *_: Any) -> None:
        held.update(id(p) for group in optimiser.param_groups for p in group["params"])

    handle = register_optimizer_step_pre_hook(note)
    try:
        classifier = adapt(replace(SHORT, adaptation=adaptation), 6050, start, 1).classifier
    finally:
        handle.remove()
    assert held == {id(p) for part in stepped for p in getattr(classifier, part).parameters()}


def test_a_probe_leaves_the_encoder_bit_for_bit_and_moves_the_head() -> None:
    probe = replace(SHORT, adaptation="probe")
    classifier = adapt(probe, 6050, plain().pretrained, 2).classifier
    head = new_classifier(probe, 6050, plain().pretrained).head
    assert same(copy_state(classifier.encoder), plain().pretrained)
    assert all(p.grad is None for p in classifier.encoder.parameters())
    assert set(moved(copy_state(head), copy_state(classifier.head)).values()) == {2 * 48, 2}


@pytest.mark.parametrize("adaptation", ["full", "probe"])
def test_the_start_is_not_touched(adaptation: Any) -> None:
    start = scratch()
    kept = {name: tensor.clone() for name, tensor in start.items()}
    adapt(replace(SHORT, adaptation=adaptation), 6050, start, 2)
    assert same(start, kept)


def test_the_first_update_has_the_size_of_each_rate() -> None:
    # Adam's first step is its rate wherever the gradient is not tiny.
    recipe = replace(Recipe(), adaptation_updates=1, encoder_rate=3e-4, head_rate=5e-3)
    classifier = adapt(recipe, 6050, plain().pretrained, 4).classifier
    head = new_classifier(recipe, 6050, plain().pretrained).head
    head_step = (classifier.head.weight - head.weight).abs().median().item()
    name = "blocks.1.ff.2.weight"
    encoder_step = (copy_state(classifier.encoder)[name] - plain().pretrained[name]).abs().median().item()
    assert head_step == pytest.approx(5e-3, rel=1e-3)
    assert encoder_step == pytest.approx(3e-4, rel=1e-2)


def test_gradients_are_not_clipped() -> None:
    # Adam forgets the scale of one gradient, so two updates: a clipped run would stand elsewhere.
    recipe = replace(Recipe(), adaptation_updates=2)
    found = adapt(recipe, 6050, plain().scratch, 1)
    classifier = new_classifier(recipe, 6050, plain().scratch)
    ids, families = make_task(LANGUAGE, 6050, 1).train
    optimiser = torch.optim.Adam(
        [
            {"params": classifier.encoder.parameters(), "lr": 2e-4},
            {"params": classifier.head.parameters(), "lr": 2e-3},
        ]
    )
    expected = []
    for _ in range(2):
        loss = F.cross_entropy(classifier(ids), families)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        expected.append(loss.item())
    expected.append(F.cross_entropy(classifier(ids), families).item())
    assert found.losses.tolist() == pytest.approx(expected, rel=0, abs=1e-6)


# Evaluation


def test_the_scores_are_those_of_the_three_sets() -> None:
    adapted = adapt(SHORT, 6050, plain().pretrained, 2)
    task = make_task(LANGUAGE, 6050, 2)
    for part in ("train", "covered", "uncovered"):
        assert getattr(adapted, part) == evaluate(adapted.classifier, getattr(task, part))
    assert len(adapted.losses) == 4
    assert adapted.losses[-1] == F.cross_entropy(adapted.classifier(task.train[0]), task.train[1])


def test_accuracy_is_a_share_of_right_answers() -> None:
    assert Score(19, 38).accuracy == 0.5

    class Always(nn.Module):
        def forward(self, ids: Tensor) -> Tensor:
            return torch.tensor([0.0, 1.0]).expand(len(ids), 2)

    always: Any = Always()
    assert evaluate(always, (torch.zeros(4, 10), torch.tensor([1, 0, 1, 1]))) == Score(3, 4)


def test_evaluation_changes_nothing() -> None:
    classifier = new_classifier(Recipe(), 6050, plain().pretrained)
    before, examples = copy_state(classifier), make_task(LANGUAGE, 6050, 1).covered
    kept = tuple(part.clone() for part in examples)
    first = evaluate(classifier, examples)
    assert evaluate(classifier, examples) == first
    assert same(copy_state(classifier), before)
    assert all(torch.equal(a, b) for a, b in zip(examples, kept, strict=True))
    assert all(p.grad is None and p.requires_grad for p in classifier.parameters())


def test_random_labels_score_at_chance() -> None:
    adapted = adapt(Recipe(), 6050, plain().pretrained, 4)
    assert adapted.covered == Score(32, 32)  # so what follows is not the chance of a classifier that knows nothing
    ids, families = make_task(LANGUAGE, 6050, 4).covered
    labels = torch.randint(2, (300, len(ids)), generator=torch.Generator().manual_seed(1))
    right = sum(evaluate(adapted.classifier, (ids, row)).correct for row in labels)
    draws = labels.numel()
    assert abs(right / draws - 0.5) < 4 * (0.25 / draws) ** 0.5
    assert evaluate(adapted.classifier, (ids, 1 - families)).correct == 0


def test_a_classifier_answers_twice_the_same_while_it_trains() -> None:
    classifier = new_classifier(Recipe(), 6050, plain().pretrained).train()
    assert isinstance(classifier, Classifier)
    ids = make_task(LANGUAGE, 6050, 1).covered[0]
    assert torch.equal(classifier(ids), classifier(ids))


# Progress, cancelling, and what a run may not change


def test_progress_is_told_after_every_update() -> None:
    calls: list[tuple[int, int]] = []
    adapt(SHORT, 6050, plain().scratch, 1, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("error", [Cancelled, ZeroDivisionError])
def test_the_settings_come_back_however_the_run_ends(error: type[Exception]) -> None:
    def stop(done: int, _: int) -> bool:
        if error is ZeroDivisionError:
            raise ZeroDivisionError
        return done < 2

    start = plain().scratch
    with unusual_settings_kept():
        adapt(SHORT, 6050, start, 1)
        with pytest.raises(error):
            adapt(SHORT, 6050, start, 1, progress=stop)
