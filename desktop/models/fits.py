"""An estimate whether a model fits into this computer's memory, from published sizes alone.

The engine measures exactly when it loads; before that only the number of parameters is known.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from desktop.i18n import tr
from desktop.numbers import format_bytes

# Bytes of a parameter in the precisions that the engine chooses from, the most exact first; a
# twentieth of a model is not quantised.
BYTES_PER_PARAMETER = {"bfloat16": 2.0, "int8": 1.15, "int4": 0.65}
# For contexts, pictures and the program itself.
ROOM_BYTES = 10**9
# Other programs can be closed, but the system needs its share.
MOST_OF_ALL = 0.85


@dataclass(frozen=True, slots=True)
class Memory:
    free: int
    total: int


class Fit(enum.Enum):
    UNKNOWN = enum.auto()
    FITS = enum.auto()
    TIGHT = enum.auto()
    TOO_LARGE = enum.auto()


def memory() -> Memory:
    # Imported late: used rarely, and takes a megabyte of memory.
    import psutil

    found = psutil.virtual_memory()
    return Memory(int(found.available), int(found.total))


def room(available: Memory) -> int:
    """The bytes that a model's weights may have to fit."""
    return max(0, available.free - ROOM_BYTES)


def fit_of(parameters: int, available: Memory) -> Fit:
    """Whether the smallest precision fits."""
    if not parameters:
        return Fit.UNKNOWN
    needed = parameters * BYTES_PER_PARAMETER["int4"] + ROOM_BYTES
    if needed <= available.free:
        return Fit.FITS
    return Fit.TIGHT if needed <= MOST_OF_ALL * available.total else Fit.TOO_LARGE


def describe_fit(parameters: int, available: Memory) -> str:
    """'Fits in int8: about 5.6 GB of memory, of which 9.1 GB are free.'"""
    free = format_bytes(available.free)
    needed = {
        name: int(parameters * each + ROOM_BYTES) for name, each in BYTES_PER_PARAMETER.items()
    }
    smallest = format_bytes(needed["int4"])
    match fit_of(parameters, available):
        case Fit.UNKNOWN:
            return tr("How much memory it needs is not published.")
        case Fit.FITS:
            best = next(name for name, each in needed.items() if each <= available.free)
            words = tr("Fits in {precision}: needs about {needed} of memory; {free} are free.")
            return words.format(precision=best, needed=format_bytes(needed[best]), free=free)
        case Fit.TIGHT:
            words = tr(
                "Tight: even in int4 it needs about {needed} of memory, and {free} are free. Close "
                "other programs first."
            )
        case _:
            words = tr(
                "Doesn't fit: even in int4 it needs about {needed} of memory. {free} are free."
            )
    return words.format(needed=smallest, free=free)


def short_fit(parameters: int, available: Memory) -> str:
    names = {Fit.FITS: tr("fits"), Fit.TIGHT: tr("tight"), Fit.TOO_LARGE: tr("too large")}
    return names.get(fit_of(parameters, available), "")
