"""The two stages of the lab on the fast engine: many replicates at once, with the results of the plain loop."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bertch15.fast.gradient import EncoderTape, cross_entropy
from bertch15.fast.optimiser import Optimiser, Part
from bertch15.fast.stack import Reading, Stack
from bertch15.finetuning import Adapted, Task, evaluate, make_task, new_classifier
from bertch15.pretraining import (
    Pretrained,
    Progress,
    Question,
    State,
    check_snapshots,
    new_encoder,
    new_head,
    questions,
    report,
    seeded,
)
from bertch15.recipe import Recipe
from bertch15.settings import reproducible
from bertch15.visibility import visibility
from bertch15.vocabulary import PAD


def clip_gradients(gradients: Stack, largest: float) -> None:
    """Scale each replicate's gradient in place so that its norm is at most `largest`."""
    rows = [view.flatten(1) for view in gradients.views.values()]
    norms = torch.stack([torch.linalg.vector_norm(row, dim=1) for row in rows]).norm(dim=0)  # (R,)
    factors = (largest / (norms + 1e-6)).clamp_(max=1.0)[:, None]
    for row in rows:
        row.mul_(factors)


class PretrainingTape(EncoderTape):
    """R encoders with their pretraining heads; tied: (V,) bool, as in `PretrainingHead`."""

    def __init__(self, weights: Stack, recipe: Recipe, tied: Tensor) -> None:
        super().__init__(weights, recipe.blocks, recipe.heads)
        self.tied = tied[:, None] if tied.any() else None

    def losses(self, reading: Reading, targets: Tensor, shares: Tensor) -> Tensor:
        """Give the R losses and write all gradients; targets and shares (R, M)."""
        x = self.gelu_forward("head.gelu.", self.linear_forward("head.dense.", self.forward(reading)))
        hidden = self.norm_forward("head.norm.", x)
        decoder, table = self.weights["head.decoder.weight"], self.weights["encoder.token_embedding.weight"]
        weight = decoder if self.tied is None else torch.where(self.tied, table, decoder)
        logits = torch.baddbmm(self.weights["head.decoder.bias"][:, None], hidden, weight.mT)  # (R, M, V)

        losses, of_logits = cross_entropy(logits, targets, shares)
        of_weight = self.gradients["head.decoder.weight"]
        torch.bmm(of_logits.mT, hidden, out=of_weight)
        torch.sum(of_logits, 1, out=self.gradients["head.decoder.bias"])
        of_hidden = self.norm_backward("head.norm.", torch.bmm(of_logits, weight))
        self.backward(self.linear_backward("head.dense.", self.gelu_backward("head.gelu.", of_hidden)))
        if self.tied is not None:
            self.gradients["encoder.token_embedding.weight"].add_(of_weight * self.tied)
            of_weight.mul_(~self.tied)
        return losses


def side_by_side(asked: Sequence[Question], trim: bool) -> tuple[Reading, Tensor, Tensor]:
    """Put the questions of R replicates on one axis: the reading, the targets (R, M) and their shares (R, M).

    A sentence in which nothing is scored has no gradient, so it is left out; at a rate of 15 % that is two in
    five. B and M are the largest counts of sentences and of targets among the replicates; one with fewer fills up
    with its first sentence and with rows of share 0. `trim` cuts the columns that hold nothing but padding.
    """
    scored = [question.selected.any(1).nonzero()[:, 0] for question in asked]
    sentences = fill_up(scored)  # (R, B)
    ids = torch.stack([q.inputs[chosen] for q, chosen in zip(asked, sentences, strict=True)])
    length = longest(ids.flatten(0, 1)) if trim else ids.shape[-1]
    visible = torch.stack([q.visible[chosen] for q, chosen in zip(asked, sentences, strict=True)])
    chosen = [q.selected[kept, :length].flatten().nonzero()[:, 0] for q, kept in zip(asked, scored, strict=True)]
    targets = [question.targets for question in asked]
    shares = [torch.full(t.shape, 1 / max(1, len(t))) for t in targets]
    reading = Reading.of(ids[..., :length], visible[..., :length, :length], fill_up(chosen))
    return reading, fill_up(targets), fill_up(shares)


def fill_up(rows: Sequence[Tensor]) -> Tensor:
    """Stack tensors of unequal length, the shorter ones filled up with zeros; at least one entry each."""
    filled = nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
    return filled if filled.shape[1] else filled.new_zeros(len(rows), 1, *filled.shape[2:])


def may_trim(recipe: Recipe) -> bool:
    """Say whether nobody reads or scores padding, so that columns of padding alone need no arithmetic."""
    scored = recipe.objective == "masked" and recipe.policy.eligible != "ordinary"
    return recipe.visibility != "unpadded" and not scored


def longest(ids: Tensor) -> int:
    """Give the number of columns up to the last one that holds more than padding: ids (B, T)."""
    return int((ids != PAD).any(0).nonzero().max()) + 1


