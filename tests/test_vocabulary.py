import dataclasses

import pytest
import torch

from bertch15.vocabulary import CLS, MASK, PAD, SEP, SPECIALS, UNK, Vocabulary, check_ids

pytestmark = pytest.mark.usefixtures("state_guard")

BOOK = Vocabulary.of(["the", "bank", "rose"])  # bank 5, rose 6, the 7


def test_the_special_tokens_have_the_first_five_ids():
    assert SPECIALS == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    assert (PAD, UNK, CLS, SEP, MASK) == (0, 1, 2, 3, 4)
    assert [BOOK.id(token) for token in SPECIALS] == [0, 1, 2, 3, 4]


def test_words_follow_once_each_sorted_as_strings():
    vocabulary = Vocabulary.of(["rose", "bank", "Zeta", "rose", "[SEP]", "10", "9"])
    assert vocabulary.tokens == (*SPECIALS, "10", "9", "Zeta", "bank", "rose")
    assert len(vocabulary) == 10


def test_the_order_of_the_words_does_not_matter():
    assert Vocabulary.of(["rose", "the", "bank"]) == BOOK


def test_a_sentence_is_framed_and_filled_up():
    ids = BOOK.encode(["the bank rose", "rose"], 6)
    assert ids.tolist() == [[2, 7, 5, 6, 3, 0], [2, 6, 3, 0, 0, 0]]
    assert ids.dtype == torch.int64


def test_texts_and_lists_of_tokens_encode_alike():
    texts = BOOK.encode(["the  bank\nrose"], 8)
    assert texts.tolist() == [[2, 7, 5, 6, 3, 0, 0, 0]]
    assert torch.equal(BOOK.encode([["the", "bank", "rose"]], 8), texts)


def test_an_empty_sentence_is_its_frame_alone():
    assert BOOK.encode([""], 4).tolist() == [[2, 3, 0, 0]]


def test_an_unknown_token_becomes_unk_and_nothing_else_does():
    assert BOOK.encode(["the river rose [MASK] Bank"], 7).tolist() == [[2, 7, 1, 6, 4, 1, 3]]


def test_a_sentence_may_fill_the_row_but_not_overflow_it():
    assert BOOK.encode(["the the the the"], 6).tolist() == [[2, 7, 7, 7, 7, 3]]
    with pytest.raises(
        ValueError, match=r"sentence .* at most 4 tokens .*length 6.* got 5: 'the the the the bank'"
    ):
        BOOK.encode(["rose", "the the the the bank"], 6)


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="sentences must hold at least one sentence"):
        BOOK.encode([], 6)


def test_decoding_gives_the_tokens_back_in_the_same_shape():
    ids = torch.tensor([[2, 7, 5], [6, 3, 0]])
    rows = [["[CLS]", "the", "bank"], ["rose", "[SEP]", "[PAD]"]]
    assert BOOK.decode(ids) == rows
    assert BOOK.decode(ids[0]) == rows[0]
    assert BOOK.decode(ids[0, 1]) == "the"
    assert BOOK.decode(ids[None]) == [rows]
    assert BOOK.decode(ids[:0]) == []


def test_encoding_undoes_decoding_for_every_id():
    everything = torch.arange(len(BOOK))
    assert BOOK.encode([BOOK.decode(everything)], 10).tolist() == [[CLS, *range(8), SEP]]


@pytest.mark.parametrize(("ids", "found"), [([[0, 8]], "0 to 8"), ([[-1, 7]], "-1 to 7")])
def test_ids_outside_the_vocabulary_are_refused(ids: list[list[int]], found: str):
    with pytest.raises(ValueError, match=f"ids must lie in 0 to 7, got {found}"):
        BOOK.decode(torch.tensor(ids))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool])
def test_ids_of_another_type_are_refused(dtype: torch.dtype):
    with pytest.raises(ValueError, match=f"ids must be int64, got {dtype}"):
        check_ids(torch.zeros(2, 3, dtype=dtype), 8)


def test_ids_at_both_ends_and_no_ids_at_all_are_fine():
    check_ids(torch.tensor([0, 7]), 8)
    check_ids(torch.empty(0, dtype=torch.int64), 8)
    with pytest.raises(ValueError, match="0 to 6, got 0 to 7"):
        check_ids(torch.tensor([0, 7]), 7)


def test_a_token_may_stand_only_once():
    with pytest.raises(ValueError, match=r"tokens must be distinct.*\['bank', 'the'\]"):
        Vocabulary((*SPECIALS, "the", "bank", "the", "rose", "bank"))


@pytest.mark.parametrize("tokens", [("the", "bank"), ("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "the"), ()])
def test_the_special_tokens_must_come_first(tokens: tuple[str, ...]):
    with pytest.raises(ValueError, match=r"tokens must begin with \('\[PAD\]', '\[UNK\]'"):
        Vocabulary(tokens)


def test_a_vocabulary_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        BOOK.tokens = SPECIALS  # type: ignore[misc]
