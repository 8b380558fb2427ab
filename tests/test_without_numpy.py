"""Numpy is for tests alone: `make run` installs none, and torch then has no `Tensor.numpy`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.quantised_folders import FORMATS, write_twins
from tests.oracle.checkpoints import Tiny
from tests.weights.keeping import settle

ROOT = Path(__file__).parents[1]
# Loads folder argv[1] in each precision twice, keeping what is quantised in folder argv[2].
LOADS = """
import sys
sys.modules["numpy"] = None

import torch
from core.api.params import ModelSettings
from core.engine.loaded import load

try:
    torch.ones(1).numpy()
except RuntimeError:
    pass
else:
    raise SystemExit("numpy is there")
path, cache = sys.argv[1:]
for precision in ("bfloat16", "int8", "int4"):
    for again in (False, True):
        settings = ModelSettings(path=path, device="cpu", precision=precision, cache_folder=cache)
        loaded = load(settings, lambda done, total: None, lambda: None)
        facts = loaded.info.load
        assert facts.from_disk == (again and precision != "bfloat16"), (precision, facts)
"""


def loads(folder: Path, cache: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOADS, str(folder), str(cache)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]


def test_models_load_in_every_precision(tmp_path: Path) -> None:
    loads(ROOT / "resources" / "models" / "demo", tmp_path)


@pytest.mark.parametrize("title", ["gptq", "fp8"])
def test_published_integers_load(tmp_path: Path, title: str) -> None:
    tiny = Tiny(layers="LF", hidden=128, mlp=256, vision=False, tied=False)
    folder, _ = write_twins(tmp_path / "model", FORMATS[title], tiny)
    settle(tmp_path)
    loads(folder, tmp_path / "cache")


def test_nothing_that_users_run_asks_for_it() -> None:
    asks = re.compile(r"^\s*(import|from) numpy|\.numpy\(|from_numpy\(", re.MULTILINE)
    sources = [
        path for top in ("core", "kernels", "desktop") for path in (ROOT / top).rglob("*.py")
    ]
    assert len(sources) > 100
    assert [path for path in sources if asks.search(path.read_text(encoding="utf-8"))] == []
