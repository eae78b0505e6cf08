from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import fmean
from typing import Any

import fresh
import pytest
import torch
from chapter import chapter, plain, same, unusual_settings_kept
from torch import Tensor
from torch.nn import functional as F

from bertch15.corruption import Policy, corrupt
from bertch15.encoder import Encoder
from bertch15.pretraining import (
    Cancelled,
    PretrainingHead,
    Question,
    copy_state,
    load_encoder,
    new_encoder,
    new_head,
    next_token_question,
    pretrain,
    question_loss,
    questions,
    schedule,
    seeded,
)
from bertch15.recipe import SEEDS, Recipe
from bertch15.visibility import visibility
from bertch15.vocabulary import CLS, MASK, PAD, SEP, UNK

pytestmark = pytest.mark.usefixtures("state_guard")

Checkpoint = tuple[str, Any, Any, float | None]
"""A name, what was found, what is expected, and the tolerance (None: equal)."""


# The trace, in the order in which the lab goes


def beginning(seed: int, expected: dict[str, Any]) -> Iterator[Checkpoint]:
    recipe, language = Recipe(), Recipe().language()
    with seeded(seed):
        encoder, head = new_encoder(recipe), new_head(recipe)
    weights = {**encoder.state_dict(), **{f"mlm.{name}": tensor for name, tensor in head.state_dict().items()}}
    for name, tensor, row in (
        ("token_embedding[5,:4]", "token_embedding.weight", 5),
        ("position_embedding[0,:4]", "position_embedding.weight", 0),
        ("blocks.0.attention.qkv.weight[0,:4]", "blocks.0.attention.qkv.weight", 0),
        ("mlm.decoder.weight[0,:4]", "mlm.decoder.weight", 0),
    ):
        yield f"initial {name}", weights[tensor][row, :4].tolist(), expected["initial_checks"][name], 1e-5

    drawn = schedule(recipe, seed, len(language.sentences))
    yield "the sentences of step 0", drawn[0, :8].tolist(), expected["schedule_step0_first8"], None
    first = next(questions(recipe, language, seed))
    rows = language.vocabulary.decode(first.inputs[:3])
    yield "the corrupted rows of step 0", rows, expected["step0_corrupted_first_rows"], None
    positions = [row.nonzero().flatten().tolist() for row in first.selected[:3]]
    yield "the selected positions of step 0", positions, expected["step0_selected_positions_first_rows"], None
    question_loss(encoder, head, first).backward()
    gradients = [p.grad for p in (*encoder.parameters(), *head.parameters()) if p.grad is not None]
    norm = float(sum(g.double().square().sum() for g in gradients)) ** 0.5
    yield "the gradient norm of step 0", norm, expected["step0_grad_norm"], 1e-2

    short = replace(recipe, updates=10)
    yield "ten rows of the schedule", schedule(short, seed, 320).tolist(), drawn[:10].tolist(), None
    run = pretrain(short, seed)
    yield "branches of steps 0 to 4", run.branches[:5].tolist(), expected["branch_counts_first5"], None
    yield "eligible of steps 0 to 4", run.eligible[:5].tolist(), expected["eligible_first5"], None
    yield from losses(run.losses.tolist(), expected)


def losses(found: list[float], expected: dict[str, Any]) -> Iterator[Checkpoint]:
    for step, loss in expected["losses"].items():
        if int(step) < len(found):
            yield f"the loss of step {step}", found[int(step)], loss, 2e-3 if int(step) <= 9 else 0.02


def whole(
    found: list[float], branches: list[int], eligible: int, expected: dict[str, Any]
) -> Iterator[Checkpoint]:
    yield from losses(found, expected)
    yield "the mean loss of the last 50", fmean(found[-50:]), expected["mean_loss_last_50"], 2e-3
    yield "the branches of all updates", branches, expected["branch_totals"], None
    yield "the eligible of all updates", eligible, expected["eligible_total"], None


def follow(seed: int, checkpoints: Iterator[Checkpoint]) -> None:
    for name, found, expected, tolerance in checkpoints:
        near = expected if tolerance is None else pytest.approx(expected, rel=0, abs=tolerance)
        assert found == near, f"seed {seed} first departs from the trace at {name}: {found}, not {expected}"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_beginning_follows_the_trace(seed: int, trace: dict[str, Any]) -> None:
    follow(seed, beginning(seed, trace["replicates"][str(seed)]))


def test_the_plain_loop_follows_the_trace_to_the_end(trace: dict[str, Any]) -> None:
    run = plain()
    branches, eligible = run.branches.sum(0).tolist(), int(run.eligible.sum())
    follow(run.seed, whole(run.losses.tolist(), branches, eligible, trace["replicates"]["6050"]))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_lab_follows_the_trace_to_the_end(seed: int, trace: dict[str, Any]) -> None:
    one = chapter().replicates[SEEDS.index(seed)]
    assert one.seed == seed
    follow(seed, whole(list(one.losses), list(one.branches), one.eligible, trace["replicates"][str(seed)]))


