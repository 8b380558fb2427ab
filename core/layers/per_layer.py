"""Per-layer embeddings (Gemma 3n): each token has a few numbers for every block. A token reads one
row of their table, which is larger than all matrices, so it stays in its file."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from core.layers.block import HybridBlock, Mixer, Norms
from core.layers.feed_forward import FeedForward
from core.layers.linear import Linear
from core.layers.memory import Forward
from core.layers.norm import RMSNorm
from core.weights.plan import Weights
from kernels.common.shapes import GateShape, SumShape


class PerLayerInputs:
    """(norm(projection(embedding)) + table[id]) / sqrt(2): `size` numbers for each of `layers`.
    Tokens of a picture have no ids and are looked up as `pad`."""

    def __init__(
        self,
        weights: Weights,
        width: int,
        layers: int,
        size: int,
        vocab_size: int,
        pad: int,
        epsilon: float,
    ) -> None:
        self.width = layers * size
        self._given, self._size, self._pad = width, size, pad
        shape = (vocab_size, self.width)
        self._table = weights.table("embed_tokens_per_layer.weight", shape, in_file=True)
        self._projection = Linear(weights.exact(), "per_layer_model_projection", width, self.width)
        # The projection is divided by sqrt(width), which as part of a norm is a larger epsilon.
        norm = RMSNorm(weights.scope("per_layer_projection_norm"), size, epsilon * width)
        self._norm = norm.times(0.5**0.5)
        self._add = weights.ops(SumShape(self.width)).add

    def rows(self, ids: Tensor) -> Tensor:
        """Token ids [n] -> [n, layers * size]."""
        return self._table(ids) * math.sqrt(0.5 * self._size)

    def __call__(self, given: Tensor, is_step: bool) -> tuple[Tensor, Sequence[Tensor]]:
        """The embeddings [n, width], and each block's inputs [n, size]. `given` are embeddings
        followed by `rows`, or of a picture embeddings alone."""
        hidden, rows = given[:, : self._given], given[:, self._given :]
        if rows.shape[1] == 0:
            pad = torch.tensor([self._pad], device=given.device)
            rows = self.rows(pad).expand(len(given), -1)
        projected = self._projection(hidden, is_step).unflatten(1, (-1, self._size))
        inputs = self._add(self._norm(projected).flatten(1), rows)
        return hidden, inputs.split(self._size, dim=1)


class PerLayerBlock(HybridBlock):
    """Adds norm(projection(gelu(gate(x)) * input)) to a block's result x."""

    def __init__(
        self,
        weights: Weights,
        width: int,
        norms: Norms,
        mixer: Mixer,
        feed_forward: FeedForward,
        *,
        layer: int,
        size: int,
        epsilon: float,
        scale: float,
    ) -> None:
        super().__init__(weights, width, norms, mixer, feed_forward)
        self._layer, self._last_scale = layer, scale
        self._gate = Linear(weights, "per_layer_input_gate", width, size)
        self._projection = Linear(weights, "per_layer_projection", size, width)
        self._norm = RMSNorm(weights.scope("post_per_layer_input_norm"), width, epsilon)
        self._geglu = weights.ops(GateShape(size, gelu=True)).geglu

    def __call__(self, hidden: Tensor, forward: Forward, slot: int) -> Tensor:
        hidden, is_step = super().__call__(hidden, forward, slot), forward.memory.is_step
        opened = self._geglu(self._gate(hidden, is_step), forward.per_layer[self._layer])
        added = self._norm(self._projection(opened, is_step))
        return self._add(hidden, added, 1.0, self._last_scale)
