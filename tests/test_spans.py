import math

import pytest
import torch

from bertch15.families.spans import (
    Removed,
    Sentinels,
    Sizes,
    count_noise,
    draw_noise,
    longest_text,
    random_lengths,
    reassemble,
    remove_spans,
    sizes_of,
)

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

END = 1


def ids(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def marks(text: str) -> torch.Tensor:
    """Noise written as x for removed and . for kept."""
    return torch.tensor([mark == "x" for mark in text], dtype=torch.bool)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def lists(removed: Removed) -> tuple[list[int], list[int]]:
    return removed.inputs.tolist(), removed.targets.tolist()


# The vectors of the released code's own tests.

DENOISE = ids(3, 2, 20, 4, 3, 2, 8, 13, 2, 3, 2, 23, 7, 19, 22, 3, 2, 7, 2)


def test_the_released_vector_of_the_inputs():
    removed = remove_spans(ids(10, 11, 12, 13, 14, 15), marks("xx..x."), Sentinels(1000))
    assert removed.inputs.tolist() == [999, 12, 13, 998, 15]


def test_the_released_vector_of_both_sides():
    noise = torch.zeros(19, dtype=torch.bool)
    noise[[8, 14, 15, 16, 17, 18]] = True
    removed = remove_spans(DENOISE, noise, Sentinels(26, count=2))
    inputs = [3, 2, 20, 4, 3, 2, 8, 13, 25, 3, 2, 23, 7, 19, 24]
    assert lists(removed) == (inputs, [25, 2, 24, 22, 3, 2, 7, 2])


# Sentinels: the first is the last id of the vocabulary, and they descend.


def test_sentinels_descend_from_the_last_id():
    sentinels = Sentinels()
    assert [sentinels.of(span) for span in (0, 1, 2, 99)] == [32_099, 32_098, 32_097, 32_000]
    assert 31_999 not in sentinels
    assert 32_000 in sentinels
    assert 32_099 in sentinels
    assert 32_100 not in sentinels


def test_the_first_span_takes_the_highest_id_and_both_sides_name_it_alike():
    removed = remove_spans(torch.arange(10), marks(".x..xx.x.x"))
    for side in removed:
        assert [i for i in side.tolist() if i >= 32_000] == [32_099, 32_098, 32_097, 32_096]


def test_there_is_no_sentinel_after_the_supply():
    with pytest.raises(ValueError, match="sentinel number 101 was asked for, and there are 100"):
        Sentinels().of(100)
    with pytest.raises(ValueError, match="sentinel number 0 was asked for"):
        Sentinels().of(-1)


@pytest.mark.parametrize("count", [0, 11])
def test_a_supply_that_cannot_be_is_refused(count: int):
    with pytest.raises(ValueError, match=f"count must lie in 1 to vocabulary = 10, got {count}"):
        Sentinels(10, count)


# The worked example of the paper: ten words, two spans, the last word kept.

THANKS = torch.arange(10)  # Thank you for inviting me to your party last week; "Thank" is the real token 0
INVITED = marks("..xx....x.")


def test_the_worked_example_with_its_closing_sentinel():
    removed = remove_spans(THANKS, INVITED)
    assert lists(removed) == (
        [0, 1, 32_099, 4, 5, 6, 7, 32_098, 9],
        [32_099, 2, 3, 32_098, 8, 32_097],
    )
    assert sum(map(len, removed)) == 10 + 2 * 2 + 1


def test_the_worked_example_without_it():
    removed = remove_spans(THANKS, INVITED, closing="never")
    assert removed.targets.tolist() == [32_099, 2, 3, 32_098, 8]


def test_a_removed_end_needs_no_closing_sentinel_and_gets_one_only_always():
    noise = marks("..xx.....x")
    without = [32_099, 2, 3, 32_098, 9]
    assert remove_spans(THANKS, noise).targets.tolist() == without
    assert remove_spans(THANKS, noise, closing="always").targets.tolist() == [*without, 32_097]
    assert remove_spans(THANKS, noise).inputs.tolist() == [0, 1, 32_099, 4, 5, 6, 7, 8, 32_098]


def test_the_closing_id_ends_both_sides():
    removed = remove_spans(THANKS + 10, INVITED, end=END)
    assert removed.inputs.tolist() == [10, 11, 32_099, 14, 15, 16, 17, 32_098, 19, 1]
    assert removed.targets.tolist() == [32_099, 12, 13, 32_098, 18, 32_097, 1]


def test_the_closing_sentinel_too_must_be_in_the_supply():
    assert len(remove_spans(THANKS, INVITED, Sentinels(count=2), closing="never").targets) == 5
    with pytest.raises(ValueError, match="sentinel number 3 was asked for, and there are 2"):
        remove_spans(THANKS, INVITED, Sentinels(count=2))


def test_more_spans_than_sentinels_are_refused():
    noise, spans = count_noise(1024, density=0.5)
    assert (noise, spans) == (512, 171)
    drawn = draw_noise(1024, generator(), density=0.5)
    with pytest.raises(ValueError, match="sentinel number 101 was asked for, and there are 100"):
        remove_spans(torch.arange(1024), drawn)
    assert len(remove_spans(torch.arange(1024), drawn, Sentinels(count=171)).targets) == 512 + 171


def test_nothing_removed_and_everything_removed():
    assert lists(remove_spans(THANKS[:2], marks(".."))) == ([0, 1], [32_099])
    assert lists(remove_spans(THANKS[:2], marks(".."), closing="never")) == ([0, 1], [])
    assert lists(remove_spans(THANKS[:2], marks("xx"))) == ([32_099], [32_099, 0, 1])


def test_the_callers_ids_stay_as_they_are():
    given, noise = THANKS.clone(), INVITED.clone()
    remove_spans(given, noise, end=END)
    assert torch.equal(given, THANKS)
    assert torch.equal(noise, INVITED)


def test_ids_that_are_sentinels_are_refused():
    with pytest.raises(ValueError, match=r"ids must hold no sentinel, got \[32050\]"):
        remove_spans(ids(1, 32_050), marks(".x"))


@pytest.mark.parametrize(
    ("given", "noise"),
    [
        (torch.arange(3), marks("xx")),
        (torch.arange(4).view(2, 2), marks("xx..").view(2, 2)),
        (torch.arange(2), torch.tensor([0, 1])),
    ],
)
def test_ids_and_noise_must_fit(given: torch.Tensor, noise: torch.Tensor):
    with pytest.raises(ValueError, match=r"ids and bool noise must both be \(L,\)"):
        remove_spans(given, noise)


def test_ids_outside_the_vocabulary_and_unknown_closings_are_refused():
    with pytest.raises(ValueError, match="ids must lie in 0 to 99"):
        remove_spans(ids(5, 100), marks(".x"), Sentinels(100, 10))
    with pytest.raises(ValueError, match=r"closing must be one of .*'always'.*, got 'sometimes'"):
        remove_spans(THANKS, INVITED, closing="sometimes")  # type: ignore[arg-type]


# What is taken apart can be put together again, the real token 0 too.


@pytest.mark.parametrize("end", [None, END])
@pytest.mark.parametrize("closing", ["after a kept end", "always", "never"])
@pytest.mark.parametrize(
    "noise", ["..xx....x.", "..xx.....x", "x.........", "xxxxxxxxxx", "..........", "x.x.x.x.x."]
)
def test_inputs_and_targets_reassemble(noise: str, closing, end: int | None):
    removed = remove_spans(THANKS, marks(noise), closing=closing, end=end)
    assert torch.equal(reassemble(removed, end=end), THANKS)


def test_a_drawn_corruption_reassembles():
    text = torch.randint(32_000, (568,), generator=generator(1))
    text[::7] = 0
    noise = draw_noise(568, generator(2))
    removed = remove_spans(text, noise, end=END)
    assert [len(side) for side in removed] == [512, 114]
    assert torch.equal(reassemble(removed, end=END), text)


@pytest.mark.parametrize(
    ("inputs", "targets"),
    [
        ([5, 32_099, 6], [32_098, 7]),  # another sentinel
        ([5, 32_099, 6, 32_098], [32_099, 7]),  # one answer short
        ([5, 32_099, 6], [32_099, 7, 32_098, 8]),  # one answer too many
        ([5, 32_099, 6], [7, 32_099]),  # tokens before the first sentinel
        ([5, 6], [7]),  # tokens and no sentinel at all
        ([5, 32_098, 6, 32_099], [32_098, 7, 32_099, 8]),  # counted upwards
    ],
)
def test_sides_that_do_not_belong_together_are_refused(inputs: list[int], targets: list[int]):
    with pytest.raises(ValueError, match="do not answer those of the inputs"):
        reassemble(Removed(ids(*inputs), ids(*targets)))


def test_a_missing_closing_id_is_refused():
    with pytest.raises(ValueError, match=r"inputs and targets must close with 1, got \[9\]"):
        reassemble(remove_spans(THANKS, INVITED), end=END)


# How much is removed: the published rounding.


@pytest.mark.parametrize(
    ("length", "noise", "spans"),
    [
        (30, 4, 1),  # 4.5 goes to the even 4
        (50, 8, 3),  # 7.5 goes to the even 8
        (100, 15, 5),
        (512, 77, 26),
        (568, 85, 28),
        (2, 1, 1),  # 0.3 would be none
        (3, 1, 1),
    ],
)
def test_noise_tokens_and_spans(length: int, noise: int, spans: int):
    assert count_noise(length) == (noise, spans)


def test_at_least_one_token_stays():
    assert count_noise(3, density=0.99) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"length": 1}, "length must be at least 2"),
        ({"length": 9, "density": 0.0}, "density must lie between 0 and 1"),
        ({"length": 9, "density": 1.0}, "density must lie between 0 and 1"),
        ({"length": 9, "mean_span": 0.5}, "mean_span must be at least 1"),
        ({"length": 10, "density": 0.8, "mean_span": 1.0}, "8 spans need a kept token before each, and only 2"),
    ],
)
def test_counts_that_cannot_be_are_refused(arguments: dict, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        count_noise(**arguments)


@pytest.mark.parametrize(
    ("inputs", "tokens", "targets"),
    [
        (32, 34, 8),
        (64, 70, 14),
        (114, 126, 26),
        (128, 141, 29),
        (256, 284, 58),
        (512, 568, 114),
        (1024, 1137, 229),
    ],
)
def test_the_published_sizes(inputs: int, tokens: int, targets: int):
    assert longest_text(inputs) == Sizes(tokens, inputs, targets)


@pytest.mark.parametrize(
    ("mean_span", "tokens", "targets"), [(2.0, 552, 126), (3.0, 568, 114), (5.0, 581, 105), (10.0, 591, 99)]
)
def test_the_sizes_at_other_mean_spans(mean_span: float, tokens: int, targets: int):
    found = longest_text(512, mean_span=mean_span)
    assert (found.tokens, found.targets) == (tokens, targets)
    assert found.inputs <= 512
    assert sizes_of(tokens + 1, mean_span=mean_span).inputs > 512


def test_the_sizes_of_the_released_codes_own_test():
    assert longest_text(64, 0.2, 2.0)[::2] == (70, 22)
    assert longest_text(64, 0.2, 1.0)[::2] == (63, 27)


def test_the_smallest_text():
    assert longest_text(3) == (2, 3, 3)
    with pytest.raises(ValueError, match="inputs must be at least 3"):
        longest_text(2)


@pytest.mark.parametrize("tokens", [31, 126, 568])
def test_the_sizes_are_those_of_a_drawn_corruption(tokens: int):
    removed = remove_spans(torch.arange(tokens), draw_noise(tokens, generator(tokens)), end=END)
    assert sizes_of(tokens) == (tokens, len(removed.inputs), len(removed.targets))


# Which tokens are removed.


def test_kept_and_removed_take_turns():
    for seed in range(50):
        noise = draw_noise(100, generator(seed))
        starts = int(noise[0]) + int((noise[1:] & ~noise[:-1]).sum())
        assert (int(noise.sum()), starts) == (15, 5)  # five runs: none touches another
        assert not noise[0]
        assert noise[-1]


def test_a_short_text_loses_its_end():
    for seed in range(20):
        assert draw_noise(30, generator(seed)).tolist() == [False] * 26 + [True] * 4


def test_the_draws_come_from_the_generator_alone():
    first = draw_noise(568, generator(7))
    torch.rand(5, generator=generator(1))
    assert torch.equal(draw_noise(568, generator(7)), first)
    assert not torch.equal(draw_noise(568, generator(8)), first)


def within(share: float, expected: float, draws: int) -> bool:
    """Whether a share lies within four standard deviations of its expectation."""
    return abs(share - expected) <= 4 * math.sqrt(expected * (1 - expected) / draws)


def exact_rate(steps: int, inside: bool, this: tuple[int, int], other: tuple[int, int]) -> float:
    """The chance that the token so many steps ahead is removed, at the beginning of a run.

    inside: whether this run is a removed one. this, other: tokens and runs left of this kind and of the other.
    A run is n long in comb(tokens - n - 1, runs - 2) of the comb(tokens - 1, runs - 1) divisions of its kind.
    """
    tokens, runs = this
    ways = math.comb(tokens - 1, runs - 1)
    long_enough = math.comb(tokens - steps - 1, runs - 1) / ways if inside else 0.0
    return long_enough + sum(
        math.comb(tokens - n - 1, runs - 2)
        / ways
        * exact_rate(steps - n, not inside, other, (tokens - n, runs - 1))
        for n in range(1, steps + 1)
    )


def test_the_rate_at_each_end_of_a_long_text():
    draws, shared = 4000, generator(15)
    noise = torch.stack([draw_noise(568, shared) for _ in range(draws)])
    rate = noise.double().mean(0).tolist()
    assert rate[0] == 0.0
    assert rate[-1] == 1.0
    kept, removed = (483, 28), (85, 28)
    for steps in range(1, 5):
        assert within(rate[steps], exact_rate(steps, False, kept, removed), draws), steps
        assert within(rate[-1 - steps], exact_rate(steps, True, removed, kept), draws), steps
    # Rates measured with the released code, to the third decimal, lie within 0.01 of the exact ones
    # (but for the fifth from the end, .246 for .270).
    for steps, published in enumerate([0, 0.055, 0.093, 0.116, 0.126]):
        assert abs(exact_rate(steps, False, kept, removed) - published) < 0.01
    for steps, published in enumerate([1, 0.674, 0.471, 0.344]):
        assert abs(exact_rate(steps, True, removed, kept) - published) < 0.01
    middle = sum(rate[100:468]) / 368
    assert abs(middle - 0.146) < 0.003


def test_every_division_is_as_likely():
    draws, shared = 6000, generator(3)
    seen = [tuple(random_lengths(5, 3, shared).tolist()) for _ in range(draws)]
    assert set(seen) == {(1, 1, 3), (1, 3, 1), (3, 1, 1), (1, 2, 2), (2, 1, 2), (2, 2, 1)}
    for division in set(seen):
        assert within(seen.count(division) / draws, 1 / 6, draws)


def test_divisions_at_their_limits():
    assert random_lengths(4, 1, generator()).tolist() == [4]
    assert random_lengths(4, 4, generator()).tolist() == [1, 1, 1, 1]
    for parts in (0, 5):
        with pytest.raises(ValueError, match="parts must lie in 1 to total = 4"):
            random_lengths(4, parts, generator())
