"""The processor levels at which a machine is measured, and how each library is told.

A level is at or below the machine's own, and chosen when a process starts: the kernels, torch,
oneDNN and MKL read it once. MKL obeys on Intel's processors alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from kernels.native import levels


@dataclass(frozen=True, slots=True)
class Level:
    """The names of a level in the kernels and libraries, and llama.cpp's build options."""

    name: str
    kernels: str
    torch: str
    onednn: str
    mkl: str
    llama: tuple[str, ...]

    def environment(self) -> Mapping[str, str]:
        """The variables that set a process to this level."""
        return {
            levels.VARIABLE: self.kernels,
            "ATEN_CPU_CAPABILITY": self.torch,
            "ONEDNN_MAX_CPU_ISA": self.onednn,
            "MKL_ENABLE_INSTRUCTIONS": self.mkl,
        }

    def is_set(self) -> bool:
        return all(os.environ.get(name) == value for name, value in self.environment().items())


_AVX2 = ("SSE42", "AVX", "AVX2", "FMA", "F16C", "BMI2")
_AVX512 = (*_AVX2, "AVX512", "AVX512_VNNI")
_BF16 = (*_AVX512, "AVX512_BF16")
# llama.cpp's own AMX is left out: built with it, it ended with an illegal instruction on the one
# machine with AMX where that was tried.
LEVELS = (
    Level("avx2", "x86-64-v3", "avx2", "AVX2", "AVX2", _AVX2),
    Level("avx2-vnni", "x86-64-v3-vnni", "avx2", "AVX2_VNNI", "AVX2_E1", (*_AVX2, "AVX_VNNI")),
    Level("avx512", "x86-64-v4-vnni", "avx512", "AVX512_CORE_VNNI", "AVX512_E1", _AVX512),
    Level("avx512-bf16", "x86-64-v4-bf16", "avx512", "AVX512_CORE_BF16", "AVX512_E3", _BF16),
    Level("amx", "x86-64-amx", "avx512", "AVX512_CORE_AMX", "AVX512_E4", _BF16),
)


def here() -> tuple[Level, ...]:
    """The levels that this machine can be measured at, its own last; none unless x86."""
    names = {each.name for each in levels.executable()}
    return tuple(each for each in LEVELS if each.kernels in names)


def named(name: str | None) -> Level | None:
    """The level of that name, by default the machine's own. Raises ValueError if the machine lacks
    it."""
    found = {each.name: each for each in here()}
    if name is None:
        return next(reversed(found.values()), None)
    if name not in found:
        has = ", ".join(found) or "none of them"
        raise ValueError(f"this machine can't run at level {name}; it has {has}")
    return found[name]
