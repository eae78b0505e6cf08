import re
from collections import Counter
from typing import Any

import pytest
import torch

from bertch15.language import LENGTH, WORD_POSITION, CueNoise, Language, make_language
from bertch15.vocabulary import MASK, SPECIALS, UNK

pytestmark = pytest.mark.usefixtures("state_guard")

CUES = (
    ["rain", "soil", "roots", "water", "garden", "grows", "blooms", "sunlight"],
    ["power", "metal", "gears", "fuel", "workshop", "moves", "turns", "current"],
)
FUNCTION_WORDS = [
    "after", "the", "needs", "near", "support", "in", "we",
    "found", "beside", "help", "and", "rests", "today", "follows",
]  # fmt: skip
NO_NOISE = CueNoise(templates=())
VARIATIONS: dict[str, dict[str, Any]] = {
    "no noise": {"noise": NO_NOISE},
    "another fixed pair": {"noise": CueNoise(templates=(0, 3))},
    "two drawn for each word": {"noise": CueNoise("drawn", count=2)},
    "flips": {"noise": CueNoise("flips", probability=0.25)},
    "every cue flipped": {"noise": CueNoise("flips", probability=1.0)},
    "shuffled": {"shuffled": True},
}


@pytest.fixture(scope="module")
def chapter() -> Language:
    return make_language()


