"""Span corruption as a picture and in words: strips of tokens for T5, BERT and GPT."""

from collections.abc import Iterable
from html import escape

from bertch15.demonstrations.frame.view import View, panel, paragraph
from bertch15.demonstrations.span_corruption.model import (
    MOST_TOKENS,
    SENTENCES,
    Token,
    as_bert,
    as_gpt,
    as_t5,
    refusal,
    take_spans,
)
from bertch15.palette import INK


def strip(name: str, tokens: Iterable[Token]) -> str:
    """Set tokens side by side under a name, in as many lines as they need."""
    style = f"display: inline-block; vertical-align: top; border: 1px solid {INK}; border-radius: 3px"
    style += "; margin: 1px; padding: 0 4px; background: "
    boxes = []
    for read, below, ground in tokens:
        second = f"<br><b>{escape(below)}</b>" if below else ""
        boxes.append(f'<span style="{style}{ground}">{escape(read)}{second}</span>')
    return f'<div style="margin: 6px 0"><b>{escape(name)}</b><br>{" ".join(boxes)}</div>'


def spelt(name: str, tokens: Iterable[str]) -> str:
    """Write tokens in a line after a name."""
    return f"{name:19}{' '.join(tokens)}".rstrip()


def t5_part(tokens: tuple[str, ...], density: float, mean_span: float, redraw: int) -> tuple[list[str], list[str]]:
    """Show what T5 makes of the tokens, or say why it cannot: pieces of HTML, and lines of text."""
    if said := refusal(tokens, density, mean_span):
        return [strip("Sentence", map(Token, tokens)), paragraph(said, "font-weight: bold")], [said]
    taken = take_spans(tokens, density, mean_span, redraw)
    names = ("Sentence, and the spans that go", "T5's encoder reads", "T5's decoder writes")
    pieces = [strip(name, row) for name, row in zip(names, as_t5(taken), strict=True)]
    lines = [spelt("T5 encoder reads", taken.inputs), spelt("T5 decoder writes", taken.targets)]
    return [*pieces, paragraph(f"{taken.counts} {taken.chances}")], [*lines, taken.counts, taken.chances]


def span_view(
    sentence: str = SENTENCES[0], density: float = 0.15, mean_span: float = 3.0, redraw: int = 0
) -> View:
    """Show a sentence as T5, BERT and GPT are given it.

    sentence: words apart by white space; of more than `MOST_TOKENS` the first are used. density: the share removed
    by T5's rule, and the rate at which BERT selects, in [0, 1]. mean_span: tokens per span, at least 1. redraw: a
    whole number from 0; another number, other draws. Where there can be no spans, the view says why.
    """
    words = sentence.split()
    tokens = tuple(words[:MOST_TOKENS])
    long = [f"The sentence is long: its first {MOST_TOKENS} words are used."] if len(words) > MOST_TOKENS else []
    pieces, lines = t5_part(tokens, density, mean_span, redraw)
    bert, gpt = as_bert(tokens, density, redraw), as_gpt(tokens)
    pieces.append(strip(f"BERT, selecting {density:.0%}, reads, and answers what stands beneath", bert))
    pieces.append(strip("GPT reads, and answers what stands beneath, the next token", gpt))
    answers = [f"{token.below} ({place})" for place, token in enumerate(bert) if token.below]
    lines += [spelt("BERT reads", (token.read for token in bert)), spelt("BERT answers", [", ".join(answers)])]
    lines.append(spelt("GPT reads", (token.read for token in gpt)))
    lines.append(spelt("GPT answers", (token.below for token in gpt)))
    lines = [*long, spelt("sentence", tokens), *lines]
    return View(panel(*map(paragraph, long), *pieces), "\n".join(lines))
