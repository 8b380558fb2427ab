"""Models whose matrices stay the blocks of a GGUF file: the numbers are those of the blocks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from torch import Tensor

from core.api.params import ModelSettings, Precision
from core.loading.files import open_files
from core.loading.model import ReadModel
from core.loading.plan import ModelPlan
from core.loading.precision import (
    BFLOAT16,
    INT8,
    PUBLISHED,
    VARIABLE,
    Chooser,
    Chosen,
    choose_precision,
)
from core.weights.gguf_container import GGUFContainer
from core.weights.spec import TensorSpec, Use, planned_bytes
from core.weights.table import FileTable
from kernels.blocks.types import GGUFType
from kernels.common.memory import Arena
from kernels.dispatch import Backend, backend
from kernels.linear.native_blocks import NativeBlockFormat
from kernels.linear.reference import Matrix
from tests.gguf.conftest import ConvertedOf
from tests.gguf.rewriting import Change, Data, as_float32, blocks, decoded, rewrite
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.loading.keeping import WRITTEN_NS, kept_in, store_in
from tests.loads import load_model
from tests.oracle.runs import CPU, deviation, our_logits, text
from tests.replays import play

CLOSE = 2e-5
SMALL = ("Q4_0", "Q8_0")
LARGE = ("Q4_K", "Q6_K")
MODELS = {
    # Value heads that aren't key heads: columns of the output move. Tied.
    "wide": LARGE,
    "qwen35moe": SMALL,
    "qwen3next": SMALL,
    "qwen35-mtp": SMALL,
    "llama": SMALL,
    "gemma3": SMALL,
    # Per-layer embeddings and experts beside each dense layer.
    "wide-gemma4": LARGE,
    "falcon-h1": SMALL,
    "granitemoe": SMALL,
    "lfm2moe": SMALL,
    "fused-qwen35moe": SMALL,
    "fused-llama-biases": SMALL,
}


# In one layer gates have another type than what they open.
_IMPORTANT = ("attn_v", "ffn_down", "output.", "token_embd", "blk.0.ffn_gate", "blk.0.attn_gate")


def mixed(names: tuple[str, ...]) -> Change:
    """Convert like a release of one type whose more important matrices have another."""
    usual, better = (blocks(GGMLQuantizationType[name]) for name in names)

    def change(name: str, data: Data) -> tuple[Data, GGMLQuantizationType]:
        important = any(part in name for part in _IMPORTANT)
        return (better if important else usual)(name, data)

    return change


def logits(path: Path, dtype: torch.dtype, kernels: Backend) -> Tensor:
    model = load_model(open_files(path).container, CPU, dtype, kernels=kernels).model
    return our_logits(model, [text(20)])


@pytest.mark.parametrize("name", MODELS)
def test_G2_blocks_are_multiplied_as_the_numbers_that_they_are(
    name: str, converted: ConvertedOf, tmp_path: Path
) -> None:
    source = converted(name).file
    stored = rewrite(source, tmp_path / "blocks.gguf", mixed(MODELS[name]))
    exact = rewrite(source, tmp_path / "plain.gguf", decoded(mixed(MODELS[name])))
    for dtype, limit in ((torch.float32, CLOSE), (torch.bfloat16, 0.02)):
        found = logits(stored, dtype, backend("reference", dtype, published=True))
        expected = logits(exact, dtype, backend("reference", dtype))
        assert deviation(found, expected) < limit, dtype
    container = open_files(stored).container
    assert isinstance(container, GGUFContainer)
    plan = ModelPlan(container)
    held = plan.held(torch.bfloat16, backend("reference", torch.bfloat16, published=True))
    specs = {name: spec for name, spec in held.tensors.items() if Use.MATRIX in spec.use}
    assert plan.block_types() == sorted(MODELS[name])
    for each, spec in specs.items():
        stored_as = {part.type for part in container.model.recipes[each].parts}
        are_blocks = not spec.exact and stored_as != {GGUFType.F32}
        assert (spec.blocks is not None) == are_blocks, each


@pytest.mark.parametrize("name", [pytest.param("wide", marks=pytest.mark.slow), "qwen35moe"])
def test_G2_a_gpu_multiplies_the_same_numbers(
    name: str, converted: ConvertedOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within float32 rounding of the same kernels with plain matrices, in few and many rows."""
    gpu = pytest.importorskip("tests.kernels.gpu", reason="Triton is published for Linux alone")
    matrices = pytest.importorskip("kernels.linear.gpu_formats")
    source, rows = converted(name).file, set[int]()
    stored = rewrite(source, tmp_path / "blocks.gguf", mixed(MODELS[name]))
    exact = rewrite(source, tmp_path / "plain.gguf", decoded(mixed(MODELS[name])))
    multiply = matrices.GpuMatrix.__call__

    def counted(matrix: Matrix, given: Tensor) -> Tensor:
        rows.add(given.shape[0])
        product: Tensor = multiply(matrix, given)
        return product

    def found(path: Path, kernels: Backend) -> Tensor:
        model = load_model(open_files(path).container, CPU, torch.float32, kernels=kernels).model
        return our_logits(model, [text(18)], [17])

    monkeypatch.setattr(matrices.GpuMatrix, "__call__", counted)
    monkeypatch.setenv(VARIABLE, "gpu")
    settings = ModelSettings(path="", precision="published", measure_kernels=False)
    with gpu.hardware_arithmetic():
        chosen = choose_precision(settings, ModelPlan(open_files(stored).container), CPU, 2**40)
        kernels = Chooser().backend(CPU, torch.float32, published=True)
        in_blocks = found(stored, kernels)
        plain = found(exact, Chooser().backend(CPU, torch.float32))
    assert chosen.precision == PUBLISHED and chosen.kernels.name == kernels.name
    assert kernels.name.endswith("matrices reference, blocks") and {1, 17} <= rows
    assert deviation(in_blocks, plain) < CLOSE


