"""Whether the GPU kernels run on this machine."""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec

import torch

from kernels.common.capability import interpreted

_LOG = logging.getLogger(__name__)
_LOWEST = (8, 0)  # the first compute capability whose tensor cores take bfloat16


@cache
def gpu_kernels_run() -> bool:
    """True where Triton compiles for the GPU that torch uses; else the log says once why not.

    To be asked where a model is to run on a GPU: elsewhere nothing is missing. The first call
    compiles and launches a small kernel: a C compiler that is missing, a driver that is too old or
    a cache that can't be written show in no other way.
    """
    missing = what_is_missing()
    if missing is not None:
        _LOG.warning("GPU kernels are not used, plain torch is: %s", missing)
    return missing is None


def what_is_missing() -> str | None:
    """What keeps the GPU kernels from running, for a person to read; None where nothing does."""
    if not torch.cuda.is_available():
        return "torch finds no CUDA device"
    if torch.version.cuda is None:
        return "the GPU is not NVIDIA's"
    if torch.cuda.get_device_capability() < _LOWEST:
        return "the GPU is older than compute capability 8.0"
    if find_spec("triton") is None:
        return "Triton is not installed"
    if interpreted():
        return "TRITON_INTERPRET is set"
    try:
        _try_one()
    except Exception as error:
        return f"Triton does not compile here ({type(error).__name__}: {error})"
    return None


def _try_one() -> None:
    from kernels.rms_norm.gpu import rms_norm

    rms_norm(torch.ones(1, 8, device="cuda"), torch.ones(8, device="cuda"), 1e-6)
    torch.cuda.synchronize()
