"""What one load leaves for the next: quantised matrices, and the digests of the files they are of.

Knows when both may be used: only for the very files that were digested, and for the same model,
weight format, numerics and file format (the key). Where anything is off, the load goes the long
way.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from core.loading.quantised.file import QuantisedFile, QuantisedWriter
from core.loading.quantised.known_files import Facts, KnownFiles, are_settled, facts_of
from core.loading.quantised.layout import FORMAT, QuantisedLayout
from core.loading.quantised.store import QuantisedStore
from core.loading.reading.held import ReadWeights
from core.weights.safetensors_file import SafetensorsFile
from core.weights.spec import TensorSpec
from core.weights.table import Table
from kernels.linear.reference import QuantisedTensors


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where loads keep what they quantised.

    `conditions` are those of the machine and the code that what is kept depends on. `clock` gives
    nanoseconds since the epoch.
    """

    store: QuantisedStore
    known: KnownFiles
    conditions: str
    clock: Callable[[], int] = time.time_ns

    def find(
        self, files: tuple[SafetensorsFile, ...], meaning: str, layout: QuantisedLayout
    ) -> QuantisedLoad | None:
        """What is kept of these files; None where they are not known, or nothing is kept.

        `meaning` is what the model makes of them, and in which format.
        """
        try:
            facts = facts_of(files)
        except OSError:
            return None
        digest = self.known.digest(facts)
        if digest is None:
            return None
        key = self._key(digest, meaning)
        found = self.store.find(key, layout)
        return QuantisedLoad(self, files, facts, digest, key, found) if found is not None else None

    def begin(
        self, files: tuple[SafetensorsFile, ...], meaning: str, layout: QuantisedLayout
    ) -> NewLoad:
        """Start keeping what is quantised of these files; `meaning` as in `find`.

        Of files that can't be known again nothing is kept: nobody would ever find it.
        """
        now = self.clock()
        try:
            facts = facts_of(files)
        except OSError:  # reading them will say so
            facts = []
        writer = self.store.begin(layout) if are_settled(facts, now) else None
        return NewLoad(self, files, facts, meaning, writer)

    def _key(self, digest: str, meaning: str) -> str:
        facts = json.dumps([FORMAT, digest, meaning, self.conditions])
        return hashlib.blake2b(facts.encode(), digest_size=32).hexdigest()


@dataclass(frozen=True, slots=True)
class NewLoad:
    """A load the long way, of which something is kept."""

    _keeping: Keeping
    _files: tuple[SafetensorsFile, ...]
    _facts: Facts
    _meaning: str
    _writer: QuantisedWriter | None

    def keep(self, name: str, kept: QuantisedTensors) -> None:
        """Keep the next slice of a matrix."""
        if self._writer is not None:
            self._writer.keep(name, kept)

    def finish(self, digest: str) -> None:
        """All is read: `digest` is the files'."""
        if self._writer is None:
            return
        if not _still(self._facts, self._files):
            self._writer.drop()
            return
        self._keeping.store.finish(self._writer, self._keeping._key(digest, self._meaning))
        self._keeping.known.remember(self._facts, digest)

    def drop(self) -> None:
        """The load failed: leave nothing behind."""
        if self._writer is not None:
            self._writer.drop()


@dataclass(frozen=True, slots=True)
class QuantisedLoad:
    """A load from what was kept."""

    _keeping: Keeping
    _files: tuple[SafetensorsFile, ...]
    _facts: Facts
    digest: str
    _key: str
    file: QuantisedFile

    def unchanged(self) -> bool:
        """Whether the weights files are still those that were digested."""
        return _still(self._facts, self._files)

    def give_up(self, reason: str) -> None:
        """Close and delete the file: it is of no use."""
        self.file.close()
        self._keeping.store.give_up(self._key, reason)


@dataclass(frozen=True, slots=True)
class QuantisedSource:
    """A `Source` (core.weights.plan): matrices from the file `kept`, where they are, else `read`.

    `matrix` raises QuantisedDamagedError.
    """

    read: ReadWeights
    kept: QuantisedFile
    names: frozenset[str]
    device: torch.device

    def tensor(self, name: str, spec: TensorSpec) -> Tensor:
        return self.read.tensor(name, spec)

    def matrix(self, name: str, spec: TensorSpec) -> list[QuantisedTensors]:
        if name not in self.names:
            return self.read.matrix(name, spec)
        return [tuple(part.to(self.device) for part in kept) for kept in self.kept.matrix(name)]

    def table(self, name: str, spec: TensorSpec) -> Table:
        return self.read.table(name, spec)


def _still(facts: Facts, files: tuple[SafetensorsFile, ...]) -> bool:
    """Whether the files have these facts now."""
    try:
        return facts_of(files) == facts
    except OSError:
        return False
