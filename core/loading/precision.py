"""In which precision a model runs: the one wished for, else the most exact one that fits.

Knows what each name means and in which order *automatic* tries them. Speed decides only between
the two that are exact: nobody should have to know that a slow processor got coarser numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from core.api.model_info import PrecisionChoice, TooLarge
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
_SLOWER = {torch.float32: BFLOAT16, torch.bfloat16: FLOAT32}


@dataclass(frozen=True, slots=True)
class Chosen:
    """A precision, its kernels, and the bytes that the model takes with them.

    `why` is None where the precision was wished for.
    """

    precision: Precision
    kernels: Backend
    num_bytes: int
    why: PrecisionChoice | None = None


def choose_precision(
    settings: ModelSettings,
    plan: ModelPlan,
    device: torch.device,
    free: int,
    faster: Callable[[ModelSettings], torch.dtype | None] | None = None,
    check: Callable[[], None] | None = None,
    notes: DiskStore | None = None,
) -> Chosen:
    """The precision wished for; of the automatic choices the first that fits, or the smallest.

    `free` are the bytes that may be used. `faster` says which of the two exact types a processor is
    faster in, None if nobody knows; `check` is asked while kernels are compiled, and `notes` keeps
    what is measured. Raises UnsupportedDeviceError, and what `plan.num_bytes` and `check` raise.
    """
    reckoned = partial(_reckoned, settings, plan, device, check, notes)
    if settings.precision != "auto":
        return reckoned(PRECISIONS[settings.precision])
    fast = None
    if device.type == "cpu":
        measure = partial(faster_type, notes=notes, library=partial(compiled, check))
        fast = (faster or measure)(settings)
    first, *others = automatic(fast)
    chosen, too_large = reckoned(first), []
    for precision in others:
        if _with_room(chosen) <= free:
            break
        too_large.append(TooLarge(precision=chosen.precision.name, needed=_with_room(chosen)))
        chosen = reckoned(precision)
    why = PrecisionChoice(
        needed=_with_room(chosen),
        free=free,
        too_large=tuple(too_large),
        faster_than="" if too_large or fast is None else _SLOWER[fast].name,
    )
    return replace(chosen, why=why)


def _reckoned(
    settings: ModelSettings,
    plan: ModelPlan,
    device: torch.device,
    check: Callable[[], None] | None,
    notes: DiskStore | None,
    precision: Precision,
) -> Chosen:
    integers, library = precision.integers, partial(compiled, check)
    dtype = precision.dtype
    kernels = choose_backend(settings, device, dtype, integers, library=library, notes=notes)
    return Chosen(precision, kernels, plan.num_bytes(dtype, kernels))


def _with_room(chosen: Chosen) -> int:
    """Bytes that should be free for a model."""
    return int(chosen.num_bytes * _ROOM) + HEADROOM_BYTES


def automatic(fast: torch.dtype | None) -> tuple[Precision, ...]:
    """What may be chosen, the best first, where `fast` is the faster of the two exact types."""
    return (*((FLOAT32,) if fast == torch.float32 else ()), BFLOAT16, INT8, INT4)
