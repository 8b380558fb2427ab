"""The KV buffer: contiguous keys and values of the active sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.layers.memory import FullAttentionSpec, LayerSpec

# Rows the KV buffer grows by: small beside any context, and few enough calls.
GROWTH = 1_024


@dataclass(frozen=True, slots=True)
class KVRows:
    """Keys and values, or latents, [tokens, heads, head_dim] of consecutive tokens."""

    layers: Mapping[int, tuple[Tensor, ...]]

    @property
    def num_bytes(self) -> int:
        return sum(rows.nbytes for layer in self.layers.values() for rows in layer)

    def matches(self, specs: Sequence[LayerSpec], num_tokens: int) -> bool:
        declared = {
            layer: [((num_tokens, spec.num_kv_heads, spec.head_dim), spec.dtype)] * spec.num_rows
            for layer, spec in enumerate(specs)
            if isinstance(spec, FullAttentionSpec)
        }
        kinds = {
            layer: [(tuple(rows.shape), rows.dtype) for rows in held]
            for layer, held in self.layers.items()
        }
        return kinds == declared


class KVBuffer:
    """Rows per full-attention layer, in one allocation of `limit` rows. A CPU backs only written
    rows, so `capacity` grows in steps; a GPU has all at once. `make_room(num_bytes)` is called
    before it grows and may raise."""

    def __init__(
        self,
        specs: Sequence[LayerSpec],
        device: torch.device,
        limit: int,
        make_room: Callable[[int], None] = lambda num_bytes: None,
    ) -> None:
        self._specs = {
            layer: spec for layer, spec in enumerate(specs) if isinstance(spec, FullAttentionSpec)
        }
        self._device = device
        self._limit = limit
        self._step = GROWTH if device.type == "cpu" else limit
        self._make_room = make_room
        self._layers: dict[int, tuple[Tensor, ...]] = {}
        self.capacity = 0

    def beside(self, limit: int) -> KVBuffer:
        kv_buffer = KVBuffer((), self._device, limit)
        kv_buffer._specs = self._specs
        return kv_buffer

    @property
    def bytes_per_token(self) -> int:
        return sum(spec.bytes_per_token for spec in self._specs.values())

    @property
    def num_bytes(self) -> int:
        return self.capacity * self.bytes_per_token

    def reserve(self, num_tokens: int) -> None:
        """Make room for that many rows. Raises ValueError past the limit."""
        if num_tokens > self._limit:
            raise ValueError(f"{num_tokens} rows do not fit a KV buffer of {self._limit}")
        if num_tokens <= self.capacity:
            return
        capacity = min(self._limit, -(-num_tokens // self._step) * self._step)
        if not self._layers:
            self._layers = {layer: self._rows(spec) for layer, spec in self._specs.items()}
        self._make_room((capacity - self.capacity) * self.bytes_per_token)
        self.capacity = capacity

    def write(self, layer: int, start: int, *new: Tensor) -> tuple[Tensor, ...]:
        """Store rows from `start` on; returns views of rows 0..end of the layer."""
        end = start + new[0].shape[0]
        self.reserve(end)
        for rows, given in zip(self.rows(layer), new, strict=True):
            rows[start:end] = given
        return tuple(rows[:end] for rows in self.rows(layer))

    def clear(self, start: int, end: int) -> None:
        """Zero rows start..end, which belong to nothing."""
        for layer in self.view(start, end).layers.values():
            for rows in layer:
                rows.zero_()

    def rows(self, layer: int) -> tuple[Tensor, ...]:
        """A layer's rows [limit, heads, head_dim], which never move."""
        return self._layers[layer]

    def view(self, start: int, end: int) -> KVRows:
        return KVRows(
            {layer: tuple(rows[start:end] for rows in held) for layer, held in self._layers.items()}
        )

    def copy_out(self, start: int, end: int) -> KVRows:
        view = self.view(start, end).layers.items()
        return KVRows({layer: tuple(map(_host_copy, held)) for layer, held in view})

    def copy_in(self, start: int, rows: KVRows) -> None:
        """Put rows back in place. Raises ValueError if they are of another kind."""
        if rows.layers.keys() != self._specs.keys():
            raise ValueError("the rows belong to other layers")
        for layer, held in rows.layers.items():
            self.write(layer, start, *held)

    def _rows(self, spec: FullAttentionSpec) -> tuple[Tensor, ...]:
        shape = (self._limit, spec.num_kv_heads, spec.head_dim)
        return tuple(
            torch.empty(shape, dtype=spec.dtype, device=self._device) for _ in range(spec.num_rows)
        )


def _host_copy(tensor: Tensor) -> Tensor:
    return tensor.clone() if tensor.device.type == "cpu" else tensor.cpu()
