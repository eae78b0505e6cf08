"""The lab under the reader's own policy, as a table and a chart."""

from collections.abc import Sequence

from bertch15.demonstrations.frame.view import View, label, line, panel, paragraph, picture, table
from bertch15.demonstrations.own_lab.model import Plan, beside, of_seeds, run_in_words, seeds_of
from bertch15.lab import ARMS, LabResult, Row
from bertch15.palette import BLUE, GREY, ORANGE

HEAD = (
    "labels per family",
    "whose",
    "scratch covered",
    "MLM covered",
    "gain",
    "wins",
    "scratch uncovered",
    "MLM uncovered",
)
LEFT, TOP, HEIGHT, WIDTH = 52.0, 30.0, 200.0, 190.0  # of the picture: where it begins, and one budget's width
ROOM = 30  # pixels of a gain's line that has room for a number beside it


def own_lab_view(chapter: LabResult, mine: LabResult | None, plan: Plan) -> View:
    """Show what is asked for, and below it the reader's last result, if there is one, beside the chapter's.

    The chapter's numbers are those of the reader's seeds. Neither result is changed.
    """
    asked = f"! {plan.complaint}" if plan.complaint else f"asked for: {run_in_words(plan.recipe, plan.seeds)}"
    shown = of_seeds(chapter, seeds_of(mine)) if mine else chapter
    notes = [f"chapter: {run_in_words(shown.recipe, seeds_of(shown))}"]
    lines = [asked, *notes, *map(str, shown.rows)]
    if mine:
        notes.append(f"yours: {run_in_words(mine.recipe, seeds_of(mine))}")
        lines += [notes[-1], *map(str, mine.rows)]
    else:
        notes.append("yours: not run yet")
        lines.append(notes[-1])
    pairs, ran = beside(chapter, mine), mine is not None
    rows = [cells(whose, row, shown.recipe.budgets[n // 2], ran) for n, (whose, row) in enumerate(pairs)]
    style = "font-weight: bold" if plan.complaint else ""
    parts = [paragraph(asked.removeprefix("! "), style), *map(paragraph, notes), table(HEAD, rows)]
    return View(panel(*parts, draw_pairs(pairs, shown.recipe.budgets, "\n".join(lines[1:]))), "\n".join(lines))


def cells(whose: str, row: Row | None, budget: int, ran: bool) -> tuple[str, ...]:
    """Set one row of the table; of a row that is not there, say why."""
    if row is None:
        return (str(budget), whose, "not asked for" if ran else "not run yet", *[""] * 5)
    numbers = [f"{row.covered[arm]:.3f}" for arm in ARMS]
    control = [f"{row.uncovered[arm]:.3f}" for arm in ARMS]
    return (str(budget), whose, *numbers, f"{row.delta:+.3f}", f"{row.wins}/{len(row.gains)}", *control)


def draw_pairs(pairs: Sequence[tuple[str, Row | None]], budgets: Sequence[int], says: str) -> str:
    """Draw the accuracies, budget by budget: the chapter's, and on the right of them the reader's."""
    right = LEFT + WIDTH * len(budgets)
    shapes = [*key(), line(LEFT, TOP, LEFT, TOP + HEIGHT, GREY)]
    for tick, name in ((0.0, "0"), (0.5, "chance 0.5"), (1.0, "1")):
        y, dashes = height_of(tick), "3 4" if tick == 0.5 else "none"
        shapes.append(line(LEFT, y, right, y, GREY, dashes=dashes))
        shapes.append(label(LEFT - 6, y + 4, name.split()[-1], 11, "end"))
        if tick == 0.5:
            shapes.append(label(right + 6, y + 4, "chance", 11, "start"))
    for number, (whose, row) in enumerate(pairs):
        middle = LEFT + WIDTH * (number // 2) + WIDTH * (0.36 if number % 2 == 0 else 0.78)
        shapes.append(label(middle, TOP + HEIGHT + 16, whose, 11))
        if row is not None:
            shapes += draw_row(middle, row)
        if number % 2 == 0:
            words = f"{budgets[number // 2]} per family"
            shapes.append(label(LEFT + WIDTH * (number // 2 + 0.57), TOP + HEIGHT + 34, words))
    return picture(right + 60, TOP + HEIGHT + 42, says, shapes)


def height_of(accuracy: float) -> float:
    """Place an accuracy in [0, 1] in the picture."""
    return TOP + HEIGHT * (1 - accuracy)


def draw_row(middle: float, row: Row) -> list[str]:
    """Draw one row: covered words filled on the left, uncovered words hollow on the right of its middle."""
    shapes = []
    for words, x in ((row.covered, middle - 12), (row.uncovered, middle + 14)):
        filled = words is row.covered
        before, after = (height_of(words[arm]) for arm in ARMS)
        if filled:
            shapes.append(line(x, before, x, after, width=1.5))
            if abs(before - after) > ROOM:
                shapes.append(label(x - 8, (before + after) / 2 + 4, f"{row.delta:+.3f}", 11, "end"))
            else:  # beside so short a line the number would stand among its neighbours
                shapes.append(label(x + 6, min(before, after) - 10, f"{row.delta:+.3f}", 11, "end"))
        shapes.append(dot("scratch", x, before, filled))
        shapes.append(dot("pretrained", x, after, filled))
    return shapes


def dot(arm: str, x: float, y: float, filled: bool) -> str:
    """Draw one arm's accuracy: scratch an orange square, pretrained a blue circle, hollow for uncovered words."""
    colour = ORANGE if arm == "scratch" else BLUE
    look = f'fill="{colour if filled else "none"}" stroke="{colour}" stroke-width="2"'
    if arm == "scratch":
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" {look}/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {look}/>'


def key() -> list[str]:
    """Say what the marks stand for."""
    shapes, x = [], LEFT + 6
    for arm in ARMS:
        for filled, words in ((True, "covered"), (False, "uncovered")):
            shapes += [dot(arm, x, 10, filled), label(x + 9, 14, f"{arm}, {words}", 11, "start")]
            x += 142
    return shapes
