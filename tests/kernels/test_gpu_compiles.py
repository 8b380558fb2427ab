"""Every GPU kernel compiles to machine code, also where there is no GPU to run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is published for Linux alone")

ROOT = Path(__file__).parents[2]
# Of a multiprocessor of the GPUs that people have at home (compute capability 8.6, 8.9 and 12.0).
SHARED_MEMORY = 99 * 1024


@pytest.mark.slow
@pytest.mark.timeout(900)  # 20 s of compiling, and longer where others compile as well
def test_kernels_compile_and_fit(tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    run = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compile_gpu", "90"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    compiled = [json.loads(line) for line in run.stdout.splitlines()]
    assert {line["kernel"] for line in compiled} == _kernels()
    assert all(line["bytes"] > 0 for line in compiled)
    # Three products of tf32 are as exact as one of float32; tests/kernels/gated_delta measures it.
    assert {line["kernel"] for line in compiled if line["tf32"]} == {
        "prepare_chunks", "scan_chunks", "read_chunks"
    }  # fmt: skip
    assert max(line["shared"] for line in compiled) <= SHARED_MEMORY


def _kernels() -> set[str]:
    """The names of what is launched with a grid somewhere in kernels."""
    launched = set()
    for source in (ROOT / "kernels").glob("*/gpu.py"):
        for line in source.read_text(encoding="utf-8").splitlines():
            name, bracket, _ = line.strip().partition("[(" if "[(" in line else "[grid](")
            if bracket and name.isidentifier():
                launched.add(name)
    return launched