def test_no_batch_of_the_five_runs_selects_fewer_than_29_or_more_than_73() -> None:
    language = Recipe().language()
    sizes = {len(q.targets) for seed in SEEDS for q in questions(Recipe(), language, seed)}
    assert (min(sizes), max(sizes)) == (29, 73)


# Which rows of the embedding move


def withheld_ids(recipe: Recipe = Recipe()) -> list[int]:
    language = recipe.language()
    return [language.vocabulary.id(word) for family in language.uncovered for word in family]


def moved_rows(recipe: Recipe, seed: int = 6050, table: str = "token_embedding.weight") -> set[int]:
    run = pretrain(recipe, seed)
    return changed(run.scratch[table], run.pretrained[table])


def changed(before: Tensor, after: Tensor) -> set[int]:
    return set((before != after).any(-1).nonzero().flatten().tolist())


def test_exactly_the_rows_that_occur_move() -> None:
    run = plain()
    tokens, positions = (
        changed(run.scratch[name], run.pretrained[name])
        for name in ("token_embedding.weight", "position_embedding.weight")
    )
    assert tokens == {*Recipe().language().pool.tolist(), CLS, SEP, MASK}
    assert len(tokens) == 73
    assert len(withheld_ids()) == 40
    assert not tokens & {*withheld_ids(), PAD, UNK}
    assert positions == set(range(8))


def test_a_tied_decoder_moves_every_row_at_the_first_update() -> None:
    assert moved_rows(replace(Recipe(), decoder="tied", updates=1)) == set(range(115))


def test_tying_the_source_rows_alone_leaves_the_withheld_ones() -> None:
    source = set(Recipe().language().pool.tolist())
    tied, untied = replace(Recipe(), decoder="tied source rows", updates=1), replace(Recipe(), updates=1)
    # The softmax moves every tied row at once, whether or not its token stands in the first batch.
    assert source <= moved_rows(tied)
    assert not source <= moved_rows(untied)
    assert not moved_rows(replace(tied, updates=5)) & {*withheld_ids(), PAD, UNK}


def test_weight_decay_shrinks_the_withheld_rows_all_the_same() -> None:
    run = pretrain(replace(Recipe(), optimiser="adamw", weight_decay=0.01, batch=1, updates=100), 6050)
    before, after = (s["token_embedding.weight"][withheld_ids()] for s in (run.scratch, run.pretrained))
    assert len(changed(before, after)) == 40
    ratios = after.norm(dim=-1) / before.norm(dim=-1)
    # Rows without gradient only decay: (1 - rate x decay) to the power of the 100 updates, whatever the batch.
    assert ratios.tolist() == pytest.approx([(1 - 1e-5) ** 100] * 40, abs=1e-5)


@pytest.mark.parametrize(("pool", "count"), [("source", 0), ("vocabulary", 40)])
def test_random_words_from_the_whole_vocabulary_expose_the_withheld_ones(pool: Any, count: int) -> None:
    policy = Policy(rate=1.0, mask_share=0.0, random_share=1.0, pool=pool)
    moved = moved_rows(replace(Recipe(), policy=policy, updates=5))  # 1,700 draws among 115: none is missed
    assert len(moved & set(withheld_ids())) == count


# Snapshots


def test_snapshots_are_the_weights_of_their_step() -> None:
    recipe = replace(Recipe(), updates=6)
    run = pretrain(recipe, 6051, snapshots=(0, 3, 6))
    assert sorted(run.snapshots) == [0, 3, 6]
    assert same(run.snapshots[0], run.scratch)
    assert same(run.snapshots[3], pretrain(replace(recipe, updates=3), 6051).pretrained)
    assert same(run.snapshots[6], run.pretrained)
    tables = [state["token_embedding.weight"] for state in run.snapshots.values()]
    assert not torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[1], tables[2])


def test_a_copied_state_does_not_move_with_its_module() -> None:
    with seeded(1):
        encoder = new_encoder(Recipe())
    kept = copy_state(encoder)
    expected = {name: tensor.tolist() for name, tensor in kept.items()}
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(1)
    assert {name: tensor.tolist() for name, tensor in kept.items()} == expected


def test_a_loaded_encoder_has_the_weights_and_shares_no_memory_with_them() -> None:
    state = plain().pretrained
    encoder = load_encoder(Recipe(), state)
    assert same(copy_state(encoder), state)
    assert all(p.data_ptr() != state[name].data_ptr() for name, p in encoder.named_parameters())


