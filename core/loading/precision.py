"""A model's precision and kernels: the chosen ones, else the most exact that fits, on the fastest
kernels.

Speed decides only between the two exact types, so a slow processor doesn't silently get coarser
numbers. Measured choices are remembered: they are part of the fingerprint, and another choice would
invalidate stored contexts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, get_args

import torch

from core.api.errors import UnsupportedDeviceError
from core.api.model_info import HEADROOM_BYTES, PrecisionChoice, TooLarge, with_room
from core.api.params import ModelSettings
from core.loading.fingerprint import NUMERICS_VERSION
from core.loading.plan import ModelPlan
from core.storage.store import DiskStore
from kernels.common.capability import interpreted, processor_facts
from kernels.dispatch import DEFAULT_ROWS, Backend, BackendName, backend, fastest, uses_library
from kernels.linear.cpu import can_pack
from kernels.linear.native import Product
from kernels.linear.probe import CHOICES, best_product, best_rows, faster_float
from kernels.linear.reference import Integers
from kernels.native.library import Library, compiled, why_none

VARIABLE = "WAYMARK_KERNELS"
# Two kinds of notes: measurements are part of the fingerprint, so self-test results must not push
# them out.
_MEASURED, _FOUND = "measured", "found"

T = TypeVar("T", int, str)


class Notes(Protocol):
    def note(self, kind: str, key: str) -> str | None: ...

    def write_note(self, kind: str, key: str, value: str) -> None:
        """May raise OSError."""


@dataclass(frozen=True, slots=True)
class Chooser:
    """Measures only missing `notes`, and only if it `measures`; `check` is called while kernels
    are compiled."""

    measures: bool = False
    notes: Notes | None = None
    check: Callable[[], None] | None = None

    def backend(
        self,
        device: torch.device,
        dtype: torch.dtype,
        integers: Integers | None = None,
        *,
        published: bool = False,
    ) -> Backend:
        """The backend that WAYMARK_KERNELS names, else the fastest for `device`: `reference` on a
        GPU that can't run `gpu`. Raises UnsupportedDeviceError."""
        name = _wished() or fastest(device)
        if name == "gpu":
            name = _gpu_or_plain(device)
        if name == "cpu" and uses_library(dtype, integers):
            library = compiled(self.check)
            if library is not None:
                product = self._product(library)
                return backend(
                    name, dtype, integers=integers, library=library, product=product,
                    published=published,
                )  # fmt: skip
        rows = DEFAULT_ROWS
        if name in {"cpu", "torch"} and self.measures and can_pack(dtype):
            key = f"{dtype}, {integers}" if integers else f"{dtype}"
            rows = remembered(self.notes, key, CHOICES, lambda: best_rows(dtype, integers))
        return backend(name, dtype, rows, integers, published=published)

    def _product(self, library: Library) -> Product:
        """The product of many bfloat16 rows: measured, or by the processor's instructions."""
        if not self.measures:
            return "pairs" if library.has_pairs else "floats"
        choices: dict[str, Product] = {each: each for each in get_args(Product)}
        key = f"product of {library.digest}{', tiles' if library.has_tiles else ''}"
        return choices[remembered(self.notes, key, tuple(choices), lambda: best_product(library))]

    def faster_type(self) -> torch.dtype | None:
        """The faster of bfloat16 and float32 on this processor; None if it isn't measured."""
        name = _wished() or "cpu"
        if not self.measures or name == "gpu":  # Triton's interpreter isn't a processor
            return None
        bfloats = self.backend(torch.device("cpu"), torch.bfloat16)
        # As a model would have them here.
        formats = {
            torch.bfloat16: bfloats.formats.usual,
            torch.float32: backend(name, torch.float32).formats.usual,
        }
        types, key = {str(dtype): dtype for dtype in formats}, f"faster type beside {bfloats.name}"
        return types[remembered(self.notes, key, tuple(types), lambda: str(faster_float(formats)))]


def what_slows(
    kernels: Backend, device: torch.device, dtype: torch.dtype, integers: Integers | None
) -> str:
    fast = kernels.shares_out or not uses_library(dtype, integers)
    return "" if fast or device.type != "cpu" or _wished() is not None else why_none()


def _wished() -> BackendName | None:
    known: dict[str, BackendName] = {name: name for name in get_args(BackendName)}
    wish = os.environ.get(VARIABLE, "")
    if wish and wish not in known:
        raise UnsupportedDeviceError(
            f"{VARIABLE} names {wish[:40]!r}. There are: {', '.join(known)}."
        )
    return known.get(wish)


def _gpu_or_plain(device: torch.device) -> BackendName:
    if device.type != "cpu":
        return fastest(device)
    if not interpreted():
        raise UnsupportedDeviceError(
            f"{VARIABLE} names the kernels of a GPU, but the model is to run on the processor. "
            "Choose a GPU in the settings, or leave the variable empty."
        )
    return "gpu"


def remembered(
    notes: Notes | None, key: str, choices: Collection[T], measure: Callable[[], T]
) -> T:
    """Noted earlier under the same conditions, or measured and noted now."""
    names = {str(choice): choice for choice in choices}
    key = f"{_conditions()}, {key}"
    return names[_noted(notes, _MEASURED, key, lambda: str(measure()), names.__contains__)]


def recalled(notes: Notes | None, key: str, find: Callable[[], str]) -> str:
    key = f"numerics {NUMERICS_VERSION}, {_conditions()}, {key}"
    return _noted(notes, _FOUND, key, find, lambda found: True)


def _noted(
    notes: Notes | None,
    kind: str,
    key: str,
    find: Callable[[], str],
    makes_sense: Callable[[str], bool],
) -> str:
    found = notes.note(kind, key) if notes is not None else None
    if found is None or not makes_sense(found):
        found = find()
        if notes is not None:
            with contextlib.suppress(OSError):  # the next start measures again
                notes.write_note(kind, key, found)
    return found


def _conditions() -> str:
    return f"{torch.__version__}, {torch.get_num_threads()} threads, {processor_facts()}"


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
    check: Callable[[], None] | None = None,
    notes: DiskStore | None = None,
) -> Chosen:
    """The precision in the settings; else the first automatic choice that fits in `free` bytes, or
    the smallest. `published` without blocks is automatic. Raises a WaymarkError."""
    chooser = Chooser(settings.measure_kernels, notes, check)

    def sized(precision: Precision) -> Chosen:
        dtype, published = precision.dtype, precision.published
        kernels = chooser.backend(device, dtype, precision.integers, published=published)
        held = plan.held(dtype, kernels)
        return Chosen(precision, kernels, held.num_bytes, held.mapped_bytes)

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
        fast = chooser.faster_type() if device.type == "cpu" else None
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


def automatic(fast: torch.dtype | None) -> tuple[Precision, ...]:
    """To try for float weights, most exact first; `fast` is the faster of float32 and bfloat16."""
    return (*((FLOAT32,) if fast == torch.float32 else ()), BFLOAT16, *SMALLER)
