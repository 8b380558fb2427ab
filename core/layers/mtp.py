"""A head that predicts the token after the next (multi-token prediction), as Qwen3.5 has one.

It reads what the model made of a token, after the final norm, together with the embedding of the
token behind it: one decoder layer with keys and values of its own. Its row of a token is the one
made of that token's embedding, so token 0 has none. Gloeckle et al. 2024 (arXiv:2404.19737);
DeepSeek-V3 (arXiv:2412.19437), section 2.2.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from core.layers.linear import Linear
from core.layers.memory import LayerMemory, LayerSpec
from core.layers.norm import ZeroCentredRMSNorm
from core.layers.rope import Rotations
from core.weights.plan import Weights

SCOPE = "mtp"
# A folder that has this tensor has a head.
MARK = f"{SCOPE}.fc.weight"

Block = Callable[[Tensor, Rotations, LayerMemory, int, bool], Tensor]
"""A decoder layer: hidden rows, rotations, memory, its slot there, whether it is a picture."""


class MTPHead:
    """norm(block(fc([norm embedding; norm hidden]))); the model's own output head reads it."""

    def __init__(
        self, weights: Weights, width: int, epsilon: float, block: Block, spec: LayerSpec
    ) -> None:
        """`weights` is the scope of the head, in which `block` lies too, which needs `spec`
        remembered; `width` is that of the model's hidden rows."""
        self.embedding_norm = ZeroCentredRMSNorm(
            weights.scope("pre_fc_norm_embedding"), width, epsilon
        )
        self.hidden_norm = ZeroCentredRMSNorm(weights.scope("pre_fc_norm_hidden"), width, epsilon)
        self.join = Linear(weights, "fc", 2 * width, width)
        self.block, self.spec = block, spec
        self.norm = ZeroCentredRMSNorm(weights.scope("norm"), width, epsilon)

    def inputs(self, embeddings: Tensor, hidden: Tensor) -> Tensor:
        """`embeddings` [n, hidden_size] of tokens, `hidden` [n, hidden_size] of those before them
        -> [n, 2 hidden_size]."""
        return torch.cat([self.embedding_norm(embeddings), self.hidden_norm(hidden)], dim=1)

    def __call__(
        self, inputs: Tensor, rotations: Rotations, memory: LayerMemory, layer: int
    ) -> Tensor:
        """`inputs` at the positions of the tokens before -> [n, hidden_size]; `layer` is the slot
        of the memory."""
        joined = self.join(inputs, memory.is_step)
        return self.norm(self.block(joined, rotations, memory, layer, False))
