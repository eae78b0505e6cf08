import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from bertch15.families.next_token import NextTokenModel, next_token_loss, shift_right
from bertch15.pretraining import Pretrained, next_token_question, pretrain, question_loss
from bertch15.recipe import Recipe
from bertch15.visibility import VisibilityKind, visibility
from bertch15.vocabulary import PAD

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

CYCLE = torch.tensor([[1, 2, 3, 1, 2, 3, 1]])  # after 1 comes 2, after 2 comes 3, after 3 comes 1
SUCCESSOR = {1: 2, 2: 3, 3: 1}


def sure(answers: Tensor, size: int = 4) -> Tensor:
    """Give logits that put all but e^-20 of the probability on one token a position: (B, T) -> (B, T, V)."""
    return 20.0 * nn.functional.one_hot(answers, size).float()


def after(ids: Tensor, steps: int = 1) -> Tensor:
    """Give the token that many steps on in the cycle."""
    for _ in range(steps):
        ids = ids.clone().apply_(SUCCESSOR.__getitem__)
    return ids


def test_a_perfect_table_of_the_next_token_loses_nothing():
    assert float(next_token_loss(sure(after(CYCLE)), CYCLE)) < 1e-7


@pytest.mark.parametrize(("what", "answers"), [("copies", CYCLE), ("speaks of the token after", after(CYCLE, 2))])
def test_a_model_that_does_not_shift_once_loses_much(what: str, answers: Tensor):
    assert float(next_token_loss(sure(answers), CYCLE)) > 19, f"a model that {what} must be wrong"


def test_n_tokens_give_n_minus_1_targets():
    # Four tokens; the model gives the right next one 1/2, 1/4 and 1/8; what it says after the last is not asked.
    ids = torch.tensor([[4, 1, 2, 3]])
    chances = torch.full((1, 4, 5), 1e-9)
    for position, (token, chance) in enumerate([(1, 1 / 2), (2, 1 / 4), (3, 1 / 8)]):
        chances[0, position] = (1 - chance) / 4
        chances[0, position, token] = chance
    chances[0, 3, 4] = 1.0
    expected = (math.log(2) + math.log(4) + math.log(8)) / 3
    assert float(next_token_loss(chances.log(), ids)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("padding", [0, 4, 12])
def test_padding_does_not_count(padding: int):
    ids = torch.cat([CYCLE, torch.full((1, padding), PAD)], dim=1)
    logits = torch.randn(1, ids.shape[1], 4, generator=torch.Generator().manual_seed(1))
    logits[:, : CYCLE.shape[1]] = torch.arange(28.0).view(1, 7, 4) % 5
    without = next_token_loss(logits[:, :7], CYCLE)
    assert float(next_token_loss(logits, ids)) == pytest.approx(float(without), rel=1e-6)


def test_the_mean_is_over_tokens_and_not_over_rows():
    ids = torch.tensor([[1, 2, 3, 1], [1, 2, PAD, PAD]])
    logits = torch.stack([sure(after(ids[:1]))[0], torch.zeros(4, 4)])  # right everywhere, and knowing nothing
    assert float(next_token_loss(logits, ids)) == pytest.approx(math.log(4) / 4, rel=1e-6)  # 1 of 4 targets


def test_where_no_token_follows_another_the_loss_is_0():
    assert float(next_token_loss(torch.zeros(2, 1, 4), torch.tensor([[1], [2]]))) == 0.0
    assert float(next_token_loss(torch.zeros(1, 3, 4), torch.tensor([[1, PAD, PAD]]))) == 0.0


def test_logits_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"logits must have a row for each id, got \(1, 6, 4\) for \(1, 7\)"):
        next_token_loss(sure(after(CYCLE))[:, :-1], CYCLE)


def test_the_decoder_reads_its_targets_one_late():
    targets = torch.tensor([59, 7, 8, 58, 9, 57, 1])  # T5's own example; 0 is its start
    assert shift_right(targets, start=0).tolist() == [0, 59, 7, 8, 58, 9, 57]
    assert shift_right(torch.tensor([[5, 6], [7, 8]]), start=2).tolist() == [[2, 5], [2, 7]]
    assert targets.tolist() == [59, 7, 8, 58, 9, 57, 1]


def short_run(kind: VisibilityKind) -> Pretrained:
    """Train so briefly that little is learned, and long enough that attention matters."""
    return pretrain(replace(Recipe(), objective="next token", visibility=kind, updates=40), 6050)


@pytest.fixture(scope="module")
def causal() -> Pretrained:
    return short_run("causal")


@pytest.fixture(scope="module")
def open_sighted() -> Pretrained:
    return short_run("full")


def apart(model: NextTokenModel, ids: Tensor) -> float:
    """The largest difference between the logits of one pass and those of one prefix after another."""
    real = ids != PAD
    return float((model.logits(ids) - model.stepwise_logits(ids))[real].abs().max())


def test_under_the_triangle_one_pass_gives_what_the_prefixes_give(causal: Pretrained):
    ids, model = causal.recipe.language().source_ids, NextTokenModel.of(causal)
    assert apart(model, ids) < 2e-5
    model.encoder.double()
    model.head.double()
    assert apart(model, ids) < 1e-12


def test_under_full_visibility_it_does_not(open_sighted: Pretrained):
    ids = open_sighted.recipe.language().source_ids
    assert apart(NextTokenModel.of(open_sighted), ids) > 0.1


def test_the_loss_is_the_one_that_was_trained(causal: Pretrained):
    ids, model = causal.recipe.language().source_ids, NextTokenModel.of(causal)
    question = next_token_question(ids, visibility(ids, "causal"))
    with torch.no_grad():
        trained = float(question_loss(model.encoder, model.head, question))
    assert float(next_token_loss(model.logits(ids), ids)) == pytest.approx(trained, abs=1e-5)


def test_the_model_carries_the_weights_and_the_visibility_of_the_run(causal: Pretrained, open_sighted: Pretrained):
    model = NextTokenModel.of(causal)
    assert (model.kind, NextTokenModel.of(open_sighted).kind) == ("causal", "full")
    assert torch.equal(model.head.decoder.weight, causal.head["decoder.weight"])
    assert all(torch.equal(value, causal.pretrained[name]) for name, value in model.encoder.state_dict().items())


def test_a_call_gives_the_log_probabilities_after_each_prefix(causal: Pretrained):
    ids, model = causal.recipe.language().source_ids[:3, :4], NextTokenModel.of(causal)
    scores = model(ids)
    assert scores.shape == (3, 115)
    torch.testing.assert_close(scores.exp().sum(-1), torch.ones(3))
    torch.testing.assert_close(scores, model.logits(ids)[:, 3].log_softmax(-1))
    assert not scores.requires_grad
