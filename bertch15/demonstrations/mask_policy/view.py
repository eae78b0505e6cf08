"""The mask policy as a picture: shares, one draw token by token, and what many draws add up to.

Each branch has a colour and a letter, so that the picture reads without colours too.
"""

from bertch15.corruption import Count
from bertch15.demonstrations.frame.view import View, box, disc, label, line, panel, paragraph, picture, warning
from bertch15.demonstrations.mask_policy.model import (
    LEFT_ALONE,
    LEGEND,
    MASKED,
    NOT_ELIGIBLE,
    RANDOMISED,
    UNCHANGED,
    Strip,
    demonstrate,
    in_draws,
)
from bertch15.palette import BLUE, GREY, INK, ORANGE

FILL = {MASKED: BLUE, RANDOMISED: ORANGE, UNCHANGED: "white"}
WRITING = {MASKED: "white", RANDOMISED: INK, UNCHANGED: INK}
PALE = "#e9ebee"
SLOT, MARGIN, LINE = 64, 78, 30  # pixels: a slot of the strip, the names beside it, a line of it
WHOLE = 260  # pixels of a bar that is 100 %
AXIS_START, AXIS = 590, 280


def policy_view(
    sentence: str,
    own: str,
    rate: float,
    mask_share: float,
    random_share: float,
    redraw: int,
    draws: int,
) -> View:
    """Show what a policy does to a sentence.

    own: a sentence of the reader's own, which goes before `sentence` unless it is blank. The others: as in
    `demonstrate`, which says what it refuses.
    """
    outcome = demonstrate(own if own.strip() else sentence, rate, mask_share, random_share, redraw, draws)
    heading = f"Selection rate {rate:.2f}. Of the selected:"
    parts = [paragraph(heading), shares_picture(mask_share, random_share)]
    if outcome.strip:
        parts += [
            paragraph(f"Draw {redraw}:"),
            strip_picture(outcome.strip),
            paragraph(LEGEND, "font-size: 12px"),
            paragraph(f"Counted {in_draws(draws)}; grey: four binomial standard deviations about what to expect:"),
            counts_picture(outcome.counts),
        ]
    text = f"{heading} {in_shares(mask_share, random_share)}\n{outcome}"
    return View(panel(*parts, *map(warning, outcome.remarks)), text)


def in_shares(mask_share: float, random_share: float) -> str:
    """Say what becomes of the selected; where two shares are more than there is, say so."""
    total = mask_share + random_share
    rest = f"U unchanged {max(0.0, 1 - total):.0%}, the rest"
    if total > 1 + 1e-9:
        rest = f"together {total:.0%}, over 100%"
    return f"M [MASK] {mask_share:.0%}, R random {random_share:.0%}, {rest}"


def shares_picture(mask_share: float, random_share: float) -> str:
    """Draw the shares side by side against a frame of 100 %; what is over stands out of it."""
    total = mask_share + random_share
    shares = {MASKED: mask_share, RANDOMISED: random_share, UNCHANGED: max(0.0, 1 - total)}
    shapes, left = [], 1.0
    for letter, share in shares.items():
        if share > 1e-9:
            shapes.append(box(left, 7, share * WHOLE, 24, FILL[letter]))
            shapes.append(label(left + min(12, share * WHOLE / 2), 23, letter, colour=WRITING[letter]))
        left += share * WHOLE
    if total > 1 + 1e-9:
        shapes.append(line(1 + WHOLE, 0, 1 + WHOLE, 38, INK, 3, "5 3"))
    says = in_shares(mask_share, random_share)
    shapes.append(label(left + 16, 23, says, anchor="start"))
    return picture(MARGIN + 15 * SLOT, 38, says, shapes)


def strip_picture(strip: Strip) -> str:
    """Draw one draw: the sentence, the branch of each selected token, what the model reads, the targets."""
    names = ("sentence", "branch", "model reads", "target")
    shapes = [label(0, 20 + LINE * row, name, 11.5, "start") for row, name in enumerate(names)]
    slots = zip(strip.original, strip.letters, strip.corrupted, strip.targets, strict=True)
    for slot, (original, letter, corrupted, target) in enumerate(slots):
        left, middle = MARGIN + SLOT * slot, MARGIN + SLOT * (slot + 0.5) - 2
        token = GREY if letter == NOT_ELIGIBLE else INK
        shapes.append(label(middle, 20, original, 11.5, colour=token))
        if letter == LEFT_ALONE:
            shapes.append(label(middle, 20 + LINE, LEFT_ALONE))
        elif letter != NOT_ELIGIBLE:
            shapes.append(disc(middle, 16 + LINE, 10, FILL[letter]))
            shapes.append(label(middle, 20 + LINE, letter, colour=WRITING[letter]))
        shapes.append(box(left, 2 * LINE + 4, SLOT - 4, 24, FILL.get(letter, "white"), INK if target else PALE))
        shapes.append(label(middle, 20 + 2 * LINE, corrupted, 11.5, colour=WRITING.get(letter, token)))
        shapes.append(label(middle, 20 + 3 * LINE, target or "–", 11.5, colour=INK if target else GREY))
    return picture(MARGIN + 15 * SLOT, 4 * LINE, str(strip), shapes)


def counts_picture(counts: tuple[Count, ...]) -> str:
    """Draw each count: in numbers, and its share as a dot on an axis, with what to expect and its bounds."""
    shapes = [
        label(170, 14, "counted", 11.5, "start", GREY),
        label(360, 14, "expected, and within", 11.5, "start", GREY),
        *(label(AXIS_START + AXIS * share, 14, f"{share:.0%}", 11.5, colour=GREY) for share in (0, 0.5, 1)),
    ]
    for row, count in enumerate(counts):
        shapes += count_shapes(count, 34 + 24 * row)
    return picture(MARGIN + 15 * SLOT, 20 + 24 * len(counts), "the counts, as below in words", shapes)


def count_shapes(count: Count, line: int) -> list[str]:
    """Draw one count on the base line `line`, in pixels."""
    name = label(0, line, count.name, 12, "start")
    if not count.total:
        return [name, label(170, line, "nothing to count", 12, "start")]
    low, high = count.bounds()
    edges = f"{low * count.total:,.1f} to {high * count.total:,.1f}"
    verdict = "" if count.within else "OUTSIDE"
    return [
        name,
        label(170, line, f"{count.count:,} of {count.total:,} = {count.share:.1%}", 12, "start"),
        label(360, line, f"{count.expected * count.total:,.1f}   ({edges})", 12, "start"),
        box(AXIS_START, line - 5, AXIS, 1, PALE, PALE),
        box(AXIS_START + AXIS * low, line - 11, max(2.0, AXIS * (high - low)), 13, "#c3c8d0", "none"),
        box(AXIS_START + AXIS * count.expected - 1, line - 14, 2, 19, INK, "none"),
        disc(AXIS_START + AXIS * count.share, line - 4.5, 4.5, BLUE, "white"),
        label(AXIS_START + AXIS + 14, line, verdict, 12, "start"),
    ]
