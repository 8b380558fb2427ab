"""The precision a model runs in: the chosen one, else the most exact one that fits.

Speed decides only between the two exact types, so a slow processor doesn't silently get coarser
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from core.api.model_info import HEADROOM_BYTES, PrecisionChoice, TooLarge, with_room
from core.api.params import ModelSettings
from core.loading.backend import choose_backend, faster_type
from core.loading.plan import ModelPlan
from core.storage.store import DiskStore
from kernels.dispatch import Backend
from kernels.linear.reference import Integers
from kernels.native.library import compiled


@dataclass(frozen=True, slots=True)
class Precision:
    name: str
    dtype: torch.dtype
    integers: Integers | None = None
    published: bool = False
    """Blocks of a GGUF file stay as they are."""


FLOAT32 = Precision("float32", torch.float32)
BFLOAT16 = Precision("bfloat16", torch.bfloat16)
INT8 = Precision("int8", torch.bfloat16, "int8")
INT4 = Precision("int4", torch.bfloat16, "int4")
PUBLISHED = Precision("published", torch.bfloat16, published=True)
# Those of every model; PUBLISHED needs blocks.
PRECISIONS = {each.name: each for each in (FLOAT32, BFLOAT16, INT8, INT4)}
# Tried after the blocks of a file, where kernels multiply by these.
SMALLER = (INT8, INT4)
_SLOWER = {torch.float32: BFLOAT16, torch.bfloat16: FLOAT32}


@dataclass(frozen=True, slots=True)
class Chosen:
    """`mapped_bytes` of the `num_bytes` may be in a mapped file; `why` if it is automatic."""

    precision: Precision
    kernels: Backend
    num_bytes: int
    mapped_bytes: int = 0
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
    """The precision in the settings; else the first automatic choice that fits in `free` bytes, or
    the smallest. `published` is automatic for a model without blocks.

    `faster` gives the faster of the two exact types, None if unknown; `notes` keeps measurements.
    Raises a WaymarkError.
    """
    sized = partial(_sized, settings, plan, device, check, notes)
    if settings.precision in PRECISIONS:
        return sized(PRECISIONS[settings.precision])
    as_published = sized(PUBLISHED) if plan.block_types() else None
    if as_published is not None and settings.precision == PUBLISHED.name:
        return as_published
    fast, too_large = None, list[TooLarge]()
    # Elsewhere blocks are dequantised at every call, or a GPU multiplies them, yet unmeasured.
    if as_published is not None and as_published.kernels.shares_out:
        chosen, others = as_published, [*SMALLER]
    else:
        if device.type == "cpu":
            measure = partial(faster_type, notes=notes, library=partial(compiled, check))
            fast = (faster or measure)(settings)
        first, *others = automatic(fast)
        chosen = sized(first)
    for precision in others:
        if with_room(chosen.num_bytes) <= free:
            break
        other = sized(precision)
        if other.num_bytes < chosen.num_bytes:
            needed = with_room(chosen.num_bytes)
            too_large.append(TooLarge(precision=chosen.precision.name, needed=needed))
            chosen = other
    fits = chosen.num_bytes + HEADROOM_BYTES <= free
    if not fits and notes is not None and as_published is not None and as_published.mapped_bytes:
        # Nothing fits: pages that are needed are read from disk, and no number is changed.
        chosen = as_published
    why = PrecisionChoice(
        needed=with_room(chosen.num_bytes),
        free=free,
        too_large=tuple(too_large),
        faster_than="" if too_large or fast is None else _SLOWER[fast].name,
    )
    return replace(chosen, why=why)


def _sized(
    settings: ModelSettings,
    plan: ModelPlan,
    device: torch.device,
    check: Callable[[], None] | None,
    notes: DiskStore | None,
    precision: Precision,
) -> Chosen:
    integers, library = precision.integers, partial(compiled, check)
    dtype = precision.dtype
    kernels = choose_backend(
        settings, device, dtype, integers, published=precision.published, library=library,
        notes=notes,
    )  # fmt: skip
    held = plan.held(dtype, kernels)
    return Chosen(precision, kernels, held.num_bytes, held.mapped_bytes)


def automatic(fast: torch.dtype | None) -> tuple[Precision, ...]:
    """Precisions to try for a model with float weights, most exact first; `fast` is the faster of
    float32 and bfloat16 here."""
    return (*((FLOAT32,) if fast == torch.float32 else ()), BFLOAT16, *SMALLER)
