import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from bertch15.pretraining import seeded
from bertch15.visibility import VisibilityKind, as_attend_mask, as_blocked_mask, causal, visibility
from bertch15.vocabulary import MASK, PAD, Vocabulary

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

FIGURE = torch.tensor([[2, 7, 5, 6, 3, 0]])  # [CLS] the bank rose [SEP] [PAD]
EXERCISE = torch.tensor([[2, 7, 5, 6, 7, 3, 0, 0]])  # eight slots, two of them padding
RAGGED = torch.tensor([[2, 5, 6, 7, 3], [2, 5, 3, 0, 0], [2, 3, 0, 0, 0]])


def matrix(*rows: str) -> list[list[bool]]:
    return [[cell == "x" for cell in row] for row in rows]


def test_full_visibility_of_figure_15_1():
    visible = visibility(FIGURE, "full")
    assert visible[0].tolist() == matrix(*["xxxxx."] * 6)
    assert int(visible.sum()) == 30
    assert visible.dtype == torch.bool


def test_causal_visibility_of_figure_15_1():
    visible = visibility(FIGURE, "causal")
    assert visible[0].tolist() == matrix("x.....", "xx....", "xxx...", "xxxx..", "xxxxx.", "xxxxx.")
    assert int(visible.sum()) == 20


def test_the_encoder_looks_both_ways_by_default():
    assert torch.equal(visibility(RAGGED), visibility(RAGGED, "full"))


@pytest.mark.parametrize(("kind", "everyone", "real"), [("causal", 33, 21), ("full", 48, 36)])
def test_the_counts_of_the_exercise(kind: VisibilityKind, everyone: int, real: int):
    visible = visibility(EXERCISE, kind)[0]
    assert int(visible.sum()) == everyone
    assert int(visible[EXERCISE[0] != PAD].sum()) == real


def test_own_is_the_diagonal():
    assert torch.equal(visibility(RAGGED, "own"), torch.eye(5, dtype=torch.bool).repeat(3, 1, 1))


def test_unpadded_forgets_the_padding():
    assert torch.equal(visibility(RAGGED, "unpadded"), torch.ones(3, 5, 5, dtype=torch.bool))


def test_only_padding_keys_are_closed():
    visible, padding = visibility(RAGGED, "full"), RAGGED == PAD
    for query in range(5):  # a padding query has the same row as a real one
        assert torch.equal(visible[:, query], ~padding)


def test_causal_rows_of_a_batch_follow_each_sentence():
    visible = visibility(RAGGED, "causal")
    assert visible[0].tolist() == matrix("x....", "xx...", "xxx..", "xxxx.", "xxxxx")
    assert visible[1].tolist() == matrix("x....", "xx...", "xxx..", "xxx..", "xxx..")
    assert visible[2].tolist() == matrix("x....", "xx...", "xx...", "xx...", "xx...")


def test_the_causal_triangle_includes_the_position_itself():
    assert causal(3).tolist() == matrix("x..", "xx.", "xxx")


def test_the_mask_token_is_a_token_that_others_read():
    corrupted = FIGURE.clone()
    corrupted[0, 2] = MASK
    assert torch.equal(visibility(corrupted), visibility(FIGURE))


def test_padding_before_the_sentence_is_closed_too():
    assert visibility(torch.tensor([[0, 0, 2, 3]]))[0].tolist() == matrix(*["..xx"] * 4)


@pytest.mark.parametrize("kind", ["full", "causal"])
def test_a_row_of_padding_alone_is_refused(kind: VisibilityKind):
    with pytest.raises(ValueError, match=r"each query needs a key it may read; row 1 .*\[0, 0, 0\]"):
        visibility(torch.tensor([[2, 5, 3], [0, 0, 0]]), kind)


def test_a_causal_query_with_nothing_but_padding_before_it_is_refused():
    with pytest.raises(ValueError, match="row 0 begins with padding"):
        visibility(torch.tensor([[0, 2, 3], [2, 3, 0]]), "causal")


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"kind must be one of .*'causal'.*, got 'bidirectional'"):
        visibility(FIGURE, "bidirectional")  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(6,), (0, 6), (6, 0), (1, 2, 6)])
def test_what_is_no_batch_is_refused(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match=r"ids must be a batch \(B, T\).*got shape"):
        visibility(torch.ones(shape, dtype=torch.int64))


