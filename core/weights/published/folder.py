"""A model folder as published on Hugging Face: its config and its safetensors files.

An index may name only safetensors files, without a path; weights that could run code when opened
(pickle) are refused. Links are followed: the Hugging Face cache consists of them.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.api.errors import (
    BrokenConfigError,
    BrokenWeightsError,
    GgufError,
    MissingFileError,
    MissingTensorError,
    PickleWeightsError,
    shown,
)
from core.model_files import INDEX_BYTES, read_object
from core.weights.container import (
    Container,
    Facts,
    StoredBlocks,
    TensorHeader,
    TensorStream,
    changed,
    facts_of,
    unreadable,
)
from core.weights.published.float4 import find_float4
from core.weights.published.scheme import MODELOPT, announced, read_scheme
from core.weights.safetensors_file import HeaderBudget, WeightsFile, read_header
from core.weights.stream import OpenFiles, look_up, stream_file
from core.weights.table import FileTable, Table

CONFIG = "config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
GGUF = ".gguf"
# Names that are looked at in a folder that is no model.
MOST_ENTRIES = 10_000
_PICKLE_ENDINGS = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class ModelFolder(Container):
    def __init__(
        self,
        path: Path,
        config: dict[str, Any],
        files: tuple[WeightsFile, ...],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.path, self.config, self.files = path, config, files
        self._file_of = {name: file for file in files for name in file.tensors}
        self._entries = {name: file.tensors[name] for name, file in self._file_of.items()}
        scheme = read_scheme(config, check)
        self._float4 = {each.name: each for each in find_float4(self._entries, scheme)}
        self.has_blocks = bool(self._float4)
        parts = {name for each in self._float4.values() for name in each.parts}
        plain = {name: entry for name, entry in self._entries.items() if name not in parts}
        # After all others, as they are read.
        self.tensors = plain | {
            name: TensorHeader("F32", each.shape) for name, each in self._float4.items()
        }
        self._opened = self.facts()

    @staticmethod
    def open(path: Path, check: Callable[[], None] = lambda: None) -> ModelFolder:
        """`check` is called for every tensor and may raise. Raises a WaymarkError."""
        try:
            if not path.is_dir():
                raise MissingFileError(f"{path} is not a folder.")
            if not (path / CONFIG).exists():
                _refuse_gguf(path)
            config = read_object(path / CONFIG, BrokenConfigError)
            if not announced(config) and (path / MODELOPT).is_file():
                config[MODELOPT] = read_object(path / MODELOPT, BrokenConfigError)
            return ModelFolder(path, config, _weights_files(path, check), check)
        except OSError as error:
            raise MissingFileError(f"{path} can't be read: {error.strerror}.") from error

    def num_bytes(self, names: Collection[str] | None = None) -> int:
        if names is None:
            return sum(file.num_bytes for file in self.files)
        stored = (self._float4[each].parts if each in self._float4 else (each,) for each in names)
        entries = (self._entries[name] for parts in stored for name in parts)
        return sum(entry.end - entry.start for entry in entries)

    def stored_name(self, name: str) -> str:
        return self._float4[name].codes if name in self._float4 else name

    def blocks(self, name: str) -> StoredBlocks | None:
        found = self._float4.get(name)
        if found is None or found.block_type is None:
            return None
        return found.block_type, found.shape[-1], None

    def read(
        self,
        names: Collection[str],
        take: Callable[[TensorStream], None],
        advance: Callable[[int], None],
        finish: Callable[[], None] = lambda: None,
        *,
        digest: bool,
    ) -> str:
        """The digest is that of the SHA-256 of each file."""
        combined, plain = hashlib.sha256(), set(names) - self._float4.keys()
        for file in self.files:
            combined.update(stream_file(file, plain, take, advance, digest=digest))
        # With a digest all bytes have been counted.
        count = (lambda num_bytes: advance(0)) if digest else advance
        with closing(OpenFiles(count)) as files:

            def read(name: str, start: int, view: memoryview) -> None:
                files.read(self._file_of[name].path, self._entries[name].start + start, view)

            def byte_rows(name: str) -> Table:
                path, entry = self._file_of[name].path, self._entries[name]
                shape = entry.shape[0], math.prod(entry.shape[1:])
                try:
                    file = files.file(path)
                    return FileTable(file, entry.start, shape, torch.uint8, torch.uint8)
                except OSError as error:
                    raise unreadable(path, error) from error

            for each in self._float4.values():
                if each.name in names:
                    take(each.stream(read, self.look_up, byte_rows))
            finish()
        if self._float4 and self.facts() != self._opened:
            raise changed(self.path.name)
        return combined.hexdigest() if digest else ""

    def look_up(self, name: str) -> Tensor:
        return look_up(self._file_of[name], name)

    def facts(self) -> Facts:
        return facts_of((file.path, file.header_digest) for file in self.files)


def _refuse_gguf(path: Path) -> None:
    if any(each.suffix.lower() == GGUF for each in islice(path.iterdir(), MOST_ENTRIES)):
        raise GgufError(
            f"{path.name} holds several GGUF files. Choose the one to open.",
            "Choose one of the files",
        )


def _weights_files(path: Path, check: Callable[[], None]) -> tuple[WeightsFile, ...]:
    # In this order, because saving one file over a sharded model may leave the old index.
    if (path / SINGLE).is_file():
        return (read_header(path / SINGLE, check),)
    if (path / INDEX).is_file():
        return _shards(path, check)
    pickles = sorted(each.name for each in path.iterdir() if each.suffix in _PICKLE_ENDINGS)
    if pickles:
        raise PickleWeightsError(
            f"{pickles[0]} can run code when it is opened. Waymark reads .safetensors only; "
            "most models are published in both."
        )
    raise MissingFileError(f"{path} has no {SINGLE}.")


def _shards(path: Path, check: Callable[[], None]) -> tuple[WeightsFile, ...]:
    weight_map = read_object(path / INDEX, BrokenWeightsError, INDEX_BYTES).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise BrokenWeightsError(f'{INDEX} has no "weight_map".')
    if not all(isinstance(name, str) for name in weight_map.values()):
        raise BrokenWeightsError(f'{INDEX} has something else than file names in its "weight_map".')
    named = sorted(set(weight_map.values()))
    files = _read_once([_inside(path, name) for name in named], check)
    for tensor, name in weight_map.items():
        if tensor not in files[name].tensors:
            raise MissingTensorError(f"{shown(tensor)} is not in {name}, where {INDEX} places it.")
    counts = Counter(tensor for file in files.values() for tensor in file.tensors)
    twice = [tensor for tensor, count in counts.items() if count > 1]
    if twice:
        raise BrokenWeightsError(f"{shown(twice[0])} is in more than one weights file.")
    return tuple(files.values())


def _read_once(paths: list[Path], check: Callable[[], None]) -> dict[str, WeightsFile]:
    budget = HeaderBudget()
    known: dict[tuple[int, int], WeightsFile] = {}
    files = {}
    for path in paths:
        status = path.stat()
        found = known.get((status.st_dev, status.st_ino))
        if found is None or not status.st_ino:  # some file systems number nothing
            found = known[status.st_dev, status.st_ino] = read_header(path, check, budget)
        files[path.name] = replace(found, path=path)
    return files


def _inside(folder: Path, name: str) -> Path:
    """Raises for a path or another ending."""
    if name != Path(name).name or "\\" in name or "\0" in name:
        raise BrokenWeightsError(f"{INDEX} names a file outside the folder: {shown(name)}.")
    if Path(name).suffix in _PICKLE_ENDINGS:
        raise PickleWeightsError(
            f"{INDEX} names {shown(name)}, which can run code when it is opened."
        )
    if Path(name).suffix != ".safetensors" or shown(name) != name:
        raise BrokenWeightsError(f"{INDEX} names {shown(name)}, which isn't a weights file.")
    if not (folder / name).is_file():
        raise MissingFileError(f"{folder} has no {name}.")
    return folder / name
