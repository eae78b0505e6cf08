"""Corruption: (ids, pool, generator) -> (corrupted, selected), both (B, T). Rate 0.15, shares 0.8, 0.1 and 0.1."""

# ruff: noqa: D103  # the words of an exhibit stand in its decorator

import torch
from torch import Tensor

from bertch15.check.exercise_6.exhibits.gallery import Function, Gallery
from bertch15.corruption import corrupt
from bertch15.vocabulary import CLS, MASK, PAD, SEP

CORRUPTION = Gallery()
Batch = tuple[Tensor, Tensor]


def ordinary(ids: Tensor) -> Tensor:
    """Mark the positions that may be selected: neither [PAD], [CLS] nor [SEP]."""
    return ~torch.isin(ids, torch.tensor([PAD, CLS, SEP]))


def uniform(ids: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw one number in [0, 1) a position."""
    return torch.rand(ids.shape, generator=generator)


def words(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one id of the pool a position."""
    return pool[torch.randint(len(pool), ids.shape, generator=generator)]


def replaced(ids: Tensor, pool: Tensor, generator: torch.Generator, selected: Tensor) -> Tensor:
    """Corrupt the selected positions by one more number each."""
    branch, drawn = uniform(ids, generator), words(ids, pool, generator)
    return torch.where(selected & (branch < 0.8), MASK, torch.where(selected & (branch >= 0.9), drawn, ids))


@CORRUPTION.sound("the book's own")
def as_the_book(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    batch = corrupt(ids, pool, generator)
    return batch.corrupted, batch.selected


@CORRUPTION.sound("one that draws a second number for what the first left over")
def in_two_draws(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = (uniform(ids, generator) < 0.15) & ordinary(ids)
    masked = selected & (uniform(ids, generator) < 0.8)
    random = selected & ~masked & (uniform(ids, generator) < 0.5)
    corrupted = ids.masked_fill(masked, MASK)
    return torch.where(random, words(ids, pool, generator), corrupted), selected


@CORRUPTION.sound("one that decides selection and branch by a single number")
def in_one_draw(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    number = uniform(ids, generator) + (~ordinary(ids)).float()
    masked, random = number < 0.12, (number >= 0.12) & (number < 0.135)
    corrupted = torch.where(masked, MASK, ids)
    return torch.where(random, words(ids, pool, generator), corrupted), number < 0.15


@CORRUPTION.sound("one that draws the branch as a category")
def by_categories(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = torch.bernoulli(ordinary(ids).float() * 0.15, generator=generator).bool()
    shares = torch.tensor([0.8, 0.1, 0.1]).expand(ids.numel(), 3)
    branch = torch.multinomial(shares, 1, generator=generator).reshape(ids.shape)
    choices = torch.stack([torch.full_like(ids, MASK), words(ids, pool, generator), ids])
    return torch.where(selected, choices.gather(0, branch[None])[0], ids), selected


@CORRUPTION.sound("one that selects a fixed number of positions in a random order")
def by_count(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    candidates = ordinary(ids).flatten().nonzero().flatten()
    count = int(0.15 * len(candidates) + float(torch.rand(1, generator=generator)))
    chosen = candidates[torch.randperm(len(candidates), generator=generator)[:count]]
    selected = torch.zeros(ids.numel(), dtype=torch.bool).index_fill(0, chosen, True).reshape(ids.shape)
    return replaced(ids, pool, generator, selected), selected


@CORRUPTION.sound("one that goes sentence by sentence and writes into a copy")
def sentence_by_sentence(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    corrupted, selected = ids.clone(), torch.zeros_like(ids, dtype=torch.bool)
    for row in range(len(ids)):
        selected[row] = (uniform(ids[row], generator) > 0.85) & ordinary(ids[row])
        corrupted[row] = replaced(ids[row], pool, generator, selected[row])
    return corrupted, selected


@CORRUPTION.faulty("too few random tokens, and too many left unchanged")
def small_share(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = (uniform(ids, generator) < 0.15) & ordinary(ids)
    masked = selected & (uniform(ids, generator) < 0.8)
    random = selected & ~masked & (uniform(ids, generator) < 0.1)
    return torch.where(random, words(ids, pool, generator), ids.masked_fill(masked, MASK)), selected


@CORRUPTION.faulty("too few positions selected")
def small_rate(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = (uniform(ids, generator) < 0.12) & ordinary(ids)
    return replaced(ids, pool, generator, selected), selected


@CORRUPTION.faulty("padding selected (does your batch hold any?)")
def padding_selected(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = (uniform(ids, generator) < 0.15) & (ids != CLS) & (ids != SEP)
    return replaced(ids, pool, generator, selected), selected


@CORRUPTION.faulty("[CLS] and [SEP] selected")
def frame_selected(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = torch.bernoulli((ids != PAD) * 0.15, generator=generator).bool()
    return replaced(ids, pool, generator, selected), selected


@CORRUPTION.faulty("special tokens drawn as replacements")
def specials_drawn(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = (uniform(ids, generator) < 0.15) & ordinary(ids)
    return replaced(ids, torch.cat([torch.arange(5), pool]), generator, selected), selected


@CORRUPTION.faulty("control words drawn that the pool leaves out (does your pool leave any out?)")
def controls_drawn(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = (uniform(ids, generator) < 0.15) & ordinary(ids)
    drawable = torch.arange(int(pool.min()), int(pool.max()) + 1)
    return replaced(ids, drawable, generator, selected), selected


@CORRUPTION.faulty("replacements at positions that are not selected")
def unselected_replaced(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = (uniform(ids, generator) < 0.15) & ordinary(ids)
    stray = ordinary(ids) & ~selected & (uniform(ids, generator) < 0.02)
    corrupted = replaced(ids, pool, generator, selected)
    return torch.where(stray, words(ids, pool, generator), corrupted), selected


@CORRUPTION.faulty("only the positions that changed counted as selected")
def unchanged_dropped(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    asked = (uniform(ids, generator) < 0.15) & ordinary(ids)
    corrupted = replaced(ids, pool, generator, asked)
    return corrupted, corrupted != ids


@CORRUPTION.faulty("the caller's ids changed in place")
def in_place(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = (uniform(ids, generator) < 0.15) & ordinary(ids)
    ids[:] = replaced(ids, pool, generator, selected)
    return ids.clone(), selected


@CORRUPTION.faulty("draws from the global generator")
def global_stream(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = (uniform(ids, None) < 0.15) & ordinary(ids)
    return replaced(ids, pool, generator, selected), selected


@CORRUPTION.faulty("the global generator seeded anew, so that other code draws other numbers")
def global_seed(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    selected = (uniform(ids, generator) < 0.15) & ordinary(ids)
    torch.random.default_generator.manual_seed(0)
    return replaced(ids, pool, generator, selected), selected


@CORRUPTION.faulty("masks written once and used again", fresh=True)
def written_once() -> Function:
    written: dict[tuple[int, ...], Batch] = {}

    def once(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
        key = tuple(ids.flatten().tolist())
        if key not in written:
            selected = (uniform(ids, generator) < 0.15) & ordinary(ids)
            written[key] = replaced(ids, pool, generator, selected), selected
        corrupted, selected = written[key]
        return corrupted.clone(), selected.clone()

    return once


@CORRUPTION.faulty("the generator set back to its beginning at each call")
def begun_again(ids: Tensor, pool: Tensor, generator: torch.Generator) -> Batch:
    generator.manual_seed(generator.initial_seed())
    selected = (uniform(ids, generator) < 0.15) & ordinary(ids)
    return replaced(ids, pool, generator, selected), selected
