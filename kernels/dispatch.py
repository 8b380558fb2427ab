"""Chooses the kernels of a model once, at load; choices that depend on speed are arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch

from kernels.common.capability import gpu_kernels_run
from kernels.common.trace import Capture
from kernels.linear.blocks import BlockFormat
from kernels.linear.cpu import PackedFormat, can_pack
from kernels.linear.int4 import Int4Format, multiplies_int4
from kernels.linear.int8 import Int8Format, multiplies_integers
from kernels.linear.native import (
    NativeBfloatFormat,
    NativeInt4Format,
    NativeInt8Format,
    Product,
)
from kernels.linear.native_blocks import NativeBlockFormats
from kernels.linear.reference import PLAIN, Integers, PlainFormat, WeightFormat, WeightFormats
from kernels.native.library import Library, capture_step
from kernels.native_ops import native_ops
from kernels.ops import PLAIN_OPS, Ops

BackendName = Literal["reference", "torch", "cpu", "gpu"]
# Rows that a packed matrix takes at once where nobody has measured what is best here.
DEFAULT_ROWS = 64


@dataclass(frozen=True, slots=True)
class Backend:
    """`name` differs wherever bits may; it is part of the fingerprint.

    `formats` hold weight matrices, `ops` are all other operations. `shares_out`: threads of a
    one-token step take work as they become free. `capture` records such steps.
    """

    name: str
    formats: WeightFormats
    ops: Ops = PLAIN_OPS
    shares_out: bool = False
    capture: Capture | None = None


REFERENCE = Backend("reference", PLAIN)


def fastest(device: torch.device) -> BackendName:
    if device.type == "cpu":
        return "cpu"
    return "gpu" if gpu_kernels_run() else "reference"


def backend(
    name: BackendName,
    dtype: torch.dtype,
    rows: int = DEFAULT_ROWS,
    integers: Integers | None = None,
    library: Library | None = None,
    product: Product = "pairs",
    published: bool = False,
) -> Backend:
    """The backend `name`, or `reference` if it has nothing for `dtype` here.

    `torch` uses torch alone on a processor. `cpu` adds the compiled kernels of `library`, except in
    float32, which torch reads at memory speed. `gpu` needs Triton, and a GPU or Triton's
    interpreter. `rows`: as many as a packed matrix multiplies at once; `product`: how many
    bfloat16 rows are multiplied; `published`: matrices stay blocks of their file.
    """
    if published and not (name == "cpu" and library is not None):
        return _with_blocks(backend(name, dtype, rows, integers, library, product), name, dtype)
    if name == "gpu":
        # Imported here: Triton is not published for every system, and no other backend needs it.
        from kernels import gpu_ops

        title, formats = gpu_ops.held(integers)
        title = f"{gpu_ops.name()}, matrices {title}"
        return Backend(title, formats, gpu_ops.GPU_OPS, capture=gpu_ops.step_capture())
    packs = name in {"cpu", "torch"} and can_pack(dtype)
    if name == "cpu" and library is not None and uses_library(dtype, integers):
        return _compiled(library, "published" if published else integers, product)
    if not packs and integers is None:
        return REFERENCE
    plain = PackedFormat(rows) if packs else PlainFormat()
    towers = PackedFormat(None) if packs else PlainFormat()
    title = f"onednn, {rows} rows" if packs else "reference"
    if integers is None:
        return Backend(title, WeightFormats(plain, towers, rows_from_file=packs))
    if integers == "int8":
        native = packs and multiplies_integers()
        weight_format: WeightFormat = Int8Format(rows if native else None)
    else:
        native = packs and dtype == torch.bfloat16 and multiplies_int4()
        weight_format = Int4Format(native)
    title = f"{title}, {integers}" + ("" if native else " in floats")
    return Backend(title, WeightFormats(weight_format, towers, rows_from_file=packs))


def _with_blocks(kernels: Backend, name: BackendName, dtype: torch.dtype) -> Backend:
    if name == "gpu":
        from kernels import gpu_ops

        title, formats = gpu_ops.with_blocks(kernels.formats, dtype)
    else:
        title = "blocks in floats"
        formats = replace(
            kernels.formats, rows_from_file=True, batch_invariant="never", published=BlockFormat
        )
    return replace(kernels, name=f"{kernels.name}, {title}", formats=formats)


def uses_library(dtype: torch.dtype, integers: Integers | None) -> bool:
    return integers is not None or dtype == torch.bfloat16


def _compiled(
    library: Library, integers: Integers | Literal["published"] | None, product: Product
) -> Backend:
    bfloats = NativeBfloatFormat(library, product)
    formats: dict[str | None, WeightFormat] = {
        None: bfloats,
        "published": NativeBfloatFormat(library),  # of matrices that are no blocks
        "int8": NativeInt8Format(library),
        "int4": NativeInt4Format(library),
    }
    title = f"compiled {library.digest}, {integers or 'bfloat16'}, {product}"
    if library.has_tiles:  # which a system may refuse to a processor that has them
        title += ", tiles"
    # Torch's product, fast as it is for towers, lets rows depend on the others of a call.
    everywhere = integers is not None or product != "torch"
    invariant = NativeBfloatFormat(library) if everywhere and product == "torch" else None
    held = WeightFormats(
        formats[integers],
        bfloats,
        rows_from_file=True,
        batch_invariant="always" if everywhere else "steps",
        exact_invariant=invariant,
        published=NativeBlockFormats(library) if integers == "published" else None,
    )
    ops = native_ops(library, widened=product == "floats")
    return Backend(title, held, ops, shares_out=True, capture=partial(capture_step, library))
