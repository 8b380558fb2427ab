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
# Blocks of a GGUF file take no less in memory, however few bits they have in the file.
FEWEST_BYTES = 4.375 / 8
# For contexts, pictures and the program itself.
ROOM_BYTES = 10**9
# Other programs can be closed, but the system needs its share.
MOST_OF_ALL = 0.85
# Bytes by how the model would run.
Needs = dict[str, int]


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


def needs(parameters: int, gguf_bytes: int = 0) -> Needs:
    """About how many bytes a model takes in each precision that the engine may choose, the most
    exact first; nothing if neither number is known."""
    found = {
        tr("in {precision}").format(precision=name): int(parameters * each) + ROOM_BYTES
        for name, each in BYTES_PER_PARAMETER.items()
    }
    if gguf_bytes:
        published = max(gguf_bytes, int(parameters * FEWEST_BYTES)) + ROOM_BYTES
        smaller = {name: each for name, each in found.items() if each < published and parameters}
        return {tr("as published"): published, **smaller}
    return found if parameters else {}


def fit_of(needed: Needs, available: Memory) -> Fit:
    """The fit of the smallest precision."""
    if not needed:
        return Fit.UNKNOWN
    smallest = min(needed.values())
    if smallest <= available.free:
        return Fit.FITS
    return Fit.TIGHT if smallest <= MOST_OF_ALL * available.total else Fit.TOO_LARGE


def describe_fit(needed: Needs, available: Memory) -> str:
    """'Fits in int8: needs about 5.6 GB of memory; 9.1 GB are free.'"""
    found = fit_of(needed, available)
    if found is Fit.UNKNOWN:
        return tr("How much memory it needs is not published.")
    fitting = (way for way, each in needed.items() if each <= available.free)
    way = next(fitting, min(needed, key=lambda each: needed[each]))
    words = {
        Fit.FITS: tr("Fits {way}: needs about {needed} of memory; {free} are free."),
        Fit.TIGHT: tr(
            "Tight: even {way} it needs about {needed} of memory, and {free} are free. Close other "
            "programs first."
        ),
        Fit.TOO_LARGE: tr(
            "Doesn't fit: even {way} it needs about {needed} of memory. {free} are free."
        ),
    }
    free = format_bytes(available.free)
    return words[found].format(way=way, needed=format_bytes(needed[way]), free=free)


def short_fit(needed: Needs, available: Memory) -> str:
    names = {Fit.FITS: tr("fits"), Fit.TIGHT: tr("tight"), Fit.TOO_LARGE: tr("too large")}
    return names.get(fit_of(needed, available), "")
