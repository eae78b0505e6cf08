"""What a page says in its text and what its outputs show: no decimal number is said that nothing covers.

A number is covered if a stored output of its page shows it, or shows a longer one that rounds to it. One that
stands only in the source of a code cell is not shown. A number of the literature stands in
tests/data/literature.md and has a citation of one of its works beside it: in its own paragraph, list item or
table; for a table, or a formula on a line of its own, in the paragraph directly above or below too. The text of
a page is all its Markdown, with formulas, inline code, tables and the words that stand for a picture, but
without fenced code and the targets of links.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser

from decimals import Number, numbers, rounds_to
from literature import Literature
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbformat import NotebookNode

MARKDOWN = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, allow_labels=False)
BLOCKS = ("paragraph", "heading", "table", "list_item")
WITHIN_A_WORD = {"a", "b", "code", "em", "i", "span", "strong", "sub", "tspan"}
SENTENCE_END = re.compile(r"(?<=[.!?:])(?<! al\.)[\"”)*]*\s+(?=[^\sa-z])|\n")
ALLOWED = (
    "Allowed are: a number that an output of this page shows, or a longer one that rounds to it; a number of "
    "tests/data/literature.md with a citation of one of its works, as a link or as “Devlin et al. 2019”, in the "
    "same paragraph, list item or table; an entry with its reason in tests/data/prose-exceptions.json."
)


class Visible(HTMLParser):
    """Collects what a reader gets of HTML or SVG: its text, the sentences for its pictures, its links' targets."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.links, self.hidden = "", list[str](), 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.hidden += tag in ("style", "script")
        self.links += [given["href"] or ""] if "href" in given else []
        self.text += "".join(f" {given[name]} " for name in ("alt", "title", "aria-label") if given.get(name))
        self.text += "^{" if tag == "sup" else "" if tag in WITHIN_A_WORD else " "

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("style", "script")
        self.text += "}" if tag == "sup" else "" if tag in WITHIN_A_WORD else " "

    def handle_data(self, data: str) -> None:
        self.text += "" if self.hidden else data


def visible(html: str) -> tuple[str, list[str]]:
    """Give the text that HTML or SVG shows, and the targets of its links."""
    reader = Visible()
    reader.feed(html)
    reader.close()
    return reader.text, reader.links


@dataclass
class Block:
    """A paragraph, heading, table, list item or formula on a line of its own: its text and its links' targets."""

    kind: str
    text: str = ""
    links: tuple[str, ...] = ()

    def add(self, text: str, links: list[str]) -> None:
        self.text, self.links = self.text + text, (*self.links, *links)


def inline(token: Token) -> tuple[str, list[str]]:
    """Give the text of a stretch of Markdown, and the targets of its links."""
    reader = Visible()
    for child in token.children or []:
        if child.type == "html_inline":
            reader.feed(child.content)
        elif child.type == "image":
            reader.handle_data(inline(child)[0])
        else:
            reader.handle_data(" " if child.type in ("softbreak", "hardbreak") else child.content)
            reader.links += [str(child.attrs["href"])] if child.type == "link_open" else []
    return reader.text, reader.links


def blocks(markdown: str, code: bool = False) -> list[Block]:
    """Cut Markdown into blocks, with its code blocks if asked. A nested list item is a block of its own."""
    found, stack = list[Block](), list[Block]()
    for token in MARKDOWN.parse(markdown):
        kind, _, end = token.type.rpartition("_")
        if kind in BLOCKS and end == "open":
            if not stack or kind in ("table", "list_item"):
                found.append(Block(kind))
            stack.append(stack[-1] if stack and kind in ("paragraph", "heading") else found[-1])
        elif kind in BLOCKS and end == "close":
            stack.pop().text += "\n"
        elif kind in ("td", "th", "tr") and end == "close":
            stack[-1].text += "\n" if kind == "tr" else " | "
        elif token.type == "inline":
            stack[-1].add(*inline(token))
        elif kind in ("math", "html") or (code and token.type in ("fence", "code_block")):
            text, links = visible(token.content) if kind == "html" else (token.content, [])
            if not stack:
                found.append(
                    Block("table" if "<table" in token.content else "formula" if kind == "math" else "html")
                )
            (stack or found)[-1].add(text + "\n", links)
    return found


def printed(notebook: NotebookNode) -> str:
    """Give all that a page's stored outputs show: lines, tables, and the sentences that stand for pictures."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(text for output in outputs for text in shown_by(output))


def shown_by(output: NotebookNode) -> Iterator[str]:
    """Give the texts that an output shows; its plain form only where there is no richer one."""
    data = output.get("data", {})
    yield output.get("text", "")
    yield from (block.text for block in blocks(data.get("text/markdown", ""), code=True))
    yield from (visible(data.get(kind, ""))[0] for kind in ("text/html", "image/svg+xml"))
    yield from (
        str(about["alt"]) for kind, about in output.get("metadata", {}).items() if kind in data and "alt" in about
    )
    yield data.get("text/latex", "")
    if set(data) == {"text/plain"}:
        yield data["text/plain"]


@dataclass(frozen=True)
class Fault:
    """A decimal number that nothing covers: how it is written, its sentence, and what is wrong."""

    number: str
    sentence: str
    complaint: str

    def __str__(self) -> str:
        return f"{self.number} in “{self.sentence}”: {self.complaint}"


def sentence_at(text: str, place: int) -> str:
    """Give the sentence, or the row of a table, around a place in a text."""
    ends = [0, *(found.end() for found in SENTENCE_END.finditer(text)), len(text)]
    begin, end = max(e for e in ends if e <= place), min(e for e in ends if e > place)
    return " ".join(text[begin:end].split()).strip(" |")


def said(notebook: NotebookNode) -> Iterator[tuple[Block, list[Block], Number]]:
    """Give each decimal number of a page's text with its block, and the blocks in which it may be cited."""
    for cell in notebook.cells:
        found = (
            [block for block in blocks(cell.source) if block.text.strip()] if cell.cell_type == "markdown" else []
        )
        for place, block in enumerate(found):
            around = found[max(0, place - 1) : place + 2] if block.kind in ("table", "formula") else []
            beside = [block, *(other for other in around if other.kind == "paragraph")]
            yield from ((block, beside, number) for number in numbers(block.text) if number.decimal)


def faults(notebook: NotebookNode, literature: Literature) -> list[Fault]:
    """Give the decimal numbers that a page says and neither shows in an output nor cites."""
    shown, found = numbers(printed(notebook)), list[Fault]()
    for block, beside, number in said(notebook):
        if any(rounds_to(other, number) for other in shown):
            continue
        stated = literature.states(number)
        cited = any(literature.cited_in(other.text, other.links) for other in beside)
        if stated and cited:
            continue
        near = [other for other in shown if other.decimal]
        nearest = (
            min(near, key=lambda other: abs(other.share() - number.share())).written if near else "none at all"
        )
        complaint = f"no output of the page shows it (the nearest number shown: {nearest})"
        if stated:
            complaint += "; the literature sheet has it, but no work of the sheet is cited beside it"
        elif cited:
            complaint += "; a work is cited beside it, but the literature sheet does not have it"
        found.append(Fault(number.written, sentence_at(block.text, number.start), complaint))
    return found