@pytest.mark.parametrize("step", [-1, 7])
def test_snapshots_beyond_the_run_are_refused(step: int) -> None:
    with pytest.raises(ValueError, match="0 to 6"):
        pretrain(replace(Recipe(), updates=6), 6050, snapshots=(0, step))


# The loss


def model(recipe: Recipe = Recipe(), length: int = 10) -> tuple[Encoder, PretrainingHead]:
    with seeded(6050):
        return Encoder(115, length), new_head(recipe)


def first_question(recipe: Recipe = Recipe()) -> Question:
    return next(questions(recipe, recipe.language(), 6050))


@pytest.mark.parametrize("extra", [4, 12])
def test_the_loss_does_not_depend_on_padding(extra: int) -> None:
    encoder, head = model(length=20)
    language = Recipe().language()
    batch = corrupt(language.source_ids[:, :8], language.pool, torch.Generator().manual_seed(1))

    def loss(columns: int, kind: Any = "full") -> float:
        def wider(x: Tensor) -> Tensor:
            return F.pad(x, (0, columns))

        ids, selected = wider(batch.ids), wider(batch.selected)
        targets = ids[selected]
        visible = visibility(ids, kind)
        question = Question(wider(batch.corrupted), visible, selected, targets, (0, 0, 0), 0)
        return question_loss(encoder, head, question).item()

    assert loss(extra) == pytest.approx(loss(0), rel=0, abs=1e-6)
    assert abs(loss(extra, "unpadded") - loss(0, "unpadded")) > 1e-4  # padding that is read is not harmless


def test_scoring_the_selected_positions_is_dense_scoring_that_ignores_the_rest() -> None:
    encoder, head = model()
    question, language = first_question(), Recipe().language()
    ids = language.source_ids[schedule(Recipe(), 6050, 320)[0]]
    hidden = encoder(question.inputs, question.visible)
    logits = head(hidden.flatten(0, 1), encoder.token_embedding.weight)
    labels = ids.masked_fill(~question.selected, -100).flatten()
    dense = F.cross_entropy(logits, labels, ignore_index=-100)
    assert question_loss(encoder, head, question).item() == pytest.approx(dense.item(), rel=0, abs=1e-6)


def test_nothing_selected_gives_loss_zero_and_gradient_zero() -> None:
    recipe = replace(Recipe(), policy=Policy(rate=0.0), updates=3)
    question = first_question(recipe)
    assert not question.selected.any()
    encoder, head = model(recipe)
    loss = question_loss(encoder, head, question)
    loss.backward()
    assert loss.item() == 0.0
    gradients = [p.grad for p in (*encoder.parameters(), *head.parameters()) if p.grad is not None]
    assert gradients
    assert all(torch.equal(g, torch.zeros_like(g)) for g in gradients)
    run = pretrain(recipe, 6050)
    assert run.losses.tolist() == [0.0, 0.0, 0.0]
    assert same(run.scratch, run.pretrained)


def test_the_summary_token_gets_no_gradient_at_the_last_layer_and_some_below() -> None:
    encoder, head = model()
    question = first_question()
    states: list[Tensor] = []

    def keep(_: Any, __: Any, hidden: Tensor) -> None:
        hidden.retain_grad()
        states.append(hidden)

    for part in (encoder.token_embedding, *encoder.blocks):
        part.register_forward_hook(keep)
    question_loss(encoder, head, question).backward()
    embedded, below, last = (state.grad for state in states)
    assert embedded is not None
    assert below is not None
    assert last is not None
    assert torch.equal(last[:, 0], torch.zeros(64, 48))
    assert below[:, 0].abs().sum(-1).max() > 0
    assert embedded[:, 0].abs().sum(-1).max() > 0
    assert last[question.selected].abs().sum(-1).min() > 0  # every scored position does get some
    padding = question.inputs == PAD
    for gradient in (embedded, below, last):
        assert torch.equal(gradient[padding], torch.zeros(int(padding.sum()), 48))


# The next-token question


def table_loss(question: Question, step: int, cycle: int) -> float:
    """Score a table that answers id + step on a cycle of `cycle` ids from 5 on."""
    answers = (question.inputs[question.selected] - 5 + step) % cycle + 5
    return F.cross_entropy(100.0 * F.one_hot(answers, 115).float(), question.targets).item()


def test_the_next_token_is_asked_for_with_one_shift() -> None:
    ids = 5 + (torch.arange(10) + torch.arange(7)[:, None]) % 7
    question = next_token_question(ids, visibility(ids, "causal"))
    assert question.selected.sum(-1).tolist() == [9] * 7
    assert torch.equal(question.inputs, ids)
    assert table_loss(question, 1, 7) < 1e-6
    assert table_loss(question, 0, 7) > 50  # no shift
    assert table_loss(question, 2, 7) > 50  # shifted twice


