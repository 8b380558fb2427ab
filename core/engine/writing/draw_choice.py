"""Where tokens are drawn: on the device, if it draws what the processor would."""

from __future__ import annotations

import logging

import torch

from core.engine.writing.sampler import Drawing, draw
from kernels.common.capability import device_facts
from kernels.sampling.draw import Draw, Limits
from kernels.self_test.validation import Recall, find_out, sources

_LOG = logging.getLogger(__name__)
_LIMITS = (
    Limits(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0),
    Limits(temperature=1e-46, top_k=0, top_p=1.0, min_p=0.0),
    Limits(temperature=0.7, top_k=20, top_p=0.8, min_p=0.0),
    Limits(temperature=1.0, top_k=0, top_p=0.95, min_p=0.05),
    Limits(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0),
)
_POINTS = (0.0, 0.3, 0.9)


def choose_drawing(
    on_device: Draw | None, vocab_size: int, device: torch.device, recall: Recall = find_out
) -> Drawing:
    """`on_device` if it draws rightly from a vocabulary of this size, else the processor's way.

    The log says why not. What `recall` knows is not tested again.
    """
    on_processor = Drawing(draw, torch.device("cpu"))
    if on_device is None:
        return on_processor

    name = f"why {vocab_size} tokens are not drawn there, {sources()}, {device_facts(device)}"
    try:
        fault = recall(name, lambda: _fault(on_device, vocab_size, device))
    except Exception as error:
        # Not remembered: a lack of memory passes.
        fault = f"it raised {type(error).__name__}: {error}"
    if not fault:
        return Drawing(on_device, device)
    _LOG.warning("Tokens are drawn on the processor, not on the GPU: %s", fault)
    return on_processor


def _fault(on_device: Draw, vocab_size: int, device: torch.device) -> str:
    """What is wrong with it, for a person to read; empty where nothing is."""
    generator = torch.Generator().manual_seed(0)
    # Rounded, so that there are ties.
    scores = (3 * torch.randn(vocab_size, generator=generator)).bfloat16().float()
    there = scores.to(device)
    for limits in _LIMITS:
        for point in _POINTS:
            found, expected = on_device(there, limits, point), draw(scores, limits, point)
            if found != expected:
                return f"it drew {found} and not {expected} at {point} with {limits}"
    nothing = torch.full_like(there, float("nan"))
    return "" if on_device(nothing, _LIMITS[-1], 0.5) is None else "it drew what is no number"
