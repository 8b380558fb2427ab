"""Floats of 4 bits against compressed-tensors, and the blocks that they become."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from compressed_tensors.compressors.mx_utils import decompress_mx_scale
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize
from safetensors.torch import save_file
from torch import Tensor

from core.api.errors import BrokenWeightsError
from core.weights.container import TensorStream
from core.weights.published.folder import ModelFolder
from core.weights.safetensors_file import read_header
from kernels.blocks.types import dequantise
from tests.models.quantised_folders import float4_config

NAME = "layer.weight"
SHAPE = (6, 192)
# Numbers of a whole matrix that are no powers of two: a quotient and a product are rounded.
WHOLE = {"nvfp4": torch.tensor([2777.7]), "modelopt": torch.tensor(3.3e-4)}


def stored(title: str) -> dict[str, Tensor]:
    """Every code and every scale, those with a sign too."""
    size = 32 if title == "mxfp4" else 16
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 256, (SHAPE[0], SHAPE[1] // 2), generator=generator).to(torch.uint8)
    scales = torch.randperm(252, generator=generator)[: SHAPE[0] * SHAPE[1] // size]
    scales = scales.reshape(SHAPE[0], -1).to(torch.uint8)
    scales[:, 0] = torch.tensor([0, 1, 8, 126, 130, 252])
    if title == "mxfp4":
        return {"layer.weight_packed": codes, "layer.weight_scale": scales}
    scales = torch.where(scales & 0x7F == 0x7F, 0, scales).view(torch.float8_e4m3fn)
    values = "weight" if title == "modelopt" else "weight_packed"
    whole = "weight_scale_2" if title == "modelopt" else "weight_global_scale"
    parts = {values: codes, "weight_scale": scales, whole: WHOLE[title]}
    return {f"layer.{name}": each for name, each in parts.items()}


def folder(path: Path, title: str, tensors: Mapping[str, Tensor]) -> ModelFolder:
    save_file(dict(tensors), path / "model.safetensors")
    config = {"quantization_config": float4_config(title)}
    return ModelFolder(path, config, (read_header(path / "model.safetensors"),))


def values(found: ModelFolder) -> tuple[Tensor, Tensor]:
    """The matrix in float32, and its blocks in float64."""
    floats, (kind, inputs, _) = torch.empty(SHAPE), found.blocks(NAME) or (None, 0, None)
    rows: list[Tensor] = []

    def take(stream: TensorStream) -> None:
        stream.fill(floats)
        assert stream.rows is not None and kind is not None and inputs == SHAPE[1]
        blocks = torch.from_numpy(dequantise(kind, stream.rows.tensor().numpy())).double()
        scales = stream.rows.scales
        rows.append(blocks if scales is None else blocks * scales.double()[:, None])

    found.read([NAME], take, lambda num_bytes: None, digest=False)
    return floats, rows[0]


def expected(title: str, tensors: Mapping[str, Tensor]) -> Tensor:
    parts = {name.removeprefix("layer."): each for name, each in tensors.items()}
    codes, scales = parts.get("weight_packed", parts.get("weight")), parts["weight_scale"]
    assert codes is not None
    numbers = unpack_fp4_from_uint8(codes, *SHAPE, torch.float32)
    if title == "modelopt":  # whose library has no release for a CPU
        factors = scales.float() * parts["weight_scale_2"]
        product: Tensor = numbers * factors.repeat_interleave(16, dim=1)
        return product
    given: dict[str, Any] = {"num_bits": 4, "type": "float"}
    if title == "mxfp4":
        given |= {"strategy": "group", "group_size": 32}
        factors = decompress_mx_scale(scales).float()
    else:
        given |= {"strategy": "tensor_group", "group_size": 16}
        factors = scales.float()
    found: Tensor = dequantize(
        numbers, factors, args=QuantizationArgs(**given), dtype=torch.float32,
        global_scale=parts.get("weight_global_scale"),
    )  # fmt: skip
    return found


@pytest.mark.parametrize("title", ["nvfp4", "modelopt", "mxfp4"])
def test_G1_values_are_those_of_compressed_tensors(title: str, tmp_path: Path) -> None:
    """Floats to the bit; blocks have the same codes and scales, and one number is rounded."""
    tensors = stored(title)
    floats, blocks = values(folder(tmp_path, title, tensors))
    wanted = expected(title, tensors)
    assert torch.equal(floats, wanted) and floats.isfinite().all()
    limit = 0 if title == "mxfp4" else 2**-22
    assert ((blocks - wanted.double()).abs() <= limit * wanted.abs().double()).all()


@pytest.mark.parametrize("title", ["nvfp4", "modelopt", "mxfp4"])
def test_a_table_of_tied_weights_leaves_the_matrix_whole(title: str, tmp_path: Path) -> None:
    """Both are read in one turn, the table first."""
    found, read = folder(tmp_path, title, stored(title)), torch.empty(SHAPE)
    tables: list[Tensor] = []

    def take(stream: TensorStream) -> None:
        tables.append(stream.table(torch.float32)(torch.arange(SHAPE[0])))
        for rows in read.split(2):
            stream.fill(rows)

    found.read([NAME], take, lambda num_bytes: None, digest=False)
    expected, _ = values(found)
    assert torch.equal(tables[0], expected) and torch.equal(read, expected)


@pytest.mark.parametrize("title", ["nvfp4", "modelopt"])
def test_blocks_are_exact_if_the_whole_number_is_a_power_of_two(title: str, tmp_path: Path) -> None:
    tensors = stored(title)
    name = next(each for each in tensors if each.endswith(("global_scale", "scale_2")))
    tensors[name] = torch.full_like(tensors[name], 2.0**-9)
    floats, blocks = values(folder(tmp_path, title, tensors))
    assert torch.equal(floats.double(), blocks)


@pytest.mark.parametrize("title", ["nvfp4", "modelopt", "mxfp4"])
def test_rows_that_are_no_whole_blocks_are_floats(title: str, tmp_path: Path) -> None:
    """A block of NVFP4 has 64 numbers, a group 16; those of MXFP4 have 32."""
    tensors = {
        name: each[:, :-1].contiguous() if "weight_scale" in name and each.ndim == 2
        else each[:, : -each.shape[1] // 12 * (1 if title != "mxfp4" else 2)].contiguous()
        if each.ndim == 2 else each
        for name, each in stored(title).items()
    }  # fmt: skip
    found = folder(tmp_path, title, tensors)
    assert (found.blocks(NAME) is None) == (title != "mxfp4")
    assert found.tensors[NAME].shape == (6, 160 if title == "mxfp4" else 176)


@pytest.mark.parametrize(
    ("title", "name", "value"),
    [
        ("mxfp4", "weight_scale", 0xFF),
        ("nvfp4", "weight_scale", 0x7F),
        ("nvfp4", "weight_scale", 0xFF),
        ("nvfp4", "weight_global_scale", 0.0),
        ("nvfp4", "weight_global_scale", 1e-40),
        ("nvfp4", "weight_global_scale", torch.inf),
        ("modelopt", "weight_scale_2", torch.nan),
        ("modelopt", "weight_scale_2", -torch.inf),
        ("modelopt", "weight_scale_2", 2e35),
        ("nvfp4", "weight_global_scale", 2e-36),
    ],
)
def test_G3_scales_are_finite(title: str, name: str, value: float, tmp_path: Path) -> None:
    tensors = stored(title)
    part = tensors[f"layer.{name}"]
    (part if part.dtype == torch.float32 else part.view(torch.uint8)).view(-1)[0] = value
    found = folder(tmp_path, title, tensors)
    for take in (
        lambda stream: stream.fill(torch.empty(SHAPE)),
        lambda stream: stream.rows.tensor(),
    ):
        with pytest.raises(BrokenWeightsError, match="finite") as caught:
            found.read([NAME], take, lambda num_bytes: None, digest=False)
        assert "layer" in caught.value.message
