"""Times calls on a GPU: launched one by one, and replayed from a trace.

A GPU runs asynchronously; the processor's clock would measure only the launches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

import torch

_LOG = logging.getLogger(__name__)

Stretch = Callable[[], object]
"""Some calls, one after the other."""


class Clock(Protocol):
    def seconds(self, stretch: Stretch) -> float:
        """From the first call to the last result."""
        ...

    def captured(self, stretch: Stretch) -> Stretch | None:
        """Capture the work to repeat it without Python; None if that can't be."""
        ...


class CudaClock:
    """A `Clock` of torch's current GPU, by that GPU's own events and by CUDA graphs."""

    def seconds(self, stretch: Stretch) -> float:
        torch.cuda.synchronize()
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        stretch()
        ended.record()
        ended.synchronize()
        milliseconds: float = began.elapsed_time(ended)
        return milliseconds / 1000

    def captured(self, stretch: Stretch) -> Stretch | None:
        """A CUDA graph, replayed once: the first replay also uploads it."""
        stream, graph = torch.cuda.current_stream(), torch.cuda.CUDAGraph()
        try:
            _without_waiting(stretch)
            with torch.cuda.graph(graph):
                stretch()
        except RuntimeError as error:
            _LOG.warning("not captured: %s", (str(error).splitlines() or [""])[0])
            torch.cuda.set_stream(stream)  # torch stays on the trace's where that breaks off
            torch.cuda.synchronize()
            return None
        graph.replay()
        torch.cuda.synchronize()
        return graph.replay


def _without_waiting(stretch: Stretch) -> None:
    """Make the calls once. Raises RuntimeError where one waits for the GPU.

    A trace can't hold such a call, and torch may capture no other after a failed capture.
    """
    torch.cuda.set_sync_debug_mode("error")
    try:
        stretch()
    finally:
        torch.cuda.set_sync_debug_mode("default")


class ProcessorClock:
    """A `Clock` of the processor, where tests have it play the GPU. It captures nothing."""

    def seconds(self, stretch: Stretch) -> float:
        began = time.perf_counter()
        stretch()
        return time.perf_counter() - began

    def captured(self, stretch: Stretch) -> Stretch | None:
        return None
