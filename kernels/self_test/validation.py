"""Self-tests of a backend's operations at the model's sizes, before the model runs.

A compiler or a driver can be wrong although every test passed. Each operation is called twice: it
must give equal bits, as near to plain torch in float32 as rounding explains; else plain torch
replaces it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from kernels.attention import reference as plain_attention
from kernels.common.capability import device_facts
from kernels.common.shapes import OpShape
from kernels.dispatch import Backend
from kernels.ops import PLAIN_OPS, Ops
from kernels.self_test import layers, rows
from kernels.self_test.rows import Case, Numbers

_LOG = logging.getLogger(__name__)
_FLOAT32_ULP = 2.0**-23
# Half an ULP of what a result is rounded to, at the lower end of a power of two.
_ROUNDING = {torch.float32: 0.0, torch.bfloat16: 2.0**-8}
_REFERENCE = replace(
    PLAIN_OPS,
    causal_attention=plain_attention.causal_attention,
    step_attention=plain_attention.causal_attention,
    run_attention=plain_attention.run_attention,
    full_attention=plain_attention.full_attention,
)


Recall = Callable[[str, Callable[[], str]], str]
"""Returns a result found earlier under a name in the same conditions, else computes it."""


@cache
def sources() -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def find_out(name: str, find: Callable[[], str]) -> str:
    return find()


def validated(
    kernels: Backend,
    shapes: Collection[OpShape],
    device: torch.device,
    dtype: torch.dtype,
    recall: Recall = find_out,
    check: Callable[[], None] | None = None,
) -> Backend:
    """`kernels` with plain torch for each operation that fails at one of `shapes`.

    The log and the new backend's name say which. `recall` remembers results; `check` is called
    between cases.
    """
    if not suspects(kernels):
        return kernels
    facts = (kernels.name, sources(), str(dtype), device_facts(device))
    asked = "\0".join((*facts, *sorted(map(repr, shapes))))
    name = f"kernels that fail, {hashlib.blake2b(asked.encode(), digest_size=16).hexdigest()}"

    def find() -> str:
        failed, passing = faults(kernels, shapes, device, dtype, check)
        if passing:
            raise _PassingError(failed)
        return json.dumps(failed)

    try:
        failed = _read(recall(name, find), find)
    except _PassingError as passing:
        failed = passing.faults
    for op, fault in failed.items():
        _LOG.warning("Kernel %s is not used, plain torch is: %s", op, fault)
    if not failed:
        return kernels
    plain = {name: getattr(PLAIN_OPS, name) for name in failed}
    name = f"{kernels.name}, plain {' '.join(sorted(failed))}"
    # Torch may round a row otherwise where a tensor ends than within it.
    formats = replace(kernels.formats, batch_invariant="never")
    return replace(kernels, name=name, formats=formats, ops=replace(kernels.ops, **plain))


def suspects(kernels: Backend) -> list[str]:
    return [
        name for name in Ops.__slots__ if getattr(kernels.ops, name) is not getattr(PLAIN_OPS, name)
    ]


@torch.inference_mode()
def faults(
    kernels: Backend,
    shapes: Collection[OpShape],
    device: torch.device,
    dtype: torch.dtype,
    check: Callable[[], None] | None = None,
) -> tuple[dict[str, str], bool]:
    """Each failing operation's fault by name, and whether any may be temporary, like a lack of
    memory."""
    failed: dict[str, str] = {}
    passing, asked = False, suspects(kernels)
    for case in cases(shapes, device, dtype):
        if case.op in asked and case.op not in failed:
            if check is not None:
                check()
            try:
                fault = _fault(case, kernels.ops)
            except Exception as error:
                lines = str(error).splitlines() or [""]
                fault, passing = f"it raised {type(error).__name__}: {lines[0][:200]}", True
            if fault is not None:
                failed[case.op] = fault
    return failed, passing


class _PassingError(Exception):
    """A temporary failure, not to be remembered."""

    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__()
        self.faults = faults


def _read(remembered: str, find: Callable[[], str]) -> dict[str, str]:
    try:
        found = json.loads(remembered)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        found = json.loads(find())
    return {name: str(found[name]) for name in Ops.__slots__ if name in found}


def _fault(case: Case, ops: Ops) -> str | None:
    first, second = case.call(ops, case.dtype), case.call(ops, case.dtype)
    expected = case.call(_REFERENCE, torch.float32)
    for found, again, reference in zip(first, second, expected, strict=True):
        if found.shape != reference.shape or found.dtype not in _ROUNDING:
            return f"it gave {found.dtype} {list(found.shape)}, not {list(reference.shape)}"
        if not _near(found, reference, case):
            off = float((found.float() - reference).abs().max())
            return f"it is off by {off:.1e}, numbers being up to {float(reference.abs().max()):.1e}"
        if not torch.equal(found, again):
            return "equal calls gave different bits"
    return None


def _near(found: Tensor, reference: Tensor, case: Case) -> bool:
    """Within the case's float32 ULP, plus one rounding to the type of `found`."""
    magnitude = (
        reference.abs() if case.magnitude is None else reference.abs().max().clamp(case.magnitude)
    )
    allowed = case.ulps * _FLOAT32_ULP * magnitude + _ROUNDING[found.dtype] * reference.abs()
    # NaN is never within anything.
    return bool(((found.float() - reference).abs() <= allowed + 1e-37).all())


def cases(shapes: Iterable[OpShape], device: torch.device, dtype: torch.dtype) -> Iterator[Case]:
    numbers, makers = Numbers(device, dtype), rows.CASES | layers.CASES
    for shape in sorted(shapes, key=repr):
        for make in makers[type(shape)]:
            yield from make(shape, numbers)
