"""A few tokens through an MTP head, captured when as many are computed first.

Nothing validates the traces, for no reply depends on them: a wrong row makes a wrong draft.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from core.cache.slab import KVSlab
from core.engine.passes.head_memory import HeadMemory
from core.layers.rope import Rotations, copy_rotations
from core.models.decoder import Decoder
from kernels.common.trace import Capture, NotCapturableError, Trace, Tracer

_LOG = logging.getLogger(__name__)


class HeadSteps:
    """What one model's head computes for up to eight tokens over one slab. For one reply at a
    time."""

    def __init__(self, model: Decoder, slab: KVSlab, capture: Capture | None) -> None:
        """Without `capture` they are computed each time."""
        self._model, self._slab, self._capture = model, slab, capture
        self._widths: dict[int, _Width] = {}

    @property
    def num_traces(self) -> int:
        return len(self._widths)

    @torch.inference_mode()
    def forward(
        self, token: int, inputs: Tensor, rotations: Rotations, check: Callable[[], None]
    ) -> Tensor:
        """The head's rows [n, hidden_size] of token number `token` and those behind it, with the
        bits of each alone; the next call may write there again. `inputs` are `Decoder.head_inputs`;
        they and `rotations` may become the places of a trace, and belong to it then."""
        num_tokens = inputs.shape[0]
        self._slab.reserve(token + num_tokens)
        width = self._widths.get(num_tokens)
        if width is not None:
            return width.replay(token, inputs, rotations, check)
        memory = HeadMemory(self._slab, token, (1,) * num_tokens, check, is_step=True)
        if self._capture is None:
            return self._model.predict(inputs, rotations, memory)

        def step(tracer: Tracer) -> Tensor:
            return self._model.predict(inputs, rotations, _Traced(memory, tracer, self._slab))

        try:
            # Its rows begin with token 1.
            trace, result = self._capture(token - 1, step)
        except NotCapturableError as reason:
            _LOG.info("Drafts of the head are not captured: %s", reason)
            self._capture = None
            return self._model.predict(inputs, rotations, memory)
        self._widths[num_tokens] = _Width(trace, inputs, rotations, result)
        return result


@dataclass(frozen=True, slots=True)
class _Width:
    """A trace, and where it reads and writes."""

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


class _Traced:
    """A `LayerMemory` of tokens that are captured."""

    is_step = True

    def __init__(self, memory: HeadMemory, tracer: Tracer, slab: KVSlab) -> None:
        self.runs, self.state, self.advance = memory.runs, memory.state, memory.advance
        self._memory, self._tracer, self._slab = memory, tracer, slab

    def extend_kv(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        all_keys, all_values = (rows[1:] for rows in self._slab.rows(layer))
        self._tracer.store(keys, all_keys)
        self._tracer.store(values, all_values)
        end = self._memory.start - 1 + len(self.runs)
        return all_keys[:end], all_values[:end]

    def check_cancelled(self) -> None:
        self._memory.check_cancelled()
        self._tracer.part()
