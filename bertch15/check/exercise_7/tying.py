"""Exercise 7: a decoder that is tied to the token embedding, and controls that stay bitwise as they were."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from bertch15.check.exercise_7.designs import GUARDS, control_rows, guard_keeps, pretrain_with
from bertch15.check.exercise_7.heads import check_audit, reaches
from bertch15.check.kit.calling import call, no_function, undisturbed
from bertch15.check.kit.reasons import Reason
from bertch15.check.kit.together import Mistake, together
from bertch15.check.kit.verdict import EMPTY, RIGHT, Part, Verdict, as_tensor, careful, untouched, wrong
from bertch15.language import Language
from bertch15.pretraining import Pretrained
from bertch15.recipe import Recipe
from bertch15.vocabulary import SPECIALS

READING = Reason(
    "tied reading",
    "a3f177fbd65779d3",
    {
        "a1947b5e57bad8ae": "Read the last line of the table: it is the same design, later.",
        "166561c6a43fe026": "Read the column of the control words in every line, the untied one too.",
        "e81f197c1986080e": "The rows of the source words get a second gradient now, from every softmax. What "
        "the controls do says nothing of that.",
    },
)

ABOUT_GUARDS = dict(
    zip(
        GUARDS,
        (
            "What do Adam's two moments hold, for a number whose gradient has always been zero?",
            "Weight decay does not pass through the gradient. What does it do to a row?",
            "Adam remembers gradients that came before. What do its moments hold at the third update?",
            "The step has been made by then. What did it still see?",
            "Whatever moved a row, what stands in it when the update is over?",
        ),
        strict=True,
    )
)
RECIPES = (Recipe(), Recipe(corpus_seed=3), Recipe(exposure=8))
"""Where a design is tried: the chapter's language, other words, and one in which no word is withheld."""


@careful
def check_design(make_head: Any) -> Part:
    """Look at which rows of the head are the embedding's own, in several languages, then train two updates."""
    if refused := no_function(make_head, "make_head(recipe)"):
        return refused
    try:
        for recipe in RECIPES:
            check_rows(built(make_head, recipe), recipe.language())
        check_updates(make_head)
    except Mistake as mistake:
        return wrong(str(mistake))
    return RIGHT


def built(make_head: Any, recipe: Recipe) -> nn.Module:
    """Call the student's function. Raises Mistake if no module comes back."""
    outcome = call(make_head, recipe)
    if outcome.error is not None:
        raise Mistake(f"Your function {outcome.failed or 'ended in an AssertionError'}.")
    if not isinstance(outcome.returned, nn.Module):
        raise Mistake(f"A head, a torch module, should come back; this is {type(outcome.returned).__name__}.")
    return outcome.returned


def check_rows(head: nn.Module, language: Language) -> None:
    """Compare the rows that are tied with those that should be. Raises Mistake."""
    size = len(language.vocabulary)
    found, one_way, copied = reaches(head, Recipe().width, size)
    tied, source = set(found.nonzero()[:, 0].tolist()), set(language.pool.tolist())
    controls = set(control_rows(language).tolist())
    covered, withheld = (
        {language.vocabulary.id(word) for family in half for word in family}
        for half in (language.covered, language.uncovered)
    )
    if tied == source:
        return
    if not tied and copied:
        raise Mistake("A copy is no tie: the rows are equal once, and part with the first update.")
    if not tied and one_way.any():
        raise Mistake(
            "The decoder reads the embedding's numbers, and its gradient does not come back to them: they are "
            "copied or detached. Tied means one tensor, moved by both of its uses."
        )
    if not tied:
        raise Mistake("Nothing is tied: no logit depends on the embedding that the head is given.")
    if len(tied) == size:
        raise Mistake("Every row is tied. Each softmax then moves the rows of words that never occur, and [PAD].")
    if not controls and source - tied == withheld:
        raise Mistake("Where held-out words have sentences too, they are words of the source. Ask the sentences.")
    if tied == set(RECIPES[0].language().pool.tolist()):
        raise Mistake("These are the rows of one corpus, whatever the recipe: ask the recipe's own language.")
    if tied & controls and not tied & source:
        raise Mistake("It is the control rows that are tied: exactly the ones that were not to move.")
    if tied & controls:
        raise Mistake("Control words are among the tied rows: they stand in the vocabulary, but in no sentence.")
    if tied & set(range(len(SPECIALS))):
        raise Mistake(
            "Special tokens are among the tied rows. None is ever a right answer, so the softmax would only push "
            "them away, and two of them occur in no sentence."
        )
    if tied == covered:
        raise Mistake("The invented words are tied, but cues and function words are words of the source as well.")
    raise Mistake(f"{len(source - tied)} rows of words that occur in the source are not tied.")