def test_the_next_token_question_asks_for_every_real_token_but_the_first() -> None:
    ids = Recipe().language().source_ids
    question = next_token_question(ids, visibility(ids, "causal"))
    assert len(question.targets) == 2040 == int((ids != PAD).sum()) - 320
    assert PAD not in question.targets
    assert int((question.targets == SEP).sum()) == 320
    assert not question.selected[:, -1].any()


# Masks written in advance


def corruptions(recipe: Recipe) -> dict[int, set[tuple[int, ...]]]:
    """Collect, sentence by sentence, the different inputs and selections that a run presents."""
    seen: dict[int, set[tuple[int, ...]]] = {}
    language = recipe.language()
    rows = schedule(recipe, 6050, len(language.sentences))
    for sentences, question in zip(rows, questions(recipe, language, 6050), strict=True):
        both = torch.cat([question.inputs, question.selected], dim=1)
        for sentence, row in zip(sentences.tolist(), both.tolist(), strict=True):
            seen.setdefault(sentence, set()).add(tuple(row))
    return seen


@pytest.mark.parametrize("copies", [1, 3])
def test_static_masks_come_back_the_same(copies: int) -> None:
    seen = corruptions(replace(Recipe(), static_masks=copies, updates=200))
    assert len(seen) == 320
    assert max(map(len, seen.values())) == copies


def test_dynamic_masks_ask_one_sentence_different_questions() -> None:
    seen = corruptions(replace(Recipe(), updates=200))
    # About forty presentations a sentence; the shortest (four eligible) have a selection in 48 of 100.
    assert min(map(len, seen.values())) > 3


@pytest.mark.parametrize(("copies", "sites"), [(1, 283), (2, 499), (5, 942), (10, 1350), (20, 1659)])
def test_more_copies_supervise_more_of_the_1720_sites(copies: int, sites: int) -> None:
    recipe = replace(Recipe(), static_masks=copies, updates=3000)  # enough to show every copy of every sentence
    language = recipe.language()
    times = torch.zeros_like(language.source_ids)
    rows = schedule(recipe, 6050, len(language.sentences))
    for sentences, question in zip(rows, questions(recipe, language, 6050), strict=True):
        times.index_add_(0, sentences, question.selected.long())
    assert int((times > 0).sum()) == sites
    assert sites == pytest.approx(1720 * (1 - 0.85**copies), abs=4 * (1720 * 0.85**copies) ** 0.5)


def test_the_masks_do_not_depend_on_unrelated_draws() -> None:
    def some_inputs(disturb: Callable[[], object]) -> list[Tensor]:
        recipe = replace(Recipe(), updates=4)
        inputs = []
        for question in questions(recipe, recipe.language(), 6050):
            disturb()
            inputs.append(question.inputs)
        return inputs

    with torch.random.fork_rng():
        calm, disturbed = some_inputs(lambda: None), some_inputs(lambda: torch.rand(3))
    assert all(torch.equal(a, b) for a, b in zip(calm, disturbed, strict=True))


# Progress, cancelling, and what a run may not change


def test_progress_is_told_after_every_update() -> None:
    calls: list[tuple[int, int]] = []
    pretrain(replace(Recipe(), updates=4), 6050, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_callback_that_answers_false_ends_the_run() -> None:
    calls: list[int] = []

    def stop_at_three(done: int, _: int) -> bool:
        calls.append(done)
        return done < 3

    with unusual_settings_kept(), pytest.raises(Cancelled, match="3 of 600"):
        pretrain(Recipe(), 6050, progress=stop_at_three)
    assert calls == [1, 2, 3]


def test_an_exception_inside_leaves_the_settings_as_they_were() -> None:
    def fail(done: int, _: int) -> None:
        assert torch.are_deterministic_algorithms_enabled()
        raise ZeroDivisionError

    with unusual_settings_kept(), pytest.raises(ZeroDivisionError):
        pretrain(Recipe(), 6050, progress=fail)


def test_a_whole_run_leaves_the_settings_as_they_were() -> None:
    with unusual_settings_kept():
        pretrain(replace(Recipe(), updates=2), 6050)


def test_a_run_does_not_depend_on_the_stream_it_finds() -> None:
    recipe = replace(Recipe(), updates=2)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first = pretrain(recipe, 6050)
        torch.manual_seed(2)
        second = pretrain(recipe, 6050)
    assert same(first.pretrained, second.pretrained)


def test_importing_changes_nothing_and_prints_nothing() -> None:
    names = fresh.seen()["names"]
    assert "bertch15.lab" in names
    assert "bertch15.display.printed" in names
    assert fresh.seen()["changed"] == [], "of the global state, in the order of tests/fresh.py"
    assert fresh.seen()["printed"] == ""
