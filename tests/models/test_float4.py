"""Folders in MXFP4 and NVFP4: matrices multiplied as they are, or as their exact values."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from core.api.errors import (
    BrokenWeightsError,
    MissingTensorError,
    UnsupportedDeviceError,
    WaymarkError,
    WrongShapeError,
)
from core.api.model_info import HEADROOM_BYTES
from core.api.params import ModelSettings
from core.loading.files import open_files
from core.loading.model import ReadModel
from core.loading.plan import ModelPlan
from core.loading.precision import PUBLISHED, choose_precision
from core.weights.published.folder import ModelFolder
from core.weights.published.scheme import MODELOPT
from core.weights.spec import planned_bytes
from kernels.blocks.types import GGUFType
from kernels.dispatch import REFERENCE, Backend, backend
from kernels.linear.blocks import StoredRows
from kernels.native.library import compiled
from tests.gguf.families import Converter
from tests.gguf.vocabularies import llama_models
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.loading.keeping import settle, store_in
from tests.loads import load_model
from tests.models.quantised_folders import (
    FORMATS,
    WEIGHTS,
    Published,
    edit_config,
    float4_config,
    write_mxfp4_twins,
    write_twins,
)
from tests.oracle.checkpoints import Tiny
from tests.oracle.runs import CPU, deviation, our_logits, text, usual_error
from tests.oracle.tiny_experts import TinyExperts
from tests.oracle.tiny_text import TinyGptOss

TINY = TinyGptOss("SF", hidden=64, mlp=96, experts=5, top_k=2, others={"swiglu_limit": 7.0})
BFLOAT16 = torch.bfloat16
PROMPT = [text(70)]
GATES = "model.layers.0.mlp.experts.gate_up_proj"


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_mxfp4_twins(tmp_path_factory.mktemp("mxfp4"), TINY)


@pytest.fixture
def copied(twins: tuple[Path, Path], tmp_path: Path) -> Path:
    """A packed folder that a test may spoil."""
    return Path(shutil.copytree(twins[0], tmp_path / "packed"))


def logits(path: Path, dtype: torch.dtype, kernels: Backend | None = None) -> Tensor:
    kernels = kernels or backend("reference", dtype)
    return our_logits(load_model(ModelFolder.open(path), CPU, dtype, kernels=kernels).model, PROMPT)


@pytest.mark.parametrize("dtype", [torch.float32, BFLOAT16])
def test_G1_values_are_those_that_transformers_reads(
    twins: tuple[Path, Path], dtype: torch.dtype
) -> None:
    found, expected = (logits(path, dtype) for path in twins)
    assert torch.equal(found, expected) and expected.std() > 0.1


def test_G2_blocks_are_multiplied_as_they_are(twins: tuple[Path, Path]) -> None:
    packed, plain = twins
    exact = logits(plain, torch.float32)
    for dtype, limit in ((torch.float32, 2e-5), (BFLOAT16, 0.05)):
        found = logits(packed, dtype, backend("reference", dtype, published=True))
        assert deviation(found, exact if dtype == torch.float32 else logits(plain, dtype)) < limit
    plan = ModelPlan(ModelFolder.open(packed))
    assert plan.block_types() == ["MXFP4"]
    held = plan.held(BFLOAT16, backend("reference", BFLOAT16, published=True))
    blocks = {name: each for name, each in held.tensors.items() if each.blocks is not None}
    assert len(blocks) == 2 * len(TINY.layers)
    bytes_in_files = held.model.container.num_bytes(blocks)
    assert planned_bytes(blocks, held.formats) == bytes_in_files
    assert bytes_in_files * 32 == sum(each.num_elements for each in blocks.values()) * 17


@NEEDS_COMPILER
def test_G2_compiled_kernels_multiply_them_and_are_chosen(twins: tuple[Path, Path]) -> None:
    packed, plain = twins
    kernels = backend("cpu", BFLOAT16, library=library(), published=True)
    exact, rough = logits(plain, torch.float32), logits(plain, BFLOAT16)
    assert usual_error(logits(packed, BFLOAT16, kernels), exact) < 2 * usual_error(rough, exact)
    settings = ModelSettings(path="", measure_kernels=False, device="cpu")
    plan = ModelPlan(open_files(packed).container)
    assert choose_precision(settings, plan, CPU, 2**40).precision == PUBLISHED


MODELS: dict[str, Tiny | TinyExperts] = {
    "dense": Tiny(layers="LF", hidden=128, mlp=256, text_only=True, vision=False, tied=False),
    "experts": TinyExperts(
        base=Tiny(layers="FF", hidden=64, mlp=64, head_dim=16, text_only=True, tied=False),
        inner=64,
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("title", ["nvfp4", "modelopt", "mxfp4"])
def test_G2_matrices_and_experts_of_other_folders_are_multiplied_as_they_are(
    title: str, name: str, tmp_path: Path
) -> None:
    """By all kernels, in one batch and in two; scales of a matrix are no powers of two."""
    kind = Published(title, float4_config(title))
    packed, plain = write_twins(tmp_path, kind, MODELS[name])
    exact, rough = logits(plain, torch.float32), logits(plain, BFLOAT16)
    for dtype, limit in ((torch.float32, 2e-5), (BFLOAT16, 0.05)):
        found = logits(packed, dtype, backend("reference", dtype, published=True))
        assert deviation(found, exact if dtype == torch.float32 else rough) < limit
    folder = ModelFolder.open(packed)
    plan = ModelPlan(folder)
    assert plan.block_types() == ["MXFP4" if title == "mxfp4" else "NVFP4"]
    held = plan.held(BFLOAT16, backend("reference", BFLOAT16, published=True))
    marked = [each for each in folder.files[0].tensors if each.endswith(".weight_scale")]
    blocks = {each for each, spec in held.tensors.items() if spec.blocks is not None}
    assert blocks == {each.removesuffix("_scale") for each in marked} and len(blocks) > 10
    planned = planned_bytes({each: held.tensors[each] for each in blocks}, held.formats)
    outputs = sum(held.tensors[each].shape[0] for each in blocks)  # each has a scale
    in_files = sum(folder.num_bytes([each]) for each in blocks)
    assert planned == in_files + (0 if title == "mxfp4" else 4 * (outputs - len(blocks)))
    if compiled() is None:
        return
    kernels = backend("cpu", BFLOAT16, library=library(), published=True)
    model = load_model(ModelFolder.open(packed), CPU, BFLOAT16, kernels=kernels).model
    native = our_logits(model, PROMPT)
    # All rows are rounded to 8 bits.
    assert usual_error(native, exact) < 3 * usual_error(rough, exact)
    if name == "dense":  # a delta net's segments are computed alone
        assert torch.equal(our_logits(model, PROMPT, [64]), native)


@NEEDS_COMPILER
@pytest.mark.parametrize("name", MODELS)
def test_G2_a_second_load_maps_the_blocks_and_scales_of_their_rows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = Published("nvfp4", float4_config("nvfp4"))
    packed, _ = write_twins(tmp_path, kind, MODELS[name])
    settle(packed)
    kernels, store = backend("cpu", BFLOAT16, library=library(), published=True), store_in(tmp_path)
    held = ModelPlan(ModelFolder.open(packed)).held(BFLOAT16, kernels)
    room = held.num_bytes - held.mapped_bytes + HEADROOM_BYTES

    def load() -> ReadModel:
        return load_model(
            ModelFolder.open(packed), CPU, BFLOAT16, kernels=kernels, store=store,
            available=lambda device: room,
        )  # fmt: skip

    first = load()
    monkeypatch.setattr(StoredRows, "fill", None)  # the second load reads no blocks
    second = load()
    assert (first.from_disk, second.from_disk) == (False, True) and second.mapped_bytes
    assert torch.equal(our_logits(second.model, PROMPT), our_logits(first.model, PROMPT))


@pytest.mark.parametrize("title", ["nvfp4", "modelopt", "mxfp4", "fp8"])
def test_L4_an_embedding_table_in_a_published_format_is_counted(title: str, tmp_path: Path) -> None:
    """Rows of 4-bit floats are looked up in the file; FP8 is held in the model's type."""
    kind = FORMATS["fp8"] if title == "fp8" else Published(title, float4_config(title))
    packed, plain = write_twins(tmp_path, kind, MODELS["dense"], table=True)
    kernels = replace(REFERENCE, formats=replace(REFERENCE.formats, rows_from_file=True))
    held = ModelPlan(ModelFolder.open(packed)).held(torch.float32, kernels)
    (name,) = (each for each in held.tensors if "embed_tokens" in each)
    done: list[tuple[int, int]] = []
    model = load_model(
        ModelFolder.open(packed), CPU, torch.float32, lambda *now: done.append(now), kernels=kernels
    ).model
    rows = getattr(model.embedding, "_rows", torch.empty(0))
    assert planned_bytes({name: held.tensors[name]}, kernels.formats) == rows.nbytes
    assert (rows.nbytes > 0) == (title == "fp8")
    assert torch.equal(our_logits(model, PROMPT), logits(plain, torch.float32))
    assert model.embedding(torch.empty(0, dtype=torch.int64)).shape == (0, 128)
    assert done[-1][0] == done[-1][1]
    if title != "fp8":
        os.utime(packed / WEIGHTS, ns=(1, 1))
        with pytest.raises(BrokenWeightsError, match="changed"):
            model.embedding(torch.tensor([1]))


