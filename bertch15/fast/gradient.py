"""Forward and backward of the encoder, written out by hand, for R replicates at once.

What automatic differentiation does for `bertch15.encoder`, said in the tensors' own terms: each `_forward` keeps
what its `_backward` needs, and each `_backward` writes the gradients of its own weights and passes on that of
its input. Four savings make it fast: the replicates stand on a leading axis, so that one call serves them all; no
graph is built; all gradients land in one matrix, which the optimiser treats as one; and the last block computes
only the rows that somebody reads.

Letters: R replicates, B batch, T positions, d width, h heads, N = B * T rows, M rows that are read.
"""

import math
from typing import Any

import torch
from torch import Tensor

from bertch15.fast.stack import Reading, Stack
from bertch15.vocabulary import PAD

EPSILON = 1e-5
"""What torch's LayerNorm adds to the variance."""


class Tape:
    """Linear layers, LayerNorms and GELU over stacked weights; what a backward needs is kept on a pile.

    A backward pass calls the `_backward` methods in the reverse order of the `_forward` calls. Large tensors are
    written into rooms that are used again at the next update: fresh memory costs more than the arithmetic.
    """

    def __init__(self, weights: Stack) -> None:
        self.weights, self.gradients = weights, weights.zeros()
        self.kept: list[Any] = []
        self.rooms: dict[tuple[str, tuple[int, ...]], Tensor] = {}

    def room(self, name: str, *shape: int) -> Tensor:
        """Give the place where the tensor `name` of this shape is written at every update."""
        if (name, shape) not in self.rooms:
            self.rooms[name, shape] = self.weights.flat.new_empty(shape)
        return self.rooms[name, shape]

    def linear_forward(self, name: str, x: Tensor) -> Tensor:
        """Apply a linear layer: x (R, N, in) -> (R, N, out)."""
        self.kept.append(x)
        weight, bias = self.weights[name + "weight"], self.weights[name + "bias"]
        out = self.room(name, *x.shape[:2], weight.shape[1])
        return torch.baddbmm(bias[:, None], x, weight.mT, out=out)

    def linear_backward(self, name: str, dy: Tensor) -> Tensor:
        """Write the gradients of a linear layer; dy (R, N, out) -> dx (R, N, in)."""
        x = self.kept.pop()
        torch.bmm(dy.mT, x, out=self.gradients[name + "weight"])
        torch.sum(dy, 1, out=self.gradients[name + "bias"])
        return torch.bmm(dy, self.weights[name + "weight"], out=self.room(name + "dx", *x.shape))

    def norm_forward(self, name: str, x: Tensor) -> Tensor:
        """Apply a LayerNorm: x (R, N, d) -> (R, N, d)."""
        unit, mean, scale = torch.native_layer_norm(x, x.shape[-1:], None, None, EPSILON)
        self.kept.append((x, unit, mean, scale))
        gain, bias = self.weights[name + "weight"][:, None], self.weights[name + "bias"][:, None]
        return torch.addcmul(bias, unit, gain, out=self.room(name, *x.shape))

    def norm_backward(self, name: str, dy: Tensor) -> Tensor:
        """Write the gradients of a LayerNorm; dy (R, N, d) -> dx (R, N, d)."""
        x, unit, mean, scale = self.kept.pop()
        torch.sum(dy, 1, out=self.gradients[name + "bias"])
        torch.sum(unit.mul_(dy), 1, out=self.gradients[name + "weight"])
        of_unit = torch.mul(dy, self.weights[name + "weight"][:, None], out=self.room(name + "dx", *x.shape))
        backward = torch.ops.aten.native_layer_norm_backward
        return backward(of_unit, x, x.shape[-1:], mean, scale, None, None, [True, False, False])[0]

    def gelu_forward(self, name: str, x: Tensor) -> Tensor:
        """Apply the exact GELU."""
        self.kept.append(x)
        return torch.ops.aten.gelu.out(x, out=self.room(name, *x.shape))

    def gelu_backward(self, name: str, dy: Tensor) -> Tensor:
        """Give the gradient of GELU's input."""
        x = self.kept.pop()
        return torch.ops.aten.gelu_backward.grad_input(dy, x, grad_input=self.room(name + "dx", *x.shape))


