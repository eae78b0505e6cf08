import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bertch15.encoder import Attention, Block, Encoder, count_parameters
from bertch15.language import Language, make_language
from bertch15.pretraining import new_encoder, new_head, schedule, seeded
from bertch15.recipe import SEEDS, Recipe
from bertch15.visibility import VisibilityKind, visibility
from bertch15.vocabulary import PAD

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

# Rounding through two blocks in float32 comes to about 1e-6 at states of size 3, in float64 to about 3e-15.
TOLERANCE = {torch.float32: 5e-6, torch.float64: 1e-12}


@pytest.fixture(scope="module")
def language() -> Language:
    return make_language()


@pytest.fixture(scope="module")
def batch(language: Language) -> Tensor:
    """The 64 sentences of the chapter's first update: 640 slots, 168 of them padding."""
    ids = language.source_ids[schedule(Recipe(), 6050, 320)[0]]
    assert int((ids == PAD).sum()) == 168
    return ids


def initial_encoder(dtype: torch.dtype = torch.float32, seed: int = 6050) -> Encoder:
    with seeded(seed):
        return Encoder().to(dtype)


def moved_encoder(dtype: torch.dtype = torch.float32) -> Encoder:
    """Give an encoder in which every number, LayerNorm gains and biases too, is away from its start."""
    encoder, generator = initial_encoder(dtype), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return encoder


def blocks_of(encoder: Encoder) -> list[Block]:
    return [block for block in encoder.blocks if isinstance(block, Block)]


def largest(difference: Tensor) -> float:
    return float(difference.abs().max())


def test_the_encoder_has_43920_parameters():
    with seeded(0):
        encoder = Encoder()
    assert count_parameters(encoder) == 43_920
    assert count_parameters(encoder.token_embedding) == 115 * 48 == 5_520
    assert count_parameters(encoder.position_embedding) == 10 * 48 == 480
    assert [count_parameters(block) for block in encoder.blocks] == [18_960, 18_960]


def test_the_parameters_of_a_block_follow_from_its_widths():
    with seeded(0):
        block = Block(width=48, heads=4, inner=96)
    assert count_parameters(block.attention.qkv) == 48 * 144 + 144
    assert count_parameters(block.attention.output) == 48 * 48 + 48
    assert count_parameters(block.ff) == 48 * 96 + 96 + 96 * 48 + 48
    assert count_parameters(block.norm1) == count_parameters(block.norm2) == 2 * 48


def test_a_shared_tensor_counts_once_and_a_frozen_one_not_at_all():
    with seeded(0):
        module = nn.ModuleList([nn.Linear(3, 5), nn.Linear(3, 5), nn.Linear(3, 5)])
    one, two, three = (layer for layer in module if isinstance(layer, nn.Linear))
    assert count_parameters(module) == 3 * 20
    two.weight = one.weight
    assert count_parameters(module) == 3 * 20 - 15
    three.weight.requires_grad_(False)
    assert count_parameters(module) == 3 * 20 - 2 * 15


def test_other_sizes_make_another_encoder():
    with seeded(0):
        encoder = Encoder(vocabulary=20, length=6, width=8, heads=2, inner=12, blocks=3)
    per_block = 4 * (8 * 8 + 8) + (8 * 12 + 12) + (12 * 8 + 8) + 4 * 8
    assert count_parameters(encoder) == 20 * 8 + 6 * 8 + 3 * per_block
    ids = torch.tensor([[2, 19, 3, 0, 0]])
    assert encoder(ids, visibility(ids)).shape == (1, 5, 8)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_initial_weights_are_those_of_the_chapter(trace: dict[str, Any], seed: int):
    with seeded(seed):
        encoder, head = new_encoder(Recipe()), new_head(Recipe())
    found = {
        "token_embedding[5,:4]": encoder.token_embedding.weight[5, :4],
        "position_embedding[0,:4]": encoder.position_embedding.weight[0, :4],
        "blocks.0.attention.qkv.weight[0,:4]": blocks_of(encoder)[0].attention.qkv.weight[0, :4],
        "mlm.decoder.weight[0,:4]": head.decoder.weight[0, :4],
    }
    expected = trace["replicates"][str(seed)]["initial_checks"]
    assert found.keys() == expected.keys()
    for name, values in found.items():
        assert values.tolist() == pytest.approx(expected[name], rel=0, abs=1e-5), name