@pytest.mark.parametrize("name", ["wide", "wide-moe"])
def test_G2_scales_of_tensors_multiply_finished_sums(
    name: str, converted: ConvertedOf, tmp_path: Path
) -> None:
    """llama.cpp's converter writes one scale for NVFP4, or one for each expert."""
    generator, scales = np.random.default_rng(0), dict[str, Data]()

    def change(tensor: str, data: Data) -> tuple[Data, GGMLQuantizationType]:
        if data.shape[-1] % 64 or not tensor.startswith(("blk", "token_embd")) or data.ndim < 2:
            return as_float32(tensor, data)
        if "norm" in tensor or "conv1d" in tensor or "inp" in tensor:
            return as_float32(tensor, data)
        made = generator.integers(0, 256, (*data.shape[:-1], data.shape[-1] // 64, 36), np.uint8)
        made[..., :4] = generator.integers(40, 56, made[..., :4].shape)
        count = data.shape[0] if data.ndim == 3 else 1
        size = 0.3 * generator.uniform(0.5, 1, count) / np.sqrt(data.shape[-1])
        scales[f"{tensor.removesuffix('.weight')}.scale"] = size.astype(np.float32)
        return made.reshape(*data.shape[:-1], -1), GGMLQuantizationType.NVFP4

    source, file = converted(name).file, tmp_path / "model.gguf"
    rewrite(source, file, change)
    generator = np.random.default_rng(0)
    rewrite(source, file, change, added=dict(scales))
    container = open_files(file).container
    assert isinstance(container, GGUFContainer)
    assert ModelPlan(container).block_types() == ["NVFP4"]
    scaled = [each for each in container.model.recipes.values() if any(each.scales)]
    assert len(scaled) > 8 and {each.block_type for each in scaled} == {GGUFType.NVFP4}
    kernels = backend("reference", torch.bfloat16, published=True)
    model = load_model(container, CPU, torch.bfloat16, kernels=kernels).model
    assert isinstance(model.embedding, FileTable), "nothing of the table is held"
    for dtype, limit in ((torch.float32, CLOSE), (torch.bfloat16, 0.02)):
        expected = logits(file, dtype, backend("reference", dtype))
        found = logits(file, dtype, backend("reference", dtype, published=True))
        assert deviation(found, expected) < limit and expected.std() > 0.1


def test_G2_a_script_is_answered_as_published_and_again(
    converted: ConvertedOf, tmp_path: Path
) -> None:
    file = rewrite(converted("qwen35moe").file, tmp_path / "model.gguf", mixed(SMALL))
    words = [{"op": "send", "chat": "a", "content": each} for each in ("a fox", "and a dog")]
    options = ("--model", file, "--data", tmp_path / "data", "--precision", "published")
    first, second = (play(tmp_path, words, *options) for _ in range(2))
    assert first.code == second.code == 0 and len(first.answers) == 2
    assert [each["reply"] for each in first.answers] == [each["reply"] for each in second.answers]


def test_an_unchanged_file_is_digested_once(
    converted: ConvertedOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = rewrite(converted("llama").file, tmp_path / "model.gguf", mixed(SMALL))
    os.utime(file, ns=(WRITTEN_NS, WRITTEN_NS))
    digested: list[bool] = []
    real = GGUFContainer.read

    def read(container: GGUFContainer, *given: Any, digest: bool) -> str:
        digested.append(digest)
        return real(container, *given, digest=digest)

    monkeypatch.setattr(GGUFContainer, "read", read)
    kernels, store = backend("reference", torch.bfloat16, published=True), store_in(tmp_path)
    done: list[tuple[int, int]] = []

    def load() -> ReadModel:
        return load_model(
            open_files(file).container, CPU, torch.bfloat16, lambda *now: done.append(now),
            kernels=kernels, store=store,
        )  # fmt: skip

    digests = [load().weights_digest for _ in range(2)]
    assert digested == [True, False] and digests[0] == digests[1] != ""
    assert done[-1][0] == done[-1][1], "all that was announced was read"
    assert all(now <= total for now, total in done)
    assert not kept_in(store)
    with file.open("r+b") as data:
        data.seek(-1, os.SEEK_END)
        data.write(b"x")
    assert load().weights_digest != digests[0] and digested[-1]


def test_blocks_stay_as_they_are_unless_something_else_is_wanted_or_fits(
    converted: ConvertedOf, tmp_path: Path
) -> None:
    stored = rewrite(converted("wide").file, tmp_path / "blocks.gguf", mixed(LARGE))
    quantised, plain = (
        ModelPlan(open_files(each).container) for each in (stored, converted("wide").file)
    )

    def chosen(plan: ModelPlan, precision: Precision, free: int = 2**40) -> Chosen:
        settings = ModelSettings(path="", precision=precision, device="cpu")
        return choose_precision(settings, plan, CPU, free)

    for precision in ("auto", "published"):
        assert chosen(quantised, precision).precision == PUBLISHED
        assert chosen(plain, precision).precision == BFLOAT16, "nothing to keep"
    assert chosen(quantised, "auto").why is not None
    assert chosen(quantised, "published").why is None
    assert chosen(quantised, "int8").precision == INT8
    small = chosen(quantised, "auto", free=0)
    assert small.num_bytes <= chosen(quantised, "published").num_bytes
    # Kernels that would dequantise at every call are no automatic choice.
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WAYMARK_KERNELS", "reference")
        assert chosen(quantised, "auto").precision == BFLOAT16
        assert chosen(quantised, "published").precision == PUBLISHED


def test_the_estimate_is_that_of_the_blocks(converted: ConvertedOf, tmp_path: Path) -> None:
    file = rewrite(converted("wide").file, tmp_path / "blocks.gguf", mixed(LARGE))
    kernels = backend("reference", torch.bfloat16, published=True)
    container = open_files(file).container
    held = ModelPlan(container).held(torch.bfloat16, kernels, with_mtp=False)
    in_blocks = {name: each for name, each in held.tensors.items() if each.blocks is not None}
    assert planned_bytes(in_blocks, kernels.formats) == container.num_bytes(in_blocks)


@NEEDS_COMPILER
def test_the_estimate_has_the_tiles_of_each_expert() -> None:
    held = NativeBlockFormat(library(), Arena(), GGUFType.Q4_K, 256)
    spec = TensorSpec((8 * 3, 256), torch.bfloat16, Use.MATRIX, stack=8, blocks=held)
    matrix = held.prepack((torch.zeros(3, held.row_bytes, dtype=torch.uint8),), None)
    assert planned_bytes({"experts": spec}) == 8 * matrix.num_bytes
