"""Exercise 1: who may read whom in one sentence, what is scored in it, and two reasons.

A wrong matrix is known by its shape: it is compared with what each fault would have drawn, and up to three of them
together.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from bertch15.check.exercise_1.drawing import KINDS, PADDING, SELECTED, TOKENS, drawn, story
from bertch15.check.kit.calling import call, unwritten
from bertch15.check.kit.reasons import Reason
from bertch15.check.kit.together import together
from bertch15.check.kit.verdict import EMPTY, RIGHT, Part, Verdict, as_tensor, careful, untouched, wrong

NEIGHBOURS = Reason(
    "neighbours",
    "cfd7773f80637828",
    {
        "118fff3fbbb8cab7": "Does a weight go to zero because of a token's name? Look in 15.1 at who reads "
        "[MASK], and what changes when it is forbidden.",
        "c49649892d3eb297": "That takes selection for visibility. Selection opens no column and closes none.",
        "e749c706ac2bf45c": "That takes being read for being scored. How many positions does the selector ask?",
    },
)
LEAK = Reason(
    "leak",
    "a44576d661536b64",
    {
        "d2d2f7e6f46b9730": "A causal query reads itself too, and nothing leaks. Which token is its target, "
        "and where does that one stand?",
        "29d66447490a9300": "Padding keys are closed in both matrices. The leak is there without padding, too.",
        "e47b68dfda3d9b90": "Visibility brings no parameters: the weights are the same. What may a query read now "
        "that it could not read before, and what is it asked for?",
    },
)


def read(answer: Any, padding: Tensor) -> Tensor:
    """Read a matrix, in any form, as (T, T) bool. Raises ValueError, with a sentence, for what is none."""
    if callable(answer):
        outcome = call(tabulated, answer, padding)
        if outcome.failed:
            raise ValueError(f"Your rule {outcome.failed}")
        answer = outcome.returned
    marks = as_tensor(spelled(answer)).double()
    while marks.dim() > 2 and marks.shape[0] == 1:  # one sentence, one head
        marks = marks[0]
    length = len(padding)
    if marks.shape != (length, length):
        raise ValueError(wrong_size(tuple(marks.shape), length, real=length - int(padding.sum())))
    if bool((marks <= -1000).any()):
        raise ValueError(
            "This is what a library adds to the scores: 0 where a key is open, a very negative number where it is "
            "closed. As visibility, its zeros would close. Write True or 1 where the query may read the key."
        )
    if bool(((marks == -1) | (marks == -2)).any()):
        raise ValueError("There are marks of -1 or -2. In Python ~True is the number -2; `not` is meant.")
    if not bool(((marks == 0) | (marks == 1)).all()):
        raise ValueError("A mark is True or False, 1 or 0: a query may read a key, or it may not.")
    return marks == 1


def wrong_size(size: tuple[int, ...], length: int, real: int) -> str:
    """Say what a matrix of another size looks like."""
    if size in ((length,), (1, length)):
        return "This is one mark a key, as padding is. Who may read whom takes a row of marks for each query."
    if size == (real, real):
        return "The padding slots are left out. They are positions of the row, as queries and as keys."
    found = " x ".join(map(str, size)) or "one number"
    return f"The size is wrong: {length} slots want {length} rows of {length} marks, and this is {found}."


def spelled(answer: Any) -> Any:
    """Turn a text of noughts and ones, or a list of such rows, into numbers; give anything else back as it is."""
    rows = [row for row in answer.splitlines() if row.strip()] if isinstance(answer, str) else answer
    if not isinstance(rows, list | tuple) or not rows:
        return rows
    if all(isinstance(row, str) for row in rows):
        marks = [[mark for mark in row if mark not in " ,|"] for row in rows]
        if any(mark not in "01" for row in marks for mark in row):
            raise ValueError("A matrix written as text consists of the marks 0 and 1.")
        rows = [[int(mark) for mark in row] for row in marks]
    if len({len(row) for row in rows if isinstance(row, list | tuple)}) > 1:
        raise ValueError("The rows differ in length: each query has one mark for every key.")
    return rows


def tabulated(rule: Callable[..., Any], padding: Tensor) -> list[list[float]]:
    """Ask a rule for every query and key: rule(query, key), or rule(query, key, padding)."""
    more = (padding.clone(),) if wants_padding(rule) else ()
    positions = range(len(padding))
    return [[float(rule(query, key, *more)) for key in positions] for query in positions]


def wants_padding(rule: Callable[..., Any]) -> bool:
    """Say whether a rule is meant for any row: it then takes the padding as its third argument."""
    try:
        parameters = inspect.signature(rule).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    return sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in parameters) > 2


def rows() -> Iterator[Tensor]:
    """Give the padding of other rows: a rule is tried on several lengths, with and without padding."""
    draws = torch.Generator().manual_seed(151)
    for length in (1, 5, 8, 12):
        real = int(torch.randint(1, length + 1, (1,), generator=draws))
        yield torch.arange(length) >= real
    yield torch.zeros(9, dtype=torch.bool)


@careful
def matrix(answer: Any, kind: str) -> Part:
    """Check one matrix."""
    if untouched(answer) or (callable(answer) and unwritten(answer)):
        return EMPTY
    try:
        found = read(answer, PADDING)
        others = list(rows()) if callable(answer) and wants_padding(answer) else []
        elsewhere = all(torch.equal(read(answer, padding), drawn(kind, padding)) for padding in others)
    except ValueError as error:
        return wrong(str(error))
    if torch.equal(found, drawn(kind)):
        says = "Right for this sentence, and not for a row of another length or with other padding."
        return RIGHT if elsewhere else wrong(says)
    if told := story(kind, found):
        return wrong(told)
    row = int((found != drawn(kind)).any(-1).nonzero()[0])
    question = "Does it stand to the right?" if kind == "causal" else "Nothing else closes a key."
    where = f"The first row that does not fit is that of query {row}, {TOKENS[row]}."
    return wrong(f"{where} Is the key padding? {question}")


@careful
def cells(answer: Any, real_queries: bool) -> Part:
    """Check the two counts of visible cells, in all rows or in those of real queries alone."""
    if untouched(answer):
        return EMPTY
    several = answer if isinstance(answer, Iterable) else [answer]
    counts: list[Any] = [answer.get(kind) for kind in KINDS] if isinstance(answer, dict) else list(several)
    if len(counts) != len(KINDS):
        return wrong("Two counts are asked for: the causal matrix, then the full one.")
    said = []
    for kind, count in zip(KINDS, counts, strict=True):
        if untouched(count):
            said.append(f"The {kind} count is still to be given.")
        elif float(count) != counted(kind, real_queries):
            said.append(f"The {kind} count: {' Or: '.join(stories(kind, real_queries, float(count)))}")
    return wrong(" ".join(said)) if said else RIGHT


def counted(kind: str, real_queries: bool, *faults: str) -> int:
    """Count the open cells of a matrix, in all its rows or in the real ones."""
    visible = drawn(kind, faults=faults)
    return int(visible[~PADDING].sum() if real_queries else visible.sum())


def stories(kind: str, real_queries: bool, count: float) -> list[str]:
    """Say what may have been counted instead; more than one story may fit a number."""
    other = KINDS[1 - KINDS.index(kind)]
    rows_of_padding = (
        "the rows of [PAD] are counted, and only real queries are asked for."
        if real_queries
        else "the rows of [PAD] are left out. They are queries too, and nothing closes them."
    )
    others = {
        "this is the number of the other matrix.": counted(other, real_queries),
        rows_of_padding: counted(kind, not real_queries),
        "the closed cells are counted, not the open ones.": counted(kind, real_queries, "inverted"),
        "the columns of [PAD] are counted as open.": counted(kind, real_queries, "padding open"),
        "the diagonal is left out.": counted(kind, real_queries, "diagonal closed"),
        "the selected word's column is left out.": counted(kind, real_queries, "selected closed"),
    }
    fitting = [says for says, instead in others.items() if instead == count]
    return fitting or ["not this number. Count row by row: how many keys does each query read?"]


@careful
def scored(answer: Any) -> Part:
    """Check the scored position: a number, a collection of positions, or one mark a slot."""
    if untouched(answer):
        return EMPTY
    if isinstance(answer, str):
        return RIGHT if answer.strip().lower() == TOKENS[SELECTED] else wrong("Give the position, counted from 0.")
    marks = as_tensor(sorted(answer) if isinstance(answer, set) else answer).flatten()
    as_marks = len(marks) == len(TOKENS) and bool(((marks == 0) | (marks == 1)).all())
    found = set((marks.nonzero().flatten() if as_marks else marks).tolist())
    ordinary = {t for t, token in enumerate(TOKENS) if not token.startswith("[")}
    real = set((~PADDING).nonzero().flatten().tolist())
    if found == {SELECTED}:
        return RIGHT
    if found == {SELECTED + 1}:
        return wrong("Positions count from 0: [CLS] stands at 0.")
    if found == ordinary:
        return wrong("These may be selected. Which of them is?")
    if found >= real:
        return wrong("Being read is not being scored. The selector alone decides where the loss asks.")
    if SELECTED not in found and found >= ordinary - {SELECTED}:
        return wrong(
            "These are read in the clear, and nobody asks for them. The loss asks where something is selected."
        )
    return wrong("The loss asks where the selector is True, and nowhere else. Which word is selected?")


def visibility(answers: Any, *names: str) -> Verdict:
    """Check exercise 1: `answers` is a dictionary; names: the parts to be shown, all of them by default."""
    return together(
        "visibility",
        answers,
        names,
        {
            "causal": lambda given: matrix(given.get("causal"), "causal"),
            "full": lambda given: matrix(given.get("full"), "full"),
            "cells": lambda given: cells(given.get("cells"), real_queries=False),
            "cells of real queries": lambda given: cells(given.get("cells of real queries"), real_queries=True),
            "scored": lambda given: scored(given.get("scored")),
            "neighbours": lambda given: NEIGHBOURS.check(given.get("neighbours"), given.get("neighbours because")),
            "leak": lambda given: LEAK.check(given.get("leak"), given.get("leak because")),
        },
    )
