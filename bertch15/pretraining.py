"""Pretraining: the text asks, the encoder answers, and the answer moves the encoder.

The head stands on the encoder for the time of pretraining and is thrown away afterwards. Source of the head:
Devlin et al. 2019 and their released code, but for the decoder, which theirs ties to the token embedding.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertch15.corruption import Corruption, corrupt
from bertch15.encoder import Encoder
from bertch15.language import LENGTH, Language
from bertch15.recipe import Recipe
from bertch15.settings import reproducible
from bertch15.visibility import visibility
from bertch15.vocabulary import PAD

State = dict[str, Tensor]
Progress = Callable[[int, int], bool | None]
"""Called as progress(done, total) in updates; a callback that returns False ends the run by `Cancelled`."""


class Cancelled(Exception):
    """A progress callback asked for the end of the run."""


def report(progress: Progress | None, done: int, total: int) -> None:
    """Tell the callback how far the run is; raise `Cancelled` if it answers False."""
    if progress is not None and progress(done, total) is False:
        raise Cancelled(f"cancelled after {done} of {total} updates")


_GLOBAL_STREAM = threading.Lock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generator, from which modules draw their weights, and give its state back at the end.

    The draws inside are those of torch as it comes, whatever was set (`reproducible`). One caller at a time:
    replicates may run side by side in threads.
    """
    with reproducible(), _GLOBAL_STREAM, torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        yield


class PretrainingHead(nn.Module):
    """Score the vocabulary at the selected positions: Linear, GELU, LayerNorm, decoder.

    tied: (V,) bool, the rows of the decoder that are the token embedding's own. The lab ties none: a tied row
    moves with every softmax, so the words that never occur would move too.
    """

    tied: Tensor

    def __init__(self, width: int, vocabulary: int, tied: Tensor | None = None) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.decoder = nn.Linear(width, vocabulary)
        nothing = torch.zeros(vocabulary, dtype=torch.bool)
        self.register_buffer("tied", nothing if tied is None else tied, persistent=False)

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """Decode: hidden (M, d), the token embedding (V, d) -> logits (M, V)."""
        hidden = self.norm(F.gelu(self.dense(hidden)))
        weight = self.decoder.weight
        if self.tied.any():
            weight = torch.where(self.tied[:, None], embedding, weight)
        return F.linear(hidden, weight, self.decoder.bias)


@dataclass(frozen=True)
class Question:
    """One batch as the model is asked it.

    inputs: the ids it reads (B, T). visible: (B, T, T) bool, by the padding of the originals.
    selected: the positions scored (B, T) bool, M of them. targets: the right answers (M,), row by row.
    branches: how many became [MASK], drew at random, stayed. eligible: how many could have been selected.
    """

    inputs: Tensor
    visible: Tensor
    selected: Tensor
    targets: Tensor
    branches: tuple[int, ...]
    eligible: int


def masked_question(batch: Corruption, visible: Tensor) -> Question:
    """Ask for the originals at the selected positions of a corrupted batch."""
    targets = batch.ids[batch.selected]
    branches, eligible = tuple(batch.branch_counts), int(batch.eligible.sum())
    return Question(batch.corrupted, visible, batch.selected, targets, branches, eligible)


def next_token_question(ids: Tensor, visible: Tensor) -> Question:
    """Ask at each position for the token after it; the one shift between inputs and targets stands here."""
    selected = torch.zeros_like(ids, dtype=torch.bool)
    selected[:, :-1] = ids[:, 1:] != PAD
    targets = ids[:, 1:][selected[:, :-1]]
    return Question(ids, visible, selected, targets, (0, 0, 0), len(targets))


@reproducible()
def schedule(recipe: Recipe, seed: int, sentences: int) -> Tensor:
    """Draw which sentences each update sees: (updates, batch) int64, values in [0, sentences)."""
    generator = torch.Generator().manual_seed(seed + 1)
    return torch.randint(sentences, (recipe.updates, recipe.batch), generator=generator)


def questions(recipe: Recipe, language: Language, seed: int) -> Iterator[Question]:
    """Ask the questions of one replicate, update by update, with draws from generators of its own."""
    source, policy, copies = language.source_ids, recipe.policy, recipe.static_masks
    visible_of_source = visibility(source, recipe.visibility)
    pool = language.pool if policy.pool == "source" else torch.arange(len(language.vocabulary), device="cpu")
    generator = torch.Generator().manual_seed(seed + 2)
    if copies:
        written = Corruption.join([corrupt(source, pool, generator, policy) for _ in range(copies)])
    for rows in schedule(recipe, seed, len(source)):
        ids, visible = source[rows], visible_of_source[rows]
        if recipe.objective == "next token":
            yield next_token_question(ids, visible)
        elif copies:
            copy = torch.randint(copies, rows.shape, generator=generator, device="cpu")
            yield masked_question(written[copy * len(source) + rows], visible)
        else:
            yield masked_question(corrupt(ids, pool, generator, policy), visible)


