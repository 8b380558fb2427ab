"""The digest of everything that can change a bit: the root of every key in the prefix tree. Each
picture's key has the settings of its processor."""

from __future__ import annotations

import hashlib
import json
import platform

import torch

from kernels.common.capability import processor_facts

# Raised whenever any output bit of any kernel, layer or preprocessing step may change.
NUMERICS_VERSION = 10


def fingerprint(
    weights_digest: str,
    config: str,
    device: torch.device,
    precision: str,
    grid: int,
    backend: str,
    slides: bool,
) -> bytes:
    """`slides`: windows drop what they have passed, so other rows are stored."""
    facts = _conditions(device) | {
        "weights": weights_digest,
        "config": config,
        "precision": precision,
        "backend": backend,
        "threads": torch.get_num_threads(),
        "grid": grid,
    }
    if slides:
        facts["windows"] = "slide"
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=32).digest()


def quantising_conditions() -> str:
    return json.dumps(_conditions(torch.device("cpu")), sort_keys=True)


def _conditions(device: torch.device) -> dict[str, object]:
    capability: object = processor_facts()
    if device.type == "cuda":
        capability = (torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device))
    return {
        "numerics": NUMERICS_VERSION,
        "torch": torch.__version__,
        "device": device.type,
        "machine": platform.machine(),
        "capability": str(capability),
    }
