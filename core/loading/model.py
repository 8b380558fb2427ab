"""The ways to load a model, from its weights files or with matrices quantised earlier, to the same
model and digest."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from core.api.errors import BrokenWeightsError, MissingFileError, NotEnoughMemoryError
from core.api.model_info import HEADROOM_BYTES
from core.loading.plan import HeldPlan
from core.loading.quantised_file import QuantisedDamagedError, QuantisedLayout
from core.loading.quantised_store import QuantisedStore
from core.loading.reading import TensorReader
from core.loading.tile_file import TileFile
from core.models.decoder import Decoder
from core.storage.rows import TILES
from core.weights.container import changed
from core.weights.memory import available_bytes, release_to_system
from core.weights.plan import Weights


@dataclass(frozen=True, slots=True)
class ReadModel:
    """`weights_digest` is the SHA-256 (hex) of the files. `packing_s` went into the kernels'
    layouts; `from_disk`: matrices were read quantised. The system reads `mapped_bytes` when
    needed."""

    model: Decoder
    weights_digest: str
    config: str
    packing_s: float = 0.0
    from_disk: bool = False
    mapped_bytes: int = 0


def fits(num_bytes: int, free: int) -> bool:
    """True if a model of `num_bytes` can be loaded and then run."""
    return num_bytes + HEADROOM_BYTES <= free


def read_model(
    plan: HeldPlan,
    device: torch.device,
    progress: Callable[[int, int], None],
    check: Callable[[], None],
    *,
    available: Callable[[torch.device], int] = available_bytes,
    store: QuantisedStore | None = None,
    most_on_disk: int | None = None,
) -> ReadModel:
    """With a `store`, the next load finds quantised matrices there, or the files' digest. A model
    of blocks that doesn't fit in memory is mapped from a file there of at most `most_on_disk`
    bytes, unless that is 0.

    Calls `progress(done, total)`, in bytes read and then packed, and `check` at least every 4 MiB
    and for each matrix packed. Raises NotEnoughMemoryError, BrokenWeightsError, MissingFileError.
    """
    needed, free = plan.num_bytes, available(device)
    loading = _Loading(plan, device, progress, check)
    if not fits(needed, free):
        may_map = plan.mapped_bytes and most_on_disk != 0
        if may_map and store is not None and fits(needed - plan.mapped_bytes, free):
            return loading.mapped(store, TileFile(store.blobs, plan, most_on_disk))
        whole, there = _gigabytes(needed + HEADROOM_BYTES), _gigabytes(free)
        words = f"The model needs {whole} of memory, {there} is free."
        if device.type == "cuda":
            words = f"The model needs {whole} on the graphics card, {there} is free."
        raise NotEnoughMemoryError(words)
    if store is not None and not plan.formats.usual.quantises:
        return loading.as_published(store)
    loaded = loading.from_disk(store) if store is not None else None
    return loaded or loading.from_weights(store)


class _Loading:
    def __init__(
        self,
        plan: HeldPlan,
        device: torch.device,
        progress: Callable[[int, int], None],
        check: Callable[[], None],
    ) -> None:
        self._plan, self._files, self._device = plan, plan.model.container, device
        self._progress, self._check = progress, check
        self._done = self._total = 0

    def from_weights(self, store: QuantisedStore | None) -> ReadModel:
        writer = store.begin(self._files, self._layout()) if store is not None else None
        keep = writer.keep if writer is not None else None
        try:
            read = self._read(TensorReader(self._plan, self._device, keep=keep))
            if store is not None and writer is not None:
                store.finish(writer, self._files, read.weights_digest, self._meaning)
            return read
        except BaseException:
            if writer is not None:
                writer.drop()
            raise

    def as_published(self, store: QuantisedStore) -> ReadModel:
        """Skips the digest if that of the unchanged files is noted."""
        known = store.known_digest(self._files)
        facts = store.settled_facts(self._files)
        read = self._read(TensorReader(self._plan, self._device, digest=known is None))
        if known is None:
            if facts and facts == self._files.facts():
                store.remember_digest(facts, read.weights_digest)
            return read
        if known != store.known_digest(self._files):
            raise changed(self._files.path.name)
        return replace(read, weights_digest=known)

    def mapped(self, store: QuantisedStore, tiles: TileFile) -> ReadModel:
        digest, plan = store.known_digest(self._files), self._plan
        self._done, self._total = 0, plan.mapped_bytes
        arena = tiles.find(digest, self._advance) if digest is not None else None
        from_disk = arena is not None
        if arena is None:
            digest = self._write(store, tiles)
            arena = tiles.open(digest)
            if arena is None:
                raise BrokenWeightsError(f"The tiles in {store.blobs.folder} were changed.")
        self._plan = plan.placed_in(arena)
        read = self.as_published(store)
        if read.weights_digest != digest:
            raise changed(self._files.path.name)
        return replace(read, from_disk=from_disk, mapped_bytes=plan.mapped_bytes)

    def _write(self, store: QuantisedStore, tiles: TileFile) -> str:
        plan = self._plan
        try:
            arena = tiles.begin()
            self._plan = plan.placed_in(arena)
            digest = self.as_published(store).weights_digest
            arena.sync(lambda: self._advance(0))
            of_tiles = arena.digest(lambda num_bytes: self._advance(0))
            # Windows can't replace a file that is mapped.
            self._plan = plan
            del arena
            tiles.finish(digest, of_tiles)
            return digest
        except OSError as error:
            raise NotEnoughMemoryError(
                f"The model is larger than free memory, and {store.blobs.folder} can't be "
                f"written: {error.strerror or error}."
            ) from error
        finally:
            self._plan = plan
            store.blobs.drop_part(TILES)

    def from_disk(self, store: QuantisedStore) -> ReadModel | None:
        found = store.find(self._files, self._meaning, self._layout())
        if found is None:
            return None
        kept, digest = found
        try:
            read = self._read(TensorReader(self._plan, self._device, kept))
            if store.known_digest(self._files) != digest:
                raise QuantisedDamagedError("the weights files changed")
            packing = read.packing_s - kept.reading_s
            return replace(read, weights_digest=digest, packing_s=packing, from_disk=True)
        except QuantisedDamagedError as error:
            store.discard(kept, f"{error}")
            return None
        except (BrokenWeightsError, MissingFileError):
            # The weights files can't be read, perhaps because a disk was taken out. The other way
            # reports it, and the kept matrices stay for when they are back.
            return None
        finally:
            kept.close()

    def _read(self, reader: TensorReader) -> ReadModel:
        self._done, self._total = 0, reader.num_bytes
        built: list[tuple[Decoder, float]] = []

        def build() -> None:
            release_to_system()
            began, plan = time.monotonic(), self._plan
            weights = Weights(reader, plan.dtype, plan.formats, plan.kernels.ops, plan.smoothed)
            model = plan.build(weights, self._device)
            release_to_system()
            built.append((model, time.monotonic() - began))

        digest = reader.read(self._advance, build)
        self._advance(self._total - self._done)
        ((model, seconds),) = built
        return ReadModel(model, digest, self._plan.config, seconds)

    def _advance(self, num_bytes: int) -> None:
        self._done += num_bytes
        self._progress(self._done, self._total)
        self._check()

    @property
    def _meaning(self) -> str:
        plan = self._plan
        return f"{plan.config} {plan.kernels.name} {plan.dtype} {self._device.type}"

    def _layout(self) -> QuantisedLayout:
        return QuantisedLayout(self._plan.tensors, self._plan.formats, self._plan.packed)


def _gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB"
