"""The visibility explorer: what a query may read under each setting, and how its weights are shared out."""

from typing import Literal

import pytest

from bertch15.demonstrations.visibility_explorer.model import reading

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

Kind = Literal["full", "causal"]
SETTINGS: list[tuple[Kind, bool]] = [("full", True), ("full", False), ("causal", True), ("causal", False)]
# [CLS] the bank rose [SEP] [PAD]: for each setting a row a query, x where it may read.
MAY_READ = {
    ("full", True): ["xxxxx."] * 6,
    ("full", False): ["xxxxxx"] * 6,
    ("causal", True): ["x.....", "xx....", "xxx...", "xxxx..", "xxxxx.", "xxxxx."],
    ("causal", False): ["x.....", "xx....", "xxx...", "xxxx..", "xxxxx.", "xxxxxx"],
}


@pytest.mark.parametrize(("kind", "closed"), SETTINGS)
@pytest.mark.parametrize("query", range(6))
def test_a_query_reads_the_keys_of_its_setting_and_no_other(kind: Kind, closed: bool, query: int):
    r = reading(query, kind, closed)
    row = MAY_READ[kind, closed][query]
    assert r.tokens == ("[CLS]", "the", "bank", "rose", "[SEP]", "[PAD]")
    assert "".join("x" if v else "." for v in r.visible) == row
    assert r.keys == [token for token, mark in zip(r.tokens, row, strict=True) if mark == "x"]
    assert sum(r.weights) == pytest.approx(1, abs=1e-6)
    assert [weight == 0 for weight in r.weights] == [mark == "." for mark in row]


@pytest.mark.parametrize("query", range(6))
def test_closing_keys_shares_their_weight_among_the_rest_in_proportion(query: int):
    # The head's scores are the same under every setting: softmax over fewer keys keeps their ratios.
    everything = reading(query, "full", padding_closed=False).weights
    for kind, closed in SETTINGS:
        r = reading(query, kind, closed)
        total = sum(w for w, v in zip(everything, r.visible, strict=True) if v)
        expected = [w / total if v else 0.0 for w, v in zip(everything, r.visible, strict=True)]
        assert r.weights == pytest.approx(expected, abs=1e-6)


def test_the_weights_differ_enough_to_be_told_apart():
    for query in range(6):
        weights = reading(query, "full", padding_closed=False).weights
        assert max(weights) > 4 * min(weights)


def test_the_mask_token_is_read_like_any_other():
    r = reading(1, sentence="the [MASK] rose")
    assert "[MASK]" in r.keys
    assert r.weights[r.tokens.index("[MASK]")] > 0


def test_another_sentence_and_more_slots():
    r = reading(0, "causal", sentence="a rose is a rose", slots=9)
    assert r.tokens == ("[CLS]", "a", "rose", "is", "a", "rose", "[SEP]", "[PAD]", "[PAD]")
    assert (r.keys, r.weights[0]) == (["[CLS]"], 1.0)


def test_two_calls_give_the_same_weights():
    assert reading(2) == reading(2)


@pytest.mark.parametrize("query", [-1, 6])
def test_a_query_that_is_no_position_is_refused(query: int):
    with pytest.raises(ValueError, match=f"query must be a position in 0 to 5, got {query}"):
        reading(query)


def test_a_sentence_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="a sentence may have at most 4 tokens"):
        reading(0, sentence="the boat reached the bank")


def test_the_sentence_brings_its_own_vocabulary():
    assert reading(0, sentence="approved the loan").tokens[1:4] == ("approved", "the", "loan")