def test_G2_modelopt_may_name_the_format_in_a_file_of_its_own(tmp_path: Path) -> None:
    config = float4_config("modelopt")
    packed, plain = write_twins(tmp_path, Published("modelopt", config), MODELS["dense"])
    known = ModelPlan(ModelFolder.open(packed))
    (packed / MODELOPT).write_text("not looked at while config.json says it")
    assert ModelPlan(ModelFolder.open(packed)).config == known.config
    edit_config(packed, quantization_config=None)
    described = {
        "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
        "exclude_modules": config["ignore"],
    }  # fmt: skip
    said = {"producer": {"name": "modelopt", "version": "0.29.0"}, "quantization": described}
    (packed / MODELOPT).write_text(json.dumps(said))
    plan = ModelPlan(ModelFolder.open(packed))
    assert (plan.config, plan.block_types()) == (known.config, ["NVFP4"])
    assert torch.equal(logits(packed, torch.float32), logits(plain, torch.float32))
    (packed / MODELOPT).write_text(json.dumps({"quantization": {"quant_algo": None}}))
    with pytest.raises(WaymarkError, match="packed format"):
        logits(packed, torch.float32)


def test_G1_llama_cpp_makes_the_same_blocks_of_them(
    twins: tuple[Path, Path], tmp_path: Path
) -> None:
    converter = Converter(llama_models().parent)
    try:
        file = tmp_path / "model.gguf"
        converter.convert(twins[0], file, kind="ALL_F32", vision=False, mtp=False)
    finally:
        converter.close()
    container = open_files(file).container
    found = our_logits(load_model(container, CPU, torch.float32).model, PROMPT)
    assert torch.equal(found, logits(twins[0], torch.float32))
    assert container.blocks(GATES) == ModelFolder.open(twins[0]).blocks(GATES)
    assert container.blocks(GATES) == (GGUFType.MXFP4, TINY.hidden, None)
    kernels = backend("reference", BFLOAT16, published=True)
    model = load_model(container, CPU, BFLOAT16, kernels=kernels).model
    assert torch.equal(our_logits(model, PROMPT), logits(twins[0], BFLOAT16, kernels))


