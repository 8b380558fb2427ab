"""Outliers that a norm makes: integers are as good as without them, and floats are left alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from core.api.errors import BrokenWeightsError
from core.loading.reading import TensorReader
from core.weights import smoothing as balance
from core.weights.published.folder import ModelFolder
from kernels.dispatch import Backend, backend
from kernels.linear.reference import Integers, PlainFormat, WeightFormats
from tests.loads import load_model
from tests.models.outliers import plant
from tests.oracle.checkpoints import Tiny, write_folder
from tests.oracle.runs import our_logits, rms_ratio, text
from tests.oracle.tiny_experts import TinyExperts, write_experts
from tests.oracle.tiny_gemma3 import TinyGemma3, write_gemma3
from tests.oracle.tiny_text import TinyLlama, write_llama

CPU = torch.device("cpu")
# A token that goes another way would say nothing about rounding: all experts are taken.
NEXT = Tiny(layers="LF", hidden=64, text_only=True, tied=False, seed=2)
# What norms add to w, and who writes the family.
FAMILIES: dict[str, tuple[float, Callable[[Path], object]]] = {
    "qwen3_5": (1.0, lambda path: write_folder(path, Tiny(layers="LF", hidden=64, mlp=96))),
    "llama": (0.0, lambda path: write_llama(path, TinyLlama(layers=2))),
    "gemma3": (1.0, lambda path: write_gemma3(path, TinyGemma3(layers="SF"))),
    "qwen3_moe": (0.0, lambda path: write_experts(path, TinyExperts(experts=4, top_k=4))),
    "qwen3_next": (1.0, lambda path: write_experts(path, TinyExperts("qwen3_next", NEXT, 4, 4))),
    "fused experts": (
        1.0,
        lambda path: write_experts(path, TinyExperts("qwen3_5_moe", NEXT, 4, 4, fused=True)),
    ),
}


class PretendsFormat(PlainFormat):
    """Floats that are said to be quantised."""

    quantises = True


@pytest.fixture(params=FAMILIES)
def planted(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    offset, write = FAMILIES[request.param]
    write(tmp_path / "model")
    return plant(tmp_path / "model", offset)


def logits(folder: Path, kernels: Backend) -> Tensor:
    model = load_model(ModelFolder.open(folder), CPU, torch.float32, kernels=kernels).model
    with torch.inference_mode():
        return our_logits(model, [text(24)])


def in_integers(integers: Integers) -> Backend:
    return backend("reference", torch.float32, integers=integers)


@pytest.mark.parametrize("integers", ["int8", "int4"])
def test_quantised_weights_suffer_less(
    planted: Path, integers: Integers, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = logits(planted, backend("reference", torch.float32))
    found = rms_ratio(logits(planted, in_integers(integers)), expected)
    monkeypatch.setattr(balance, "_LARGE", float("inf"))
    without = rms_ratio(logits(planted, in_integers(integers)), expected)
    # Of all logits: where outliers are left alone, int4 makes noise of the largest.
    assert found < without / 2


def test_handing_on_changes_no_bit(planted: Path) -> None:
    """Sums of the same products: only rounding to a few levels makes a difference."""
    expected = logits(planted, backend("reference", torch.float32))
    pretending = Backend("pretends", WeightFormats(PretendsFormat(), PlainFormat()))
    assert torch.equal(logits(planted, pretending), expected)


def test_floats_are_left_alone(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = logits(planted, backend("reference", torch.float32))
    monkeypatch.setattr(
        TensorReader, "_migrating_scales", lambda *_: pytest.fail("nothing migrates")
    )
    assert torch.equal(logits(planted, backend("reference", torch.float32)), expected)


def test_a_norm_that_was_read_is_not_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would compare the second look with anything."""
    write_llama(tmp_path / "model", TinyLlama(layers=1))
    path = plant(tmp_path / "model", 0.0) / "model.safetensors"
    norms_first = dict(sorted(load_file(path).items(), key=lambda item: "layernorm" not in item[0]))
    path.write_bytes(safetensors_of(norms_first))
    looks: list[str] = []
    look_up = TensorReader._look_up

    def noted(self: TensorReader, name: str) -> Tensor:
        looks.append(name)
        return look_up(self, name)

    monkeypatch.setattr(TensorReader, "_look_up", noted)
    logits(tmp_path / "model", in_integers("int4"))
    assert not looks


def safetensors_of(tensors: dict[str, Tensor]) -> bytes:
    """A file with the data in this order, which safetensors' own writer would sort."""
    header, start = {}, 0
    for name, tensor in tensors.items():
        end = start + tensor.nbytes
        kind = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [start, end]}
        header[name], start = kind, end
    octets = json.dumps(header).encode()
    octets += b" " * (-len(octets) % 8)
    data = b"".join(tensor.contiguous().numpy().tobytes() for tensor in tensors.values())
    return struct.pack("<Q", len(octets)) + octets + data


def test_a_norm_that_changes_between_two_looks_is_refused(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = TensorReader._look_up
    monkeypatch.setattr(TensorReader, "_look_up", lambda *which: look_up(*which) + 1)
    with pytest.raises(BrokenWeightsError):
        logits(planted, in_integers("int4"))
