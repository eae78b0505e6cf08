"""Fine-tuning: a new head, a few labels, and an encoder that moves with it.

Both arms of the comparison get the same labelled words, the same head tensors, the same updates at the same
rates. They differ in the encoder's start and in nothing else.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertch15.encoder import Encoder
from bertch15.language import COVERED_PER_FAMILY, Language
from bertch15.pretraining import Progress, State, load_encoder, report, seeded
from bertch15.recipe import Recipe
from bertch15.settings import reproducible
from bertch15.visibility import VisibilityKind, visibility


class Classifier(nn.Module):
    """An encoder with a linear head that reads one position's state."""

    def __init__(self, encoder: Encoder, head: nn.Linear, readout: int, kind: VisibilityKind = "full") -> None:
        super().__init__()
        self.encoder, self.head, self.readout, self.kind = encoder, head, readout, kind

    def forward(self, ids: Tensor) -> Tensor:
        """Classify: ids (B, T) -> logits (B, K)."""
        return self.head(self.encoder(ids, visibility(ids, self.kind))[:, self.readout])


@dataclass(frozen=True)
class Task:
    """One labelled split of the words: inputs (n, T) and families (n,) in {0, 1}, family 0's words first.

    train: the budget's labelled words. covered: the other covered words, which test transfer. uncovered: the
    words of no sentence, the control.
    """

    train: tuple[Tensor, Tensor]
    covered: tuple[Tensor, Tensor]
    uncovered: tuple[Tensor, Tensor]


def label_order(seed: int) -> tuple[list[int], list[int]]:
    """Draw the order in which each family's covered words get labels: indices 0 to 19.

    A budget takes the first of each order, so a larger budget's words hold a smaller one's.
    """
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randperm(COVERED_PER_FAMILY, generator=generator).tolist() for _ in (0, 1))
    return first, second


@reproducible()
def make_task(language: Language, seed: int, budget: int) -> Task:
    """Split the words for one budget of labelled words per family, in 1 to 19."""
    if not 1 <= budget < COVERED_PER_FAMILY:
        raise ValueError(f"budget must lie in 1 to {COVERED_PER_FAMILY - 1} words per family, got {budget}")

    def examples(words: list[list[str]]) -> tuple[Tensor, Tensor]:
        families = torch.tensor([family for family in (0, 1) for _ in words[family]])
        return language.neutral_ids(words[0] + words[1]), families

    order, covered = label_order(seed), language.covered
    return Task(
        examples([[covered[f][i] for i in order[f][:budget]] for f in (0, 1)]),
        examples([[covered[f][i] for i in order[f][budget:]] for f in (0, 1)]),
        examples([list(words) for words in language.uncovered]),
    )


@dataclass(frozen=True)
class Score:
    """How many of how many were right."""

    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        """The share that was right, in [0, 1]."""
        return self.correct / self.total


@dataclass(frozen=True)
class Adapted:
    """What one adaptation leaves behind.

    losses: (updates + 1,), the training loss before each update and after the last.
    train, covered, uncovered: the scores on the three sets of `Task`.
    """

    classifier: Classifier
    losses: Tensor
    train: Score
    covered: Score
    uncovered: Score


def new_classifier(recipe: Recipe, seed: int, start: State) -> Classifier:
    """Put a new head on an encoder with the weights `start`; the head depends on the seed alone."""
    encoder = load_encoder(recipe, start)
    with seeded(seed + 10_000):
        head = nn.Linear(recipe.width, 2)
    return Classifier(encoder, head, recipe.readout, recipe.visibility)


@reproducible()
@torch.no_grad()
def evaluate(classifier: Classifier, examples: tuple[Tensor, Tensor]) -> Score:
    """Count the right answers of a classifier; nothing moves."""
    ids, families = examples
    return Score(int((classifier(ids).argmax(-1) == families).sum()), len(families))


def adapt(recipe: Recipe, seed: int, start: State, budget: int, progress: Progress | None = None) -> Adapted:
    """Adapt one start to the task: full-batch Adam on the budget's labelled sentences, then count.

    recipe.adaptation "full" moves encoder and head; "probe" leaves the encoder as it came, bit for bit.
    """
    task = make_task(recipe.language(), seed, budget)
    with reproducible():
        classifier = new_classifier(recipe, seed, start)
        groups = [{"params": list(classifier.head.parameters()), "lr": recipe.head_rate}]
        if recipe.adaptation == "full":
            groups.insert(0, {"params": list(classifier.encoder.parameters()), "lr": recipe.encoder_rate})
        classifier.encoder.requires_grad_(recipe.adaptation == "full")
        optimiser = torch.optim.Adam(groups)
        losses = []
        for step in range(recipe.adaptation_updates):
            loss = F.cross_entropy(classifier(task.train[0]), task.train[1])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            report(progress, step + 1, recipe.adaptation_updates)
        with torch.no_grad():
            losses.append(F.cross_entropy(classifier(task.train[0]), task.train[1]).item())
        scores = [evaluate(classifier, examples) for examples in (task.train, task.covered, task.uncovered)]
    return Adapted(classifier, torch.tensor(losses), *scores)


# Held from outside: pages show the definitions as they stand.
label_order, new_classifier = reproducible()(label_order), reproducible()(new_classifier)
adapt = reproducible()(torch.enable_grad()(adapt))