@pytest.mark.parametrize("seed", SEEDS)
def test_the_padding_row_starts_as_nought_and_no_other_row_does(seed: int):
    rows = initial_encoder(seed=seed).token_embedding.weight
    assert not rows[PAD].any()
    assert rows[1:].any(dim=1).all()


def test_embeddings_start_small_and_norms_as_identity():
    encoder = initial_encoder()
    for weight in (encoder.token_embedding.weight[1:], encoder.position_embedding.weight):
        assert abs(float(weight.detach().std()) - 0.02) < 4 * 0.02 / (2 * weight.numel()) ** 0.5
    for block in blocks_of(encoder):
        for norm in (block.norm1, block.norm2):
            assert torch.equal(norm.weight, torch.ones(48))
            assert not norm.bias.any()
            assert norm.eps == 1e-5


def reference_of(encoder: Encoder) -> nn.TransformerEncoder:
    """Give torch's own encoder with the same weights; the embeddings are added outside it."""
    dtype = encoder.position_embedding.weight.dtype
    with seeded(0):
        layer = nn.TransformerEncoderLayer(
            48, 4, 96, dropout=0.0, activation="gelu", layer_norm_eps=1e-5, batch_first=True, norm_first=False
        )
        reference = nn.TransformerEncoder(layer, 2, norm=None, enable_nested_tensor=False).to(dtype)
    ours = {"self_attn.in_proj_": "attention.qkv.", "self_attn.out_proj.": "attention.output.",
            "linear1.": "ff.0.", "linear2.": "ff.2.", "norm1.": "norm1.", "norm2.": "norm2."}  # fmt: skip
    state = encoder.blocks.state_dict()
    weights = {
        f"layers.{block}.{theirs}{kind}": state[f"{block}.{name}{kind}"]
        for block in (0, 1)
        for theirs, name in ours.items()
        for kind in ("weight", "bias")
    }
    reference.load_state_dict(weights)
    return reference


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("start", [initial_encoder, moved_encoder])
@pytest.mark.parametrize("training", [True, False])
def test_the_encoder_computes_what_torchs_own_does(
    batch: Tensor, dtype: torch.dtype, start: Callable[[torch.dtype], Encoder], training: bool
):
    encoder = start(dtype).train(training)
    reference = reference_of(encoder).train(training)
    real = batch != PAD
    with torch.no_grad():
        theirs = reference(encoder.embed(batch), src_key_padding_mask=~real)
        ours = encoder(batch, visibility(batch))
    assert largest(ours[real]) > 1
    assert largest((ours - theirs)[real]) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_causal_encoder_computes_what_torchs_own_does(batch: Tensor, dtype: torch.dtype):
    encoder = moved_encoder(dtype)
    future = torch.ones(10, 10, dtype=torch.bool).triu(1)  # True means blocked there
    real = batch != PAD
    with torch.no_grad():
        theirs = reference_of(encoder)(encoder.embed(batch), mask=future, src_key_padding_mask=~real)
        ours = encoder(batch, visibility(batch, "causal"))
    assert largest((ours - theirs)[real]) < TOLERANCE[dtype]


def test_the_input_is_token_plus_position(batch: Tensor):
    encoder = moved_encoder()
    x = encoder.embed(batch)
    for b, t in ((0, 0), (5, 3), (63, 9)):
        row = encoder.token_embedding.weight[batch[b, t]] + encoder.position_embedding.weight[t]
        assert torch.equal(x[b, t], row)


