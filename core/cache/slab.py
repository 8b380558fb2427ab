"""The live slab: contiguous keys and values of the one sequence being worked on.

Token-major, one pair of tensors per full-attention layer, growing in steps up to the context
length. Which tokens its rows belong to is the business of `core.cache.live`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.cache.specs import FullAttentionSpec, LayerSpec

FIRST_CAPACITY = 1_024


@dataclass(frozen=True, slots=True)
class KVRows:
    """Keys and values [tokens, heads, head_dim] of a stretch of tokens, outside the slab."""

    layers: Mapping[int, tuple[Tensor, Tensor]]

    @property
    def num_bytes(self) -> int:
        return sum(keys.nbytes + values.nbytes for keys, values in self.layers.values())


class KVSlab:
    """Rows 0..capacity of keys and values for each full-attention layer; grows, never shrinks."""

    def __init__(self, specs: Sequence[LayerSpec], device: torch.device, limit: int) -> None:
        self._specs = {
            layer: spec for layer, spec in enumerate(specs) if isinstance(spec, FullAttentionSpec)
        }
        self._device = device
        self._limit = limit
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self.capacity = 0

    @property
    def num_bytes(self) -> int:
        return self.capacity * sum(spec.bytes_per_token for spec in self._specs.values())

    def reserve(self, num_tokens: int) -> None:
        """Make room for so many rows. Raises ValueError past the limit; what is held stays."""
        if num_tokens > self._limit:
            raise ValueError(f"{num_tokens} rows do not fit a slab of {self._limit}")
        if num_tokens <= self.capacity:
            return
        capacity = min(self._limit, max(num_tokens, 2 * self.capacity, FIRST_CAPACITY))
        # All layers are built before any is replaced: a failed allocation leaves the slab as it
        # was.
        grown = {layer: self._grown(layer, capacity) for layer in self._specs}
        self._layers, self.capacity = grown, capacity

    def write(self, layer: int, start: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store rows from `start` on; returns views of rows 0..end of the layer."""
        end = start + keys.shape[0]
        self.reserve(end)
        all_keys, all_values = self._layers[layer]
        all_keys[start:end] = keys
        all_values[start:end] = values
        return all_keys[:end], all_values[:end]

    def copy_out(self, start: int, end: int) -> KVRows:
        """A copy of rows start..end that no later write changes."""
        return KVRows(
            {
                layer: (keys[start:end].clone(), values[start:end].clone())
                for layer, (keys, values) in self._layers.items()
            }
        )

    def copy_in(self, start: int, rows: KVRows) -> None:
        """Put rows back to where they were. Raises ValueError when they aren't this slab's kind."""
        if rows.layers.keys() != self._specs.keys():
            raise ValueError("the rows belong to other layers")
        for layer, (keys, values) in rows.layers.items():
            self.write(layer, start, keys, values)

    def _grown(self, layer: int, capacity: int) -> tuple[Tensor, Tensor]:
        spec = self._specs[layer]
        shape = (capacity, spec.num_kv_heads, spec.head_dim)
        keys = torch.empty(shape, dtype=spec.dtype, device=self._device)
        values = torch.empty(shape, dtype=spec.dtype, device=self._device)
        if layer in self._layers:
            old_keys, old_values = self._layers[layer]
            keys[: self.capacity] = old_keys
            values[: self.capacity] = old_values
        return keys, values
