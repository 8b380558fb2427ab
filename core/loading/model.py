"""The two ways to load a model: from its weights files, or with matrices that were kept quantised.

Both give the same model and the same digest. Knows the order of the steps, the bar over all of them
and when to fall back on the long way; what a model is made of is its plan's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError, MissingFileError
from core.loading.plan import HeldPlan
from core.loading.quantised.file import QuantisedDamagedError
from core.loading.quantised.keeping import Keeping, QuantisedSource
from core.loading.quantised.layout import QuantisedLayout
from core.loading.quantised.unquantised import Unquantised
from core.loading.reading.stream import stream_weights
from core.models.decoder import Decoder
from core.weights.memory import available_bytes, check_memory, release_to_system
from core.weights.plan import Source, Weights
from core.weights.spec import TensorSpec, Use
from core.weights.table import Table
from kernels.linear.reference import QuantisedTensors, WeightFormats


@dataclass(frozen=True, slots=True)
class ReadModel:
    """A model ready to run, and the SHA-256 (hex) of the weights files it was read from.

    `config` is the plan's: with the weights it fixes what the model computes. `packing_s` are the
    seconds it took to bring matrices into the kernels' layouts; `from_disk` says that they were
    read quantised.
    """

    model: Decoder
    weights_digest: str
    config: str
    packing_s: float = 0.0
    from_disk: bool = False


def read_model(
    plan: HeldPlan,
    device: torch.device,
    progress: Callable[[int, int], None],
    check: Callable[[], None],
    *,
    available: Callable[[torch.device], int] = available_bytes,
    keeping: Keeping | None = None,
) -> ReadModel:
    """Read the weights and build the model on `device`, its matrices as planned.

    With `keeping` quantised matrices are kept for the next load, which reads them instead of the
    weights. Calls `progress(done, total)`, in bytes read and then packed, and `check`, which may
    raise RequestCancelled, at least every 4 MiB read and for each matrix packed. Raises
    NotEnoughMemoryError, BrokenWeightsError, MissingFileError; what fails or is cancelled leaves
    nothing behind.
    """
    check_memory(plan.num_bytes, available(device), device)
    reading = _Reading(plan, device, progress, check)
    found = reading.from_disk(keeping) if keeping is not None else None
    return found if found is not None else reading.from_weights(keeping)


class _Reading:
    """One reading of a model: from its weights files, or with the matrices that were kept."""

    def __init__(
        self,
        plan: HeldPlan,
        device: torch.device,
        progress: Callable[[int, int], None],
        check: Callable[[], None],
    ) -> None:
        self._plan, self._files, self._device = plan, plan.model.folder.files, device
        self._progress, self._check = progress, check

    def from_weights(self, keeping: Keeping | None) -> ReadModel:
        """Read, quantise and digest all files; what was quantised is kept for the next time."""
        plan, kept = self._plan, None
        bar = self._bar(sum(file.num_bytes for file in self._files))
        if keeping is not None:
            kept = keeping.begin(self._files, self._meaning, self._layout())
        try:
            read, digest = stream_weights(
                plan.tensors,
                self._files,
                self._device,
                lambda done, _: bar.move_to(done),
                self._check,
                plan.packed,
                plan.formats,
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
        return ReadModel(model, digest, plan.config, time.monotonic() - began)

    def from_disk(self, keeping: Keeping) -> ReadModel | None:
        """Build from the matrices that an earlier load kept; None where that can't be done."""
        plan, layout = self._plan, self._layout()
        found = keeping.find(self._files, self._meaning, layout)
        if found is None:
            return None
        names = frozenset(layout.matrices)
        rest = Unquantised(
            plan.tensors, self._files, self._device, plan.packed, plan.formats, names
        )
        bar = self._bar(rest.num_bytes + layout.num_bytes - layout.data_start)
        found.file.advance = bar.advance
        try:
            read = rest.read(bar.advance)
            began = time.monotonic()
            model = self._build(QuantisedSource(read, found.file, names, self._device), bar)
            packing = time.monotonic() - began - found.file.reading_s
            if not found.unchanged():
                raise QuantisedDamagedError("the weights files changed")
            return ReadModel(model, found.digest, plan.config, packing, from_disk=True)
        except QuantisedDamagedError as error:
            found.give_up(f"{error}")
            return None
        except (BrokenWeightsError, MissingFileError):
            # Of the weights files, perhaps of a disk that was taken out: the long way says so, and
            # what is kept serves again when they are back.
            return None
        finally:
            found.file.close()

    def _bar(self, to_read: int) -> _Bar:
        plan = self._plan
        to_pack = sum(_packing_bytes(spec, plan.formats) for spec in plan.tensors.values())
        return _Bar(to_read + to_pack, self._progress, self._check)

    @property
    def _meaning(self) -> str:
        """What the numbers that are kept depend on beside the weights."""
        plan = self._plan
        return f"{plan.config} {plan.kernels.name} {plan.dtype} {self._device.type}"

    def _layout(self) -> QuantisedLayout:
        return QuantisedLayout(self._plan.tensors, self._plan.formats, self._plan.packed)

    def _build(self, source: Source, bar: _Bar) -> Decoder:
        release_to_system()
        plan = self._plan
        renamed = _Renamed(source, plan.model.published, plan.formats, bar)
        weights = Weights(renamed, plan.dtype, plan.formats, plan.kernels.ops, plan.smoothed)
        model = plan.build(weights, self._device)
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


def _packing_bytes(spec: TensorSpec, formats: WeightFormats) -> int:
    """Bytes that are packed of a tensor once it is read."""
    weight_format = formats.of(spec.exact)
    is_packed = Use.MATRIX in spec.use and not weight_format.is_plain
    return weight_format.num_bytes(spec.shape, spec.dtype) if is_packed else 0


def _keep_nothing(name: str, kept: QuantisedTensors) -> None:
    """Nothing is kept for the next load."""


@dataclass(frozen=True, slots=True)
class _Renamed:
    """A `Source` by the names that the family uses; each matrix asked for moves the bar."""

    source: Source
    published: Callable[[str], str]
    formats: WeightFormats
    bar: _Bar

    def tensor(self, name: str, spec: TensorSpec) -> Tensor:
        return self.source.tensor(self.published(name), spec)

    def matrix(self, name: str, spec: TensorSpec) -> list[QuantisedTensors]:
        kept = self.source.matrix(self.published(name), spec)
        self.bar.advance(_packing_bytes(spec, self.formats))
        return kept

    def table(self, name: str, spec: TensorSpec) -> Table:
        return self.source.table(self.published(name), spec)
