"""H11: cold and restored answers have the same bits at every level of x86 that the machine runs.

Libraries take other kernels at each level, and we compile others. A level is chosen when a process
starts, so the story of X1 is told again in one process a level.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.client.programs import ROOT
from core.loading.precision import PRECISIONS
from tests.bench.levels import LEVELS, Level, here
from tests.kernels.native.here import compiled_for
from tests.promises.fixtures import MAPPED, PUBLISHED

STORY = "test_X1_two_hundred_tokens_are_the_same_cold_restored_and_branched"


@pytest.mark.slow
@pytest.mark.timeout(960)  # 30 s on an idle machine
@pytest.mark.parametrize(
    "level",
    [each for each in LEVELS if each.name in {"avx2", "avx512"}],
    ids=lambda each: each.name,
)
@pytest.mark.parametrize(
    ("names", "count"),
    [
        ("not _vl and not mapped", len(PRECISIONS) + len(PUBLISHED)),
        ("mapped", len(MAPPED)),
    ],
    ids=["packed", "mapped"],
)
def test_H11_cold_and_restored_are_the_same_at_each_level(
    level: Level, names: str, count: int, shared_folder: Path
) -> None:
    if level not in here():
        pytest.skip(f"this processor has no {level.name}")
    compiled_for(level.kernels, shared_folder)
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"tests/promises/test_exactness.py::{STORY}",
         "-k", names],
        cwd=ROOT, env={**os.environ, **level.environment(), "OMP_NUM_THREADS": "2"},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert told.returncode == 0 and f"{count} passed" in told.stdout, told.stdout[-3_000:]
