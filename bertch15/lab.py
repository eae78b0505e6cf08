"""The lab: replicates from nothing to a score, and the table that the chapter prints.

Each replicate repeats the whole pipeline with a seed of its own: initialisation, corruption, pretraining,
choice of labels, adaptation of both arms. Five seeds on one corpus, so five independent units.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from bertch15.fast.training import Job, adapt_together, pretrain_together
from bertch15.fast.worker import Worker, cores
from bertch15.finetuning import Adapted, Score, adapt
from bertch15.geometry import Cosines, word_geometry
from bertch15.pretraining import Pretrained, Progress, pretrain, report
from bertch15.recipe import SEEDS, Recipe
from bertch15.settings import reproducible

ARMS = ("scratch", "pretrained")
MOST_WORKERS = 4
"""Beyond that the memory of one more torch weighs more than the seconds it saves."""
WORTH_A_PROCESS = 3_000
"""Updates, of all replicates together: about five seconds of work, for a start of more than one."""


@dataclass(frozen=True)
class Outcome:
    """One arm of one replicate at one budget: its scores on training, covered and uncovered words."""

    train: Score
    covered: Score
    uncovered: Score


@dataclass(frozen=True)
class Replicate:
    """The numbers of one seed.

    eligible, branches: positions over all updates. losses: of each update. moved: how many of the 40 uncovered
    embedding rows are not bitwise what they were. outcomes: by arm, one for each budget of the recipe.
    """

    seed: int
    eligible: int
    branches: tuple[int, int, int]
    losses: tuple[float, ...]
    moved: int
    initial: Cosines
    after: Cosines
    outcomes: dict[str, tuple[Outcome, ...]]


@dataclass(frozen=True)
class Row:
    """One budget over all replicates: mean accuracies in [0, 1], paired gains and the wins among them."""

    budget: int
    train: dict[str, float]
    covered: dict[str, float]
    uncovered: dict[str, float]
    gains: tuple[float, ...]

    @property
    def delta(self) -> float:
        """The mean gain of the pretrained arm on covered words."""
        return fmean(self.gains)

    @property
    def wins(self) -> int:
        """In how many replicates the pretrained arm is strictly better on covered words."""
        return sum(gain > 0 for gain in self.gains)

    def __str__(self) -> str:
        uncovered, train = (f"{m['scratch']:.3f}/{m['pretrained']:.3f}" for m in (self.uncovered, self.train))
        covered = f"scratch={self.covered['scratch']:.3f}, pretrained={self.covered['pretrained']:.3f}"
        gains = f"delta={self.delta:+.3f}, wins={self.wins}/{len(self.gains)}"
        return f"{self.budget}/family: {covered}, {gains}, uncovered={uncovered}, train={train}"


@dataclass(frozen=True)
class LabResult:
    """What a run of the lab gives: one `Replicate` a seed, in the order of the seeds."""

    recipe: Recipe
    replicates: tuple[Replicate, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The table, one row a budget."""

        def row(index: int, budget: int) -> Row:
            pairs = [[r.outcomes[arm][index] for arm in ARMS] for r in self.replicates]

            def means(name: str) -> dict[str, float]:
                return {arm: fmean(getattr(p[i], name).accuracy for p in pairs) for i, arm in enumerate(ARMS)}

            gains = tuple(after.covered.accuracy - before.covered.accuracy for before, after in pairs)
            return Row(budget, means("train"), means("covered"), means("uncovered"), gains)

        return tuple(row(index, budget) for index, budget in enumerate(self.recipe.budgets))

    @property
    def selected(self) -> int:
        """How many positions were scored in all replicates together."""
        return sum(sum(r.branches) for r in self.replicates)

    @property
    def eligible(self) -> int:
        """How many positions could have been scored."""
        return sum(r.eligible for r in self.replicates)

    @property
    def shares(self) -> tuple[float, ...]:
        """The realised shares of [MASK], random and unchanged among the selected, in [0, 1]."""
        return tuple(sum(r.branches[i] for r in self.replicates) / max(1, self.selected) for i in range(3))

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain values, ready for JSON."""
        return asdict(self)


def updates_of(recipe: Recipe) -> int:
    """Give the number of updates of one replicate, pretraining and both arms at every budget."""
    return recipe.updates + len(ARMS) * len(recipe.budgets) * recipe.adaptation_updates


def replicate(recipe: Recipe, seed: int, progress: Progress | None = None) -> Replicate:
    """Run the whole pipeline with one seed, by the plain loop: what `run` does faster."""
    total, before = updates_of(recipe), 0

    def onward(done: int, _: int) -> bool | None:
        return progress(before + done, total) if progress else None

    trained = pretrain(recipe, seed, progress=onward)
    outcomes: dict[str, list[Adapted]] = {arm: [] for arm in ARMS}
    before = recipe.updates
    for budget in recipe.budgets:
        for arm in ARMS:
            outcomes[arm].append(adapt(recipe, seed, getattr(trained, arm), budget, progress=onward))
            before += recipe.adaptation_updates
    return summarise(trained, outcomes)


def replicates(recipe: Recipe, seeds: Sequence[int], progress: Progress | None = None) -> list[Replicate]:
    """Run the whole pipeline with several seeds at once, on the fast engine and one thread."""
    total, before, weight = len(seeds) * updates_of(recipe), 0, len(seeds)

    def onward(done: int, _: int) -> bool | None:
        return progress(before + weight * done, total) if progress else None

    with reproducible():
        trained = pretrain_together(recipe, seeds, progress=onward)
        order = [(run, arm, budget) for run in trained for arm in ARMS for budget in recipe.budgets]
        before, weight = weight * recipe.updates, len(order)
        jobs = [Job(run.seed, getattr(run, arm), budget) for run, arm, budget in order]
        adapted = iter(adapt_together(recipe, jobs, progress=onward))
        return [summarise(run, {arm: [next(adapted) for _ in recipe.budgets] for arm in ARMS}) for run in trained]


def summarise(trained: Pretrained, adapted: dict[str, list[Adapted]]) -> Replicate:
    """Put a replicate's numbers together."""
    language = trained.recipe.language()
    withheld = [language.vocabulary.id(word) for family in language.uncovered for word in family]
    before, after = (state["token_embedding.weight"][withheld] for state in (trained.scratch, trained.pretrained))
    masked, randomised, unchanged = trained.branches.sum(0).tolist()
    return Replicate(
        trained.seed,
        int(trained.eligible.sum()),
        (masked, randomised, unchanged),
        tuple(trained.losses.tolist()),
        int((before != after).any(-1).sum()),
        word_geometry(trained.recipe, trained.scratch),
        word_geometry(trained.recipe, trained.pretrained),
        {arm: tuple(Outcome(a.train, a.covered, a.uncovered) for a in of_arm) for arm, of_arm in adapted.items()},
    )


