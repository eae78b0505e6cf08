from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from bertch15 import corruption
from bertch15.corruption import Corruption, Count, Policy, audit, corrupt, eligible_positions
from bertch15.language import Language, make_language
from bertch15.pretraining import masked_question, new_encoder, new_head, question_loss, schedule, seeded
from bertch15.recipe import SEEDS, Recipe
from bertch15.visibility import visibility
from bertch15.vocabulary import CLS, MASK, PAD, SEP, UNK

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

RAGGED = torch.tensor([[2, 5, 6, 7, 8, 3], [2, 9, 3, 0, 0, 0], [2, 5, 1, 3, 0, 0]])
FRAMED_PAIR = torch.tensor([[2, 5, 6, 3, 7, 8, 3, 0]])
POOL = torch.arange(5, 15)
ALL_MASK, ALL_RANDOM, ALL_UNCHANGED = (Policy(1, *shares) for shares in ((1, 0), (0, 1), (0, 0)))


def seed(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


@pytest.fixture(scope="module")
def language() -> Language:
    return make_language()


def deviations(count: int, total: int, expected: float) -> float:
    """Give how many binomial standard deviations a count lies from its expectation."""
    return abs(count - total * expected) / (total * expected * (1 - expected)) ** 0.5


def tensors(batch: Corruption) -> dict[str, Tensor]:
    return {field.name: getattr(batch, field.name) for field in fields(batch)}


def equal(one: Corruption, other: Corruption) -> bool:
    return all(torch.equal(tensor, tensors(other)[name]) for name, tensor in tensors(one).items())


def test_one_pass_over_the_source(language: Language):
    batch = corrupt(language.source_ids, language.pool, seed(6052))
    assert int(batch.selected.sum()) == 283
    assert batch.branch_counts == [234, 27, 22]
    assert int(batch.corrupted.sum()) == 93_626
    assert int(batch.ids.sum()) == 105_712


def chapter_batches(language: Language, replicate: int) -> Iterator[Corruption]:
    generator = seed(replicate + 2)
    for rows in schedule(Recipe(), replicate, 320):
        yield corrupt(language.source_ids[rows], language.pool, generator)


@pytest.mark.parametrize("replicate", SEEDS)
def test_the_first_updates_of_each_replicate(language: Language, trace: dict[str, Any], replicate: int):
    expected = trace["replicates"][str(replicate)]
    assert schedule(Recipe(), replicate, 320)[0, :8].tolist() == expected["schedule_step0_first8"]
    batches = list(islice(chapter_batches(language, replicate), 5))
    first = batches[0]
    assert language.vocabulary.decode(first.corrupted[:3]) == expected["step0_corrupted_first_rows"]
    positions = [row.nonzero().flatten().tolist() for row in first.selected[:3]]
    assert positions == expected["step0_selected_positions_first_rows"]
    assert [batch.branch_counts for batch in batches] == expected["branch_counts_first5"]
    assert [int(batch.eligible.sum()) for batch in batches] == expected["eligible_first5"]


def test_all_updates_of_the_five_replicates(language: Language, trace: dict[str, Any], ledger: dict[str, Any]):
    per_batch: list[int] = []
    eligible, branches = 0, torch.zeros(3, dtype=torch.int64)
    for replicate in SEEDS:
        batches = list(chapter_batches(language, replicate))
        counts = torch.tensor([batch.branch_counts for batch in batches])
        positions = sum(int(batch.eligible.sum()) for batch in batches)
        assert counts.sum(0).tolist() == trace["replicates"][str(replicate)]["branch_totals"]
        assert positions == trace["replicates"][str(replicate)]["eligible_total"]
        per_batch += counts.sum(1).tolist()
        eligible, branches = eligible + positions, branches + counts.sum(0)

    selected = int(branches.sum())
    assert branches.tolist() == [124_071, 15_467, 15_481]
    assert (min(per_batch), max(per_batch)) == (29, 73)
    assert deviations(selected, eligible, 0.15) == pytest.approx(0.564, abs=5e-4)
    printed = {row["id"]: row["printed"] for row in ledger["rows"]}
    assert printed["lab.selected"] == f"selected targets across five runs: {selected:,}"
    assert printed["lab.eligible"] == f"eligible positions: {eligible:,}"
    assert printed["lab.rate"] == f"realized selection rate: {selected / eligible:.3%}"
    shares = " / ".join(f"{count / selected:.2%}" for count in branches.tolist())
    assert printed["lab.shares"] == f"realized mask/random/unchanged shares: {shares}"


def corrupt_by_hand(ids: list[list[int]], pool: list[int], generator: torch.Generator, rate: float):
    """Follow the rule slot by slot, with the draws in their order: selection, fallback, branch, pool."""
    shape = (len(ids), len(ids[0]))
    slots = [(b, t) for b in range(shape[0]) for t in range(shape[1])]
    candidates = [slot for slot in slots if ids[slot[0]][slot[1]] not in (0, 2, 3)]
    draw = torch.rand(shape, generator=generator)
    selected = [slot for slot in candidates if draw[slot] < rate]
    if not selected:
        selected = [candidates[int(torch.randint(len(candidates), (1,), generator=generator))]]
    branch = torch.rand(shape, generator=generator)
    replacement = torch.randint(len(pool), shape, generator=generator)
    corrupted = [list(row) for row in ids]
    for b, t in selected:
        if branch[b, t] < 0.8:
            corrupted[b][t] = 4
        elif branch[b, t] < 0.9:
            corrupted[b][t] = pool[int(replacement[b, t])]
    return corrupted, [[(b, t) in selected for t in range(shape[1])] for b in range(shape[0])]


@pytest.mark.parametrize("rate", [0.15, 0.02, 0.6])
def test_the_draws_come_in_the_written_order_whether_or_not_something_was_selected(rate: float):
    forced = 0
    for number in range(60):
        batch = corrupt(RAGGED, POOL, seed(number), Policy(rate))
        corrupted, selected = corrupt_by_hand(RAGGED.tolist(), POOL.tolist(), seed(number), rate)
        assert batch.selected.tolist() == selected
        assert batch.corrupted.tolist() == corrupted
        forced += not ((torch.rand(RAGGED.shape, generator=seed(number)) < rate) & batch.eligible).any()
    assert {0.15: 5, 0.02: 40, 0.6: 0}[rate] <= forced < 60  # of 60, .85^7 = .32 or .98^7 = .87 expected


def test_the_stream_does_not_depend_on_what_was_selected():
    states = []
    for policy in (Policy(), ALL_MASK, ALL_UNCHANGED, Policy(0.5), Policy(0.0)):
        generator = seed(1)
        corrupt(RAGGED.repeat(10, 1), POOL, generator, policy)
        states.append(generator.get_state())
    assert all(torch.equal(state, states[0]) for state in states)


def test_of_two_million_selected_eight_in_ten_are_masked_and_one_is_random():
    # A conditional share of 0.1, or two draws independent of each other, would give .80 / .02 / .18.
    ids = torch.full((200_000, 10), 5)
    batch = corrupt(ids, POOL, seed(1), Policy(1.0))
    for count, expected in zip(batch.branch_counts, (0.8, 0.1, 0.1), strict=True):
        assert deviations(count, 2_000_000, expected) < 4
    visibly_random = int(((batch.corrupted != ids) & (batch.corrupted != MASK)).sum())
    assert deviations(visibly_random, 2_000_000, 0.1 * 9 / 10) < 4  # one draw in ten hits the original


def test_a_seventieth_of_the_random_draws_gives_the_original_back(language: Language):
    generator, ids = seed(6052), language.source_ids
    selected = same = 0
    for _ in range(600):
        batch = corrupt(ids, language.pool, generator)
        selected += int(batch.selected.sum())
        same += int((batch.selected & (batch.corrupted == ids)).sum())
    assert deviations(selected, 600 * 1_720, 0.15) < 4
    assert deviations(same, selected, 0.1 + 0.1 / 70) < 4


@pytest.mark.parametrize(("mask_share", "random_share"), [(0.5, 0.2), (0.0, 0.7), (0.3, 0.0), (0.25, 0.75)])
def test_other_shares_give_other_counts(mask_share: float, random_share: float):
    batch = corrupt(torch.full((20_000, 5), 6), POOL, seed(3), Policy(1.0, mask_share, random_share))
    shares = (mask_share, random_share, 1 - mask_share - random_share)
    for count, expected in zip(batch.branch_counts, shares, strict=True):
        assert count == 0 if expected == 0 else deviations(count, 100_000, expected) < 4


def test_shares_that_sum_to_one_leave_nothing_unchanged_whatever_is_drawn(monkeypatch: pytest.MonkeyPatch):
    def largest_draw(shape: torch.Size, generator: torch.Generator) -> Tensor:
        return torch.full(shape, 1 - 2**-24)

    monkeypatch.setattr(torch, "rand", largest_draw)
    for hundredths in range(101):
        policy = Policy(1.0, hundredths / 100, (100 - hundredths) / 100)
        expected = [7, 0, 0] if hundredths == 100 else [0, 7, 0]
        assert corrupt(RAGGED, POOL, seed(1), policy).branch_counts == expected


@pytest.mark.parametrize("rate", [0.05, 0.4, 0.9])
def test_the_rate_is_the_share_of_the_eligible_that_is_selected(rate: float):
    batch = corrupt(RAGGED.repeat(10_000, 1), POOL, seed(4), Policy(rate))
    assert int(batch.eligible.sum()) == 70_000
    assert deviations(int(batch.selected.sum()), 70_000, rate) < 4


@pytest.mark.parametrize("ids", [RAGGED, FRAMED_PAIR], ids=["ragged batch", "framed pair"])
def test_at_rate_one_everything_ordinary_is_selected_and_no_frame_or_padding(ids: Tensor):
    batch = corrupt(ids, POOL, seed(1), Policy(1.0))
    ordinary = torch.tensor([[token not in (0, 2, 3) for token in row] for row in ids.tolist()])
    assert torch.equal(batch.selected, ordinary)
    assert torch.equal(batch.eligible, ordinary)
    for special in (PAD, CLS, SEP):
        assert torch.equal(batch.corrupted == special, ids == special)


def test_an_unknown_word_may_be_selected_like_any_other():
    assert RAGGED[2, 2] == UNK
    assert corrupt(RAGGED, POOL, seed(1), ALL_MASK).corrupted[2, 2] == MASK


def test_the_three_kinds_of_eligible_positions():
    row = torch.tensor([[2, 5, 1, 4, 3, 0]])
    assert eligible_positions(row).tolist() == [[False, True, True, True, False, False]]
    assert eligible_positions(row, "ordinary").tolist() == eligible_positions(row).tolist()
    assert eligible_positions(row, "padding").tolist() == [[False, True, True, True, False, True]]
    assert eligible_positions(row, "every").tolist() == [[True] * 6]


@pytest.mark.parametrize("kind", ["ordinary", "padding", "every"])
def test_the_policy_says_what_is_eligible(kind: corruption.EligibleKind):
    batch = corrupt(RAGGED, POOL, seed(1), Policy(1.0, eligible=kind))
    assert torch.equal(batch.selected, eligible_positions(RAGGED, kind))


def test_at_rate_zero_nothing_is_selected_and_nothing_changes():
    batch = corrupt(RAGGED, POOL, seed(1), Policy(0.0))
    assert not batch.selected.any()
    assert batch.branch_counts == [0, 0, 0]
    assert torch.equal(batch.corrupted, RAGGED)


@pytest.mark.parametrize("policy", [Policy(), Policy(1.0), ALL_MASK])
def test_with_no_eligible_position_nothing_is_selected_and_the_loss_is_nought(policy: Policy):
    frames = torch.tensor([[2, 3, 0, 0], [2, 3, 3, 0]])
    batch = corrupt(frames, POOL, seed(1), policy)
    assert not batch.eligible.any()
    assert not batch.selected.any()
    assert torch.equal(batch.corrupted, frames)
    with seeded(1):
        encoder, head = new_encoder(Recipe()), new_head(Recipe())
    loss = question_loss(encoder, head, masked_question(batch, visibility(frames)))
    loss.backward()
    assert loss.item() == 0
    for parameter in [*encoder.parameters(), *head.parameters()]:
        assert parameter.grad is None or not parameter.grad.any()


def test_a_batch_that_drew_nothing_gets_one_target_at_a_position_without_favour():
    generator = seed(5)
    batches = [corrupt(FRAMED_PAIR, POOL, generator, Policy(1e-9)) for _ in range(2_000)]
    assert {int(batch.selected.sum()) for batch in batches} == {1}
    chosen = Counter(int(batch.selected.nonzero()[0, 1]) for batch in batches)
    assert set(chosen) == {1, 2, 4, 5}
    assert all(deviations(count, 2_000, 1 / 4) < 4 for count in chosen.values())


def test_a_single_sentence_of_four_tokens_has_a_little_more_than_its_share():
    generator, sentence = seed(6), RAGGED[:1]
    counts = [int(corrupt(sentence, POOL, generator).selected.sum()) for _ in range(4_000)]
    alone = 0.85**4  # the chance that nothing is drawn and one is forced
    mean, square = 0.6 + alone, 4 * 0.15 * 0.85 + 0.6**2 + alone
    assert mean == pytest.approx(1.122, abs=5e-4)
    assert abs(sum(counts) / 4_000 - mean) < 4 * ((square - mean**2) / 4_000) ** 0.5


def test_the_branches_part_the_selected_among_them_and_do_what_they_say(language: Language):
    batch = corrupt(language.source_ids, language.pool, seed(7), Policy(0.5, 0.4, 0.3))
    branches = batch.masked.int() + batch.randomised.int() + batch.unchanged.int()
    assert torch.equal(branches, batch.selected.int())
    assert all(count > 100 for count in batch.branch_counts)
    assert sum(batch.branch_counts) == int(batch.selected.sum())
    assert (batch.corrupted[batch.masked] == MASK).all()
    assert torch.isin(batch.corrupted[batch.randomised], language.pool).all()
    left = ~batch.masked & ~batch.randomised
    assert torch.equal(batch.corrupted[left], batch.ids[left])
    assert torch.equal(batch.ids, language.source_ids)


def test_all_masked_all_random_and_all_unchanged(language: Language):
    ids, ordinary = language.source_ids, eligible_positions(language.source_ids)
    masked, randomised, unchanged = (
        corrupt(ids, language.pool, seed(8), policy) for policy in (ALL_MASK, ALL_RANDOM, ALL_UNCHANGED)
    )
    assert [b.branch_counts for b in (masked, randomised, unchanged)] == [[1720, 0, 0], [0, 1720, 0], [0, 0, 1720]]
    assert (masked.corrupted[ordinary] == MASK).all()
    assert torch.isin(randomised.corrupted[ordinary], language.pool).all()
    assert (randomised.corrupted[ordinary] != ids[ordinary]).any()
    assert torch.equal(unchanged.corrupted, ids)


def test_random_tokens_come_from_the_pool_alone_and_all_alike():
    pool = torch.tensor([7, 11, 13, 40])
    batch = corrupt(torch.full((8_000, 5), 7), pool, seed(9), ALL_RANDOM)
    drawn = Counter(batch.corrupted.flatten().tolist())
    assert set(drawn) == {7, 11, 13, 40}
    assert all(deviations(count, 40_000, 1 / 4) < 4 for count in drawn.values())


def test_a_draw_may_hit_the_original_and_still_counts_as_random():
    batch = corrupt(RAGGED[:1], torch.tensor([5]), seed(1), ALL_RANDOM)
    assert batch.corrupted.tolist() == [[2, 5, 5, 5, 5, 3]]
    assert batch.branch_counts == [0, 4, 0]


def test_no_withheld_word_and_no_special_enters_a_source_sentence(language: Language):
    withheld = torch.tensor([language.vocabulary.id(w) for family in language.uncovered for w in family])
    ids, ordinary = language.source_ids, eligible_positions(language.source_ids)
    for number in range(20):
        replaced = corrupt(ids, language.pool, seed(number), ALL_RANDOM).corrupted[ordinary]
        assert not torch.isin(replaced, withheld).any()
        assert replaced.min() > MASK


def test_the_whole_vocabulary_as_pool_would_let_withheld_words_in(language: Language):
    withheld = torch.tensor([language.vocabulary.id(w) for family in language.uncovered for w in family])
    ids, generator = language.source_ids, seed(10)
    visible, foreign = 0, 0
    for _ in range(20):
        batch = corrupt(ids, torch.arange(115), generator, ALL_RANDOM)
        replaced = batch.corrupted[batch.randomised & (batch.corrupted != ids)]
        visible, foreign = visible + len(replaced), foreign + int(torch.isin(replaced, withheld).sum())
    assert deviations(foreign, visible, 40 / 114) < 4  # 35 % of the replacements that show


def test_two_draws_of_one_generator_differ_and_one_seed_repeats_itself(language: Language):
    ids, generator = language.source_ids, seed(11)
    first, second = (corrupt(ids, language.pool, generator) for _ in range(2))
    assert not torch.equal(first.selected, second.selected)
    assert not torch.equal(first.corrupted, second.corrupted)
    again = seed(11)
    assert equal(corrupt(ids, language.pool, again), first)
    assert equal(corrupt(ids, language.pool, again), second)
    assert not equal(corrupt(ids, language.pool, seed(12)), first)


def test_draws_elsewhere_change_nothing_here_and_nothing_here_changes_them(language: Language):
    quiet = corrupt(language.source_ids, language.pool, seed(13))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(99)
        torch.rand(1_000)
        before = torch.get_rng_state()
        noisy = corrupt(language.source_ids, language.pool, seed(13))
        assert torch.equal(torch.get_rng_state(), before)
    assert equal(noisy, quiet)


@pytest.mark.parametrize("policy", [Policy(), Policy(0.0), ALL_MASK, ALL_UNCHANGED, Policy(1, 0, 0, "every")])
def test_the_callers_ids_and_pool_stay_as_they_were_and_share_no_memory(policy: Policy):
    ids, pool = RAGGED.clone(), POOL.clone()
    batches = [corrupt(ids, pool, seed(number), policy) for number in (1, 2)]
    assert torch.equal(ids, RAGGED)
    assert torch.equal(pool, POOL)
    everything = [ids, pool, *(tensor for batch in batches for tensor in tensors(batch).values())]
    assert len({tensor.untyped_storage().data_ptr() for tensor in everything}) == len(everything)


@pytest.mark.parametrize("rate", [0.15, 1e-9])
def test_the_layout_in_memory_does_not_matter(rate: float):
    turned = RAGGED.T.contiguous().T
    repeated = RAGGED[:1].expand(3, -1)
    assert not turned.is_contiguous()
    assert not repeated.is_contiguous()
    assert equal(corrupt(turned, POOL, seed(1), Policy(rate)), corrupt(RAGGED, POOL, seed(1), Policy(rate)))
    copied = corrupt(repeated.clone(), POOL, seed(1), Policy(rate))
    assert equal(corrupt(repeated, POOL, seed(1), Policy(rate)), copied)


def test_rows_of_a_corruption_are_a_corruption_in_the_order_asked_for():
    batch = corrupt(RAGGED, POOL, seed(1), Policy(0.5))
    part = batch[torch.tensor([2, 0, 2])]
    for name, tensor in tensors(part).items():
        assert torch.equal(tensor, torch.stack([tensors(batch)[name][row] for row in (2, 0, 2)]))
    assert torch.equal(part.unchanged, batch.unchanged[[2, 0, 2]])
    part.corrupted.zero_()
    assert batch.corrupted.any()


def test_joined_corruptions_stand_one_below_the_other():
    parts = [corrupt(RAGGED, POOL, seed(number), Policy(0.5)) for number in (1, 2)]
    joined = Corruption.join(parts)
    assert joined.ids.shape == (6, 6)
    assert equal(joined[torch.arange(3)], parts[0])
    assert equal(joined[torch.arange(3, 6)], parts[1])
    assert joined.branch_counts == [a + b for a, b in zip(*(p.branch_counts for p in parts), strict=True)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate": 15}, r"rate must lie in \[0, 1\], got 15"),
        ({"rate": -0.01}, r"rate must lie in \[0, 1\], got -0.01"),
        ({"rate": float("nan")}, r"rate must lie in \[0, 1\], got nan"),
        ({"mask_share": -0.1}, r"mask_share must lie in \[0, 1\], got -0.1"),
        ({"mask_share": 1.1, "random_share": 0.0}, r"mask_share must lie in \[0, 1\], got 1.1"),
        ({"random_share": -0.2}, r"random_share must lie in \[0, 1\], got -0.2"),
        ({"random_share": 2, "mask_share": 0.0}, r"random_share must lie in \[0, 1\], got 2"),
        ({"random_share": float("nan")}, r"random_share must lie in \[0, 1\], got nan"),
        ({"mask_share": 0.8, "random_share": 0.3}, r"mask_share \+ random_share must be at most 1, got 1.1"),
        ({"eligible": "words"}, r"eligible must be one of \('ordinary', 'padding', 'every'\), got 'words'"),
        ({"pool": "all"}, r"pool must be one of \('source', 'vocabulary'\), got 'all'"),
    ],
)
def test_policies_that_make_no_sense_are_refused(arguments: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Policy(**arguments)


@pytest.mark.parametrize(
    ("mask_share", "random_share"), [(0.9, 0.1), (0.7, 0.3), (0.1 + 0.2, 0.7), (1 / 3, 2 / 3), (0.3, 0.7 + 1e-12)]
)
def test_shares_that_sum_to_one_are_accepted(mask_share: float, random_share: float):
    assert 0 <= Policy(1.0, mask_share, random_share).unchanged_share < 1e-12


def test_the_policy_of_the_chapter_is_the_default():
    policy = Policy()
    assert (policy.rate, policy.mask_share, policy.random_share) == (0.15, 0.8, 0.1)
    assert policy.unchanged_share == pytest.approx(0.1, abs=1e-12)
    assert (policy.eligible, policy.pool) == ("ordinary", "source")


@pytest.mark.parametrize(
    ("ids", "pool", "message"),
    [
        (RAGGED[0], POOL, r"ids must be a batch \(B, T\).* got shape \(6,\)"),
        (RAGGED[:0], POOL, r"ids must be a batch .* at least 1, got shape \(0, 6\)"),
        (RAGGED[:, :0], POOL, r"ids must be a batch .* at least 1, got shape \(3, 0\)"),
        (RAGGED, POOL[:0], r"pool must be a list .* at least one id, got shape \(0,\)"),
        (RAGGED, POOL[None], r"pool must be a list .* got shape \(1, 10\)"),
        (RAGGED.float(), POOL, "ids and pool must be int64, got torch.float32 and torch.int64"),
        (RAGGED, POOL.int(), "ids and pool must be int64, got torch.int64 and torch.int32"),
    ],
)
def test_ids_and_pools_that_make_no_sense_are_refused(ids: Tensor, pool: Tensor, message: str):
    with pytest.raises(ValueError, match=message):
        corrupt(ids, pool, seed(1))


def test_a_generator_on_another_device_is_refused():
    elsewhere: Any = SimpleNamespace(device=torch.device("cuda"))  # such a generator cannot be made everywhere
    with pytest.raises(ValueError, match="generator is on cuda, but ids are on cpu"):
        corrupt(RAGGED, POOL, elsewhere)
    with pytest.raises(ValueError, match="generator is on cpu, but ids are on meta"):
        corrupt(RAGGED.to("meta"), POOL, seed(1))


ROWS = [
    "selected of eligible",
    "[MASK] of selected",
    "random of selected",
    "unchanged of selected",
    "special or padding selected",
    "random tokens from outside the pool",
]


def test_the_audit_counts_what_one_corruption_does(language: Language):
    rows = audit(language.source_ids, language.pool, seed(6052), batches=1)
    assert [row.name for row in rows] == ROWS
    assert [(row.count, row.total) for row in rows] == [
        (283, 1720), (234, 283), (27, 283), (22, 283), (0, 283), (0, 27)
    ]  # fmt: skip
    assert [row.expected for row in rows] == pytest.approx([0.15, 0.8, 0.1, 0.1, 0, 0])


@pytest.mark.parametrize(
    "policy", [Policy(), Policy(0.4, 0.5, 0.2), Policy(0.0), Policy(1.0), ALL_MASK, ALL_RANDOM, ALL_UNCHANGED]
)
def test_the_audit_passes_what_does_as_it_says(language: Language, policy: Policy):
    rows = audit(language.source_ids, language.pool, seed(6052), policy)
    assert [row.name for row in rows if not row.within] == []
    assert rows[0].total == 100 * 1720


def test_the_audit_tells_of_padding_that_the_policy_itself_lets_in(language: Language):
    rows = audit(language.source_ids, language.pool, seed(1), Policy(eligible="padding"))
    assert [row.name for row in rows if not row.within] == ["special or padding selected"]
    assert rows[4].share == pytest.approx(840 / 2560, abs=0.01)  # 840 of the slots that are not [CLS] or [SEP]


def padding_selected(ids: Tensor, pool: Tensor, generator: torch.Generator, policy: Policy) -> Corruption:
    return corrupt(ids, pool, generator, replace(policy, eligible="padding"))


def every_slot_selected(ids: Tensor, pool: Tensor, generator: torch.Generator, policy: Policy) -> Corruption:
    return corrupt(ids, pool, generator, replace(policy, eligible="every"))


def conditional_share(ids: Tensor, pool: Tensor, generator: torch.Generator, policy: Policy) -> Corruption:
    of_the_rest = policy.random_share * (1 - policy.mask_share)  # .1 of the .2 that are not masked
    return corrupt(ids, pool, generator, replace(policy, random_share=of_the_rest))


def withheld_words_drawn(ids: Tensor, pool: Tensor, generator: torch.Generator, policy: Policy) -> Corruption:
    return corrupt(ids, torch.arange(115), generator, policy)


def fewer_selected(ids: Tensor, pool: Tensor, generator: torch.Generator, policy: Policy) -> Corruption:
    return corrupt(ids, pool, generator, replace(policy, rate=0.9 * policy.rate))


@pytest.mark.parametrize(
    ("faulty", "outside"),
    [
        (padding_selected, ["special or padding selected"]),
        (every_slot_selected, ["special or padding selected"]),
        (conditional_share, ["random of selected", "unchanged of selected"]),
        (withheld_words_drawn, ["random tokens from outside the pool"]),
        (fewer_selected, ["selected of eligible"]),
    ],
)
def test_the_audit_finds_a_faulty_selector(
    language: Language,
    monkeypatch: pytest.MonkeyPatch,
    faulty: Callable[[Tensor, Tensor, torch.Generator, Policy], Corruption],
    outside: list[str],
):
    monkeypatch.setattr(corruption, "corrupt", faulty)
    rows = audit(language.source_ids, language.pool, seed(6052))
    assert [row.name for row in rows if not row.within] == outside


def test_the_audit_does_not_take_the_selectors_own_word_for_what_is_eligible(
    language: Language, monkeypatch: pytest.MonkeyPatch
):
    def padding_forgotten(ids: Tensor, kind: str = "ordinary") -> Tensor:
        return (ids != CLS) & (ids != SEP)

    monkeypatch.setattr(corruption, "eligible_positions", padding_forgotten)
    rows = audit(language.source_ids, language.pool, seed(6052))
    assert "special or padding selected" in [row.name for row in rows if not row.within]


@pytest.mark.parametrize("batches", [0, -1])
def test_an_audit_of_no_batch_is_refused(batches: int):
    with pytest.raises(ValueError, match=f"batches must be at least 1, got {batches}"):
        audit(RAGGED, POOL, seed(1), batches=batches)


def test_the_bounds_of_a_count_are_binomial():
    count = Count("heads", 62, 100, 0.5)  # standard deviation .05
    assert count.share == 0.62
    assert count.bounds() == pytest.approx((0.3, 0.7))
    assert count.bounds(1) == pytest.approx((0.45, 0.55))
    assert count.within
    assert Count("heads", 70, 100, 0.5).within
    assert not Count("heads", 71, 100, 0.5).within
    assert not Count("heads", 29, 100, 0.5).within


def test_what_must_never_happen_may_not_happen_once():
    assert Count("never", 0, 10_000, 0.0).within
    assert not Count("never", 1, 10_000, 0.0).within
    assert Count("always", 10_000, 10_000, 1.0).within
    assert not Count("always", 9_999, 10_000, 1.0).within


def test_nothing_of_nothing_is_a_share_of_nought():
    nothing = Count("random of selected", 0, 0, 0.1)
    assert nothing.share == 0
    assert nothing.within


def test_an_audit_of_nothing_selected_finds_nothing_amiss() -> None:
    world = make_language()
    policy = Policy(rate=0.0, mask_share=0.0, random_share=0.0)
    rows = audit(world.source_ids, world.pool, torch.Generator().manual_seed(1), policy, batches=2)
    assert all(row.within for row in rows)
    assert [row.total for row in rows[1:4]] == [0, 0, 0]