def normalised(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Follow LayerNorm by hand: the biased variance, and epsilon inside the root."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def test_each_block_adds_and_then_normalises(batch: Tensor):
    encoder, visible = moved_encoder(torch.float64), visibility(batch)
    with torch.no_grad():
        x = encoder.embed(batch)
        for block in blocks_of(encoder):
            between = normalised(x + block.attention(x, visible), block.norm1)
            after = normalised(between + block.ff(between), block.norm2)
            assert largest(block(x, visible) - after) < 1e-12
            x = after
        assert largest(encoder(batch, visible) - x) < 1e-12


def test_states_leave_the_initial_encoder_with_mean_nought_and_variance_one(batch: Tensor):
    with torch.no_grad():
        hidden = initial_encoder(torch.float64)(batch, visibility(batch))
    assert largest(hidden.mean(-1)) < 1e-12
    assert largest(hidden.var(-1, correction=0) - 1) < 1e-3  # short of 1 by epsilon over the variance before


@pytest.mark.parametrize("kind", ["full", "causal"])
def test_what_stands_in_the_padding_row_changes_no_real_state(batch: Tensor, kind: VisibilityKind):
    encoder, real = initial_encoder(), batch != PAD
    with torch.no_grad():
        before = encoder(batch, visibility(batch, kind))
        encoder.token_embedding.weight[PAD] = torch.linspace(-50, 50, 48)
        after = encoder(batch, visibility(batch, kind))
        unpadded = encoder(batch, visibility(batch, "unpadded"))
    assert torch.equal(after[real], before[real])
    assert largest((after - before)[~real]) > 1
    assert largest((unpadded - before)[real]) > 0.1  # the garbage is there to be read


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sentence_has_the_same_states_however_far_it_is_padded(language: Language, dtype: torch.dtype):
    encoder = initial_encoder(dtype)
    for sentence in language.sentences[:8]:
        size = len(sentence.split()) + 2
        states = []
        with torch.no_grad():
            for length in range(size, 11):
                ids = language.vocabulary.encode([sentence], length)
                states.append(encoder(ids, visibility(ids))[0, :size])
        assert len(states) >= 3
        assert max(largest(state - states[0]) for state in states) < TOLERANCE[dtype]


def test_without_the_padding_closed_the_states_depend_on_it(batch: Tensor):
    encoder, real = initial_encoder(), batch != PAD
    with torch.no_grad():
        difference = encoder(batch, visibility(batch)) - encoder(batch, visibility(batch, "unpadded"))
    assert largest(difference[real]) > 0.05


def test_sentences_of_a_batch_do_not_see_each_other(batch: Tensor):
    encoder = initial_encoder(torch.float64)
    with torch.no_grad():
        together = encoder(batch, visibility(batch))
        alone = torch.cat([encoder(row[None], visibility(row[None])) for row in batch[:8]])
    assert largest(together[:8] - alone) < 1e-12


@pytest.mark.parametrize("first_changed", [1, 4, 6])
def test_a_causal_state_does_not_know_what_comes_later(batch: Tensor, first_changed: int):
    encoder, changed = initial_encoder(), batch.clone()
    generator = torch.Generator().manual_seed(1)
    changed[:, first_changed:] = torch.randint(5, 115, changed[:, first_changed:].shape, generator=generator)
    with torch.no_grad():
        causal = encoder(changed, visibility(changed, "causal")) - encoder(batch, visibility(batch, "causal"))
        full = encoder(changed, visibility(changed)) - encoder(batch, visibility(batch))
    assert not causal[:, :first_changed].any()
    assert causal[:, first_changed:].any()
    assert largest(full[:, :first_changed]) > 0.05  # a bidirectional state does


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-12)])
def test_causal_states_at_once_are_those_of_each_beginning_by_itself(
    batch: Tensor, dtype: torch.dtype, tolerance: float
):
    encoder = moved_encoder(dtype)
    with torch.no_grad():
        at_once = encoder(batch, visibility(batch, "causal"))
        for length in range(1, 11):
            beginning = batch[:, :length]
            last = encoder(beginning, visibility(beginning, "causal"))[:, -1]
            assert largest(at_once[:, length - 1] - last) < tolerance


@pytest.mark.parametrize("kind", ["full", "causal", "own", "unpadded"])
def test_attention_rows_sum_to_one_and_closed_keys_get_exactly_nothing(batch: Tensor, kind: VisibilityKind):
    visible = visibility(batch, kind)
    maps = moved_encoder().attention_weights(batch, visible)
    assert [tuple(weights.shape) for weights in maps] == [(64, 4, 10, 10)] * 2
    for weights in maps:
        assert largest(weights.sum(-1) - 1) < 1e-6
        assert torch.equal(weights > 0, visible[:, None].expand_as(weights))


def test_the_attention_maps_are_those_of_torchs_own_layers(batch: Tensor):
    encoder, visible = moved_encoder(torch.float64), visibility(batch)
    reference, padding = reference_of(encoder), batch == PAD
    with torch.no_grad():
        x = encoder.embed(batch)
        for ours, layer in zip(encoder.attention_weights(batch, visible), reference.layers, strict=True):
            assert isinstance(layer, nn.TransformerEncoderLayer)
            theirs = layer.self_attn(x, x, x, key_padding_mask=padding, average_attn_weights=False)[1]
            assert largest(ours - theirs) < 1e-12
            x = layer(x, src_key_padding_mask=padding)


