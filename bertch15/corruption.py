"""Selection and corruption: which positions are scored, and what the model sees in their place.

Selection and corruption are two draws and two things: `selected[b, t]` is True where the original token is a
target, and `corrupted` (B, T) holds the ids that the model reads. A selected token may stay as it is.
Source of the rule: Devlin et al. 2019, section 3.1 (15 %, then 80/10/10).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args

import torch
from torch import Tensor

from bertch15.settings import reproducible
from bertch15.vocabulary import CLS, MASK, PAD, SEP

EligibleKind = Literal["ordinary", "padding", "every"]
PoolKind = Literal["source", "vocabulary"]


@dataclass(frozen=True)
class Policy:
    """How many positions are selected, and what becomes of them.

    rate: chance that an eligible position is selected, in [0, 1].
    mask_share, random_share: of the selected, the shares that become [MASK] or a random token; the rest stays.
    eligible: "ordinary" (neither [PAD], [CLS] nor [SEP]), "padding" (ordinary and [PAD]) or "every" slot.
    pool: whether random tokens come from the "source" alone or from the whole "vocabulary".
    """

    rate: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    eligible: EligibleKind = "ordinary"
    pool: PoolKind = "source"

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ValueError(f"rate must lie in [0, 1], got {self.rate}")
        for name in ("mask_share", "random_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")
        if self.mask_share + self.random_share > 1 + 1e-9:
            total = self.mask_share + self.random_share
            raise ValueError(f"mask_share + random_share must be at most 1, got {total:g}")
        if self.eligible not in get_args(EligibleKind):
            raise ValueError(f"eligible must be one of {get_args(EligibleKind)}, got {self.eligible!r}")
        if self.pool not in get_args(PoolKind):
            raise ValueError(f"pool must be one of {get_args(PoolKind)}, got {self.pool!r}")

    @property
    def unchanged_share(self) -> float:
        """The share of the selected that stays as it is."""
        return max(0.0, 1 - self.mask_share - self.random_share)


@dataclass(frozen=True)
class Corruption:
    """One corrupted batch; every tensor is (B, T), and none shares memory with the caller's ids.

    ids: the originals. corrupted: what the model reads. eligible, selected: bool.
    masked, randomised, unchanged: bool, the three branches; they part `selected` among them.
    """

    ids: Tensor
    corrupted: Tensor
    eligible: Tensor
    selected: Tensor
    masked: Tensor
    randomised: Tensor

    @property
    def unchanged(self) -> Tensor:
        """Selected, scored, and left as they were."""
        return self.selected & ~self.masked & ~self.randomised

    @property
    def branch_counts(self) -> list[int]:
        """How many selected positions became [MASK], drew a random token, stayed."""
        return [int(branch.sum()) for branch in (self.masked, self.randomised, self.unchanged)]

    def __getitem__(self, rows: Tensor) -> "Corruption":
        """Give the sentences `rows` (B,) int64, in that order, as a corruption of their own."""
        return Corruption(*(getattr(self, field.name)[rows] for field in fields(self)))

    @classmethod
    def join(cls, parts: Sequence["Corruption"]) -> "Corruption":
        """Put several corruptions of equal length T one below the other."""
        return cls(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def eligible_positions(ids: Tensor, kind: EligibleKind = "ordinary") -> Tensor:
    """Give the positions that may be selected: ids (B, T) -> eligible (B, T) bool."""
    if kind == "every":
        return torch.ones_like(ids, dtype=torch.bool)
    ordinary_or_padding = (ids != CLS) & (ids != SEP)
    return ordinary_or_padding if kind == "padding" else ordinary_or_padding & (ids != PAD)


def corrupt(ids: Tensor, pool: Tensor, generator: torch.Generator, policy: Policy = Policy()) -> Corruption:
    """Select positions and corrupt them, with draws from `generator` alone.

    ids: (B, T) int64, not changed. pool: (P,) int64, the ids a random replacement may draw, the original
    among them (so a share random_share / P of the selected draws itself). Every draw has the batch's full
    shape, whether it is needed or not: so the stream does not depend on what was selected.

    At least one position is selected in a batch, so that the loss has a target; none is where the rate is 0
    or nothing is eligible, and `selected` is then False everywhere.
    Raises ValueError for an empty batch, an empty pool, or a generator on another device.
    """
    if ids.dim() != 2 or ids.numel() == 0:
        raise ValueError(f"ids must be a batch (B, T) with B and T at least 1, got shape {tuple(ids.shape)}")
    if ids.dtype != torch.int64 or pool.dtype != torch.int64:
        raise ValueError(f"ids and pool must be int64, got {ids.dtype} and {pool.dtype}")
    if pool.dim() != 1 or len(pool) == 0:
        raise ValueError(f"pool must be a list (P,) of at least one id, got shape {tuple(pool.shape)}")
    if generator.device.type != ids.device.type:
        raise ValueError(
            f"generator is on {generator.device}, but ids are on {ids.device}: use one device for both"
        )
    shape = ids.shape

    eligible = eligible_positions(ids, policy.eligible)
    selected = (torch.rand(shape, generator=generator) < policy.rate) & eligible
    if policy.rate > 0 and not selected.any() and eligible.any():
        candidates = eligible.flatten().nonzero().flatten()
        chosen = candidates[torch.randint(len(candidates), (1,), generator=generator)]
        selected.view(-1)[chosen] = True

    branch = torch.rand(shape, generator=generator)
    masked = selected & (branch < policy.mask_share)
    randomised = selected & ~masked & (branch < policy.mask_share + policy.random_share)
    drawn = pool[torch.randint(len(pool), shape, generator=generator)]

    corrupted = torch.where(masked, MASK, torch.where(randomised, drawn, ids))
    return Corruption(ids.clone(), corrupted, eligible, selected, masked, randomised)


@dataclass(frozen=True)
class Count:
    """A realised count beside its expectation: `count` of `total`, each with probability `expected`."""

    name: str
    count: int
    total: int
    expected: float

    @property
    def share(self) -> float:
        """The realised share, in [0, 1]; 0 of 0 counts as 0."""
        return self.count / self.total if self.total else 0.0

    def bounds(self, deviations: float = 4.0) -> tuple[float, float]:
        """Give the shares within so many binomial standard deviations of the expected one."""
        spread = deviations * (self.expected * (1 - self.expected) / max(1, self.total)) ** 0.5
        return max(0.0, self.expected - spread), min(1.0, self.expected + spread)

    @property
    def within(self) -> bool:
        """Whether the realised share lies within four standard deviations; of nothing, any share would."""
        low, high = self.bounds()
        return self.total == 0 or low - 1e-12 <= self.share <= high + 1e-12


@reproducible()
def audit(
    ids: Tensor, pool: Tensor, generator: torch.Generator, policy: Policy = Policy(), batches: int = 100
) -> list[Count]:
    """Count what the policy really does, over many corruptions of the same ids.

    Returns the rows: selected of eligible, the three branches of selected, and the two that must be nothing:
    special or padding positions selected, and replacements drawn from outside the pool.
    Read them before the first loss: a loss falls just as well while the selector trains on padding.
    """
    if batches < 1:
        raise ValueError(f"batches must be at least 1, got {batches}")
    eligible = selected = framing = foreign = 0
    branches = [0, 0, 0]
    never = torch.isin(ids, torch.tensor([PAD, CLS, SEP]))  # not asked of the selector that is under audit
    for _ in range(batches):
        batch = corrupt(ids, pool, generator, policy)
        eligible += int(batch.eligible.sum())
        selected += int(batch.selected.sum())
        branches = [a + b for a, b in zip(branches, batch.branch_counts, strict=True)]
        framing += int(batch.selected[never].sum())
        foreign += int((~torch.isin(batch.corrupted[batch.randomised], pool)).sum())
    return [
        Count("selected of eligible", selected, eligible, policy.rate),
        Count("[MASK] of selected", branches[0], selected, policy.mask_share),
        Count("random of selected", branches[1], selected, policy.random_share),
        Count("unchanged of selected", branches[2], selected, policy.unchanged_share),
        Count("special or padding selected", framing, selected, 0.0),
        Count("random tokens from outside the pool", foreign, branches[1], 0.0),
    ]


# Held from outside: pages show the definition as it stands.
corrupt = reproducible()(corrupt)
