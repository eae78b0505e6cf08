from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from bertch15.geometry import Cosines, centred_cosine, within_between, word_geometry, word_states
from bertch15.language import make_language
from bertch15.pretraining import State, copy_state, new_encoder, seeded
from bertch15.recipe import SEEDS, Recipe
from bertch15.visibility import VisibilityKind, visibility

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

FAMILIES = torch.tensor([0, 0, 1, 1])


def initial_state(seed: int) -> State:
    with seeded(seed):
        return copy_state(new_encoder(Recipe()))


def random_states(count: int, width: int, generator: torch.Generator) -> Tensor:
    return torch.randn(count, width, dtype=torch.float64, generator=generator)


def off_diagonal(cosine: Tensor) -> Tensor:
    return cosine[~torch.eye(len(cosine), dtype=torch.bool)]


def test_a_common_offset_makes_all_raw_cosines_large_and_no_centred_one():
    offset = (0.97 / 0.03) ** 0.5  # of squared length .97 when noise has .03
    states = random_states(50, 48, torch.Generator().manual_seed(1)) + offset
    unit = states / states.norm(dim=1, keepdim=True)
    assert float(off_diagonal(unit @ unit.T).mean()) == pytest.approx(0.97, abs=0.005)
    assert float(off_diagonal(centred_cosine(states)).mean()) == pytest.approx(-0.02, abs=0.002)


def test_two_states_always_oppose_each_other():
    for seed in range(5):
        states = random_states(2, 48, torch.Generator().manual_seed(seed)) + 10
        expected = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
        torch.testing.assert_close(centred_cosine(states), expected, rtol=0, atol=1e-12)


