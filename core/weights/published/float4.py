"""Matrices of 4-bit floats (E2M1) with scales, NVFP4 and MXFP4, as safetensors folders have them.

GGUF files have the same numbers in blocks of another order, which the kernels multiply. NVFP4's
number for the whole matrix becomes the scale of each row, by which finished sums are multiplied.
Activations are not rounded to 4 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from core.api.errors import (
    BrokenConfigError,
    BrokenWeightsError,
    MissingTensorError,
    WrongShapeError,
)
from core.weights.container import TensorStream
from core.weights.published.formats import Float4Format
from core.weights.published.scheme import Scheme
from core.weights.safetensors_file import StoredTensor
from core.weights.spec import Shape
from core.weights.table import Table
from kernels.blocks.types import GGUFType
from kernels.linear.blocks import StoredRows

_WEIGHT = ".weight"
_MOST_GROUPS = 2**15  # read at a time
_NUMBERS = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]
_E2M1 = np.array(_NUMBERS, np.float32)
_LARGEST = np.float32(6 * 448)  # of E2M1 times that of a scale in E4M3

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
# Reads bytes of a tensor of the folder from a place in it on.
Read = Callable[[str, int, memoryview], None]
# The bytes of each row of a tensor, which stay in the file.
ByteRows = Callable[[str], Table]


@dataclass(frozen=True, slots=True)
class Float4Tensor:
    """A matrix, or a stack of matrices, of `shape`."""

    layer: str
    shape: Shape
    format: Float4Format

    @property
    def name(self) -> str:
        """The published name of the weights."""
        return self.layer + (_WEIGHT if self.format.codes.startswith(_WEIGHT) else "")

    @property
    def codes(self) -> str:
        return self.layer + self.format.codes

    @property
    def parts(self) -> list[str]:
        """Names in the files."""
        return [self.layer + end for end in self.format.endings]

    @property
    def block_type(self) -> GGUFType | None:
        """None if a row isn't whole blocks."""
        found = GGUFType.NVFP4 if self.format.whole else GGUFType.MXFP4
        return None if self.shape[-1] % found.block_values else found

    def stream(
        self, read: Read, look_up: Callable[[str], Tensor], byte_rows: ByteRows
    ) -> TensorStream:
        """Raises BrokenWeightsError for a number of the whole matrix that isn't finite."""
        whole, place = self._whole(look_up), 0

        def fill(target: Tensor) -> None:
            nonlocal place
            for part in target.view(-1, self.format.group_size).split(_MOST_GROUPS):
                part.copy_(self._numbers(*self._groups(read, place, len(part)), whole))
                place += len(part)

        def table(dtype: torch.dtype) -> Table:
            codes, scales = byte_rows(self.codes), byte_rows(self.layer + self.format.scales)

            def rows(ids: Tensor) -> Tensor:
                found = scales(ids.cpu()).numpy().reshape(-1)
                self._check(found)
                groups = codes(ids.cpu()).numpy().reshape(-1, self.format.group_size // 2)
                numbers = self._numbers(groups, found, whole).view(-1, self.shape[-1])
                return numbers.to(ids.device, dtype)

            return rows

        return TensorStream(self.name, fill, table, self._rows(read, whole))

    def _rows(self, read: Read, whole: Floats | None) -> StoredRows | None:
        kind = self.block_type
        if kind is None:
            return None
        groups = kind.block_values // self.format.group_size
        of_row = self.shape[-1] // self.format.group_size

        def fill(start: int, target: Tensor) -> None:
            place = start * of_row
            for some in target.view(-1, kind.block_bytes).split(_MOST_GROUPS // groups):
                codes, scales = self._groups(read, place, len(some) * groups)
                blocks = some.numpy()
                if whole is not None and (scales > 0x7F).any():  # blocks have no signs of scales
                    codes ^= (scales >> 7)[:, None] * np.uint8(0x88)
                    scales &= 0x7F
                blocks[:, :groups] = scales.reshape(-1, groups)
                blocks[:, groups:] = _in_halves(codes).reshape(len(blocks), -1)
                place += len(scales)

        size = math.prod(self.shape[:-1]), of_row // groups * kind.block_bytes
        if whole is None:
            return StoredRows(size, fill)
        scale = 1 / whole if self.format.divides else whole
        return StoredRows(size, fill, torch.from_numpy(scale).expand(size[0]))

    def _groups(self, read: Read, first: int, count: int) -> tuple[Bytes, Bytes]:
        size = self.format.group_size // 2
        codes, scales = np.empty((count, size), np.uint8), np.empty(count, np.uint8)
        read(self.codes, first * size, codes.data.cast("B"))
        read(self.layer + self.format.scales, first, scales.data)
        self._check(scales)
        return codes, scales

    def _check(self, scales: Bytes) -> None:
        """Raises BrokenWeightsError for NaN."""
        wrong = scales & 0x7F == 0x7F if self.format.whole else scales == 0xFF
        if wrong.any():
            raise BrokenWeightsError(f"A scale of {self.name} is not a finite number.")

    def _numbers(self, codes: Bytes, scales: Bytes, whole: Floats | None) -> Tensor:
        """[groups, group_size] float32."""
        halves = np.stack((codes & 15, codes >> 4), axis=2).reshape(-1, self.format.group_size)
        numbers = torch.from_numpy(np.take(_E2M1, halves, mode="clip"))
        return numbers.mul_(self._factors(scales, whole)[:, None])

    def _factors(self, scales: Bytes, whole: Floats | None) -> Tensor:
        stored = torch.from_numpy(scales)
        if whole is None:
            # An exponent as float32's own; 0 is a subnormal number.
            return torch.where(stored == 0, 2**22, stored.int() << 23).view(torch.float32)
        numbers, number = stored.view(torch.float8_e4m3fn).float(), torch.from_numpy(whole)
        return numbers / number if self.format.divides else numbers * number

    def _whole(self, look_up: Callable[[str], Tensor]) -> Floats | None:
        if not self.format.whole:
            return None
        name = self.layer + self.format.whole
        found: Floats = look_up(name).reshape(1).numpy()
        with np.errstate(divide="ignore", over="ignore"):
            largest = _LARGEST / found if self.format.divides else _LARGEST * found
            if not np.isfinite([found, largest]).all():
                raise BrokenWeightsError(f"{name} is {found[0]}, which isn't a finite scale.")
        return found


def _in_halves(codes: Bytes) -> Bytes:
    """Bytes of numbers 2i and 2i + 1 [groups, n] -> of numbers i and i + n."""
    apart = codes.astype("<u2")  # first each number has its own byte
    apart |= apart << 4
    apart &= 0x0F0F
    halves = apart.view("<u8").reshape(-1, 2, codes.shape[1] // 8)
    found: npt.NDArray[np.uint64] = halves[:, 0] | halves[:, 1] << 4
    return found.view(np.uint8)


def find_float4(
    tensors: Mapping[str, StoredTensor], scheme: Scheme | None
) -> Iterator[Float4Tensor]:
    """Empty unless config.json announces such a format.

    Raises MissingTensorError, WrongShapeError, BrokenWeightsError, BrokenConfigError.
    """
    if scheme is None or not isinstance(scheme.format, Float4Format):
        return
    known = scheme.format
    for layer in dict.fromkeys(_layers(tensors, known)):
        if scheme.leaves_out(layer):
            raise BrokenConfigError(f"{scheme.source} lists {layer} as not quantised, but it is.")
        found = Float4Tensor(layer, _shape(tensors, known, layer), known)
        if found.name in tensors and found.name not in found.parts:
            kind = tensors[found.name].dtype
            raise BrokenWeightsError(
                f"{found.name} is stored twice, as {kind} and as {known.title}."
            )
        yield found


def _layers(tensors: Mapping[str, StoredTensor], known: Float4Format) -> Iterator[str]:
    for name, entry in tensors.items():
        for end in known.endings:
            # ModelOpt's codes have the name of plain weights.
            if name.endswith(end) and (end != _WEIGHT or entry.dtype == "U8"):
                yield name.removesuffix(end)


def _shape(tensors: Mapping[str, StoredTensor], known: Float4Format, layer: str) -> Shape:
    for end, wanted in known.endings.items():
        name = layer + end
        if name not in tensors:
            raise MissingTensorError(
                f"{name} is in none of the weights files; {known.title} weights can't be read "
                "without it."
            )
        if tensors[name].dtype != wanted:
            raise BrokenWeightsError(
                f"{name} is stored as {tensors[name].dtype}, {known.title} has {wanted} there."
            )
        if end == known.whole and tensors[name].shape not in ((), (1,)):
            found = list(tensors[name].shape)
            raise WrongShapeError(f"{name} should be one number, the file has {found}.")
    codes, scales = layer + known.codes, layer + known.scales
    stored, grouped = tensors[codes].shape, tensors[scales].shape
    *rows, groups = grouped or (0,)
    size = known.group_size // 2
    if not rows or stored != ((*grouped, size) if known.grouped else (*rows, groups * size)):
        raise WrongShapeError(
            f"{codes} of {list(stored)} and {scales} of {list(grouped)} don't fit."
        )
    return (*rows, groups * known.group_size)
