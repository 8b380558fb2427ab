"""The KV buffer: contiguous keys and values of the active sequence.

In a long context, layers with a window keep only the newest rows: when these reach the buffer's
end, the last window moves to its start by whole chunks, so kernels see the same chunks wherever a
prefill began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from core.api.model_info import WINDOW_CHUNK
from core.cache.state import LayerTensors
from core.layers.memory import FullAttentionSpec, LayerSpec, kv_size

# Rows the KV buffer grows by: small beside any context, and few enough calls.
GROWTH = 1_024
# More rows than a step's that a window has room for: capturing a step tries one more token.
SPARE = 8


Specs = Mapping[int, FullAttentionSpec]
"""By the index of a layer's spec in the model's `layer_specs`."""


class KVRows(LayerTensors):
    """Keys and values, or latents, [tokens, heads, head_dim] of consecutive tokens."""

    @property
    def num_tokens(self) -> int:
        return next((held[0].shape[0] for held in self.layers.values()), 0)

    def matches(self, specs: Specs, num_tokens: int) -> bool:
        return self.kinds == {
            layer: [((num_tokens, spec.num_kv_heads, spec.head_dim), spec.dtype)] * spec.num_rows
            for layer, spec in specs.items()
        }

    def cut(self, start: int, end: int) -> KVRows:
        return self.map(lambda rows: rows[start:end])

    def last(self, num_tokens: int) -> KVRows:
        return self.cut(self.num_tokens - num_tokens, self.num_tokens)


class KVBuffer:
    """One allocation a layer: `limit` rows, or fewer where windows slide (`windowed`). A CPU backs
    only written rows, so `capacity` grows in steps; a GPU has all at once. `make_room(num_bytes)`
    may raise."""

    def __init__(
        self,
        specs: Sequence[LayerSpec],
        device: torch.device,
        limit: int,
        make_room: Callable[[int], None] = lambda num_bytes: None,
    ) -> None:
        size = kv_size(specs)
        attend = {
            layer: spec for layer, spec in enumerate(specs) if isinstance(spec, FullAttentionSpec)
        }
        slides = size.slides(limit)
        self.specs = {n: spec for n, spec in attend.items() if not (slides and spec.window)}
        self.windowed = {n: spec for n, spec in attend.items() if n not in self.specs}
        # Rows before a token that windows read; 0 if none slides.
        self.tail = size.window - 1 if slides else 0
        self._window_rows = size.window_rows
        self._device = device
        self._limit = limit
        self._step = GROWTH if device.type == "cpu" else limit
        self._make_room = make_room
        self._layers: dict[int, tuple[Tensor, ...]] = {}
        # The first token of a window that is in its buffer.
        self._first = dict.fromkeys(self.windowed, 0)
        self.capacity = 0

    def beside(self, limit: int) -> KVBuffer:
        kv_buffer = KVBuffer((), self._device, limit)
        kv_buffer.specs, kv_buffer.windowed = self.specs, self.windowed
        kv_buffer.tail, kv_buffer._window_rows = self.tail, self._window_rows
        kv_buffer._first = dict.fromkeys(self.windowed, 0)
        return kv_buffer

    @property
    def bytes_per_token(self) -> int:
        return sum(spec.bytes_per_token for spec in self.specs.values())

    @property
    def tail_bytes_per_token(self) -> int:
        return sum(spec.bytes_per_token for spec in self.windowed.values())

    @property
    def num_bytes(self) -> int:
        return self.bytes_of(self.capacity)

    def bytes_of(self, num_tokens: int) -> int:
        sliding = min(num_tokens, self._window_rows) * self.tail_bytes_per_token
        return num_tokens * self.bytes_per_token + sliding

    def tokens_within(self, num_bytes: int) -> int:
        sliding = self.tail_bytes_per_token
        short = num_bytes // max(1, self.bytes_per_token + sliding)
        if short < self._window_rows:
            return short
        return (num_bytes - self._window_rows * sliding) // max(1, self.bytes_per_token)

    def reserve(self, num_tokens: int) -> None:
        """Raises ValueError past the limit."""
        if num_tokens > self._limit:
            raise ValueError(f"{num_tokens} rows do not fit a KV buffer of {self._limit}")
        if num_tokens <= self.capacity:
            return
        capacity = min(self._limit, -(-num_tokens // self._step) * self._step)
        if not self._layers:
            specs = {**self.specs, **self.windowed}
            self._layers = {layer: self._rows(layer, specs[layer]) for layer in sorted(specs)}
        self._make_room(self.bytes_of(capacity) - self.num_bytes)
        self.capacity = capacity

    def write(self, layer: int, start: int, *new: Tensor) -> tuple[Tensor, ...]:
        """Returns the layer's rows up to the end of the new ones."""
        end = start + new[0].shape[0]
        self.reserve(end)
        held = self.rows(layer)
        if end - self.base(layer) > held[0].shape[0] and not self._slide(layer, start, end):
            return self._write_long(layer, start, new)
        base = self.base(layer)
        for rows, given in zip(held, new, strict=True):
            rows[start - base : end - base] = given
        return tuple(rows[: end - base] for rows in held)

    def advance(self, start: int, end: int) -> None:
        """Make room for a step, with the same first token in all windows."""
        self.reserve(end)
        # A forward that was cut short may have moved some of them.
        apart = len(set(self._first.values())) > 1
        if apart or end + SPARE - self.base() > self._window_rows:
            for layer in self.windowed:
                assert self._slide(layer, start, end), "a window and a step always fit"

    def clear(self, start: int, end: int) -> None:
        for layer in self._layers:
            for rows in self.rows_of(layer, start, end):
                rows.zero_()

    def rows(self, layer: int) -> tuple[Tensor, ...]:
        """[tokens, heads, head_dim], never moved; the first is that of token `base`."""
        return self._layers[layer]

    def rows_of(self, layer: int, start: int, end: int) -> tuple[Tensor, ...]:
        base = self.base(layer)
        tokens = slice(max(0, start - base), max(0, end - base))
        return tuple(rows[tokens] for rows in self.rows(layer))

    def base(self, layer: int | None = None) -> int:
        """The token of a layer's first row; without a layer, of all windows after `advance`."""
        if layer is None:
            layer = next(iter(self._first), 0)
        return self._first.get(layer, 0) // WINDOW_CHUNK * WINDOW_CHUNK

    def view(self, start: int, end: int) -> KVRows:
        return self._view(self.specs, start, end)

    def window(self, start: int, end: int) -> KVRows:
        return self._view(self.windowed, start, end)

    def copy_out(self, start: int, end: int, *, window: bool = False) -> KVRows:
        view = self.window(start, end) if window else self.view(start, end)
        return view.map(_host_copy)

    def copy_in(self, start: int, rows: KVRows) -> None:
        """Raises ValueError for rows of another kind."""
        if rows.layers.keys() != self.specs.keys():
            raise ValueError("the rows belong to other layers")
        for layer, held in rows.layers.items():
            self.write(layer, start, *held)

    def holds_window(self, end: int) -> bool:
        """True if the windows before token `end` are complete."""
        return all(first <= max(0, end - self.tail) for first in self._first.values())

    def drop_window(self) -> None:
        self._first = dict.fromkeys(self.windowed, self._limit)

    def put_window(self, end: int, parts: Sequence[KVRows]) -> None:
        """Put back the windows before token `end`; `parts` begin with the last token's."""
        self.reserve(end)
        first = max(0, end - self.tail)
        for layer in self.windowed:
            self._first[layer] = first
            base = self.base(layer)
            # No rows were made yet if a damaged file was all that there was to restore.
            for index, rows in enumerate(self._layers.get(layer, ())):
                # Kernels multiply hidden rows of a chunk by 0, which must not be NaN.
                rows[: first - base].zero_()
                at = end
                for part in parts:
                    given = part.layers[layer][index][first - at :]
                    rows[at - base - given.shape[0] : at - base] = given
                    at -= given.shape[0]
                assert at == first, "parts of a window follow each other"

    def _slide(self, layer: int, start: int, end: int) -> bool:
        """Move the rows that windows at `start` read; False if start..end still don't fit."""
        held, base = self.rows(layer), self.base(layer)
        first = max(self._first[layer], start - self.tail)
        moved = first // WINDOW_CHUNK * WINDOW_CHUNK
        if end - moved > held[0].shape[0]:
            return False
        self._first[layer] = first
        for rows in held:
            rows[: start - moved] = rows[moved - base : start - base].clone()
        return True

    def _write_long(self, layer: int, start: int, new: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Write more rows than fit next to a window: only the last ones are stored."""
        base, end, held = self.base(layer), start + new[0].shape[0], self.rows(layer)
        place = max(self._first[layer], start - self.tail) // WINDOW_CHUNK * WINDOW_CHUNK
        joined = tuple(
            torch.cat((rows[place - base : start - base], given))
            for rows, given in zip(held, new, strict=True)
        )
        self._first[layer] = end - self.tail
        moved = self.base(layer)
        for rows, given in zip(held, joined, strict=True):
            rows[: end - moved] = given[moved - place :]
        return joined

    def _view(self, layers: Specs, start: int, end: int) -> KVRows:
        if not self._layers:
            return KVRows({})
        return KVRows({layer: self.rows_of(layer, start, end) for layer in layers})

    def _rows(self, layer: int, spec: FullAttentionSpec) -> tuple[Tensor, ...]:
        num_rows = min(self._limit, self._window_rows) if layer in self.windowed else self._limit
        shape = (num_rows, spec.num_kv_heads, spec.head_dim)
        return tuple(
            torch.empty(shape, dtype=spec.dtype, device=self._device) for _ in range(spec.num_rows)
        )


def _host_copy(tensor: Tensor) -> Tensor:
    return tensor.clone() if tensor.device.type == "cpu" else tensor.cpu()