def attention_by_hand(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    """Attend with a loop over queries that looks at the visible keys alone: q, k, v (B, h, T, d)."""
    out = torch.zeros_like(q)
    for b, h, t in torch.cartesian_prod(*(torch.arange(n) for n in q.shape[:3])).tolist():
        keys = visible[b, t].nonzero().flatten()
        scores = k[b, h, keys] @ q[b, h, t] / q.shape[-1] ** 0.5
        out[b, h, t] = scores.softmax(0) @ v[b, h, keys]
    return out


def random_heads(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 3, 2, 5, 4, dtype=torch.float64, generator=generator)
    return q, k, v


@pytest.mark.parametrize("kind", ["full", "causal", "own", "unpadded"])
def test_the_attend_mask_means_the_same_to_scaled_dot_product_attention(kind: VisibilityKind):
    q, k, v = random_heads(0)
    visible = visibility(RAGGED, kind)
    out = scaled_dot_product_attention(q, k, v, attn_mask=as_attend_mask(visible))
    torch.testing.assert_close(out, attention_by_hand(q, k, v, visible), rtol=0, atol=1e-12)


def new_attention(heads: int) -> nn.MultiheadAttention:
    with seeded(1):
        return nn.MultiheadAttention(8, heads, batch_first=True, dtype=torch.float64)


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("kind", ["full", "causal", "own", "unpadded"])
def test_the_blocked_mask_means_the_same_to_multihead_attention(kind: VisibilityKind, heads: int):
    attention = new_attention(heads)
    x = torch.randn(3, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    visible = visibility(RAGGED, kind)
    blocked = as_blocked_mask(visible, heads)
    assert blocked.shape == (3 * heads, 5, 5)
    out, weights = attention(x, x, x, attn_mask=blocked, average_attn_weights=False)

    q, k, v = (
        part.view(3, 5, heads, 8 // heads).transpose(1, 2)
        for part in nn.functional.linear(x, attention.in_proj_weight, attention.in_proj_bias).chunk(3, -1)
    )
    by_hand = attention.out_proj(attention_by_hand(q, k, v, visible).transpose(1, 2).flatten(2))
    torch.testing.assert_close(out, by_hand, rtol=0, atol=1e-12)
    every_head = visible[:, None].expand(-1, heads, -1, -1)
    assert torch.equal(weights > 0, every_head)  # exactly 0 on each closed key, in each sentence and head


def attend(x: Tensor, visible: Tensor, library: str) -> Tensor:
    """Attend in one of torch's two interfaces, one head: x (B, T, 8), visible (B, T, T) -> (B, T, 8)."""
    if library == "scaled_dot_product_attention":
        return scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], as_attend_mask(visible))[:, 0]
    return new_attention(1)(x, x, x, attn_mask=as_blocked_mask(visible, 1))[0]


LIBRARIES = ("scaled_dot_product_attention", "MultiheadAttention")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_later_token_reaches_no_earlier_output_and_would_if_the_sense_were_inverted(library: str):
    x = torch.randn(1, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    changed = x.clone()
    changed[:, -1] += 10
    visible = visibility(RAGGED[:1], "causal")
    earlier = attend(changed, visible, library)[:, :-1] - attend(x, visible, library)[:, :-1]
    assert torch.equal(earlier, torch.zeros_like(earlier))
    inverted = ~visible
    wrong = attend(changed, inverted, library)[:, :-1] - attend(x, inverted, library)[:, :-1]
    assert wrong.abs().max() > 0.1


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_stands_in_padding_reaches_no_output_of_a_real_query(library: str):
    x = torch.randn(3, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    padding = RAGGED == PAD
    garbage = x.masked_fill(padding[..., None], 1e6)
    visible = visibility(RAGGED)
    real = attend(garbage, visible, library)[~padding] - attend(x, visible, library)[~padding]
    assert torch.equal(real, torch.zeros_like(real))


def test_with_equal_scores_each_query_reads_the_two_real_tokens_by_half():
    visible = visibility(torch.tensor([[2, 3, 0, 0]]))
    alike, one_hot = torch.zeros(1, 1, 4, 4), torch.eye(4)[None, None]
    weights = scaled_dot_product_attention(alike, alike, one_hot, as_attend_mask(visible))[0, 0]
    assert weights.tolist() == [[0.5, 0.5, 0.0, 0.0]] * 4


def test_a_padding_mask_added_as_numbers_would_leave_weight_on_the_padding():
    # What the converter guards against: 1 for real and 0 for padding, added to the scores.
    alike, one_hot = torch.zeros(1, 1, 4, 4), torch.eye(4)[None, None]
    visible = visibility(torch.tensor([[2, 5, 3, 0]]))
    added = scaled_dot_product_attention(alike, alike, one_hot, as_attend_mask(visible).float())[0, 0]
    closed = scaled_dot_product_attention(alike, alike, one_hot, as_attend_mask(visible))[0, 0]
    assert added[0, 3] > 0.05
    assert closed[:, 3].tolist() == [0.0] * 4


def test_the_figure_is_the_running_example():
    vocabulary = Vocabulary.of(["the", "bank", "rose"])
    assert torch.equal(vocabulary.encode(["the bank rose"], 6), FIGURE)
