"""What a demonstration shows, as a picture and in words, and the few pieces its hand-made pictures consist of.

The pictures are HTML and SVG written as text: a slider repaints them in half the time of a drawn figure, and they
need nothing but a browser. Their background is opaque, so that a dark theme does not swallow the ink.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from bertch15.palette import INK, ORANGE

FONT = "font-family: DejaVu Sans, Verdana, Arial, sans-serif"


class View(NamedTuple):
    """One state of a demonstration: a picture, and the text that says the same without one."""

    html: str
    text: str


def panel(*parts: str) -> str:
    """Put pieces of HTML below one another on white ground."""
    style = f"background: white; color: {INK}; {FONT}; font-size: 13px; line-height: 1.45; padding: 8px 10px"
    return f'<div style="{style}">{"".join(parts)}</div>'


def paragraph(text: str, style: str = "") -> str:
    """Set plain text as a paragraph."""
    return f'<p style="margin: 4px 0; {style}">{escape(text)}</p>'


def warning(text: str) -> str:
    """Set plain text as a paragraph that is not overlooked, with a mark of its own."""
    return paragraph(f"! {text}", f"border-left: 4px solid {ORANGE}; padding: 2px 8px; margin-top: 6px")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Set plain text as a table, the first cell of each row being its heading."""
    cell = "padding: 2px 10px; text-align: left; border-bottom: 1px solid #d5d8dd"
    lines = ["".join(f'<th scope="col" style="{cell}">{escape(name)}</th>' for name in head)]
    for first, *others in rows:
        line = f'<th scope="row" style="{cell}; font-weight: normal">{escape(first)}</th>'
        lines.append(line + "".join(f'<td style="{cell}">{escape(text)}</td>' for text in others))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<table style="border-collapse: collapse; margin: 6px 0; background: white; color: {INK}">{body}</table>'
    )


def picture(width: float, height: float, says: str, shapes: Iterable[str]) -> str:
    """Put SVG shapes into a picture, pixels wide and high; `says` is read out to those who cannot see it."""
    style = f"max-width: 100%; height: auto; background: white; {FONT}"
    return (
        f'<svg role="img" aria-label="{escape(says)}" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" style="{style}">{"".join(shapes)}</svg>'
    )


def box(x: float, y: float, width: float, height: float, fill: str, edge: str = INK) -> str:
    """Draw a rectangle from its upper left corner."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" stroke="{edge}"/>'


def disc(x: float, y: float, radius: float, fill: str, edge: str = INK) -> str:
    """Draw a disc about its middle."""
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{edge}"/>'


def line(
    x1: float, y1: float, x2: float, y2: float, colour: str = INK, width: float = 1, dashes: str = "none"
) -> str:
    """Draw a straight line; dashes: the lengths of its strokes and gaps in turn."""
    ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}" stroke-dasharray="{dashes}"/>'


def label(x: float, y: float, text: str, size: float = 12, anchor: str = "middle", colour: str = INK) -> str:
    """Write a line of text; x is its middle, its "start" or its "end", y its base line."""
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size:g}" fill="{colour}">{escape(text)}</text>'
