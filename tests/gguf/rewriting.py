"""GGUF files like others, with other keys, tensors or types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFValueType, quants

Data = npt.NDArray[Any]
Change = Callable[[str, Data], tuple[Data, GGMLQuantizationType]]
_OWN = ("GGUF.", "general.architecture")


def as_float32(name: str, data: Data) -> tuple[Data, GGMLQuantizationType]:
    return data.astype(np.float32), GGMLQuantizationType.F32


def rewrite(
    source: Path,
    target: Path,
    change: Change = as_float32,
    *,
    keys: Mapping[str, tuple[Any, GGUFValueType] | None] | None = None,
    without: Collection[str] = (),
    added: Mapping[str, Data] | None = None,
    rename: Callable[[str], str] = str,
) -> Path:
    """Copy a file of float32; `change` gives the data and type of each tensor. A key is set, or
    removed if it is None."""
    reader, keys = gguf.GGUFReader(source), dict(keys or {})
    names = reader.fields["general.architecture"]
    architecture, _ = keys.pop("general.architecture", None) or (names.contents(), None)
    writer = gguf.GGUFWriter(target, architecture)
    for name, field in reader.fields.items():
        if name not in keys and not name.startswith(_OWN):
            items = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], items)
    for name, given in keys.items():
        if given is not None:
            writer.add_key_value(name, *given)
    for tensor in reader.tensors:
        if tensor.name not in without:
            data, kind = change(tensor.name, np.array(tensor.data))
            writer.add_tensor(rename(tensor.name), data, raw_dtype=kind)
    for name, data in (added or {}).items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def blocks(kind: GGMLQuantizationType, seed: int = 0) -> Change:
    """Matrices as random blocks of a type, where their rows are whole ones."""
    size, num_bytes = gguf.GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(seed)

    def change(name: str, data: Data) -> tuple[Data, GGMLQuantizationType]:
        if data.ndim < 2 or data.shape[-1] % size or "norm" in name or "conv1d" in name:
            return as_float32(name, data)
        shape = (*data.shape[:-1], data.shape[-1] // size)
        made = generator.integers(0, 256, (*shape, num_bytes), dtype=np.uint8)
        for place, factor in _SCALES[kind].items():
            scales = generator.uniform(0.5, 1.0, shape).astype(np.float16) * factor
            made[..., place : place + 2] = scales.astype(np.float16)[..., None].view(np.uint8)
        return made.reshape(*data.shape[:-1], -1), kind

    return change


def decoded(change: Change) -> Change:
    """The numbers of those blocks, as float32."""

    def plain(name: str, data: Data) -> tuple[Data, GGMLQuantizationType]:
        return as_float32(name, quants.dequantize(*change(name, data)))

    return plain


def mixed(kinds: Mapping[str, GGMLQuantizationType], usual: GGMLQuantizationType) -> Change:
    """Matrices as random blocks of the first type whose key is in their name, else the usual."""

    def change(name: str, data: Data) -> tuple[Data, GGMLQuantizationType]:
        found = (kind for part, kind in kinds.items() if part in name)
        return blocks(next(found, usual))(name, data)

    return change


# Places of the float16 numbers of a block and their sizes: what passes keeps about its own, and
# minima are about as large as values.
_SCALES = {
    GGMLQuantizationType.Q4_0: {0: 1 / 64},
    GGMLQuantizationType.Q8_0: {0: 1 / 1024},
    GGMLQuantizationType.IQ4_NL: {0: 1 / 1024},
    GGMLQuantizationType.IQ4_XS: {0: 1 / 16384},
    GGMLQuantizationType.Q3_K: {108: 1 / 512},
    GGMLQuantizationType.Q4_K: {0: 1 / 4096, 2: 7.5 / 4096},
    GGMLQuantizationType.Q5_K: {0: 1 / 8192, 2: 15.5 / 8192},
    GGMLQuantizationType.Q6_K: {208: 1 / 16384},
}
