"""Span corruption as the sliders show it: T5's rule by hand, edge by edge, beside what BERT and GPT read."""

import re

import fresh
import pytest

from bertch15.demonstrations.span_corruption.model import (
    MOST_TOKENS,
    SENTENCES,
    Taken,
    as_bert,
    as_gpt,
    take_spans,
)
from bertch15.demonstrations.span_corruption.view import span_view

pytestmark = pytest.mark.usefixtures("one_thread", "state_guard")

BANK = "the boat reached the bank at night"
THANKS = "Thank you for inviting me to your party last week"
LONG = SENTENCES[2]


def words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


def line(name: str, **settings) -> str:
    """What a line of the text says after its name."""
    (found,) = [one for one in span_view(**settings).text.splitlines() if one.startswith(name)]
    return found.removeprefix(name).strip()


def removed(taken: Taken) -> set[int]:
    return {first + i for first, length in taken.spans for i in range(length)}


def test_the_sentences_are_those_of_the_page_and_one_with_two_spans() -> None:
    assert SENTENCES[:2] == (BANK, THANKS)
    assert len(LONG.split()) == 32  # the least with two spans at T5's own settings is 31


def test_seven_words_lose_the_last_one() -> None:
    # round(.15 x 7) = 1 token in max(1, round(1 / 3)) = 1 span, which follows all that is kept.
    assert line("T5 encoder reads") == "the boat reached the bank at <0> [END]"
    assert line("T5 decoder writes") == "<0> night [END]"
    assert line("Removed") == ": 1 of 7 tokens, in 1 span (lengths: 1). Encoder input 8 tokens, decoder target 3."


def test_half_of_seven_goes_to_the_even_number() -> None:
    # 3.5 -> 4 tokens; 4 / 3 -> 1 span; 3 kept + 1 sentinel + end, 1 sentinel + 4 + end.
    assert line("T5 encoder reads", density=0.5) == "the boat reached <0> [END]"
    assert line("T5 decoder writes", density=0.5) == "<0> the bank at night [END]"
    assert line("Removed", density=0.5).endswith("Encoder input 5 tokens, decoder target 6.")


COUNTS = [  # length, density, mean span; tokens and spans that go (half to even), ways to place them, by hand
    (2, 0.15, 3.0, 1, 1, 1),
    (2, 0.85, 3.0, 1, 1, 1),  # round(1.7) = 2, but one must stay
    (2, 0.01, 3.0, 1, 1, 1),
    (7, 0.5, 2.0, 4, 2, 6),  # 3 cuts of 4 removed, 2 of 3 kept
    (10, 0.15, 3.0, 2, 1, 1),  # 1.5 -> 2
    (10, 0.5, 3.0, 5, 2, 16),  # 4 x 4
    (8, 0.5, 1.0, 4, 4, 1),  # kept and removed in turn
    (10, 0.95, 10.0, 9, 1, 1),  # 9.5 -> 10, one less
    (30, 0.15, 3.0, 4, 1, 1),  # 4.5 -> 4
    (32, 0.15, 3.0, 5, 2, 104),  # 4 x 26
    (34, 0.15, 3.0, 5, 2, 112),  # 4 x 28
    (40, 0.5, 2.5, 20, 8, 50388**2),  # 19 over 7, squared
]


@pytest.mark.parametrize(("length", "density", "mean_span", "noise", "spans", "ways"), COUNTS)
def test_counts_lengths_and_ways(
    length: int, density: float, mean_span: float, noise: int, spans: int, ways: int
) -> None:
    for redraw in range(5):
        taken = take_spans(tuple(words(length).split()), density, mean_span, redraw)
        assert (taken.removed, len(taken.spans), taken.ways) == (noise, spans, ways)
        assert (len(taken.inputs), len(taken.targets)) == (length - noise + spans + 1, noise + spans + 1)
        said = taken.counts
        assert f"{noise} of {length} tokens, in {spans} span{'s' * (spans > 1)} (" in said
        named = [int(number) for number in re.findall(r"\d+", re.findall(r"\((.*?)\)", said)[0])]
        assert len(named) == spans
        assert sum(named) == noise


