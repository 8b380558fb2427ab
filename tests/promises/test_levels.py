"""H11: cold and restored answers have the same bits at every level of x86 that the machine runs.

Libraries take other kernels at each level, and we compile others. A level is chosen when a process
starts, so the story of X1 is told again in one process a level.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
import torch

from core.client.programs import ROOT
from tests.promises.at_level import LEVEL, LEVELS

STORY = "test_X1_two_hundred_tokens_are_the_same_cold_restored_and_branched"


@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="levels of x86")
@pytest.mark.parametrize("level", LEVELS)
def test_H11_cold_and_restored_are_the_same_at_each_level(level: str) -> None:
    needs, _ = LEVELS[level]
    here = torch.cpu.get_capabilities()
    if not all(here.get(name) for name in needs):
        pytest.skip(f"this processor has no {' '.join(needs)}")
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.promises.at_level",
         f"tests/promises/test_exactness.py::{STORY}", "-k", "not _vl"],
        cwd=ROOT, env={**os.environ, LEVEL: level, "OMP_NUM_THREADS": "2"},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert told.returncode == 0 and "4 passed" in told.stdout, told.stdout[-3_000:]
