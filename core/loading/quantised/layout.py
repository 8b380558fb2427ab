"""How a file of quantised matrices is laid out: known to the byte before any weight is read.

A file is a safetensors file (huggingface/safetensors, "Format"): of every matrix that may be
quantised, slice by slice, the tensors that `WeightFormat.quantise` gives, and in its metadata whose
matrices they are and a SHA-256 of each tensor. All but those digests follows from the model and its
formats. So a header is read by comparing it with the only one it may be, and nothing in it is
believed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from core.api.json_text import parse_json
from core.loading.reading.stream import slice_rows
from core.weights.published.packed import PackedPlan
from core.weights.safetensors_file import LENGTH_BYTES
from core.weights.spec import TensorSpec, Use, WeightPlan
from kernels.linear.reference import WeightFormat, WeightFormats

FORMAT = "waymark-matrices-2"
DIGEST_BYTES = hashlib.sha256().digest_size
_DTYPE_NAMES = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16",
    torch.int32: "I32", torch.int64: "I64", torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.float32: "F32", torch.float64: "F64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuantisedPart:
    """One tensor; `start` counts bytes from the start of the data, `index` parts of the file."""

    index: int
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


Slices = Sequence[tuple[QuantisedPart, ...]]


class QuantisedLayout:
    """The parts of one file: of each matrix its slices, of each slice what its format keeps."""

    def __init__(self, plan: WeightPlan, formats: WeightFormats, packed: PackedPlan) -> None:
        """The matrices of `plan` that may be quantised; those in `packed` are taken whole."""
        self._parts: list[QuantisedPart] = []
        self._num_bytes = 0
        self.matrices: Mapping[str, Slices] = {
            name: self._slices(
                name,
                _kept_of_a_row(formats.usual, spec),
                [spec.shape[0]] if name in packed else slice_rows(spec, formats),
            )
            for name, spec in plan.items()
            if Use.MATRIX in spec.use and not spec.exact
        }
        self.data_start = len(self.header("", [bytes(DIGEST_BYTES)] * len(self._parts)))

    @property
    def num_parts(self) -> int:
        return len(self._parts)

    @property
    def num_bytes(self) -> int:
        """Bytes of the whole file."""
        return self.data_start + self._num_bytes

    def header(self, key: str, digests: Sequence[bytes]) -> bytes:
        """The file's first `data_start` bytes; `key` has 64 characters, or none for a measure."""
        joined = b"".join(digests).hex()
        metadata = {"format": FORMAT, "key": key or "0" * 64, "digests": joined}
        entries = {part.name: _entry(part) for part in self._parts}
        text = json.dumps({"__metadata__": metadata, **entries}, separators=(",", ":")).encode()
        text += b" " * (-len(text) % LENGTH_BYTES)
        return len(text).to_bytes(LENGTH_BYTES, "little") + text

    def digests(self, header: bytes, key: str) -> list[bytes] | None:
        """The SHA-256 of each part; None where `header` isn't ours for these matrices and `key`."""
        try:
            joined = bytes.fromhex(parse_json(header[LENGTH_BYTES:])["__metadata__"]["digests"])
        except (ValueError, KeyError, TypeError):
            return None
        starts = range(0, len(joined), DIGEST_BYTES)
        digests = [joined[start : start + DIGEST_BYTES] for start in starts]
        return digests if header == self.header(key, digests) else None

    def _slices(
        self, name: str, of_a_row: Sequence[torch.Tensor], rows: Sequence[int]
    ) -> list[tuple[QuantisedPart, ...]]:
        return [
            tuple(
                self._part(f"{name}.{place}.{which}", each.dtype, (count, *each.shape[1:]))
                for which, each in enumerate(of_a_row)
            )
            for place, count in enumerate(rows)
        ]

    def _part(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> QuantisedPart:
        part = QuantisedPart(len(self._parts), name, dtype, shape, self._num_bytes)
        self._parts.append(part)
        self._num_bytes += part.num_bytes
        return part


def _kept_of_a_row(weight_format: WeightFormat, spec: TensorSpec) -> Sequence[torch.Tensor]:
    """What the format keeps of a single row: all rows are alike, and lie in front."""
    return weight_format.quantise(torch.zeros(1, *spec.shape[1:], dtype=spec.dtype))


def _entry(part: QuantisedPart) -> dict[str, object]:
    return {
        "dtype": _DTYPE_NAMES[part.dtype],
        "shape": list(part.shape),
        "data_offsets": [part.start, part.start + part.num_bytes],
    }
