"""Reading only what is asked for from weights files that are known already: no byte is digested.

For a second load, whose matrices come from elsewhere (`file`): between the tensors that are
asked for, files are passed over by seeking.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from io import FileIO

import torch

from core.loading.reading.held import ReadWeights
from core.loading.reading.read_plan import ReadPlan
from core.loading.reading.stream import Reader
from core.weights.published.packed import PackedPlan
from core.weights.safetensors_file import SafetensorsFile
from core.weights.spec import Use, WeightPlan
from kernels.linear.reference import WeightFormats


class Unquantised:
    """What a model needs of its weights files beside the matrices `elsewhere`."""

    def __init__(
        self,
        plan: WeightPlan,
        files: tuple[SafetensorsFile, ...],
        device: torch.device,
        packed: PackedPlan,
        formats: WeightFormats,
        elsewhere: frozenset[str],
    ) -> None:
        self._files, self._formats = files, formats
        self._plan = _without(plan, elsewhere)
        layers = {name: layer for name, layer in packed.items() if name in self._plan}
        self._read_plan = ReadPlan(self._plan, files, layers, device)

    @property
    def num_bytes(self) -> int:
        """Bytes that `read` reads in turn: headers, and the tensors asked for."""
        return sum(file.num_bytes - self._passed_over(file) for file in self._files)

    def read(self, advance: Callable[[int], None]) -> ReadWeights:
        """The tensors. `advance` is told of bytes read, and may raise.

        Raises BrokenWeightsError, MissingFileError.
        """
        weights = ReadWeights()
        for file in self._files:
            _SeekingReader(file, self._read_plan, self._formats, weights, advance).load()
        return weights

    def _passed_over(self, file: SafetensorsFile) -> int:
        return sum(
            entry.end - entry.start for name, entry in file.tensors.items() if not self._reads(name)
        )

    def _reads(self, name: str) -> bool:
        read_plan = self._read_plan
        if name in read_plan.plain:
            return not (read_plan.plain[name].use == Use.TABLE and self._formats.rows_from_file)
        return name in read_plan.layers or name in read_plan.small


class _SeekingReader(Reader):
    """One pass over one file that reads nothing but what is asked for."""

    def _digest(self, octets: bytes | memoryview) -> None:
        """Nobody asks: the file is one that was digested before."""

    def _skip(self, file: FileIO, num_bytes: int) -> None:
        file.seek(num_bytes, os.SEEK_CUR)


def _without(plan: WeightPlan, elsewhere: frozenset[str]) -> WeightPlan:
    """What is left to be read when the matrices of these names are not."""
    left = {
        name: replace(spec, use=spec.use & ~Use.MATRIX) if name in elsewhere else spec
        for name, spec in plan.items()
    }
    return {name: spec for name, spec in left.items() if spec.use}