def both(halves: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[str, ...]:
    return halves[0] + halves[1]


def contexts(language: Language, word: str) -> list[str]:
    """Give the sentences of a word, in order, with the word itself taken out."""
    sentences = (sentence.split() for sentence in language.sentences)
    return [" ".join("WORD" if t == word else t for t in tokens) for tokens in sentences if word in tokens]


def cue_families(sentence: str) -> list[int]:
    """Give the family of each cue in a sentence."""
    return [family for token in sentence.split() for family in (0, 1) if token in CUES[family]]


def opposed(language: Language, word: str, family: int) -> list[int]:
    """Give which of a word's sentences carry the other family's cues; all cues of one sentence agree."""
    found = [set(cue_families(sentence)) for sentence in contexts(language, word)]
    assert all(len(families) == 1 for families in found)
    return [index for index, families in enumerate(found) if families == {1 - family}]


def skeleton(sentence: str) -> str:
    """Give a sentence with each cue replaced by its index, which no family owns."""
    indices = {cue: str(index) for family in CUES for index, cue in enumerate(family)}
    return " ".join(indices.get(token, token) for token in sentence.split())


def test_the_words_are_those_of_the_chapter(chapter: Language, trace: dict[str, Any]):
    for family in (0, 1):
        words = tuple(trace["family_words"][family])
        assert chapter.covered[family] == words[:20]
        assert chapter.uncovered[family] == words[20:]


def test_the_vocabulary_is_that_of_the_chapter(chapter: Language, trace: dict[str, Any]):
    assert list(chapter.vocabulary.tokens) == trace["vocabulary"]


def test_the_vocabulary_is_specials_cues_function_words_and_all_eighty_words(chapter: Language):
    words = [*both(chapter.covered), *both(chapter.uncovered)]
    parts = [list(SPECIALS), CUES[0] + CUES[1], FUNCTION_WORDS, words]
    assert [len(part) for part in parts] == [5, 16, 14, 80]
    assert set(chapter.vocabulary.tokens) == {token for part in parts for token in part}
    assert len(chapter.vocabulary) == 115


def test_the_sentences_are_those_of_the_chapter(chapter: Language, trace: dict[str, Any]):
    assert len(chapter.sentences) == 320
    assert list(chapter.sentences[:8]) == trace["first_sentences"]
    assert list(chapter.sentences[-8:]) == trace["last_sentences"]


def test_the_encoded_sentences_are_those_of_the_chapter(chapter: Language, trace: dict[str, Any]):
    assert chapter.source_ids.shape == (320, LENGTH) == (320, 10)
    assert chapter.source_ids.dtype == torch.int64
    assert chapter.source_ids[:4].tolist() == trace["first_source_ids"]


def test_the_replacement_pool_is_that_of_the_chapter(chapter: Language, trace: dict[str, Any]):
    assert len(chapter.pool) == trace["random_pool_size"] == 70
    assert chapter.pool.tolist() == trace["random_pool"]


def test_the_source_has_1720_ordinary_tokens(chapter: Language):
    lengths = Counter((chapter.source_ids != 0).sum(1).sub(2).tolist())  # without [CLS] and [SEP]
    assert lengths == {4: 40, 5: 120, 6: 160}
    assert sum(length * count for length, count in lengths.items()) == 1720


def test_a_good_quarter_of_the_slots_is_padding(chapter: Language):
    padding = chapter.source_ids == 0
    assert int(padding.sum()) / padding.numel() == 0.2625
    assert not padding[:, :6].any()
    assert not padding[:, 7].all()
    assert padding[:, 8:].all()


def test_the_word_stands_where_the_templates_put_it(chapter: Language):
    words = torch.tensor([chapter.vocabulary.id(word) for word in both(chapter.covered)])
    positions = torch.isin(chapter.source_ids, words).nonzero()[:, 1].tolist()
    assert Counter(positions) == {4: 120, 2: 80, 3: 40, 5: 40, 6: 40}


def test_each_covered_word_has_eight_sentences_in_the_order_of_the_words(chapter: Language):
    order = [word for word in both(chapter.covered) for _ in range(8)]
    assert all(word in sentence.split() for word, sentence in zip(order, chapter.sentences, strict=True))


def test_withheld_words_occur_neither_in_the_source_nor_in_the_pool(chapter: Language):
    withheld = set(both(chapter.uncovered))
    ids = torch.tensor([chapter.vocabulary.id(word) for word in withheld])
    assert len(withheld) == 40
    assert not withheld & {token for sentence in chapter.sentences for token in sentence.split()}
    assert not torch.isin(chapter.source_ids, ids).any()
    assert not torch.isin(chapter.pool, ids).any()
    assert not torch.isin(chapter.pool, torch.tensor([0, UNK, 2, 3, MASK])).any()


def test_two_of_twelve_cues_contradict_the_family(chapter: Language):
    for family in (0, 1):
        for word in chapter.covered[family]:
            cues = [cue for sentence in contexts(chapter, word) for cue in cue_families(sentence)]
            assert (cues.count(family), cues.count(1 - family)) == (10, 2)
            assert opposed(chapter, word, family) == [6, 7]


def test_all_words_of_a_family_share_their_contexts_and_the_families_share_none(chapter: Language):
    sets = [{frozenset(contexts(chapter, word)) for word in chapter.covered[family]} for family in (0, 1)]
    assert [len(distinct) for distinct in sets] == [1, 1]
    assert not sets[0].pop() & sets[1].pop()


def test_the_neutral_sentence_has_the_word_at_position_four_and_no_cue(chapter: Language):
    ids = chapter.neutral_ids(["zeru", "boku"])
    assert ids.tolist() == [[2, 103, 19, 85, 106, 87, 3, 0, 0, 0], [2, 103, 19, 85, 16, 87, 3, 0, 0, 0]]
    assert WORD_POSITION == 4
    assert not {token for token in chapter.vocabulary.decode(ids[0]) if token in CUES[0] + CUES[1]}


def test_a_word_of_no_language_is_refused(chapter: Language):
    with pytest.raises(ValueError, match=r"words must be of the language.*\['bank'\]"):
        chapter.neutral_ids(["zeru", "bank"])


@pytest.mark.parametrize("variation", VARIATIONS.values(), ids=VARIATIONS)
def test_a_variation_changes_cues_and_nothing_else(chapter: Language, variation: dict[str, Any]):
    varied = make_language(**variation)
    assert varied.sentences != chapter.sentences
    assert (varied.covered, varied.uncovered) == (chapter.covered, chapter.uncovered)
    assert varied.vocabulary == chapter.vocabulary
    assert torch.equal(varied.pool, chapter.pool)
    assert list(map(skeleton, varied.sentences)) == list(map(skeleton, chapter.sentences))


@pytest.mark.parametrize("templates", [(), (0, 3), (5,), (0, 1, 2, 3, 4, 5, 6, 7)])
def test_fixed_noise_opposes_these_sentences_for_every_word(templates: tuple[int, ...]):
    language = make_language(noise=CueNoise(templates=templates))
    for family in (0, 1):
        for word in language.covered[family]:
            assert opposed(language, word, family) == list(templates)


@pytest.mark.parametrize("count", range(9))
def test_drawn_noise_opposes_so_many_sentences_of_each_word(count: int):
    language = make_language(noise=CueNoise("drawn", count=count))
    found = [opposed(language, word, f) for f in (0, 1) for word in language.covered[f]]
    assert {len(indices) for indices in found} == {count}


def test_drawn_noise_chooses_for_each_word_anew_and_without_favour():
    language = make_language(noise=CueNoise("drawn", count=2))
    found = [tuple(opposed(language, word, f)) for f in (0, 1) for word in language.covered[f]]
    assert len(set(found)) > 10  # of 28 pairs, 40 draws reach about 21
    times = Counter(index for indices in found for index in indices)
    spread = 4 * (40 * 1 / 4 * 3 / 4) ** 0.5  # each sentence is drawn with probability 2 of 8
    assert all(abs(times[index] - 10) < spread for index in range(8))


def test_no_flip_is_no_noise_and_every_flip_exchanges_the_families():
    assert (
        make_language(noise=CueNoise("flips", probability=0)).sentences == make_language(noise=NO_NOISE).sentences
    )
    flipped = make_language(noise=CueNoise("flips", probability=1))
    for family in (0, 1):
        assert all(opposed(flipped, word, family) == list(range(8)) for word in flipped.covered[family])


@pytest.mark.parametrize("probability", [0.125, 0.25, 0.5])
def test_flips_fall_on_each_sentence_by_itself(probability: float):
    language = make_language(noise=CueNoise("flips", probability=probability))
    counts = [len(opposed(language, word, f)) for f in (0, 1) for word in language.covered[f]]
    spread = 4 * (320 * probability * (1 - probability)) ** 0.5
    assert abs(sum(counts) - 320 * probability) < spread
    assert len(set(counts)) > 2  # not a fixed number for each word


@pytest.mark.parametrize("exposure", range(9))
def test_exposed_words_get_their_first_sentences_after_all_others(chapter: Language, exposure: int):
    language = make_language(exposure=exposure)
    assert language.sentences[:320] == chapter.sentences
    assert len(language.sentences) == 320 + 40 * exposure
    order = [word for word in both(language.uncovered) for _ in range(exposure)]
    assert all(w in s.split() for w, s in zip(order, language.sentences[320:], strict=True))
    for family in (0, 1):
        pattern = contexts(language, language.covered[family][0])[:exposure]
        assert all(contexts(language, word) == pattern for word in language.uncovered[family])


def test_exposure_changes_no_word_and_lets_the_exposed_into_the_pool(chapter: Language):
    language = make_language(exposure=1)
    assert (language.covered, language.uncovered) == (chapter.covered, chapter.uncovered)
    assert language.vocabulary == chapter.vocabulary
    exposed = {language.vocabulary.id(word) for word in both(language.uncovered)}
    assert set(language.pool.tolist()) == set(chapter.pool.tolist()) | exposed


@pytest.mark.parametrize("noise", [CueNoise("drawn"), CueNoise("flips")])
def test_exposure_leaves_the_noise_of_the_covered_words_alone(noise: CueNoise):
    without = make_language(noise=noise)
    assert make_language(noise=noise, exposure=8).sentences[:320] == without.sentences


def test_shuffled_contexts_say_nothing_about_the_family(chapter: Language):
    shuffled = make_language(shuffled=True)
    patterns = [contexts(chapter, chapter.covered[family][0]) for family in (0, 1)]
    got = [[patterns.index(contexts(shuffled, w)) for w in shuffled.covered[family]] for family in (0, 1)]
    assert Counter(got[0] + got[1]) == {0: 20, 1: 20}
    spread = 4 * (20 * 20 * 20 * 20 / (40 * 40 * 39)) ** 0.5  # hypergeometric: 20 of 40, half of them of family 0
    assert abs(got[0].count(0) - 10) < spread


def test_shuffling_leaves_the_drawn_noise_alone():
    noise = CueNoise("drawn", count=2)
    dealt, shuffled = make_language(noise=noise), make_language(noise=noise, shuffled=True)
    for word in both(dealt.covered):
        # The family of a shuffled word's contexts is the one that six of its eight sentences follow.
        oppositions = [min((opposed(each, word, f) for f in (0, 1)), key=len) for each in (dealt, shuffled)]
        assert len(oppositions[0]) == 2
        assert oppositions[0] == oppositions[1]


def test_the_same_arguments_give_the_same_language():
    make_anew = make_language.__wrapped__  # past the cache
    for arguments in VARIATIONS.values():
        assert make_anew(**arguments) == make_anew(**arguments) == make_language(**arguments)


def test_the_language_does_not_depend_on_the_global_stream():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        noise = CueNoise("drawn")
        assert make_language.__wrapped__(noise=noise, shuffled=True) == make_language(noise=noise, shuffled=True)


def test_another_seed_deals_other_words_to_the_same_sentences(chapter: Language):
    other = make_language(seed=1)
    assert both(other.covered) != both(chapter.covered)
    words = [*both(other.covered), *both(other.uncovered)]
    assert len(set(words)) == 80
    assert contexts(other, other.covered[0][0]) == contexts(chapter, "zeru")


def test_the_words_are_onset_vowel_coda_vowel(chapter: Language):
    for word in [*both(chapter.covered), *both(chapter.uncovered)]:
        assert re.fullmatch("[bglmprstvz][aeiou][dknrst][aeiou]", word)


@pytest.mark.parametrize("exposure", [-1, 9])
def test_exposure_outside_its_range_is_refused(exposure: int):
    with pytest.raises(ValueError, match=f"exposure must lie in 0 to 8 sentences, got {exposure}"):
        make_language(exposure=exposure)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "random"}, r"kind must be one of \('fixed', 'drawn', 'flips'\), got 'random'"),
        ({"templates": (6, 6)}, r"templates must be distinct indices in 0 to 7, got \(6, 6\)"),
        ({"templates": (8,)}, r"templates must .* 0 to 7, got \(8,\)"),
        ({"templates": (-1, 2)}, r"templates must .* 0 to 7, got \(-1, 2\)"),
        ({"count": -1}, "count must lie in 0 to 8, got -1"),
        ({"count": 9}, "count must lie in 0 to 8, got 9"),
        ({"probability": -0.1}, r"probability must lie in \[0, 1\], got -0.1"),
        ({"probability": 25}, r"probability must lie in \[0, 1\], got 25"),
        ({"probability": float("nan")}, r"probability must lie in \[0, 1\], got nan"),
    ],
)
def test_noise_outside_its_range_is_refused(arguments: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        CueNoise(**arguments)


def test_fixed_noise_draws_nothing():
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    assert CueNoise().opposed(generator) == {6, 7}
    assert torch.equal(generator.get_state(), before)
