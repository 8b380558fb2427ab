"""GGUF blocks on a GPU: the published values, and the dequantised product in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.blocks.types import GGUFType, dequantise
from kernels.experts.reference import LoopedExperts
from kernels.linear.reference import Matrix, PlainMatrix
from tests.kernels.gpu import assert_near, guarded_memory, strided
from tests.kernels.linear.test_blocks import blocks
from tests.sweeps import first_quick

gpu = pytest.importorskip("kernels.linear.gpu", reason="Triton is published for Linux alone")
formats = pytest.importorskip("kernels.linear.gpu_formats")
experts = pytest.importorskip("kernels.experts.gpu")
pytestmark = pytest.mark.gpu

DTYPES = [pytest.param(torch.float32, marks=pytest.mark.slow), torch.bfloat16]
STAYING = [GGUFType.Q4_K, GGUFType.Q6_K, GGUFType.Q8_0]
TYPES = pytest.mark.parametrize("type", STAYING, ids=lambda type: type.name)


def given_rows(count: int, width: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    rows = torch.randn(count, width, generator=torch.Generator().manual_seed(count))
    return rows.to(dtype)


def values(type: GGUFType, rows: Tensor) -> Tensor:
    return torch.from_numpy(dequantise(type, rows.numpy()))


def parts(type: GGUFType, rows: Tensor) -> list[Tensor]:
    """The summands of the values in float64: scaled codes, and for Q4_K minima."""
    weight = values(type, rows).double()
    if type is not GGUFType.Q4_K:
        return [weight]
    packed = rows.view(rows.shape[0], -1, 144).clone()
    packed[:, :, 16:] = 0  # all codes
    minima = values(type, packed.flatten(1)).double()
    return [weight - minima, minima]


def held(type: GGUFType, inputs: int, columns: Tensor | None = None, *, stays: bool = True) -> Any:
    return formats.GpuBlockFormat(torch.bfloat16, stays, type, inputs, columns)


def test_scales_of_rows_are_in_the_floats(device: torch.device) -> None:
    rows, scales = blocks(GGUFType.NVFP4, 20, 192), torch.rand(20)
    found = held(GGUFType.NVFP4, 192).prepack((rows.to(device), scales.to(device)), None)
    expected = values(GGUFType.NVFP4, rows) * scales[:, None]
    assert isinstance(found, PlainMatrix)
    assert torch.equal(found.weight.cpu(), expected.bfloat16())


@TYPES
@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize(("outputs", "inputs"), [(3, 768), (5, 256)])
def test_values_are_the_published_ones(
    type: GGUFType, outputs: int, inputs: int, extreme: bool, device: torch.device
) -> None:
    rows = blocks(type, outputs, inputs, extreme=extreme)
    expected = values(type, rows)
    with guarded_memory():
        packed = formats.pack_blocks(type, rows.to(device))
        found = [gpu.dequantise(packed, dtype) for dtype in (torch.float32, torch.bfloat16)]
    assert torch.equal(found[0].cpu(), expected)
    assert torch.equal(found[1].cpu(), expected.bfloat16())


@TYPES
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize(
    ("count", "outputs", "inputs"), first_quick([(3, 3, 768), (1, 5, 512), (3, 4, 4096)])
)
def test_products_of_rows(
    type: GGUFType,
    count: int,
    outputs: int,
    inputs: int,
    extreme: bool,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    rows = blocks(type, outputs, inputs, extreme=extreme)
    given = given_rows(count, inputs, dtype)
    terms = parts(type, rows)
    expected = given.double() @ sum(terms, torch.tensor(0.0)).T
    magnitude = sum((given.double().abs() @ each.abs().T for each in terms), torch.tensor(0.0))
    packed = formats.pack_blocks(type, rows.to(device))
    with guarded_memory():
        found = packed.times(strided(given.to(device)))
        alone = packed.times(given[count - 1 :].to(device))
    assert found.dtype == dtype
    assert_near(found, expected, len(terms) * inputs / 2 + 4, magnitude)
    assert torch.equal(alone, found[count - 1 :]), "a row depends on the rows beside it"


@TYPES
@pytest.mark.parametrize("bias", first_quick([True, False]))
@pytest.mark.parametrize("num_rows", [1, formats.MAX_ROWS, formats.MAX_ROWS + 3])
def test_a_matrix_takes_its_columns_from_the_rows(
    type: GGUFType,
    num_rows: int,
    bias: bool,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(formats, "_FLOATS", 4 * 512)  # some strips of outputs
    columns = torch.randperm(512, generator=torch.Generator().manual_seed(3))
    offset = given_rows(1, 13)[0] if bias else None
    kind, rows, given = held(type, 512, columns), blocks(type, 13, 512), given_rows(num_rows, 512)
    weight = values(type, rows)
    if num_rows > formats.MAX_ROWS:
        weight = weight.bfloat16().float()
    expected = F.linear(given[:, columns].double(), weight.double())
    matrix = kind.prepack((rows.to(device),), None if offset is None else offset.to(device))
    found, size = matrix(given.to(device)), float(expected.abs().max())
    if offset is not None:
        expected = expected.bfloat16().double() + offset.double()
    assert (found.double().cpu() - expected).abs().max() <= 2**-7 * size
    wide = torch.full((num_rows, 26), float("nan"), device=device, dtype=torch.bfloat16)
    matrix.into(wide[:, 5:18], given.to(device))
    assert torch.equal(wide[:, 5:18], found) and int(wide.isnan().sum()) == 13 * num_rows
    in_bias = 0 if offset is None else offset.nbytes
    assert matrix.num_bytes == kind.num_bytes((13, 512), torch.float32) + in_bias


@pytest.mark.parametrize("name", ["Q4_K", "Q5_K", "IQ4_XS", "Q4_0", "F16"])
def test_other_blocks_are_floats_once_loaded(
    name: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all blocks, if no kernel multiplies them."""
    monkeypatch.setattr(formats, "_DEQUANTISED", 10 * 512)
    type, columns = GGUFType[name], torch.randperm(512)
    kind, rows, given = held(type, 512, columns, stays=False), blocks(type, 13, 512), torch.eye(512)
    matrix = kind.prepack((rows.to(device),), None)
    assert isinstance(matrix, PlainMatrix)
    assert kind.num_bytes((13, 512), torch.float32) == matrix.num_bytes
    found = matrix(given.to(device, torch.bfloat16))
    assert torch.equal(found.cpu(), values(type, rows).bfloat16().T[columns.argsort()])


