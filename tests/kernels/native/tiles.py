"""Programs in C that call kernels of AMX: what no test in Python can see of them."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from kernels.native import build
from kernels.native.build import built
from kernels.native.library import cache_folder
from tests.kernels.native.here import library

_HEADERS = """
    #include <stdlib.h>
    #include <string.h>
    #include "native/calls.h"
"""
# `compute` is called with the unit set to nothing, and to something odd.
_SET_AS_BEFORE = """
    #include <immintrin.h>
    #define ALL_IN_MEMORY __asm__ volatile("" ::: "memory")
    static struct {
        unsigned char palette, start, nothing[14];
        unsigned short bytes[16];
        unsigned char rows[16];
    } before, after;

    int waymark_has_tiles(void);
    static int changed(void) {
        if (!compute()) return 1;
        _tile_storeconfig(&after);
        ALL_IN_MEMORY;
        return memcmp(&before, &after, sizeof before) != 0;
    }

    int main(void) {
        if (!waymark_has_tiles() || changed()) return 1;
        before.palette = 1, before.bytes[3] = 32, before.rows[3] = 5;
        ALL_IN_MEMORY;
        _tile_loadconfig(&before);
        return changed();
    }
"""


@cache
def has_tiles() -> bool:
    """Before a test says otherwise."""
    return library().has_tiles


def ended_with(source: str, folder: Path) -> int:
    """The exit status of a program that may call all kernels."""
    program, flags = folder / "program", [flag for flag in build._flags() if flag != "-shared"]
    (folder / "program.c").write_text(_HEADERS + source)
    command = [*build._compiler(), *flags, "-rdynamic", "-I", str(Path(build.__file__).parents[1])]
    kernels = str(built(cache_folder()))
    subprocess.run([*command, folder / "program.c", kernels, "-o", program], check=True)
    return subprocess.run([program], check=False).returncode


def assert_unit_set_as_before(source: str, folder: Path) -> None:
    """`compute` in `source`, which says whether it worked, sets the unit back. Torch's products may
    rely on it."""
    if not has_tiles():
        pytest.skip("there is no AMX here")
    assert ended_with(source + _SET_AS_BEFORE, folder) == 0
