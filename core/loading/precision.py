"""In which precision a model runs: the one wished for, else the most exact one that fits.

Knows what each name means and in which order *automatic* tries them. Speed decides only between
the two that are exact: nobody should have to know that a slow processor got coarser numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from core.api.params import ModelSettings
from core.loading.backend import choose_backend, faster_type
from core.loading.plan import ModelPlan
from core.storage.store import DiskStore
from core.weights.memory import HEADROOM_BYTES
from kernels.dispatch import Backend
from kernels.linear.reference import Integers
from kernels.native.library import compiled

# What is left of free memory beside a model that was chosen for fitting: for contexts.
_ROOM = 1.1


@dataclass(frozen=True, slots=True)
class Precision:
    """The type that a model computes in, and the integers its matrices are held as, if any."""

    name: str
    dtype: torch.dtype
    integers: Integers | None = None


FLOAT32 = Precision("float32", torch.float32)
BFLOAT16 = Precision("bfloat16", torch.bfloat16)
INT8 = Precision("int8", torch.bfloat16, "int8")
INT4 = Precision("int4", torch.bfloat16, "int4")
PRECISIONS = {each.name: each for each in (FLOAT32, BFLOAT16, INT8, INT4)}


def choose_precision(
    settings: ModelSettings,
    plan: ModelPlan,
    device: torch.device,
    free: int,
    faster: Callable[[ModelSettings], torch.dtype | None] | None = None,
    check: Callable[[], None] | None = None,
    notes: DiskStore | None = None,
) -> tuple[Precision, Backend, int]:
    """The precision, its kernels, and the bytes that the model takes with them.

    `free` are the bytes that may be used; `check` is asked while kernels are compiled, and `notes`
    keeps what is measured. Of the automatic choices the first that fits is taken, or the smallest.
    Raises UnsupportedDeviceError, and what `plan.num_bytes` and `check` raise.
    """
    measure = partial(faster_type, notes=notes, library=partial(compiled, check))
    *larger, smallest = wished(settings, device, faster or measure)
    for precision in larger:
        kernels, needed = _needs(precision, settings, plan, device, check, notes)
        if needed * _ROOM + HEADROOM_BYTES <= free:
            return precision, kernels, needed
    return smallest, *_needs(smallest, settings, plan, device, check, notes)


def _needs(
    precision: Precision,
    settings: ModelSettings,
    plan: ModelPlan,
    device: torch.device,
    check: Callable[[], None] | None,
    notes: DiskStore | None,
) -> tuple[Backend, int]:
    integers, library = precision.integers, partial(compiled, check)
    dtype = precision.dtype
    kernels = choose_backend(settings, device, dtype, integers, library=library, notes=notes)
    return kernels, plan.num_bytes(dtype, kernels)


def wished(
    settings: ModelSettings,
    device: torch.device,
    faster: Callable[[ModelSettings], torch.dtype | None] = faster_type,
) -> tuple[Precision, ...]:
    """What may be used, the best first.

    `faster` says which of the two exact types this processor is faster in.
    """
    if settings.precision != "auto":
        return (PRECISIONS[settings.precision],)
    if device.type == "cpu" and faster(settings) == torch.float32:
        return FLOAT32, BFLOAT16, INT8, INT4
    return BFLOAT16, INT8, INT4
