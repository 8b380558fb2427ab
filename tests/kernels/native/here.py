"""The compiled kernels of this machine, for tests that need them."""

from __future__ import annotations

import pytest

from kernels.native.build import CannotCompileError, built
from kernels.native.library import Library, cache_folder, compiled

# Whoever wants kernels, and whoever makes them: those that came along need no compiler.
NEEDS_COMPILER = pytest.mark.skipif(compiled() is None, reason="there is no C compiler here")


def _compiles() -> bool:
    try:
        built(cache_folder())
    except CannotCompileError:
        return False
    return True


COMPILES = pytest.mark.skipif(not _compiles(), reason="there is no C compiler here")


def library() -> Library:
    """Only in tests that are marked with `NEEDS_COMPILER`."""
    found = compiled()
    assert found is not None
    return found
