"""Forwards of an MTP head. Its traces aren't validated: a wrong row only makes a wrong draft."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from core.cache.kv_buffer import KVBuffer
from core.layers.memory import LayerMemory
from core.layers.rope import Rotations, copy_rotations
from core.models.decoder import Decoder
from kernels.common.trace import Capture, NotCapturableError, Trace, Tracer

_LOG = logging.getLogger(__name__)


class HeadMemory(LayerMemory):
    """For the head's rows from token `start` on; token 0 has no row."""

    def __init__(
        self,
        kv_buffer: KVBuffer,
        start: int,
        runs: tuple[int, ...],
        check: Callable[[], None],
        *,
        is_step: bool,
        tracer: Tracer | None = None,
    ) -> None:
        assert start >= 1
        super().__init__(runs, check, is_step=is_step)
        self._kv_buffer, self._start, self._tracer = kv_buffer, start, tracer

    def extend_kv(self, layer: int, *new: Tensor) -> tuple[Tensor, ...]:
        if self._tracer is None:
            held = self._kv_buffer.write(layer, self._start, *new)
            return tuple(rows[1:] for rows in held)
        held = tuple(rows[1:] for rows in self._kv_buffer.rows(layer))
        for given, rows in zip(new, held, strict=True):
            self._tracer.store(given, rows)
        end = self._start - 1 + len(self.runs)
        return tuple(rows[:end] for rows in held)

    def check_cancelled(self) -> None:
        super().check_cancelled()
        if self._tracer is not None:
            self._tracer.part()


class HeadSteps:
    """Steps of up to eight tokens over one KV buffer, one reply at a time."""

    def __init__(self, model: Decoder, kv_buffer: KVBuffer, capture: Capture | None) -> None:
        self._model, self._kv_buffer, self._capture = model, kv_buffer, capture
        self._traces: dict[int, _HeadTrace] = {}

    @property
    def num_traces(self) -> int:
        return len(self._traces)

    @torch.inference_mode()
    def forward(
        self, token: int, inputs: Tensor, rotations: Rotations, check: Callable[[], None]
    ) -> Tensor:
        """Rows [n, hidden_size] with the bits of each alone; the next call may overwrite them. A
        new trace owns `inputs` and `rotations`."""
        num_tokens = inputs.shape[0]
        self._kv_buffer.reserve(token + num_tokens)
        trace = self._traces.get(num_tokens)
        if trace is not None:
            return trace.replay(token, inputs, rotations, check)

        def step(tracer: Tracer | None) -> Tensor:
            runs = (1,) * num_tokens
            memory = HeadMemory(self._kv_buffer, token, runs, check, is_step=True, tracer=tracer)
            return self._model.predict(inputs, rotations, memory)

        if self._capture is None:
            return step(None)
        try:
            # The head's rows begin with token 1.
            captured, result = self._capture(token - 1, step)
        except NotCapturableError as reason:
            _LOG.info("Drafts of the head are not captured: %s", reason)
            self._capture = None
            return step(None)
        self._traces[num_tokens] = _HeadTrace(captured, inputs, rotations, result)
        return result


@dataclass(frozen=True, slots=True)
class _HeadTrace:
    trace: Trace
    inputs: Tensor
    rotations: Rotations
    result: Tensor

    def replay(
        self, token: int, inputs: Tensor, rotations: Rotations, check: Callable[[], None]
    ) -> Tensor:
        self.inputs.copy_(inputs)
        copy_rotations(rotations, self.rotations)
        self.trace.replay(token - 1, check)
        return self.result
