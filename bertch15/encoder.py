"""The encoder: token and position embeddings, then post-LayerNorm blocks of attention and feed-forward.

Small on purpose: no segments, no dropout, no LayerNorm on the embeddings. Source: Vaswani et al. 2017 for the
block, Devlin et al. 2019 for learned positions and GELU.
"""

import math

import torch
from torch import Tensor, nn

from bertch15.settings import reproducible
from bertch15.vocabulary import PAD, check_ids


class Attention(nn.Module):
    """Multi-head self-attention: each query reads the keys it may, weighted by softmax."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def weights(self, q: Tensor, k: Tensor, visible: Tensor) -> Tensor:
        """Give the attention weights (B, h, T, T): each row sums to 1, blocked keys are exactly 0."""
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, h, T, T)
        return scores.masked_fill(~visible[:, None], -math.inf).softmax(-1)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project to queries, keys and values, head by head: (B, T, d) -> 3 x (B, h, T, d / h)."""
        B, T, d = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)  # each (B, T, d)
        q, k, v = (part.view(B, T, self.heads, d // self.heads).transpose(1, 2) for part in (q, k, v))
        return q, k, v

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Attend: x (B, T, d), visible (B, T, T) bool -> (B, T, d)."""
        q, k, v = self.split(x)
        mixed = self.weights(q, k, visible) @ v  # (B, h, T, d / h)
        return self.output(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """One post-LayerNorm block: add what was computed to the residual stream, then normalise."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Transform: x (B, T, d), visible (B, T, T) bool -> (B, T, d)."""
        x = self.norm1(x + self.attention(x, visible))
        return self.norm2(x + self.ff(x))


class Encoder(nn.Module):
    """Ids in, one hidden state per position out.

    Construction draws from the global generator, in the order in which the parts are written here.
    """

    def __init__(
        self,
        vocabulary: int = 115,
        length: int = 10,
        width: int = 48,
        heads: int = 4,
        inner: int = 96,
        blocks: int = 2,
    ) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.position_embedding = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(blocks))
        nn.init.normal_(self.token_embedding.weight, std=0.02)
        nn.init.normal_(self.position_embedding.weight, std=0.02)
        with torch.no_grad():
            self.token_embedding.weight[PAD].zero_()

    def embed(self, ids: Tensor) -> Tensor:
        """Give the input of the first block: ids (B, T) -> token + position (B, T, d)."""
        length = self.position_embedding.num_embeddings
        if ids.dim() != 2 or ids.numel() == 0:
            raise ValueError(f"ids must be a batch (B, T) with B and T at least 1, got shape {tuple(ids.shape)}")
        if ids.shape[1] > length:
            raise ValueError(f"a sentence may have at most {length} positions, got {ids.shape[1]}")
        check_ids(ids, self.token_embedding.num_embeddings)
        return self.token_embedding(ids) + self.position_embedding.weight[: ids.shape[1]]

    def forward(self, ids: Tensor, visible: Tensor) -> Tensor:
        """Encode: ids (B, T) int64, visible (B, T, T) bool -> hidden (B, T, d) float32."""
        x = self.embed(ids)
        if visible.shape != (*ids.shape, ids.shape[1]):
            raise ValueError(f"visible must have shape {(*ids.shape, ids.shape[1])}, got {tuple(visible.shape)}")
        for block in self.blocks:
            x = block(x, visible)
        return x

    @torch.no_grad()
    def attention_weights(self, ids: Tensor, visible: Tensor) -> list[Tensor]:
        """Give each block's attention weights for a batch: one (B, h, T, T) a block, rows summing to 1."""
        x, maps = self.embed(ids), []
        for block in self.blocks:
            assert isinstance(block, Block)
            q, k, _ = block.attention.split(x)
            maps.append(block.attention.weights(q, k, visible))
            x = block(x, visible)
        return maps


def count_parameters(module: nn.Module) -> int:
    """Give the number of trainable numbers in a module; a tensor used twice counts once."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


# Held from outside: pages show the definition as it stands.
Encoder.attention_weights = reproducible()(Encoder.attention_weights)  # type: ignore[method-assign]
