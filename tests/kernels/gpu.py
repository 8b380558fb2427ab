"""Shared by tests of GPU kernels: poison inside and around memory, and tolerances.

The kernels run through Triton's interpreter on a CPU, or on a GPU for `make test-gpu`. The
interpreter is held to the hardware's arithmetic where it strays from it: it keeps bfloat16 as
16-bit integers, multiplies and makes whole numbers as those, and cuts off instead of rounding.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("triton", reason="Triton is published for Linux alone")

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

ON_GPU = os.environ.get("WAYMARK_TEST_DEVICE") == "cuda"
FLOAT32_ULP = 2.0**-23
BFLOAT16_ROUNDING = 2.0**-8  # half an ULP, at the lower end of a power of two

# Elements kept before and after every tensor; a multiple of 16 bytes, as an allocator aligns.
_GUARD = 512


class _Builder(interpreter.InterpreterBuilder):  # type: ignore[misc]
    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        if dst_type.scalar == tl.bfloat16 and src.dtype.scalar != tl.bfloat16:
            src = super().cast_impl(src, tl.float32)
            rounded = torch.from_numpy(np.array(src.data)).bfloat16().view(torch.uint16)
            return interpreter.TensorHandle(rounded.numpy(), tl.bfloat16)
        return super().cast_impl(src, dst_type)

    create_fp_trunc = create_si_to_fp = create_ui_to_fp = cast_impl

    def create_dot(self, a: Any, b: Any, d: Any, *options: Any) -> Any:
        """Products of bfloat16 are exact in float32, where the hardware adds them up as well."""
        wide = [
            self.cast_impl(each, tl.float32) if each.dtype.scalar == tl.bfloat16 else each
            for each in (a, b)
        ]
        return super().create_dot(*wide, d, *options)


@contextmanager
def hardware_arithmetic() -> Iterator[None]:
    """Inside, the interpreter rounds to bfloat16 to nearest and multiplies it as numbers.

    It also leaves out what would be more than half of the time: its own operations are put into
    Triton's language once, not again at each call of a helper, and no integer is computed a second
    time in 64 bits to find an overflow, of which nobody would hear without Triton's debug option.
    """
    builder, patch = interpreter.interpreter_builder, interpreter._patch_lang
    original, options = type(builder), builder.options
    builder.__class__ = _Builder
    builder.options = replace(options, sanitize_overflow=False)
    language = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
    scope = patch(language)
    interpreter._patch_lang = lambda function: interpreter._LangPatchScope()
    try:
        with np.errstate(all="ignore"):  # a GPU computes on with infinity
            yield
    finally:
        interpreter._patch_lang = patch
        scope.restore()
        builder.__class__, builder.options = original, options


class _Guarded(TorchDispatchMode):
    """Every `torch.empty` starts as poison and lies between two stretches of it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.allocations: list[Tensor] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        if func.__name__.split(".")[0] != "empty" or result.numel() == 0:
            return result
        wide = poison((2 * _GUARD + result.numel(),), result.dtype, result.device)
        self.allocations.append(wide)
        return wide[_GUARD:-_GUARD].view(result.shape)

    def check(self) -> None:
        for wide in self.allocations:
            for guard in (wide[:_GUARD], wide[-_GUARD:]):
                assert is_poison(guard).all(), "written outside an output"


@contextmanager
def guarded_memory() -> Iterator[None]:
    """Inside, what an op allocates is poisoned, and so is the memory on both of its sides.

    On the way out the sides have to be untouched.
    """
    mode = _Guarded()
    with mode:
        yield
    mode.check()


def poison(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """NaN, or for integers the largest number."""
    value = float("nan") if dtype.is_floating_point else torch.iinfo(dtype).max
    return torch.full(shape, value, dtype=dtype, device=device)


def is_poison(rows: Tensor) -> Tensor:
    if rows.is_floating_point():
        return rows.isnan()
    return rows == torch.iinfo(rows.dtype).max


def poison_around(view: Tensor) -> int:
    """Count the poison in the tensor that `view` is part of."""
    assert view._base is not None
    return int(is_poison(view._base).sum())


def strided(tensor: Tensor, gap: int = 16) -> Tensor:
    """The same numbers as a view in poison: every row but the last axis is followed by a gap."""
    room = tuple(size + (2 if axis == 0 else gap) for axis, size in enumerate(tensor.shape))
    wide = poison(room, tensor.dtype, tensor.device)
    view = wide[tuple(slice(1 if axis == 0 else 0, None) for axis in range(tensor.dim()))]
    view = view[tuple(slice(size) for size in tensor.shape)]
    return view.copy_(tensor)


def assert_near(
    found: Tensor, expected: Tensor, ulps: float, scale: Tensor | float | None = None
) -> None:
    """Within `ulps` float32 ULP of the result, or of `scale` where terms cancel.

    A bfloat16 result may be off by its own rounding more, and by nothing else. `scale` bounds the
    sum of the magnitudes of what was added up.
    """
    assert found.shape == expected.shape
    rounding = {torch.float32: 0.0, torch.bfloat16: BFLOAT16_ROUNDING}[found.dtype]
    wide, reference = found.double().cpu(), expected.double().cpu()
    magnitude = reference.abs() if scale is None else torch.as_tensor(scale).double().cpu()
    allowed = ulps * FLOAT32_ULP * magnitude + rounding * reference.abs() + 1e-37
    excess = (wide - reference).abs() - allowed
    assert not wide.isnan().any(), "poison was read, or an output was not written"
    assert (excess <= 0).all(), f"off by {excess.max():.2e} more than allowed"
