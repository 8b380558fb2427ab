"""The processor levels that kernels are compiled for, oldest first.

A level includes those before it on the same architecture, except AVX-VNNI: processors with AVX-512
have wider instructions. arm64: NEON (Raspberry Pi 4), dot products (Raspberry Pi 5, Apple M1),
products of 8-bit matrices (Apple M2, Snapdragon X).
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

import torch

VARIABLE = "WAYMARK_CPU_LEVEL"
_V3 = ("avx2", "bmi", "bmi2", "f16c", "fma3")
_V4 = (*_V3, "avx512_f", "avx512_bw", "avx512_vl", "avx512_dq", "avx512_cd")
_VNNI = (*_V4, "avx512_vnni")
_BF16 = (*_VNNI, "avx512_bf16")


class NoSuchLevelError(Exception):
    """Unknown, or this processor can't run it."""


@dataclass(frozen=True, slots=True)
class Level:
    """`needs`: names of torch.cpu.get_capabilities(). None on arm64, where torch may not know and
    the self-test finds a missing instruction."""

    name: str
    machine: str
    flags: tuple[str, ...]
    needs: tuple[str, ...]


_VNNI_FLAGS = ("-march=x86-64-v4", "-mavx512vnni")
_BF16_FLAGS = (*_VNNI_FLAGS, "-mavx512bf16")
_AMX_FLAGS = (*_BF16_FLAGS, "-mamx-tile", "-mamx-int8", "-mamx-bf16")
LEVELS = (
    Level("x86-64-v2", "x86_64", ("-march=x86-64-v2",), ()),
    Level("x86-64-v3", "x86_64", ("-march=x86-64-v3",), _V3),
    Level("x86-64-v3-vnni", "x86_64", ("-march=x86-64-v3", "-mavxvnni"), (*_V3, "avx_vnni")),
    Level("x86-64-v4", "x86_64", ("-march=x86-64-v4",), _V4),
    Level("x86-64-v4-vnni", "x86_64", _VNNI_FLAGS, _VNNI),
    Level("x86-64-v4-bf16", "x86_64", _BF16_FLAGS, _BF16),
    Level("x86-64-amx", "x86_64", _AMX_FLAGS, (*_BF16, "amx_tile", "amx_int8", "amx_bf16")),
    Level("arm64", "arm64", ("-march=armv8-a",), ()),
    Level("arm64-dot", "arm64", ("-march=armv8.2-a+dotprod",), ()),
    Level("arm64-i8mm", "arm64", ("-march=armv8.2-a+dotprod+i8mm",), ()),
)


def machine() -> str:
    """The architecture, by one name on all systems."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "aarch64": "arm64"}.get(name, name)


def executable() -> tuple[Level, ...]:
    """The levels that this processor can run, the newest last."""
    here = machine()
    has = {name for name, value in torch.cpu.get_capabilities().items() if value}
    return tuple(each for each in LEVELS if each.machine == here and has.issuperset(each.needs))


def wished() -> Level | None:
    """The level that WAYMARK_CPU_LEVEL names. Raises NoSuchLevelError."""
    wish = os.environ.get(VARIABLE, "")
    if not wish:
        return None
    names = {each.name: each for each in executable()}
    if wish not in names:
        raise NoSuchLevelError(
            f"{VARIABLE} names {wish[:40]!r}. This processor has: {', '.join(names)}."
        )
    return names[wish]