def test_a_state_at_the_mean_has_cosine_nought_with_every_other():
    states = torch.tensor([[3.0, 1.0], [-1.0, 1.0], [1.0, 1.0]])
    assert centred_cosine(states).tolist() == [[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    families = torch.tensor([0, 1, 0])
    assert within_between(states, families) == Cosines(0.0, -0.5)  # of (0), and of (-1, 0)


def test_a_zero_vector_is_a_state_like_any_other():
    cosine = centred_cosine(torch.tensor([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]]))
    assert cosine.tolist() == [[1.0, 0.0, -1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 1.0]]
    assert not centred_cosine(torch.zeros(3, 4)).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_states_that_are_all_the_same_have_no_direction(dtype: torch.dtype):
    # Their mean is off by rounding; what is left must not be blown up to unit length.
    generator = torch.Generator().manual_seed(1)
    for count in (3, 7, 40):
        state = torch.randn(1, 48, dtype=dtype, generator=generator)
        assert not centred_cosine(state.repeat(count, 1)).any()


@pytest.mark.parametrize("seed", range(3))
def test_cosines_are_those_of_the_definition(seed: int):
    states = random_states(7, 5, torch.Generator().manual_seed(seed)) + 2
    centred = [row - sum(states) / 7 for row in states]
    by_hand = [[float(a @ b / (a @ a).sqrt() / (b @ b).sqrt()) for b in centred] for a in centred]
    torch.testing.assert_close(
        centred_cosine(states), torch.tensor(by_hand, dtype=torch.float64), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize(
    ("states", "within", "between"),
    [
        ([[1, 0], [1, 0], [-1, 0], [-1, 0]], 1, -1),  # two families, apart
        ([[1, 0], [-1, 0], [1, 0], [-1, 0]], -1, 0),  # each family opposes itself; between: 1, -1, -1, 1
        ([[1, 0], [0, 1], [-1, 0], [0, -1]], 0, -0.5),  # a square; between: -1, 0, 0, -1
        ([[3, 0], [0, 1], [-3, 0], [0, -1]], 0, -0.5),  # lengths do not count
        ([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], -1 / 3, -1 / 3),  # no structure: -1 / (n - 1)
    ],
)
def test_constructed_states_have_the_geometry_found_by_hand(states, within: float, between: float, offset: float):
    moved = torch.tensor(states, dtype=torch.float64) + offset
    assert within_between(moved, FAMILIES) == pytest.approx((within, between), abs=1e-12)


def test_families_of_unequal_size_are_averaged_over_pairs():
    # After centring: (2, 0), (2, 0), (-1, 3), (-3, -3) have these cosines.
    states = torch.tensor([[2.0, 0.0], [2.0, 0.0], [-1.0, 3.0], [-3.0, -3.0]], dtype=torch.float64)
    third, fourth, other = -1 / 10**0.5, -1 / 2**0.5, -6 / (10**0.5 * 18**0.5)
    found = within_between(states, torch.tensor([0, 0, 0, 1]))
    assert found == pytest.approx(((1 + 2 * third) / 3, (2 * fourth + other) / 3), abs=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        lambda states: states + torch.linspace(-30, 30, 48, dtype=torch.float64),
        lambda states: 7 * states,
        lambda states: states.flip(1),
    ],
    ids=["moved", "stretched", "turned"],
)
def test_moving_stretching_and_turning_all_states_changes_nothing(change: Callable[[Tensor], Tensor]):
    states = random_states(4, 48, torch.Generator().manual_seed(1))
    assert within_between(change(states), FAMILIES) == pytest.approx(within_between(states, FAMILIES), abs=1e-12)


def test_the_names_of_the_families_do_not_matter():
    states = random_states(4, 48, torch.Generator().manual_seed(2))
    assert within_between(states, 1 - FAMILIES) == pytest.approx(within_between(states, FAMILIES), abs=1e-12)
    assert within_between(states.flip(0), FAMILIES) == pytest.approx(within_between(states, FAMILIES), abs=1e-12)


def test_without_structure_both_lie_at_minus_one_by_n_minus_one():
    generator, families = torch.Generator().manual_seed(3), torch.arange(40) // 20
    found = torch.tensor([within_between(random_states(40, 48, generator), families) for _ in range(400)])
    error = found.std(0) / 400**0.5
    assert ((found.mean(0) + 1 / 39).abs() < 4 * error).all()
    assert (4 * error < 0.0025).all()  # narrow enough to tell -.0256 from 0


def test_centring_makes_within_and_between_nearly_one_number():
    # Equal lengths after centring: the cosines, 40 of each state with itself included, sum to exactly nothing.
    half = random_states(20, 48, torch.Generator().manual_seed(4))
    half /= half.norm(dim=1, keepdim=True)
    within, between = within_between(torch.cat([half, -half]), torch.arange(40) // 20)
    assert 40 + 760 * within + 800 * between == pytest.approx(0, abs=1e-9)


def test_the_chapters_geometry_obeys_the_centring_identity(trace: dict[str, Any]):
    for replicate in trace["replicates"].values():
        for within, between in (replicate["geometry_initial"], replicate["geometry_pretrained"]):
            assert abs(40 + 760 * within + 800 * between) < 4


@pytest.mark.parametrize("seed", SEEDS)
def test_the_initial_geometry_is_that_of_the_chapter(trace: dict[str, Any], seed: int):
    found = word_geometry(Recipe(), initial_state(seed))
    assert found == pytest.approx(trace["replicates"][str(seed)]["geometry_initial"], rel=0, abs=2e-4)
    assert abs(40 + 760 * found.within + 800 * found.between) < 4


def test_the_initial_geometry_prints_as_the_chapter_prints_it(ledger: dict[str, Any]):
    within, between = word_geometry(Recipe(), initial_state(6050))
    printed = {row["id"]: row["printed"] for row in ledger["rows"]}
    assert f"initial within/between: {within:.4f} / {between:.4f}" == printed["geometry.initial"]


@pytest.mark.parametrize("seed", SEEDS)
def test_uncovered_words_start_without_structure_too(seed: int):
    state = initial_state(seed)
    found = word_geometry(Recipe(), state, covered=False)
    assert found != word_geometry(Recipe(), state)
    for value in found:
        assert abs(value + 1 / 39) < 4 * 0.0055  # the spread of random states


@pytest.mark.parametrize(("readout", "kind"), [(4, "full"), (0, "full"), (6, "causal"), (4, "own")])
def test_word_states_are_the_hidden_states_at_the_readout(readout: int, kind: VisibilityKind):
    language = make_language()
    with seeded(6050):
        encoder = new_encoder(Recipe())
    words = ("boku", "zeru", "basa")
    found = word_states(encoder, language, words, readout, kind)
    for word, state in zip(words, found, strict=True):
        ids = language.vocabulary.encode([f"we found the {word} today"], 10)
        alone = encoder(ids, visibility(ids, kind))[0, readout]
        torch.testing.assert_close(state, alone, rtol=0, atol=5e-6)
    assert found.shape == (3, 48)
    assert not found.requires_grad


def test_the_word_position_is_read_by_default():
    language = make_language()
    with seeded(6050):
        encoder = new_encoder(Recipe())
    assert torch.equal(
        word_states(encoder, language, ["zeru"]), word_states(encoder, language, ["zeru"], 4, "full")
    )


def test_the_recipe_says_where_to_read_and_what_is_visible():
    state = initial_state(6050)
    base = word_geometry(Recipe(), state)
    assert word_geometry(Recipe(readout=0), state) != base
    assert word_geometry(Recipe(visibility="causal"), state) != base


def test_a_readout_that_cannot_see_the_word_shows_no_structure():
    # Causal [CLS] reads itself alone, so all forty states are one.
    assert word_geometry(Recipe(visibility="causal", readout=0), initial_state(6050)) == (0, 0)


def test_measuring_leaves_the_weights_as_they_were():
    state = initial_state(6050)
    before = {name: tensor.clone() for name, tensor in state.items()}
    word_geometry(Recipe(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.items())