def test_the_published_size() -> None:
    # 34 tokens fill an input of 32 and give a target of 8.
    taken = take_spans(tuple(words(34).split()), 0.15, 3.0)
    assert (len(taken.inputs), len(taken.targets)) == (32, 8)


@pytest.mark.parametrize("redraw", range(20))
def test_both_sides_belong_together(redraw: int) -> None:
    tokens = tuple(words(20).split())
    taken = take_spans(tokens, 0.4, 2.0, redraw)
    gone = removed(taken)
    assert 0 not in gone
    assert 19 in gone
    assert all(first + length not in gone for first, length in taken.spans), "two spans never touch"
    answers = re.findall(r"<(\d+)> ([^<\[]+)", " ".join(taken.targets))
    assert [int(number) for number, _ in answers] == list(range(len(taken.spans)))
    filled = " ".join(taken.inputs)
    for number, answer in answers:
        filled = filled.replace(f"<{number}>", answer.strip())
    assert filled == f"{words(20)} [END]"


def test_a_redraw_draws_anew_and_the_same_redraw_the_same() -> None:
    tokens = tuple(THANKS.split())
    drawn = {take_spans(tokens, 0.5, 3.0, redraw).inputs for redraw in range(200)}
    assert len(drawn) == 16  # 5 removed and 5 kept, each cut into 2 in 4 ways
    assert take_spans(tokens, 0.5, 3.0, 7) == take_spans(tokens, 0.5, 3.0, 7)
    assert "one of 16 ways" in span_view(THANKS, 0.5).text


def test_what_cannot_be_drawn_anew_is_said() -> None:
    assert len({line("T5 encoder reads", redraw=redraw) for redraw in range(50)}) == 1
    assert "only one way" in span_view().text
    assert "only one way" not in span_view(LONG).text
    # Four tokens taken one by one from eight: kept and removed take turns, whatever is drawn.
    assert "only one way" in span_view(words(8), 0.5, 1.0).text


REFUSED = [
    ("", 0.15, 3.0, "Two tokens are needed"),
    ("  ", 0.15, 3.0, "Two tokens are needed"),
    ("one", 0.5, 1.0, "Two tokens are needed"),
    (BANK, 0.0, 3.0, "A density of 0 is none"),
    (BANK, 1.0, 3.0, "A density of 1 is none"),
    (BANK, 0.5, 1.0, "4 spans need a kept token before each, and only 3 tokens stay"),
    (THANKS, 0.95, 3.0, "3 spans need a kept token before each, and only 1 tokens stay"),
]


@pytest.mark.parametrize(("sentence", "density", "mean_span", "said"), REFUSED)
def test_what_cannot_be_is_said_and_not_raised(sentence: str, density: float, mean_span: float, said: str) -> None:
    view = span_view(sentence, density, mean_span)
    for shown in view:
        assert said in shown
        assert "T5 encoder" not in shown
        assert "GPT reads" in shown, "the other two families go on"


def test_the_last_density_that_can_be_and_the_first_that_cannot() -> None:
    assert line("Removed", density=0.4, mean_span=1.0).startswith(": 3 of 7 tokens, in 3 spans (lengths: 1, 1, 1)")
    assert "cannot be" in span_view(density=0.5, mean_span=1.0).text


def test_of_a_long_sentence_the_first_words_are_used() -> None:
    assert MOST_TOKENS == 40
    for count, long in ((40, False), (41, True)):
        view = span_view(words(count))
        assert ("first 40 words are used" in view.text) == long
        assert ("first 40 words are used" in view.html) == long
        assert line("sentence", sentence=words(count)) == words(40)


def test_gpt_answers_with_the_next_token_whatever_the_sliders_say() -> None:
    for density in (0.0, 0.15, 1.0):
        assert line("GPT reads", density=density) == f"[CLS] {BANK}"
        assert line("GPT answers", density=density) == f"{BANK} [SEP]"
    assert [token[:2] for token in as_gpt(("a", "b"))] == [("[CLS]", "a"), ("a", "b"), ("b", "[SEP]")]
    assert [token[:2] for token in as_gpt(())] == [("[CLS]", "[SEP]")]