def shared_out(things: Sequence[Any], parts: int) -> list[tuple[Any, ...]]:
    """Deal things into so many groups, as equal as can be, larger ones first."""
    return [tuple(things[first::parts]) for first in range(parts)]


def run(
    recipe: Recipe = Recipe(),
    seeds: Sequence[int] = SEEDS,
    progress: Progress | None = None,
    workers: int | None = None,
) -> LabResult:
    """Run the lab: one replicate a seed, in `workers` groups side by side.

    The first group runs here, the others in processes of their own. If `workers` is None, there are as many as
    cores that may be used (four at most), and one alone for a run too short to repay the start of a process.
    progress is called in updates of all replicates together. If it returns False, or the run is interrupted, all
    processes are ended at once, and all global state is as it was. What is printed does not depend on `workers`.
    Raises ValueError for no seed, or one that stands twice.
    """
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"seeds must be at least one, and distinct, got {tuple(seeds)}")
    total = len(seeds) * updates_of(recipe)
    if workers is None:
        workers = min(cores(), MOST_WORKERS) if total > WORTH_A_PROCESS else 1
    here, *elsewhere = shared_out(seeds, min(workers, len(seeds)))
    crew: list[Worker] = []

    def onward(done: int, _: int) -> None:
        report(progress, done + sum(worker.done for worker in crew), total)

    try:
        crew += [Worker(replicates, recipe, group) for group in elsewhere]
        found = replicates(recipe, here, onward)
        while not all(worker.finished for worker in crew):
            onward(len(here) * updates_of(recipe), total)
            time.sleep(0.05)
        for worker, group in zip(crew, elsewhere, strict=True):
            # A machine that cannot start the process does its work here, later and with the same numbers.
            found += worker.result or replicates(recipe, group)
        report(progress, total, total)
    finally:
        for worker in crew:
            worker.close()
    by_seed = {one.seed: one for one in found}
    return LabResult(recipe, tuple(by_seed[seed] for seed in seeds))
