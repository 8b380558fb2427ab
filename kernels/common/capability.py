"""What this machine has: its processor, its GPU, and whether GPU kernels run on it."""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec

import torch

_LOG = logging.getLogger(__name__)
_LOWEST = (8, 0)  # the first compute capability whose tensor cores take bfloat16


def processor_facts() -> str:
    """All of the processor that libraries choose their kernels and block sizes by, in one line.

    Torch's own name for it ("AVX512") is not enough: oneDNN multiplies in tiles where there are any
    (AMX), and cuts its blocks by the size of the caches.
    """
    facts = {
        name: each for name, each in torch.cpu.get_capabilities().items() if name[:4] != "num_"
    }
    return f"{torch.backends.cpu.get_cpu_capability()} {sorted(facts.items())}"


def processor_level() -> str:
    """The widest instructions that matter here and that this processor has, for a person."""
    has = torch.cpu.get_capabilities()
    for name, flags in (
        ("AMX", ("amx_int8", "amx_bf16")),
        ("AVX-512", ("avx512_f",)),
        ("AVX2", ("avx2",)),
    ):
        if any(has.get(flag) for flag in flags):
            return name
    return str(has.get("architecture", ""))


def device_facts(device: torch.device) -> str:
    """All of a device and its driver that decides which code its kernels become, in one line."""
    if device.type != "cuda":
        return processor_facts()
    driver = getattr(torch._C, "_cuda_getDriverVersion", lambda: "unknown")()
    triton = version("triton") if find_spec("triton") is not None else "none"
    properties = torch.cuda.get_device_properties(device)
    return f"{properties} driver {driver} CUDA {torch.version.cuda} triton {triton}"


def interpreted() -> bool:
    """Whether Triton plays a GPU on the processor, number by number: for tests."""
    wish = os.environ.get("TRITON_INTERPRET", "0") not in {"", "0"}
    return wish and find_spec("triton") is not None


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
