"""The compiled kernels of this machine, for tests that need them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from kernels.native import levels
from kernels.native.build import CannotCompileError, built
from kernels.native.library import Library, cache_folder, compiled

# Levels at which int4 weights of many rows become bytes.
IN_BYTES = ("x86-64-v4-vnni", "x86-64-v4-bf16", "x86-64-amx")

# Whoever wants kernels, and whoever makes them: those that came along need no compiler.
NEEDS_COMPILER = pytest.mark.skipif(compiled() is None, reason="there is no C compiler here")


def _compiles() -> bool:
    try:
        built(cache_folder())
    except CannotCompileError:
        return False
    return True


COMPILES = pytest.mark.skipif(not _compiles(), reason="there is no C compiler here")


def makes_bytes() -> bool:
    """True if int4 weights of many rows become bytes in `library()`."""
    return (levels.wished() or levels.executable()[-1]).name in IN_BYTES


def library() -> Library:
    """Only in tests that are marked with `NEEDS_COMPILER`."""
    found = compiled()
    assert found is not None
    return found


def compiled_for(level: str, shared: Path) -> Path:
    """The library for a level in this process's cache, compiled once for all test processes."""
    with FileLock(shared / f"{level}.lock"), pytest.MonkeyPatch.context() as patch:
        patch.setenv(levels.VARIABLE, level)
        return Path(shutil.copy2(built(shared / level), cache_folder()))