def test_all_that_is_announced_is_read(twins: tuple[Path, Path]) -> None:
    done: list[tuple[int, int]] = []
    for kernels in (
        backend("reference", BFLOAT16),
        backend("reference", BFLOAT16, published=True),
        backend("torch", BFLOAT16, integers="int8"),
    ):
        folder = ModelFolder.open(twins[0])
        load_model(folder, CPU, BFLOAT16, lambda *now: done.append(now), kernels=kernels)
        assert done[-1][0] == done[-1][1]
    assert all(now <= total for now, total in done)


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda kept: kept.pop(f"{GATES}_scales"), MissingTensorError),
        (lambda kept: kept.pop(f"{GATES}_blocks"), MissingTensorError),
        (lambda kept: kept.update({f"{GATES}_scales": torch.zeros(5, 2, 192, dtype=torch.uint8)}),
         WrongShapeError),
        (lambda kept: kept.update({f"{GATES}_blocks": torch.zeros(5, 192, 32, dtype=torch.uint8)}),
         WrongShapeError),
        (lambda kept: kept.update({f"{GATES}_scales": torch.zeros(5, 192, 2)}), BrokenWeightsError),
        (lambda kept: kept[f"{GATES}_scales"].fill_(255), BrokenWeightsError),
        (lambda kept: kept.update({GATES: kept.pop(f"{GATES}_blocks")}), WaymarkError),
        (lambda kept: kept.update({GATES: torch.zeros(5, 64, 192)}), BrokenWeightsError),
    ],
)  # fmt: skip
@pytest.mark.parametrize("published", [False, True])
def test_G3_damage_has_a_name(copied: Path, damage: object, error: type, published: bool) -> None:
    stored = load_file(copied / WEIGHTS)
    assert callable(damage)
    damage(stored)
    save_file(stored, copied / WEIGHTS)
    with pytest.raises(error):
        logits(copied, BFLOAT16, backend("reference", BFLOAT16, published=published))


def test_G3_blocks_that_config_json_does_not_announce_are_refused(copied: Path) -> None:
    edit_config(copied, quantization_config=None)
    with pytest.raises((MissingTensorError, UnsupportedDeviceError)):
        logits(copied, BFLOAT16)


def test_a_file_that_changes_while_it_is_read_is_refused(copied: Path) -> None:
    folder, seen = ModelFolder.open(copied), list[int]()

    def progress(now: int, total: int) -> None:
        if not seen:
            os.utime(copied / WEIGHTS, ns=(1, 1))
        seen.append(now)

    with pytest.raises(BrokenWeightsError, match="changed"):
        load_model(folder, CPU, BFLOAT16, progress)