def test_bert_reads_every_token_and_answers_only_the_selected() -> None:
    assert line("BERT reads", density=0.0) == f"[CLS] {BANK} [SEP]"
    assert line("BERT answers", density=0.0) == ""
    every = "the (1), boat (2), reached (3), the (4), bank (5), at (6), night (7)"
    assert line("BERT answers", density=1.0) == every


def test_bert_selects_at_the_rate_and_replaces_by_the_three_shares() -> None:
    tokens = tuple(words(40).split())
    shown = [as_bert(tokens, 0.5, redraw) for redraw in range(200)]
    assert all(
        [row[0].read, row[0].below, row[-1].read, row[-1].below] == ["[CLS]", "", "[SEP]", ""] for row in shown
    )
    inner = [(read, below, tokens[place]) for row in shown for place, (read, below, _) in enumerate(row[1:-1])]
    assert all(read == original for read, below, original in inner if not below)
    chosen = [(read, below) for read, below, original in inner if below == original]
    assert len(chosen) == sum(below != "" for _, below, _ in inner)
    assert abs(len(chosen) - 4000) < 4 * (8000 * 0.25) ** 0.5
    masked = sum(read == "[MASK]" for read, _ in chosen)
    same = sum(read == below for read, below in chosen)
    assert abs(masked / len(chosen) - 0.8) < 4 * (0.16 / len(chosen)) ** 0.5
    # One in ten stays, and of the tenth that draws, few draw what stood there: at least 40 words may be drawn.
    spread = 4 * (0.09 / len(chosen)) ** 0.5
    assert 0.1 - spread < same / len(chosen) < 0.1 + 0.1 / 40 + spread


def chips(html: str, name: str) -> list[tuple[str, str]]:
    """The boxes of a strip, each as its text and its ground."""
    (row,) = re.findall(rf"<b>{re.escape(name)}</b><br>(.*?)</div>", html)
    found = re.findall(r"background: (#?\w+)\">(.*?)</span>", row)
    return [(re.sub(r"<br>|</?b>", " ", text).strip(), ground) for ground, text in found]


def test_spans_have_their_colour_and_their_sentinels_name() -> None:
    html = span_view(density=0.5).html
    sentence = chips(html, "Sentence, and the spans that go")
    assert [text for text, _ in sentence] == [
        *("the", "boat", "reached"),
        *("the  &lt;0&gt;", "bank  &lt;0&gt;", "at  &lt;0&gt;", "night  &lt;0&gt;"),
    ]
    kept, gone = sentence[0][1], sentence[-1][1]
    assert [ground for _, ground in sentence] == [kept] * 3 + [gone] * 4
    (encoder,), (decoder,) = (
        [chips(html, name)] for name in ("T5&#x27;s encoder reads", "T5&#x27;s decoder writes")
    )
    assert [text for text, _ in encoder] == ["the", "boat", "reached", "&lt;0&gt;", "[END]"]
    assert [text for text, _ in decoder] == ["&lt;0&gt;", "the", "bank", "at", "night", "[END]"]
    assert [ground for _, ground in encoder[:3]] == [kept] * 3
    assert [ground for _, ground in decoder[1:5]] == [gone] * 4
    assert encoder[3][1] == decoder[0][1]
    assert len({kept, gone, encoder[3][1], encoder[4][1]}) == 4


def test_words_cannot_become_markup() -> None:
    view = span_view("<script> <b> & two", 0.5)
    assert "<script>" not in view.html
    assert "&lt;script&gt;" in view.html


@pytest.mark.parametrize(
    ("settings", "complaint"), [({"density": 1.5}, "rate must lie"), ({"density": -0.1}, "rate must")]
)
def test_what_no_slider_can_give_is_an_error(settings: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        span_view(**settings)


def test_no_widget_library_is_needed() -> None:
    assert fresh.seen()["span_corruption"] == []