class EncoderTape(Tape):
    """R encoders, forward and backward; their weights carry the prefix "encoder."."""

    def __init__(self, weights: Stack, blocks: int, heads: int) -> None:
        super().__init__(weights)
        self.blocks, self.heads = blocks, heads

    def forward(self, reading: Reading) -> Tensor:
        """Encode: the hidden states of the rows that are read, (R, M, d)."""
        self.reading = reading
        table = self.weights["encoder.token_embedding.weight"]
        R, B, T = reading.ids.shape
        tokens, d = reading.across(reading.ids.flatten(1), table.shape[1]), table.shape[2]
        x = torch.index_select(table.view(-1, d), 0, tokens, out=self.room("tokens", R * B * T, d))
        x = x.view(R, B, T, d).add_(self.weights["encoder.position_embedding.weight"][:, None, :T]).flatten(1, 2)
        for index in range(self.blocks):
            x = self._block_forward(f"encoder.blocks.{index}.", x, last=index == self.blocks - 1)
        return x

    def backward(self, dx: Tensor) -> None:
        """Carry the gradient of the read states, (R, M, d), back to all weights of the encoders."""
        for index in reversed(range(self.blocks)):
            dx = self._block_backward(f"encoder.blocks.{index}.", dx, last=index == self.blocks - 1)
        R, B, T = self.reading.ids.shape
        of_table = self.gradients["encoder.token_embedding.weight"].zero_()
        V, d = of_table.shape[1:]
        of_table.view(R * V, d).index_add_(0, self.reading.across(self.reading.ids.flatten(1), V), dx.view(-1, d))
        of_table[:, PAD] = 0  # the embedding's padding row takes no gradient
        of_positions = self.gradients["encoder.position_embedding.weight"]
        of_positions[:, T:] = 0  # what a longer batch before this one left there
        torch.sum(dx.view(R, B, T, d), 1, out=of_positions[:, :T])

    def _block_forward(self, name: str, x: Tensor, last: bool) -> Tensor:
        mixed, residual = (self._attend_read if last else self._attend_all)(name, x)
        x = self.linear_forward(name + "attention.output.", mixed).add_(residual)
        x = self.norm_forward(name + "norm1.", x)
        inner = self.gelu_forward(name + "ff.1.", self.linear_forward(name + "ff.0.", x))
        return self.norm_forward(name + "norm2.", self.linear_forward(name + "ff.2.", inner).add_(x))

    def _block_backward(self, name: str, dx: Tensor, last: bool) -> Tensor:
        dx = self.norm_backward(name + "norm2.", dx)
        of_inner = self.gelu_backward(name + "ff.1.", self.linear_backward(name + "ff.2.", dx))
        dx = self.norm_backward(name + "norm1.", self.linear_backward(name + "ff.0.", of_inner).add_(dx))
        of_mixed = self.linear_backward(name + "attention.output.", dx)
        return (self._attend_read_backward if last else self._attend_all_backward)(name, of_mixed, dx)

    def _attend_all(self, name: str, x: Tensor) -> tuple[Tensor, Tensor]:
        """Let every row attend: x (R, N, d) -> mixed values (R, N, d) and residual (R, N, d)."""
        (R, B, T), h, w = self.reading.ids.shape, self.heads, x.shape[-1] // self.heads
        qkv = self.linear_forward(name + "attention.qkv.", x).view(R * B, T, 3, h, w)
        apart = self.room(name + "qkv", 3, R * B, h, T, w).copy_(qkv.permute(2, 0, 3, 1, 4))
        q, k, v = apart.flatten(1, 2)  # each (R * B * h, T, w)
        scores = torch.bmm(q, k.mT, out=self.room(name + "scores", R * B * h, T, T)).div_(math.sqrt(w))
        scores.view(R * B, h, T, T).add_(self.reading.closed)
        weights = softmax_(scores, -1)
        self.kept.append((q, k, v, weights))
        mixed = torch.bmm(weights, v, out=self.room(name + "mixed", R * B * h, T, w)).view(R * B, h, T, w)
        return self.room(name + "rows", R * B, T, h, w).copy_(mixed.transpose(1, 2)).view(x.shape), x

    def _attend_all_backward(self, name: str, of_mixed: Tensor, of_residual: Tensor) -> Tensor:
        (R, B, T), h = self.reading.ids.shape, self.heads
        q, k, v, weights = self.kept.pop()
        w = q.shape[-1]
        rows = of_mixed.view(R * B, T, h, w).transpose(1, 2)
        of_mixed = self.room(name + "mixed", R * B * h, T, w).view(rows.shape).copy_(rows).flatten(0, 1)
        of_qkv = self.room(name + "of_qkv", 3, R * B * h, T, w)
        torch.bmm(weights.mT, of_mixed, out=of_qkv[2])
        of_scores = torch.bmm(of_mixed, v.mT, out=self.room(name + "of_scores", *weights.shape))
        softmax_backward_(of_scores, weights, -1).div_(math.sqrt(w))
        torch.bmm(of_scores, k, out=of_qkv[0])
        torch.bmm(of_scores.mT, q, out=of_qkv[1])
        together = self.room(name + "dy", R * B, T, 3, h, w)
        together.copy_(of_qkv.view(3, R * B, h, T, w).permute(1, 3, 0, 2, 4))
        return self.linear_backward(name + "attention.qkv.", together.view(R, B * T, -1)).add_(of_residual)

    def _attend_read(self, name: str, x: Tensor) -> tuple[Tensor, Tensor]:
        """Let only the rows that are read attend: x (R, N, d) -> mixed (R, M, d) and residual (R, M, d).

        Keys and values are computed for all rows, queries for M. Scores stand as (R * M, T, h).
        """
        (R, B, T), rows, d = self.reading.ids.shape, self.reading.rows, x.shape[-1]
        weight, bias = self.weights[name + "attention.qkv.weight"], self.weights[name + "attention.qkv.bias"]
        every_row, sentence = self.reading.across(rows, B * T), self.reading.across(rows // T, B)
        read = x.flatten(0, 1).index_select(0, every_row).view(R, -1, d)
        q = torch.baddbmm(bias[:, None, :d], read, weight[:, :d].mT).view(len(every_row), 1, self.heads, -1)
        kv = self.room(name + "kv", R, B * T, 2 * d)
        torch.baddbmm(bias[:, None, d:], x, weight[:, d:].mT, out=kv)
        kv = kv.view(R * B, T * 2 * d).index_select(0, sentence)
        k, v = kv.view(len(sentence), T, 2, self.heads, -1).unbind(2)
        closed = self.reading.closed.view(R * B * T, T).index_select(0, every_row)
        weights = softmax_((q * k).sum(-1).div_(math.sqrt(q.shape[-1])).add_(closed[..., None]), 1)
        self.kept.append((x, read, q, k, v, weights, every_row, sentence))
        return (weights[..., None] * v).sum(1).view(read.shape), read

    def _attend_read_backward(self, name: str, of_mixed: Tensor, of_residual: Tensor) -> Tensor:
        (R, B, T), d = self.reading.ids.shape, of_mixed.shape[-1]
        x, read, q, k, v, weights, every_row, sentence = self.kept.pop()
        of_mixed = of_mixed.view(q.shape)
        of_scores = softmax_backward_((of_mixed * v).sum(-1), weights, 1).div_(math.sqrt(q.shape[-1]))
        of_q = (of_scores[..., None] * k).sum(1).view(read.shape)
        of_read_kv = torch.stack((of_scores[..., None] * q, weights[..., None] * of_mixed), 2).flatten(1)
        of_kv = self.room(name + "of_kv", R * B, T * 2 * d).zero_().index_add_(0, sentence, of_read_kv)
        of_kv = of_kv.view(R, B * T, 2 * d)

        weight = self.weights[name + "attention.qkv.weight"]
        of_weight, of_bias = (self.gradients[name + "attention.qkv." + part] for part in ("weight", "bias"))
        of_weight[:, :d] = torch.bmm(of_q.mT, read)
        of_weight[:, d:] = torch.bmm(of_kv.mT, x)
        of_bias[:, :d] = of_q.sum(1)
        of_bias[:, d:] = of_kv.sum(1)
        dx = torch.bmm(of_kv, weight[:, d:], out=self.room(name + "dx", R, B * T, d))
        of_read = torch.baddbmm(of_residual, of_q, weight[:, :d])
        dx.view(R * B * T, d).index_add_(0, every_row, of_read.flatten(0, 1))
        return dx


def softmax_(scores: Tensor, dim: int) -> Tensor:
    """Turn scores into their softmax along `dim`, in place; on rows of eight this beats the built-in one."""
    weights = scores.sub_(scores.amax(dim, keepdim=True)).exp_()
    return weights.div_(weights.sum(dim, keepdim=True))


def softmax_backward_(of_weights: Tensor, weights: Tensor, dim: int) -> Tensor:
    """Turn the gradient of softmax's weights into that of its scores, in place."""
    product = of_weights.mul_(weights)
    return product.addcmul_(weights, product.sum(dim, keepdim=True), value=-1)


def cross_entropy(logits: Tensor, targets: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
    """Give R losses and the gradient of their logits: (R, M, K), targets (R, M), shares (R, M).

    shares: the weight of each row in its replicate's mean, 0 for rows that only fill up.
    """
    scores, right = logits.log_softmax(-1), targets[..., None]
    of_logits = scores.exp().scatter_add_(-1, right, torch.full(right.shape, -1.0, dtype=scores.dtype))
    losses = -(scores.gather(-1, right)[..., 0] * shares).sum(1)
    return losses, of_logits.mul_(shares[..., None])
