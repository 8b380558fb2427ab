"""The two ways to load a model: from its weights files, or with matrices that were kept quantised.

Both give the same model and the same digest. Knows the order of the steps, the bar over all of them
and when to fall back on the long way; what a model is made of is its builder's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError, MissingFileError
from core.loading.quantised.keeping import Keeping, KeptSource
from core.loading.quantised.kept_file import KeptDamagedError
from core.loading.quantised.kept_layout import KeptLayout
from core.loading.quantised.rest import Rest
from core.loading.reading.stream import stream_weights
from core.models.model import Model
from core.weights.memory import release_to_system
from core.weights.plan import Source, TensorSpec, Use, WeightPlan, Weights
from core.weights.published.packed import PackedPlan
from core.weights.safetensors_file import SafetensorsFile
from core.weights.table import Table
from kernels.linear.reference import Forms, Kept
from kernels.ops import Ops


class ModelBuilder(Protocol):
    """How to build one model: what it asks for, in which forms, and what it is called there.

    `config` is what was read from config.json, written out; `backend` names the kernels, `smoothed`
    the norms whose large scales migrate into the matrices behind them.
    """

    plan: WeightPlan
    packed: PackedPlan
    forms: Forms
    ops: Ops
    dtype: torch.dtype
    backend: str
    smoothed: frozenset[str]
    published: Callable[[str], str]

    @property
    def config(self) -> str: ...
    def build(self, weights: Weights, device: torch.device) -> Model: ...


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run, and the SHA-256 (hex) of the weights files it was read from.

    `config` is what was read from config.json, by the family and about packed weights, written out:
    with the weights it fixes what the model computes. `packing_s` are the seconds it took to bring
    matrices into the kernels' layouts; `from_disk` says that they were read quantised.
    """

    model: Model
    weights_digest: str
    config: str
    packing_s: float = 0.0
    from_disk: bool = False


class Load:
    """One load of what a builder says: from weights files, or with the matrices that were kept."""

    def __init__(
        self,
        builder: ModelBuilder,
        files: tuple[SafetensorsFile, ...],
        device: torch.device,
        progress: Callable[[int, int], None],
        check: Callable[[], None],
    ) -> None:
        self._builder, self._files, self._device = builder, files, device
        self._progress, self._check = progress, check

    def from_weights(self, keeping: Keeping | None) -> LoadedModel:
        """Read, quantise and digest all files; what was quantised is kept for the next time."""
        builder, kept = self._builder, None
        bar = self._bar(sum(file.num_bytes for file in self._files))
        if keeping is not None:
            kept = keeping.begin(self._files, self._meaning, self._layout())
        try:
            read, digest = stream_weights(
                builder.plan,
                self._files,
                self._device,
                lambda done, _: bar.move_to(done),
                self._check,
                builder.packed,
                builder.forms,
                kept.keep if kept is not None else _keep_nothing,
            )
        except BaseException:
            if kept is not None:
                kept.drop()
            raise
        if kept is not None:
            kept.finish(digest)
        began = time.monotonic()
        model = self._build(read, bar)
        return LoadedModel(model, digest, builder.config, time.monotonic() - began)

    def from_disk(self, keeping: Keeping) -> LoadedModel | None:
        """Build from the matrices that an earlier load kept; None where that can't be done."""
        builder, layout = self._builder, self._layout()
        found = keeping.find(self._files, self._meaning, layout)
        if found is None:
            return None
        names = frozenset(layout.matrices)
        rest = Rest(builder.plan, self._files, self._device, builder.packed, builder.forms, names)
        bar = self._bar(rest.num_bytes + layout.num_bytes - layout.data_start)
        found.file.advance = bar.advance
        try:
            read = rest.read(bar.advance)
            began = time.monotonic()
            model = self._build(KeptSource(read, found.file, names, self._device), bar)
            packing = time.monotonic() - began - found.file.reading_s
            if not found.unchanged():
                raise KeptDamagedError("the weights files changed")
            return LoadedModel(model, found.digest, builder.config, packing, from_disk=True)
        except KeptDamagedError as error:
            found.give_up(f"{error}")
            return None
        except (BrokenWeightsError, MissingFileError):
            # Of the weights files, perhaps of a disk that was taken out: the long way says so, and
            # what is kept serves again when they are back.
            return None
        finally:
            found.file.close()

    def _bar(self, to_read: int) -> _Bar:
        builder = self._builder
        to_pack = sum(_packing_bytes(spec, builder.forms) for spec in builder.plan.values())
        return _Bar(to_read + to_pack, self._progress, self._check)

    @property
    def _meaning(self) -> str:
        """What the numbers that are kept depend on beside the weights."""
        builder = self._builder
        return f"{builder.config} {builder.backend} {builder.dtype} {self._device.type}"

    def _layout(self) -> KeptLayout:
        return KeptLayout(self._builder.plan, self._builder.forms, self._builder.packed)

    def _build(self, source: Source, bar: _Bar) -> Model:
        release_to_system()
        builder = self._builder
        renamed = _Renamed(source, builder.published, builder.forms, bar)
        parts = builder.forms, builder.ops, builder.smoothed
        model = builder.build(Weights(renamed, builder.dtype, *parts), self._device)
        bar.finish()
        release_to_system()
        return model


class _Bar:
    """One bar over all that is read and then packed, in bytes; looks for a cancel as it moves."""

    def __init__(
        self, total: int, progress: Callable[[int, int], None], check: Callable[[], None]
    ) -> None:
        self._done, self._total = 0, total
        self._progress, self._check = progress, check

    def move_to(self, done: int) -> None:
        """So much is done, of which others look for a cancel."""
        self._done = done
        self._progress(done, self._total)

    def advance(self, num_bytes: int) -> None:
        """So much more is done."""
        self.move_to(self._done + num_bytes)
        self._check()

    def finish(self) -> None:
        """All is done."""
        self.advance(self._total - self._done)


def _packing_bytes(spec: TensorSpec, forms: Forms) -> int:
    """Bytes that are packed of a tensor once it is read."""
    form = forms.of(spec.exact)
    is_packed = Use.MATRIX in spec.use and not form.keeps_weight
    return form.num_bytes(spec.shape, spec.dtype) if is_packed else 0


def _keep_nothing(name: str, kept: Kept) -> None:
    """Nothing is kept for the next load."""


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A `Source` by the names that the family uses; each matrix asked for moves the bar."""

    source: Source
    published: Callable[[str], str]
    forms: Forms
    bar: _Bar

    def tensor(self, name: str, spec: TensorSpec) -> Tensor:
        return self.source.tensor(self.published(name), spec)

    def matrix(self, name: str, spec: TensorSpec) -> list[Kept]:
        kept = self.source.matrix(self.published(name), spec)
        self.bar.advance(_packing_bytes(spec, self.forms))
        return kept

    def table(self, name: str, spec: TensorSpec) -> Table:
        return self.source.table(self.published(name), spec)
