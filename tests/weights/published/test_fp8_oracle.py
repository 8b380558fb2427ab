"""FP8 values against transformers, the only one of the formats it dequantises on a CPU itself."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers.integrations import finegrained_fp8

from core.weights.published.formats import Float8Format
from core.weights.published.quantised import Float8Blocks
from tests.weights.published.packers import dequantised, fp8


def ours(parts: dict[str, Tensor]) -> Float8Blocks:
    rows, columns = parts["weight"].shape
    return Float8Format((128, 128)).assemble("layer", (rows, columns), parts)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fp8_against_transformers(dtype: torch.dtype) -> None:
    """Both of its readers: one knows whole blocks only, the other ragged ones only in float32."""
    parts = fp8(256, 384, dtype=dtype)
    reader = finegrained_fp8.Fp8Dequantize(None)  # type: ignore[no-untyped-call]
    for target in (torch.float32, torch.bfloat16):
        expected = reader._dequantize_one(parts["weight"], parts["weight_scale_inv"], target)
        assert torch.equal(dequantised(ours(parts), target), expected)
    parts = fp8(200, 333, dtype=dtype)
    expected = finegrained_fp8._dequantize_fp8_weight(
        parts["weight"], parts["weight_scale_inv"], [128, 128], torch.float32
    )
    assert torch.equal(dequantised(ours(parts)), expected)
