"""Whole models over the GPU kernels beside the same over plain torch, on one device.

That is a GPU for `make test-gpu`, else a processor with Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from core.models.decoder import Decoder
from core.weights.published.folder import ModelFolder
from kernels.dispatch import BackendName, backend
from kernels.linear.reference import Integers
from tests.kernels.gpu import ON_GPU
from tests.loads import load_model
from tests.models.memory import ConcatenatingMemory
from tests.oracle.checkpoints import Tiny, write_folder
from tests.oracle.runs import deviation, rms_ratio
from tests.oracle.tiny_experts import TinyExperts, write_experts
from tests.oracle.tiny_gemma3 import TinyGemma3, write_gemma3
from tests.oracle.tiny_kimi import TinyKimi, write_kimi
from tests.oracle.tiny_lfm import (
    TinyLfm2Moe,
    TinyLfm3,
    TinyLfm3Vl,
    write_lfm2_moe,
    write_lfm3,
    write_lfm3_vl,
)
from tests.oracle.tiny_lfm2_vl import TinyLfm2Vl, write_lfm2_vl
from tests.oracle.tiny_qwen3_vl import TinyQwen3VL, write_qwen3_vl
from tests.oracle.tiny_text import (
    TinyFalconH1,
    TinyGptOss,
    TinyGraniteSwa,
    TinyJamba,
    TinyLfm2,
    TinyLlama,
    TinyMinistral3,
    TinyNemotron,
    TinyOlmoHybrid,
    write_falcon_h1,
    write_gpt_oss,
    write_granite_swa,
    write_jamba,
    write_lfm2,
    write_llama,
    write_ministral3,
    write_nemotron,
    write_olmo_hybrid,
)

pytest.importorskip("triton", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.gpu

BFLOAT16 = torch.bfloat16
WRITERS: dict[str, Callable[[Path], object]] = {
    "qwen3_5": lambda path: write_folder(path, Tiny(layers="LF", dtype=BFLOAT16)),
    "llama": lambda path: write_llama(path, TinyLlama(layers=2, dtype=BFLOAT16)),
    # All experts are taken: a token near a tie would go another way.
    "qwen3_moe": lambda path: write_experts(
        path,
        TinyExperts(
            base=Tiny(layers="FF", head_dim=16, text_only=True, dtype=BFLOAT16), experts=3, top_k=3
        ),
    ),
    "qwen3_vl": lambda path: write_qwen3_vl(path, TinyQwen3VL(layers=2, dtype=BFLOAT16)),
    "lfm2": lambda path: write_lfm2(path, TinyLfm2(layers="CF", dtype=BFLOAT16)),
    "lfm2_moe": lambda path: write_lfm2_moe(
        path, TinyLfm2Moe("CF", experts=3, top_k=3, dtype=BFLOAT16)
    ),
    "lfm3": lambda path: write_lfm3(path, TinyLfm3("CSF", dtype=BFLOAT16)),
    "lfm3_vl": lambda path: write_lfm3_vl(path, TinyLfm3Vl(tower="CF", dtype=BFLOAT16)),
    "lfm2_vl": lambda path: write_lfm2_vl(
        path, TinyLfm2Vl(TinyLfm2("CF"), patch=16, depth=1, dtype=BFLOAT16)
    ),
    "falcon_h1": lambda path: write_falcon_h1(path, TinyFalconH1(layers=2, dtype=BFLOAT16)),
    "jamba": lambda path: write_jamba(path, TinyJamba(layers=2, experts=1, dtype=BFLOAT16)),
    # Experts without a gate, chosen by sigmoids.
    "nemotron_h": lambda path: write_nemotron(
        path, TinyNemotron("E*", experts=3, top_k=3, dtype=BFLOAT16)
    ),
    "ministral3": lambda path: write_ministral3(path, TinyMinistral3(layers=2, dtype=BFLOAT16)),
    "gpt_oss": lambda path: write_gpt_oss(path, TinyGptOss("SF", dtype=BFLOAT16)),
    "granite_swa": lambda path: write_granite_swa(path, TinyGraniteSwa("FS", dtype=BFLOAT16)),
    "olmo_hybrid": lambda path: write_olmo_hybrid(path, TinyOlmoHybrid("LF", dtype=BFLOAT16)),
    "kimi_linear": lambda path: write_kimi(
        path, TinyKimi("KF", experts=3, top_k=3, dtype=BFLOAT16)
    ),
    # Its window is smaller than a run and than a picture.
    "gemma3": lambda path: write_gemma3(path, TinyGemma3(layers="SF", window=7, dtype=BFLOAT16)),
}
# Patches of a picture, and how wide one is.
PICTURES = {
    "qwen3_5": (4, 6, 1536),
    "qwen3_vl": (4, 6, 1536),
    "lfm2_vl": (4, 6, 768),
    "lfm3_vl": (4, 6, 1536),
    "gemma3": (6, 6, 48),
}
# Of the standard deviation of the logits. Ops are off by up to some hundred ULP of float32,
# 3e-5; on the way through two layers and a head of random weights that grows tenfold at most.
FLOAT32_BOUND = 3e-4
# An op of the GPU rounds to bfloat16 once, plain torch at least as often. Which way a number is
# rounded is chance, so the two errors are of one size and not equal.
BFLOAT16_SHARE = 1.25


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def make(family: str) -> Path:
        path = tmp_path_factory.mktemp(family) / "model"
        WRITERS[family](path)
        return path

    return make


def load(
    folder: Path,
    device: torch.device,
    kernels: BackendName,
    dtype: torch.dtype,
    integers: Integers | None = None,
) -> Decoder:
    return load_model(
        ModelFolder.open(folder), device, dtype, kernels=backend(kernels, dtype, integers=integers)
    ).model


def logits(model: Decoder, family: str) -> Tensor:
    """Two runs that follow each other, a picture where there is a tower, and two single tokens."""
    memory, at = ConcatenatingMemory(model.layer_specs, model.device), 0
    rows: list[Tensor] = []

    def feed(embeddings: Tensor, places: Tensor, image: bool = False) -> None:
        nonlocal at
        at += len(embeddings)
        hidden = model.forward(embeddings, places.to(model.device), memory, image=image)
        rows.append(model.logits(hidden))

    def say(count: int) -> None:
        ids = torch.arange(at, at + count) * 7 % 300
        feed(model.embed(ids.to(model.device)), torch.arange(at, at + count).expand(3, -1))

    say(65)
    say(3)
    if family in PICTURES:
        height, width, size = PICTURES[family]
        pixels = torch.rand(height * width, size, generator=torch.Generator().manual_seed(1))
        embedding = model.encode_image(pixels, height, width, lambda: None)
        places = torch.full((3, len(embedding)), at)
        places[1:] += torch.arange(len(embedding))
        feed(embedding, places, image=True)
    say(1)
    say(1)
    return torch.cat(rows)


@pytest.fixture(autouse=True)
def _few_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    # Short contexts: most splits would be empty, and each takes the interpreter as long.
    if not ON_GPU:
        monkeypatch.setattr("kernels.attention.gpu.SPLITS", 4)


# One family is enough of Triton's interpreter for `make test`.
SLOW = [pytest.param(name, marks=[] if name == "llama" else pytest.mark.slow) for name in WRITERS]


@pytest.mark.parametrize("family", SLOW)
def test_a_model_is_the_same_but_for_rounding(
    folder_of: Callable[[str], Path], family: str, device: torch.device
) -> None:
    folder = folder_of(family)
    expected = logits(load(folder, device, "reference", torch.float32), family)
    exact = load(folder, device, "gpu", torch.float32)
    found = logits(exact, family)
    assert not torch.equal(found, expected)  # or plain torch was compared with itself
    assert deviation(found, expected) <= FLOAT32_BOUND
    assert torch.equal(logits(exact, family), found)
    plain = rms_ratio(logits(load(folder, device, "reference", BFLOAT16), family), expected)
    rough = rms_ratio(logits(load(folder, device, "gpu", BFLOAT16), family), expected)
    assert rough <= BFLOAT16_SHARE * plain


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "qwen3_moe"])
@pytest.mark.parametrize("integers", ["int8", "int4"])
def test_a_model_of_integers_is_the_same_but_for_rounding(
    folder_of: Callable[[str], Path], integers: Integers, family: str, device: torch.device
) -> None:
    folder, exact = folder_of(family), torch.float32
    assert backend("gpu", exact, integers=integers).name.endswith(f"matrices {integers}")
    expected = logits(load(folder, device, "reference", exact, integers), family)
    found = logits(load(folder, device, "gpu", exact, integers), family)
    assert not torch.equal(found, expected)
    assert deviation(found, expected) <= FLOAT32_BOUND
