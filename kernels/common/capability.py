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
    """Everything by which libraries choose kernels and block sizes, in one line.

    Torch's capability name is not enough: oneDNN uses AMX, and sizes blocks by caches.
    """
    facts = {
        name: each for name, each in torch.cpu.get_capabilities().items() if name[:4] != "num_"
    }
    return f"{torch.backends.cpu.get_cpu_capability()} {sorted(facts.items())}"


def processor_level() -> str:
    """The widest relevant instruction set, for a person."""
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
    """All that decides which code a device and its driver run, in one line."""
    if device.type != "cuda":
        return processor_facts()
    driver = getattr(torch._C, "_cuda_getDriverVersion", lambda: "unknown")()
    triton = version("triton") if find_spec("triton") is not None else "none"
    properties = torch.cuda.get_device_properties(device)
    return f"{properties} driver {driver} CUDA {torch.version.cuda} triton {triton}"


def interpreted() -> bool:
    """True if Triton interprets kernels on the processor (for tests)."""
    wish = os.environ.get("TRITON_INTERPRET", "0") not in {"", "0"}
    return wish and find_spec("triton") is not None


@cache
def gpu_kernels_run() -> bool:
    """True if Triton compiles for torch's GPU; if not, the log says once why.

    Launches a small kernel, because a missing compiler, an old driver or an unwritable cache shows
    in no other way.
    """
    missing = what_is_missing()
    if missing is not None:
        _LOG.warning("GPU kernels are not used, plain torch is: %s", missing)
    return missing is None


def what_is_missing() -> str | None:
    """Why GPU kernels can't run; None if they can."""
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
