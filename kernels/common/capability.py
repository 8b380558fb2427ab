"""What this machine has: its processor, its GPU, and whether Triton plays one.

Whether the GPU kernels run is found out by `kernels.gpu_capability`.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from importlib.util import find_spec

import torch


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
