"""A plugin for pytest: the compiled kernels are made for the level of x86 that a variable names."""

from __future__ import annotations

import os

from kernels.native import build

LEVEL = "WAYMARK_TEST_LEVEL"

_native = build._flags


def _flags() -> list[str]:
    return [f"-march={os.environ[LEVEL]}" if "-march" in flag else flag for flag in _native()]


if os.environ.get(LEVEL):
    build._flags = _flags