def check_updates(make_head: Any) -> None:
    """Train two updates and compare the control rows bit by bit. Raises Mistake."""
    recipe = replace(Recipe(), updates=2)
    with undisturbed(15):
        run, _ = pretrain_with(make_head, recipe, 6051)
    if int(moved(run)[control_rows(recipe.language())].sum()):
        raise Mistake(
            "The right rows are tied, and yet the control rows move in two updates: something writes into the "
            "embedding beside the gradient."
        )


def moved(run: Pretrained) -> Tensor:
    """Say which rows of the token embedding are not bitwise what they were before pretraining: (V,) bool."""
    before, after = (state["token_embedding.weight"] for state in (run.scratch, run.pretrained))
    return (before != after).any(-1)


@careful
def check_moved(answer: Any, run: Any) -> Part:
    """Check the two counts of rows that moved in the run."""
    if untouched(answer):
        return EMPTY
    if not isinstance(run, Pretrained):
        return wrong("There is no run to look at yet: it is made once your head is right.")
    if not isinstance(answer, Mapping) or set(answer) != {"control", "source"}:
        return wrong("Two counts of rows are asked for, with the keys control and source.")
    language = run.recipe.language()
    rows = {"control": control_rows(language), "source": language.pool}
    for name, ids in rows.items():
        number = as_tensor(answer[name])
        if number.numel() != 1:
            return wrong(f"{name}: a number of rows is asked for; count the ones that moved.")
        now = int(moved(run)[ids].sum())
        if float(number) == now:
            continue
        if float(number) == len(ids) - now:
            return wrong(f"{name}: these are the rows that stayed.")
        if float(number) == int(moved(run).sum()):
            return wrong(f"{name}: these are all rows that moved, special tokens among them.")
        if float(number) > len(ids):
            return wrong(f"{name}: more than all rows. Did you count numbers? A row moves if one of them does.")
        return wrong(f"{name}: not this many. Compare the rows before and after bit by bit, with no tolerance.")
    return RIGHT


@careful
def check_guards(answer: Any) -> Part:
    """Check the predictions about guards, each against a short run under it."""
    if untouched(answer):
        return EMPTY
    if not isinstance(answer, Mapping) or set(answer) != set(GUARDS):
        return wrong("One True or False is asked for under each of the given keys.")
    left = [guard for guard in GUARDS if untouched(answer[guard])]
    mistaken = [g for g in GUARDS if g not in left and bool(as_tensor(answer[g]).item()) != guard_keeps(g)]
    if mistaken:
        return wrong(" ".join(f"{guard}: {ABOUT_GUARDS[guard]}" for guard in mistaken))
    return wrong(f"Still open: {', '.join(left)}.") if left else RIGHT


def tied(answers: Any, *names: str) -> Verdict:
    """Check exercise 7: `answers` is a dictionary; names: the parts to be shown, all of them by default."""
    return together(
        "tied",
        answers,
        names,
        {
            "audit": lambda given: check_audit(given.get("tied_rows")),
            "design": lambda given: check_design(given.get("make_head")),
            "moved": lambda given: check_moved(given.get("moved"), given.get("run")),
            "reading": lambda given: READING.check(given.get("reading"), given.get("reading because")),
            "guards": lambda given: check_guards(given.get("guards")),
        },
    )
