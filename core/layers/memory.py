"""Memory of layers between forwards: declared by the model, allocated by the cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from core.api.model_info import KVSize
from core.layers.rope import Rotations


@dataclass(frozen=True, slots=True)
class FullAttentionSpec:
    """A key row and a value row [num_kv_heads, head_dim] per token; if `latent`, one row that is
    both. With a `window` a token reads the last `window` rows, its own included."""

    num_kv_heads: int
    head_dim: int
    dtype: torch.dtype
    latent: bool = False
    window: int | None = None

    @property
    def num_rows(self) -> int:
        return 1 if self.latent else 2

    @property
    def bytes_per_token(self) -> int:
        return self.num_rows * self.num_kv_heads * self.head_dim * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class StateTensor:
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class RecurrentSpec:
    tensors: tuple[StateTensor, ...]

    @property
    def num_bytes(self) -> int:
        return sum(tensor.num_bytes for tensor in self.tensors)


def recurrent_spec(
    taps: int, channels: int, state: tuple[int, ...], dtype: torch.dtype
) -> RecurrentSpec:
    """The rows before a convolution of `taps`, and a state in float32."""
    tail = StateTensor((taps - 1, channels), dtype)
    return RecurrentSpec((tail, StateTensor(state, torch.float32)))


LayerSpec = FullAttentionSpec | RecurrentSpec

LayerState = tuple[Tensor, ...]

Advance = Callable[[LayerState, int], Tensor]
"""Advances a state in place over the first n tokens of a step; returns their outputs."""


def kv_size(specs: Sequence[LayerSpec]) -> KVSize:
    attend = [spec for spec in specs if isinstance(spec, FullAttentionSpec)]
    return KVSize(
        kv_bytes_per_token=sum(spec.bytes_per_token for spec in attend),
        window_bytes_per_token=sum(spec.bytes_per_token for spec in attend if spec.window),
        window=max((spec.window or 0 for spec in attend), default=0),
    )


def checkpoint_bytes(specs: Sequence[LayerSpec]) -> int:
    return sum(spec.num_bytes for spec in specs if isinstance(spec, RecurrentSpec))


class LayerMemory:
    """The memory of one forward; subclasses have some. `runs` are lengths; a picture is always a
    run alone. `layer` is the index of a mixer's spec in the model's `layer_specs`.

    With `is_step` every row is a generated token and a run of its own: kernels may round
    differently, but several rows have the bits they have one by one.
    """

    def __init__(self, runs: tuple[int, ...], check: Callable[[], None], *, is_step: bool) -> None:
        self.runs, self.is_step, self._check = runs, is_step, check

    def extend_kv(self, layer: int, *new: Tensor) -> tuple[Tensor, ...]:
        """Returns all rows, the new [n, num_kv_heads, head_dim] last; of a layer with a window the
        first may be missing."""
        raise AssertionError("no layer of this forward attends")

    def state(self, layer: int, run: int = 0) -> LayerState:
        """The state before a run, updated in place run after run; not for steps."""
        raise AssertionError("no layer of this forward has a state")

    def advance(self, layer: int, advance: Advance) -> Tensor:
        """The result of `advance` for all tokens of a step. After a rejection it is called again
        with fewer tokens and the state from before the step, so nothing else that it reads may
        change."""
        raise AssertionError("no layer of this forward takes steps")

    def check_cancelled(self) -> None:
        self._check()


@dataclass(frozen=True, slots=True)
class Forward:
    """Shared by all layers of one forward. `image`: the rows are one whole picture. `per_layer`:
    further inputs of each block, [n, size]. `shared_kv`: keys and values that later layers read
    too."""

    rotations: Rotations
    memory: LayerMemory
    image: bool = False
    per_layer: Sequence[Tensor] = ()
    shared_kv: dict[str, tuple[Tensor, ...]] = field(default_factory=dict)

    def of_row(self, row: int, num_rows: int) -> Forward:
        """One of `num_rows` rows, for layers without memory; computed like a generated token."""
        only, later = slice(row, row + 1), num_rows - row - 1
        return Forward(
            {name: (cos[only], sin[only]) for name, (cos, sin) in self.rotations.items()},
            LayerMemory((1,), self.memory.check_cancelled, is_step=True),
            per_layer=[each[only] for each in self.per_layer],
            shared_kv={
                name: tuple(each[: len(each) - later] for each in rows)
                for name, rows in self.shared_kv.items()
            },
        )