def question_loss(encoder: Encoder, head: PretrainingHead, question: Question) -> Tensor:
    """Give the mean cross-entropy over the selected positions; 0, with zero gradient, where none is selected."""
    hidden = encoder(question.inputs, question.visible)[question.selected]  # (M, d)
    logits = head(hidden, encoder.token_embedding.weight)  # (M, V)
    return F.cross_entropy(logits, question.targets, reduction="sum") / max(1, len(question.targets))


@reproducible()
def new_encoder(recipe: Recipe) -> Encoder:
    """Build the encoder of a recipe, with draws from the global generator."""
    size = len(recipe.language().vocabulary)
    return Encoder(size, LENGTH, recipe.width, recipe.heads, recipe.inner, recipe.blocks)


@reproducible()
def load_encoder(recipe: Recipe, state: State) -> Encoder:
    """Build the encoder of a recipe with the weights `state`; no global state is left changed."""
    with seeded(0):  # the weights drawn here are overwritten at once
        encoder = new_encoder(recipe)
    encoder.load_state_dict(state)
    return encoder


@reproducible()
def new_head(recipe: Recipe) -> PretrainingHead:
    """Build the pretraining head of a recipe, with draws from the global generator."""
    language = recipe.language()
    tied = torch.full((len(language.vocabulary),), recipe.decoder == "tied")
    if recipe.decoder == "tied source rows":
        tied[language.pool] = True
    return PretrainingHead(recipe.width, len(tied), tied)


def new_optimiser(recipe: Recipe, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Give the optimiser of the pretraining updates."""
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    return kinds[recipe.optimiser](parameters, lr=recipe.rate, weight_decay=recipe.weight_decay)


def copy_state(module: nn.Module) -> State:
    """Copy a module's weights, so that training the module leaves the copy alone."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


@dataclass(frozen=True)
class Pretrained:
    """What one pretraining run leaves behind.

    scratch, pretrained: the encoder's weights before and after. head: the weights of the pretraining head after.
    losses: (updates,), the loss of each update's batch before the update. branches: (updates, 3) counts.
    eligible: (updates,) counts. snapshots: the encoder's weights after so many updates (0: the scratch start).
    """

    recipe: Recipe
    seed: int
    scratch: State
    pretrained: State
    head: State
    losses: Tensor
    branches: Tensor
    eligible: Tensor
    snapshots: dict[int, State]


def check_snapshots(recipe: Recipe, snapshots: Sequence[int]) -> None:
    """Raise ValueError unless every step asked for is one that the recipe reaches."""
    if any(not 0 <= step <= recipe.updates for step in snapshots):
        raise ValueError(f"snapshots must be steps in 0 to {recipe.updates}, got {tuple(snapshots)}")


def pretrain(
    recipe: Recipe,
    seed: int,
    snapshots: Sequence[int] = (),
    progress: Progress | None = None,
    make_head: Callable[[Recipe], Any] = new_head,
) -> Pretrained:
    """Run the pretraining of one replicate: one seed, one batch, one update after another.

    make_head: makes what stands on the encoder; called as head(hidden (M, d), embedding (V, d)) -> logits (M, V).
    """
    check_snapshots(recipe, snapshots)
    with reproducible():
        with seeded(seed):
            encoder, head = new_encoder(recipe), make_head(recipe)
        scratch = copy_state(encoder)
        parameters = [*encoder.parameters(), *head.parameters()]
        optimiser = new_optimiser(recipe, parameters)
        kept = {0: copy_state(encoder)} if 0 in snapshots else {}
        losses, branches, eligible = [], [], []
        for step, question in enumerate(questions(recipe, recipe.language(), seed), start=1):
            loss = question_loss(encoder, head, question)
            optimiser.zero_grad()
            loss.backward()
            if recipe.clip is not None:
                nn.utils.clip_grad_norm_(parameters, recipe.clip)
            optimiser.step()
            losses.append(loss.item())
            branches.append(question.branches)
            eligible.append(question.eligible)
            if step in snapshots:
                kept[step] = copy_state(encoder)
            report(progress, step, recipe.updates)
    counts = torch.tensor(branches, dtype=torch.int64).reshape(-1, 3), torch.tensor(eligible, dtype=torch.int64)
    pretrained, after = copy_state(encoder), copy_state(head)
    return Pretrained(recipe, seed, scratch, pretrained, after, torch.tensor(losses), *counts, kept)


# Held from outside: pages show the definition as it stands.
pretrain = reproducible()(torch.enable_grad()(pretrain))
