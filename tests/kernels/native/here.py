"""Whether there are compiled kernels on this machine, for the tests that need them."""

from __future__ import annotations

import pytest

from kernels.native.library import Library, compiled

NEEDS_COMPILER = pytest.mark.skipif(compiled() is None, reason="there is no C compiler here")


def library() -> Library:
    """Only in tests that are marked with `NEEDS_COMPILER`."""
    found = compiled()
    assert found is not None
    return found
