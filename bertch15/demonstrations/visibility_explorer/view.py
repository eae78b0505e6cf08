"""The visibility explorer as a picture: the matrix with one query framed, and that query's attention weights.

Open and closed cells differ in their marks, so that the picture reads without colours too.
"""

from collections.abc import Sequence
from typing import Literal

from bertch15.demonstrations.frame.view import View, box, label, panel, paragraph, picture, warning
from bertch15.demonstrations.visibility_explorer.model import SLOTS, Reading, reading
from bertch15.palette import BLUE, GREY, INK, ORANGE
from bertch15.vocabulary import PAD, SPECIALS

OPEN, CLOSED = "●", "×"
FILLER = SPECIALS[PAD]
CELL, LEFT, TOP = 40, 84, 58  # pixels: a cell of the matrix, and the room for names before and above it
BARS, WHOLE = 470, 330  # pixels: where the bars begin, and how long a weight of 1 is
WIDTH, HEIGHT = 860, TOP + CELL * SLOTS + 8


def visibility_view(query: int, kind: Literal["full", "causal"] = "full", padding_closed: bool = True) -> View:
    """Show what one query of the sentence may read, and how the head shares out its attention.

    query, kind, padding_closed: as in `reading`, which says what it refuses.
    """
    rows = [reading(position, kind, padding_closed) for position in range(SLOTS)]
    read = reading(query, kind, padding_closed)
    title = (
        f"query {query} {read.tokens[query]}, {kind} visibility, padding {'closed' if padding_closed else 'open'}"
    )
    sentences, warnings = [*what_is_read(read), *about_padding(read, padding_closed)], leaks(read)
    drawn = picture(WIDTH, HEIGHT, title, [*matrix_shapes(rows, query), *weight_shapes(read)])
    lines = [title, *columns(read), *sentences, *(f"! {text}" for text in warnings)]
    return View(panel(drawn, *map(paragraph, sentences), *map(warning, warnings)), "\n".join(lines))


def what_is_read(read: Reading) -> list[str]:
    """Say which keys are open, what the weights sum to, and what the closed keys get."""
    closed = [weight for weight, open_ in zip(read.weights, read.visible, strict=True) if not open_]
    nothing = sum(weight == 0 for weight in closed)
    shut = f"closed keys with a weight of exactly 0: {nothing} of {len(closed)}" if closed else "no key is closed"
    return [
        f"{read.tokens[read.query]} may read {len(read.keys)} of {len(read.tokens)} keys: {' '.join(read.keys)}.",
        f"Its weights sum to {sum(read.weights):.2f}; {shut}.",
    ]


def about_padding(read: Reading, padding_closed: bool) -> list[str]:
    """Say what else there is to say of the padding."""
    remarks = []
    if not padding_closed and FILLER not in read.keys:
        remarks.append("Padding is open, but it stands to the right of this query: the triangle closes it.")
    if read.tokens[read.query] == FILLER:
        remarks.append("This query is filler itself: it has a row like any other, and no loss asks it anything.")
    return remarks


def leaks(read: Reading) -> list[str]:
    """Say how much of the attention goes to padding, if any may."""
    if FILLER not in read.keys:
        return []
    share = sum(weight for token, weight in zip(read.tokens, read.weights, strict=True) if token == FILLER)
    return [f"Padding is read: {share:.0%} of this query's attention goes to filler."]


def columns(read: Reading) -> list[str]:
    """Write the row of the picked query as text: the keys, whether they are open, their weights."""
    lines = {"key": read.tokens, "may read": marks(read), "weight": numbers(read)}
    return [f"{name:9}" + "".join(f"{cell:>7}" for cell in cells) for name, cells in lines.items()]


def marks(read: Reading) -> list[str]:
    """Give each key its mark."""
    return [OPEN if open_ else CLOSED for open_ in read.visible]


def numbers(read: Reading) -> list[str]:
    """Write each weight; a nought alone stands for exactly nought."""
    return [f"{weight:.2f}" if weight else "0" for weight in read.weights]


def matrix_shapes(rows: Sequence[Reading], query: int) -> list[str]:
    """Draw what every query may read, one row a query, with a frame about the picked one."""
    tokens = rows[query].tokens
    shapes = [
        label(LEFT + CELL * len(tokens) / 2, 16, "key (is read)", 11.5, colour=GREY),
        label(0, TOP - 14, "query (reads)", 11.5, "start", GREY),
    ]
    for column, token in enumerate(tokens):
        shapes.append(label(LEFT + CELL * (column + 0.5), TOP - 14, token, 11))
    for row, read in enumerate(rows):
        top = TOP + CELL * row
        shapes.append(label(LEFT - 10, top + 25, read.tokens[row], 12, "end"))
        for column, mark in enumerate(marks(read)):
            left = LEFT + CELL * column
            fill, ink = (BLUE, "white") if mark == OPEN else ("white", INK)
            shapes.append(box(left, top, CELL, CELL, fill, GREY))
            shapes.append(label(left + CELL / 2, top + 26, mark, 16, colour=ink))
    frame = f'x="{LEFT - 2}" y="{TOP + CELL * query - 2}" width="{CELL * len(tokens) + 4}" height="{CELL + 4}"'
    return [*shapes, f'<rect {frame} fill="none" stroke="{ORANGE}" stroke-width="5"/>']


def weight_shapes(read: Reading) -> list[str]:
    """Draw the attention weights of the picked query as bars with their numbers, one key a line."""
    asks = f"attention weights of {read.tokens[read.query]}"
    shapes = [label(BARS, TOP - 14, asks, 12, "start")]
    lines = zip(read.tokens, read.weights, read.visible, numbers(read), strict=True)
    for key, (token, weight, open_, number) in enumerate(lines):
        top = TOP + CELL * key
        shapes.append(label(BARS - 10, top + 25, token, 12, "end"))
        if open_:
            shapes.append(box(BARS, top + 9, max(1.0, WHOLE * weight), CELL - 18, BLUE, BLUE))
        says = number if open_ else f"{number}   {CLOSED} closed"
        shapes.append(label(BARS + WHOLE * weight + 8, top + 25, says, 12, "start"))
    return [*shapes, box(BARS, TOP, 1, CELL * len(read.tokens), GREY, "none")]
