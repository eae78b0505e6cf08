import math
from collections.abc import Sequence
from itertools import product

import pytest
import torch
from torch import Tensor

from bertch15.families.decoding import Continuation, beam_search, greedy
from bertch15.families.next_token import NextTokenModel
from bertch15.pretraining import pretrain
from bertch15.recipe import Recipe

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

END = 0


class Table:
    """A model that looks at the last token alone: rows of probabilities, one a token."""

    def __init__(self, rows: Sequence[Sequence[float]]) -> None:
        self.log = torch.tensor(rows, dtype=torch.float64).log()
        self.asked: list[list[list[int]]] = []

    def __call__(self, prefixes: Tensor) -> Tensor:
        self.asked.append(prefixes.tolist())
        return self.log[prefixes[:, -1]]


TRAP = Table(
    # From 1 the likelier way leads to 2, where three tokens share the rest; the less likely to 3, which is sure.
    [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.6, 0.4, 0.0],
        [0.0, 0.4, 0.3, 0.0, 0.3],
        [0.0, 0.0, 0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0, 0.0, 0.0],
    ]
)


def test_greedy_takes_the_likeliest_token_and_pays_later():
    written = greedy(TRAP, [1], END, limit=2)
    assert written.ids == (2, 1)
    assert math.exp(written.log_probability) == pytest.approx(0.24)
    assert not written.ended


def test_a_beam_of_two_finds_the_better_text():
    best, second = beam_search(TRAP, [1], END, width=2, limit=2)
    assert best.ids == (3, 4)
    assert math.exp(best.log_probability) == pytest.approx(0.4)
    assert second.ids == (2, 1)


def test_a_text_ends_with_its_end():
    written = greedy(TRAP, [3], END, limit=9)
    assert written == Continuation((4, END), 0.0, ended=True)
    assert beam_search(TRAP, [3], END, width=3, limit=9) == [written]


def test_the_end_of_the_prefix_ends_nothing():
    assert greedy(TRAP, [1, END, 3], END, limit=1).ids == (4,)
    assert beam_search(TRAP, [1, END, 3], END, width=1, limit=1)[0].ids == (4,)


def test_an_ended_text_stays_in_the_beam_and_is_not_asked_on():
    table = Table([[0.5, 0.5, 0.0], [0.6, 0.0, 0.4], [0.0, 0.0, 1.0]])
    found = beam_search(table, [1], END, width=2, limit=3)
    assert [text.ids for text in found] == [(END,), (2, 2, 2)]
    assert [text.ended for text in found] == [True, False]
    assert [math.exp(text.log_probability) for text in found] == pytest.approx([0.6, 0.4])
    assert table.asked == [[[1]], [[1, 2]], [[1, 2, 2]]]


def test_an_ended_text_falls_out_when_others_are_likelier():
    table = Table([[1.0, 0.0, 0.0], [0.3, 0.0, 0.7], [0.0, 0.5, 0.5]])
    assert [text.ids for text in beam_search(table, [1], END, width=2, limit=1)] == [(2,), (END,)]
    assert [text.ids for text in beam_search(table, [1], END, width=2, limit=2)] == [(2, 1), (2, 2)]


def random_table(seed: int, size: int = 4) -> Table:
    rows = torch.rand(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.01
    return Table((rows / rows.sum(1, keepdim=True)).tolist())


def every_text(table: Table, start: int, limit: int) -> dict[tuple[int, ...], float]:
    """All texts of at most `limit` tokens that end with END or are `limit` long, with their log-probabilities."""
    found = {}
    for text in product(range(len(table.log)), repeat=limit):
        stop = text.index(END) + 1 if END in text else limit
        steps = zip([start, *text[: stop - 1]], text[:stop], strict=True)
        found[text[:stop]] = sum(float(table.log[before, token]) for before, token in steps)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_wide_enough_finds_every_text_in_order(seed: int):
    table, limit = random_table(seed), 3
    found = beam_search(table, [1], END, width=4**limit, limit=limit)
    scores = [text.log_probability for text in found]
    assert dict(zip([text.ids for text in found], scores, strict=True)) == pytest.approx(
        every_text(table, 1, limit)
    )
    assert scores == sorted(scores, reverse=True)
    assert sum(map(math.exp, scores)) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_one_is_greedy(seed: int):
    table = random_table(seed, size=6)
    assert beam_search(table, [3], END, width=1, limit=5) == [greedy(table, [3], END, limit=5)]


@pytest.mark.parametrize("seed", range(5))
def test_greedy_follows_the_largest_entry_of_each_row(seed: int):
    table = random_table(seed, size=6)
    before = 2
    for token in greedy(table, [2], END, limit=6).ids:
        assert token == int(table.log[before].argmax())
        before = token


def test_of_equals_the_lowest_id_is_taken():
    size = 300  # a sort that is not stable would mix this many
    alike = Table([[1 / size] * size] * size)
    assert greedy(alike, [1], END, limit=2).ids == (0,)
    assert [text.ids for text in beam_search(alike, [1], size, width=3, limit=1)] == [(0,), (1,), (2,)]


def test_what_has_probability_0_is_not_written():
    found = beam_search(TRAP, [1], END, width=5, limit=2)
    assert {text.ids for text in found} == {(2, 1), (2, 2), (2, 4), (3, 4)}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"prefix": []}, "prefix must hold at least one id"),
        ({"limit": 0}, "limit and width must be at least 1, got 0"),
        ({"width": 0}, "limit and width must be at least 1, got 3 and 0"),
    ],
)
def test_a_request_for_nothing_is_refused(arguments: dict, complaint: str):
    request = {"prefix": [1], "limit": 3, "width": 2, **arguments}
    with pytest.raises(ValueError, match=complaint):
        beam_search(TRAP, end=END, **request)
    if request.pop("width"):
        with pytest.raises(ValueError, match=complaint):
            greedy(TRAP, end=END, **request)


def test_the_layer_leaves_prefix_and_model_alone():
    prefix = [1]
    run = pretrain(Recipe(objective="next token", visibility="causal", updates=2), 6050)
    model = NextTokenModel.of(run)
    before = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    found = beam_search(model, [2, 7], end=3, width=3, limit=4)
    assert prefix == [1]
    assert len(found) == 3
    assert all(torch.equal(value, before[name]) for name, value in model.encoder.state_dict().items())
    rescored = [
        float(sum(model(torch.tensor([[2, 7, *text.ids[:t]]]))[0, token] for t, token in enumerate(text.ids)))
        for text in found
    ]
    assert rescored == pytest.approx([text.log_probability for text in found], abs=1e-4)
