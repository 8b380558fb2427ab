"""The two ways to load a model: from its weights files, or with matrices quantised earlier.

Both give the same model and the same digest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from core.api.errors import BrokenWeightsError, MissingFileError
from core.loading.plan import HeldPlan
from core.loading.quantised_file import QuantisedDamagedError, QuantisedFile, QuantisedLayout
from core.loading.quantised_store import QuantisedStore
from core.loading.read_plan import ReadWeights
from core.loading.stream import Unquantised, stream_weights
from core.models.decoder import Decoder
from core.weights.memory import available_bytes, check_memory, release_to_system
from core.weights.plan import Weights
from core.weights.spec import TensorSpec, Use
from core.weights.table import Table
from kernels.linear.reference import QuantisedTensors, WeightFormats


@dataclass(frozen=True, slots=True)
class ReadModel:
    """A model ready to run, and the SHA-256 (hex) of the weights files it was read from.

    `config` is the plan's: with the weights it determines what the model computes. `packing_s` are
    the seconds spent on the kernels' layouts; `from_disk` means that matrices were read quantised.
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
    store: QuantisedStore | None = None,
) -> ReadModel:
    """Read the weights and build the model on `device`, its matrices as planned.

    With a `store`, quantised matrices are kept for the next load. Calls `progress(done, total)`, in
    bytes read and then packed, and `check`, which may raise RequestCancelled, at least every 4 MiB
    read and for each matrix packed. Raises NotEnoughMemoryError, BrokenWeightsError,
    MissingFileError; a load that fails or is cancelled leaves nothing behind.
    """
    check_memory(plan.num_bytes, available(device), device)
    reading = _Reading(plan, device, progress, check)
    return reading.from_disk(store) or reading.from_weights(store)


class _Reading:
    def __init__(
        self,
        plan: HeldPlan,
        device: torch.device,
        progress: Callable[[int, int], None],
        check: Callable[[], None],
    ) -> None:
        self._plan, self._files, self._device = plan, plan.model.folder.files, device
        self._progress, self._check = progress, check

    def from_weights(self, store: QuantisedStore | None) -> ReadModel:
        plan = self._plan
        bar = self._bar(sum(file.num_bytes for file in self._files))
        writer = store.begin(self._files, self._layout()) if store is not None else None
        try:
            read, digest = stream_weights(
                plan.tensors,
                self._files,
                self._device,
                lambda done, _: bar.move_to(done),
                self._check,
                plan.packed,
                plan.formats,
                writer.keep if writer is not None else lambda name, tensors: None,
            )
        except BaseException:
            if writer is not None:
                writer.drop()
            raise
        if store is not None and writer is not None:
            store.finish(writer, self._files, digest, self._meaning)
        began = time.monotonic()
        model = self._build(_Source(read, plan, bar, self._device), bar)
        return ReadModel(model, digest, plan.config, time.monotonic() - began)

    def from_disk(self, store: QuantisedStore | None) -> ReadModel | None:
        """Build from matrices that an earlier load kept; None if that can't be done."""
        if store is None:
            return None
        plan, layout = self._plan, self._layout()
        found = store.find(self._files, self._meaning, layout)
        if found is None:
            return None
        file, digest = found
        names = frozenset(layout.matrices)
        rest = Unquantised(
            plan.tensors, self._files, self._device, plan.packed, plan.formats, names
        )
        bar = self._bar(rest.num_bytes + layout.num_bytes - layout.data_start)
        file.advance = bar.advance
        try:
            read = rest.read(bar.advance)
            began = time.monotonic()
            model = self._build(_Source(read, plan, bar, self._device, file, names), bar)
            packing = time.monotonic() - began - file.reading_s
            if store.known_digest(self._files) != digest:
                raise QuantisedDamagedError("the weights files changed")
            return ReadModel(model, digest, plan.config, packing, from_disk=True)
        except QuantisedDamagedError as error:
            store.discard(file, f"{error}")
            return None
        except (BrokenWeightsError, MissingFileError):
            # The weights files can't be read, perhaps because a disk was taken out. The other way
            # reports it, and the kept matrices stay for when they are back.
            return None
        finally:
            file.close()

    def _bar(self, to_read: int) -> _Bar:
        plan = self._plan
        to_pack = sum(_packing_bytes(spec, plan.formats) for spec in plan.tensors.values())
        return _Bar(to_read + to_pack, self._progress, self._check)

    @property
    def _meaning(self) -> str:
        plan = self._plan
        return f"{plan.config} {plan.kernels.name} {plan.dtype} {self._device.type}"

    def _layout(self) -> QuantisedLayout:
        return QuantisedLayout(self._plan.tensors, self._plan.formats, self._plan.packed)

    def _build(self, source: _Source, bar: _Bar) -> Decoder:
        release_to_system()
        plan = self._plan
        weights = Weights(source, plan.dtype, plan.formats, plan.kernels.ops, plan.smoothed)
        model = plan.build(weights, self._device)
        bar.finish()
        release_to_system()
        return model


class _Bar:
    def __init__(
        self, total: int, progress: Callable[[int, int], None], check: Callable[[], None]
    ) -> None:
        self._done, self._total = 0, total
        self._progress, self._check = progress, check

    def move_to(self, done: int) -> None:
        self._done = done
        self._progress(done, self._total)

    def advance(self, num_bytes: int) -> None:
        self.move_to(self._done + num_bytes)
        self._check()

    def finish(self) -> None:
        self.advance(self._total - self._done)


def _packing_bytes(spec: TensorSpec, formats: WeightFormats) -> int:
    weight_format = formats.of(spec.exact)
    is_packed = Use.MATRIX in spec.use and not weight_format.is_plain
    return weight_format.num_bytes(spec.shape, spec.dtype) if is_packed else 0


@dataclass(frozen=True, slots=True)
class _Source:
    """A `Source` by the family's names; each matrix moves the bar.

    Matrices of these `names` come from the file `kept`, everything else from `read`.
    """

    read: ReadWeights
    plan: HeldPlan
    bar: _Bar
    device: torch.device
    kept: QuantisedFile | None = None
    names: frozenset[str] = frozenset()

    def tensor(self, name: str, spec: TensorSpec) -> Tensor:
        return self.read.tensor(self.plan.model.published(name), spec)

    def matrix(self, name: str, spec: TensorSpec) -> list[QuantisedTensors]:
        published = self.plan.model.published(name)
        if self.kept is not None and published in self.names:
            kept = self.kept.matrix(published)
            found = [tuple(part.to(self.device) for part in each) for each in kept]
        else:
            found = self.read.matrix(published, spec)
        self.bar.advance(_packing_bytes(spec, self.plan.formats))
        return found

    def table(self, name: str, spec: TensorSpec) -> Table:
        return self.read.table(self.plan.model.published(name), spec)