def test_with_equal_scores_attention_is_the_mean_of_the_visible_values():
    with seeded(0):
        attention = Attention(width=4, heads=2).double()
    q = torch.zeros(1, 2, 4, 2, dtype=torch.float64)
    weights = attention.weights(q, q, visibility(torch.tensor([[2, 3, 0, 0]])))
    assert weights.tolist() == [[[[0.5, 0.5, 0.0, 0.0]] * 4] * 2]


def test_scores_are_divided_by_the_root_of_the_width_of_a_head():
    with seeded(0):
        attention = Attention(width=18, heads=2)
    q = torch.zeros(1, 2, 2, 9, dtype=torch.float64)
    k = q.clone()
    q[..., 0, :], k[..., 1, :] = 1.0, math.log(3) / 3  # the score 9 ln(3) / 3, divided by 3: ln 3
    weights = attention.weights(q, k, torch.ones(1, 2, 2, dtype=torch.bool))
    torch.testing.assert_close(weights[0, 0, 0], torch.tensor([0.25, 0.75], dtype=torch.float64))


def test_a_closed_key_gets_nothing_even_where_the_open_ones_score_very_low():
    with seeded(0):
        attention = Attention(width=2, heads=1)
    q = torch.full((1, 1, 2, 2), 200.0)
    k = torch.stack([-q[:, :, 0], q[:, :, 1]], dim=2)  # the open key scores below -50,000
    visible = visibility(torch.tensor([[2, 0]]))
    assert attention.weights(q, k, visible).tolist() == [[[[1.0, 0.0], [1.0, 0.0]]]]


def test_the_activation_is_the_exact_gelu():
    gelu = blocks_of(initial_encoder())[0].ff[1]
    ends = gelu(torch.tensor([1.0, -1.0], dtype=torch.float64)).tolist()
    assert ends == pytest.approx([0.8413447461, -0.1586552539], rel=0, abs=1e-9)
    x = torch.linspace(-6, 6, 1_200_001, dtype=torch.float64)
    y = gelu(x)
    assert float(y.min()) == pytest.approx(-0.1699712, rel=0, abs=1e-7)
    assert float(x[y.argmin()]) == pytest.approx(-0.75179, rel=0, abs=1e-5)
    approximate = x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    difference = (y - approximate).abs()
    assert float(difference.max()) == pytest.approx(4.7324e-4, rel=0, abs=1e-6)
    assert abs(float(x[difference.argmax()])) == pytest.approx(2.699, rel=0, abs=1e-2)


def test_the_encoder_gives_the_same_twice_and_in_both_modes(batch: Tensor):
    encoder, visible = initial_encoder(), visibility(batch)
    with torch.no_grad():
        first = encoder.train()(batch, visible)
        assert torch.equal(encoder(batch, visible), first)
        assert torch.equal(encoder.eval()(batch, visible), first)
    assert first.shape == (64, 10, 48)
    assert first.dtype == torch.float32


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.tensor([2, 5, 3]), r"ids must be a batch \(B, T\).* got shape \(3,\)"),
        (torch.empty(0, 10, dtype=torch.int64), r"ids must be a batch .* at least 1, got shape \(0, 10\)"),
        (torch.empty(2, 0, dtype=torch.int64), r"ids must be a batch .* at least 1, got shape \(2, 0\)"),
        (torch.full((1, 11), 5), "a sentence may have at most 10 positions, got 11"),
        (torch.tensor([[2, 115, 3]]), "ids must lie in 0 to 114, got 2 to 115"),
        (torch.tensor([[2, -1, 3]]), "ids must lie in 0 to 114, got -1 to 3"),
        (torch.tensor([[2.0, 5.0, 3.0]]), "ids must be int64, got torch.float32"),
    ],
)
def test_ids_that_make_no_sense_are_refused(ids: Tensor, message: str):
    encoder = initial_encoder()
    visible = torch.ones(*ids.shape, ids.shape[-1], dtype=torch.bool)
    with pytest.raises(ValueError, match=message):
        encoder(ids, visible)
    with pytest.raises(ValueError, match=message):
        encoder.attention_weights(ids, visible)


@pytest.mark.parametrize("shape", [(2, 3), (1, 3, 3), (2, 3, 4), (2, 1, 3, 3)])
def test_a_visibility_of_another_shape_is_refused(shape: tuple[int, ...]):
    ids = torch.tensor([[2, 5, 3], [2, 6, 3]])
    with pytest.raises(ValueError, match=r"visible must have shape \(2, 3, 3\), got \(") as refusal:
        initial_encoder()(ids, torch.ones(shape, dtype=torch.bool))
    assert str(refusal.value).endswith(str(shape))
