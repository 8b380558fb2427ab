"""A plugin for pytest: everything computes as on an older x86, whose level a variable names.

`WAYMARK_TEST_LEVEL=haswell make test-long ARGS="-p tests.promises.at_level"`, say.
"""

from __future__ import annotations

import os

LEVEL = "WAYMARK_TEST_LEVEL"
# By what a compiler calls a level: what the processor must have for it, and what libraries call it.
LEVELS = {
    "haswell": (("avx2", "fma3"), {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}),
    "cascadelake": (("avx512_vnni",), {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"}),
}

if level := os.environ.get(LEVEL):
    # Libraries read it when they are loaded.
    os.environ |= LEVELS[level][1]

    from kernels.native import build

    native = build._flags

    def _flags() -> list[str]:
        return [f"-march={level}" if "-march" in flag else flag for flag in native()]

    build._flags = _flags
