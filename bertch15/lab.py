"""The lab: replicates from nothing to a score, and the table that the chapter prints.

Each replicate repeats the whole pipeline with a seed of its own: initialisation, corruption, pretraining,
choice of labels, adaptation of both arms. Five seeds on one corpus, so five independent units.
"""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from bertch15.finetuning import Score, adapt
from bertch15.geometry import Cosines, word_geometry
from bertch15.pretraining import Pretrained, Progress, pretrain, report, reproducible
from bertch15.recipe import SEEDS, Recipe

ARMS = ("scratch", "pretrained")


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
    """Run the whole pipeline with one seed."""
    total, before = updates_of(recipe), 0

    def onward(done: int, _: int) -> bool | None:
        return progress(before + done, total) if progress else None

    trained = pretrain(recipe, seed, progress=onward)
    outcomes: dict[str, list[Outcome]] = {arm: [] for arm in ARMS}
    before = recipe.updates
    for budget in recipe.budgets:
        for arm in ARMS:
            adapted = adapt(recipe, seed, getattr(trained, arm), budget, progress=onward)
            outcomes[arm].append(Outcome(adapted.train, adapted.covered, adapted.uncovered))
            before += recipe.adaptation_updates
    return summarise(trained, {arm: tuple(of_arm) for arm, of_arm in outcomes.items()})


def summarise(trained: Pretrained, outcomes: dict[str, tuple[Outcome, ...]]) -> Replicate:
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
        outcomes,
    )


def run(
    recipe: Recipe = Recipe(),
    seeds: Sequence[int] = SEEDS,
    progress: Progress | None = None,
    workers: int | None = None,
) -> LabResult:
    """Run the lab: one replicate a seed, `workers` of them side by side (as many as there are cores if None).

    progress is called from the caller's thread, several times a second, in updates of all replicates together.
    If it returns False, or the run is interrupted, the replicates under way end at their next update, and all
    global state is as it was. The numbers do not depend on `workers`.
    Raises ValueError for no seed, or one that stands twice.
    """
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"seeds must be at least one, and distinct, got {tuple(seeds)}")
    workers = min(len(seeds), workers or os.cpu_count() or 1)
    done, total = dict.fromkeys(seeds, 0), len(seeds) * updates_of(recipe)
    stop = threading.Event()

    def work(seed: int) -> Replicate:
        def onward(updates: int, _: int) -> bool:
            done[seed] = updates
            return not stop.is_set()

        return replicate(recipe, seed, onward)

    with reproducible(), ThreadPoolExecutor(workers, thread_name_prefix="replicate") as pool:
        futures = [pool.submit(work, seed) for seed in seeds]
        try:
            while wait(futures, timeout=0.1, return_when=FIRST_EXCEPTION).not_done:
                report(progress, sum(done.values()), total)
                if any(future.done() and future.exception() for future in futures):
                    break
            replicates = tuple(future.result() for future in futures)
            report(progress, total, total)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return LabResult(recipe, replicates)