@TYPES
def test_experts_are_their_matrices(type: GGUFType, device: torch.device) -> None:
    def matrices(outputs: int) -> list[Matrix]:
        rows = blocks(type, 3 * outputs, 256).to(device).split(outputs)
        return [held(type, 256).prepack((each.contiguous(),), None) for each in rows]

    def activation(inner: Tensor) -> Tensor:
        return inner.repeat(1, 16)

    up, down = matrices(16), matrices(17)
    hidden = given_rows(9, 256).to(device)
    ids = torch.tensor([[0, 2], [1, 2], [0, 1]] * 3, dtype=torch.int32, device=device)
    bank = experts.experts(up, down, activation)
    assert isinstance(bank, experts.GpuExperts)
    with guarded_memory():
        places, rows = bank(hidden, ids)
    other_places, expected = LoopedExperts(up, down, activation)(hidden, ids)
    assert other_places is not None and places is not None
    expected, rows = expected[other_places].float(), rows[places].float()
    nearest = 2**-6 * expected.abs().max()  # each product is rounded to bfloat16
    assert (rows - expected).abs().max() <= nearest
    _, step = bank(hidden[:1], ids[:1], is_step=True)
    assert (step.float() - expected[:2]).abs().max() <= nearest


def test_products_that_work_are_used_and_others_are_not(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    formats.multiplies_blocks.cache_clear()
    assert formats.multiplies_blocks(device)
    formats.multiplies_blocks.cache_clear()
    monkeypatch.setattr(gpu, "few_rows", lambda inputs, weight: inputs[:, :5] + 1)
    assert [formats.multiplies_blocks(device) for _ in range(2)] == [False, False]
    formats.multiplies_blocks.cache_clear()
    assert len(caplog.records) == 1 and "on load on this GPU: Q4_K, 1 rows" in caplog.text