@reproducible()
def pretrain_together(
    recipe: Recipe, seeds: Sequence[int], snapshots: Sequence[int] = (), progress: Progress | None = None
) -> list[Pretrained]:
    """Do what `bertch15.pretraining.pretrain` does, for several seeds at once."""
    check_snapshots(recipe, snapshots)
    models: list[State] = []
    for seed in seeds:
        with seeded(seed):
            encoder, head = new_encoder(recipe), new_head(recipe)
        models.append(named_tensors(encoder=encoder, head=head))
    with torch.no_grad():
        weights = Stack(models)
        scratch = [weights.copy(r, "encoder.") for r in range(len(seeds))]
        tape = PretrainingTape(weights, recipe, head.tied)
        every = Part(weights.flat, tape.gradients.flat, recipe.rate)
        optimiser = Optimiser(recipe.optimiser, [every], recipe.weight_decay)
        kept: list[dict[int, State]] = [
            {0: weights.copy(r, "encoder.")} if 0 in snapshots else {} for r in range(len(seeds))
        ]
        losses, asked_before = [], []
        streams = [questions(recipe, recipe.language(), seed) for seed in seeds]
        for step, asked in enumerate(zip(*streams, strict=True), start=1):
            losses.append(tape.losses(*side_by_side(asked, may_trim(recipe))))
            if recipe.clip is not None:
                clip_gradients(tape.gradients, recipe.clip)
            optimiser.step()
            asked_before.append([(q.branches, q.eligible) for q in asked])
            if step in snapshots:
                for r, of_seed in enumerate(kept):
                    of_seed[step] = weights.copy(r, "encoder.")
            report(progress, step, recipe.updates)
    curves = torch.stack(losses, 1) if losses else torch.zeros(len(seeds), 0)
    return [
        Pretrained(
            recipe,
            seed,
            scratch[r],
            weights.copy(r, "encoder."),
            weights.copy(r, "head."),
            curves[r].clone(),
            torch.tensor([row[r][0] for row in asked_before], dtype=torch.int64).reshape(-1, 3),
            torch.tensor([row[r][1] for row in asked_before], dtype=torch.int64),
            kept[r],
        )
        for r, seed in enumerate(seeds)
    ]


def named_tensors(**modules: nn.Module) -> State:
    """Name the parameters of several modules, each with the name it is passed under as a prefix."""
    return {f"{prefix}.{name}": p for prefix, module in modules.items() for name, p in module.named_parameters()}


class ClassifierTape(EncoderTape):
    """R encoders with their classifier heads."""

    def losses(self, reading: Reading, families: Tensor, shares: Tensor) -> Tensor:
        """Give the R losses of one full batch and write all gradients; families and shares (R, n)."""
        logits = self.linear_forward("head.", self.forward(reading))
        losses, of_logits = cross_entropy(logits, families, shares)
        self.backward(self.linear_backward("head.", of_logits))
        return losses


class Job(NamedTuple):
    """One adaptation: a replicate's seed, the encoder's start, and the labelled words per family."""

    seed: int
    start: State
    budget: int


def all_sentences(recipe: Recipe, tasks: Sequence[Task]) -> tuple[Reading, Tensor, Tensor]:
    """Put the training sentences of R tasks on one axis: the reading, families (R, n) and shares (R, n)."""
    ids = fill_up([task.train[0] for task in tasks])  # (R, n, T)
    ids = torch.where(ids.any(-1, keepdim=True), ids, ids[:, :1])  # a row that fills up repeats the first sentence
    visible = torch.stack([visibility(of_task, recipe.visibility) for of_task in ids])
    length = ids.shape[-1]
    if recipe.visibility != "unpadded":
        length = max(longest(ids.flatten(0, 1)), recipe.readout + 1)
    rows = (torch.arange(ids.shape[1]) * length + recipe.readout).expand(len(tasks), -1)
    shares = fill_up([torch.full((len(task.train[1]),), 1 / len(task.train[1])) for task in tasks])
    reading = Reading.of(ids[..., :length], visible[..., :length, :length], rows)
    return reading, fill_up([task.train[1] for task in tasks]), shares


@reproducible()
def adapt_together(recipe: Recipe, jobs: Sequence[Job], progress: Progress | None = None) -> list[Adapted]:
    """Do what `bertch15.finetuning.adapt` does, for several adaptations at once: one result a job."""
    tasks = [make_task(recipe.language(), job.seed, job.budget) for job in jobs]
    classifiers = [new_classifier(recipe, job.seed, job.start) for job in jobs]
    with torch.no_grad():
        weights = Stack([named_tensors(encoder=c.encoder, head=c.head) for c in classifiers])
        tape = ClassifierTape(weights, recipe.blocks, recipe.heads)
        batch = all_sentences(recipe, tasks)
        rates = {"head.": recipe.head_rate}
        if recipe.adaptation == "full":
            rates["encoder."] = recipe.encoder_rate
        parts = [Part(weights.part(n), tape.gradients.part(n), rate) for n, rate in rates.items()]
        optimiser = Optimiser("adam", parts)
        losses = []
        for step in range(recipe.adaptation_updates):
            losses.append(tape.losses(*batch))
            optimiser.step()
            report(progress, step + 1, recipe.adaptation_updates)
        losses.append(tape.losses(*batch))
        curves = torch.stack(losses, 1)
        results = []
        for r, (classifier, task) in enumerate(zip(classifiers, tasks, strict=True)):
            classifier.load_state_dict(weights.copy(r))
            scores = [evaluate(classifier, examples) for examples in (task.train, task.covered, task.uncovered)]
            results.append(Adapted(classifier, curves[r].clone(), *scores))
    return results
