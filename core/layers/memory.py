"""What a layer needs remembered between forwards, declared by the model and built by the cache.

No layer asks how its memory is stored: during a forward it talks to a `LayerMemory`, which is the
slab and the recurrent state of the sequence being worked on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class FullAttentionSpec:
    """A layer that keeps one key and one value row [num_kv_heads, head_dim] per token."""

    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.num_kv_heads * self.head_dim * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class StateTensor:
    """Shape and type of one tensor of a recurrent state."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class RecurrentSpec:
    """A layer whose memory has a fixed size: for a gated delta net (conv tail, recurrent state)."""

    tensors: tuple[StateTensor, ...]

    @property
    def num_bytes(self) -> int:
        return sum(tensor.num_bytes for tensor in self.tensors)


LayerSpec = FullAttentionSpec | RecurrentSpec

LayerState = tuple[Tensor, ...]

Advance = Callable[[LayerState, int], Tensor]
"""Updates a state in place over the first so many tokens of a step; returns what they read."""


def kv_bytes_per_token(specs: tuple[LayerSpec, ...]) -> int:
    """Bytes of keys and values one token adds over all layers."""
    return sum(spec.bytes_per_token for spec in specs if isinstance(spec, FullAttentionSpec))


def checkpoint_bytes(specs: tuple[LayerSpec, ...]) -> int:
    """Bytes of the recurrent states at one place, whatever its depth."""
    return sum(spec.num_bytes for spec in specs if isinstance(spec, RecurrentSpec))


class LayerMemory(Protocol):
    """The memory of one forward over the tokens of a run, of several, or of tokens generated.

    `runs` are the rows of each run, in their order; a picture's comes alone. With `is_step` the
    rows are generated, whose states nobody keeps, so that kernels may round otherwise: each is a
    run, with the bits that it has in a step of its own. `layer` is a slot: one for each mixer of
    the model, of which a block may have several, or none.
    """

    @property
    def runs(self) -> tuple[int, ...]: ...

    @property
    def is_step(self) -> bool: ...

    def extend_kv(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append rows [n, num_kv_heads, head_dim]; returns views of all rows, new ones last."""
        ...

    def state(self, layer: int, run: int = 0) -> LayerState:
        """The recurrent state before a run, which the layer updates in place, run after run; not
        of a step."""
        ...

    def advance(self, layer: int, advance: Advance) -> Tensor:
        """What `advance` gives for all tokens of a step.

        Where the last of them turn out not to follow it is called again, for fewer and with the
        state from before the step: what else it reads must stay.
        """
        ...

    def check_cancelled(self) -> None:
        """Raise RequestCancelled when the request was cancelled; called between layers."""
        ...
