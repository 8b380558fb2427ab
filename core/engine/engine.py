"""The engine: at most one loaded model, and one thing done at a time. It knows no pipes and no
queue.

Every method either does what was asked or raises a WaymarkError and leaves the engine as it was.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from core.api.chat import ImagePart
from core.api.commands import (
    CountTokens,
    DeleteMatrices,
    DescribeImage,
    Flush,
    Forget,
    Generate,
    IdleWork,
    LoadModel,
    RenderImage,
)
from core.api.errors import NoModelError, NotEnoughMemoryError
from core.api.events import (
    Counted,
    Done,
    Event,
    Finished,
    ImageDescribed,
    ImageRendered,
    Loaded,
    Loading,
    Prepared,
)
from core.api.params import ModelSettings
from core.cache.disk.store import forget
from core.engine.ahead import Ahead
from core.engine.cancel import CancelFlag
from core.engine.images import naming
from core.engine.loaded import LoadedModel, fits_without, load
from core.engine.session import Session
from core.engine.stats import cache_bytes
from core.loading.quantised_weights import delete_quantised
from core.storage.store import DiskStore
from core.vision.decode import DecodedPicture, PictureDecoder, read_picture
from core.weights.memory import release_to_system

# A model that goes leaves on disk what it can within this time.
WRITE_OUT_S = 5.0
Emit = Callable[[Event], None]


class Engine:
    """Loads, answers, describes pictures. Works without a model where none is needed."""

    def __init__(self) -> None:
        self.loaded: LoadedModel | None = None
        # Not the loaded model's: a thumbnail waits for no reply.
        self._decoder = PictureDecoder()

    def load(self, command: LoadModel, flag: CancelFlag, emit: Emit) -> Loaded:
        """Put a model in place of the present one, which stays when the load fails.

        Only where memory can't hold both, but the new one alone, is the present one given up first.
        """

        def progress(done: int, total: int) -> None:
            emit(Loading(request=command.request, done=done, total=total))

        self._write_out(WRITE_OUT_S, flag)
        loaded = self._load_beside(command.settings, progress, flag)
        if loaded is None:
            self.unload()
            loaded = load(command.settings, progress, flag.check)
        self._put(loaded)
        return Loaded(request=command.request, model=loaded.info)

    def _load_beside(
        self, settings: ModelSettings, progress: Callable[[int, int], None], flag: CancelFlag
    ) -> LoadedModel | None:
        """Load while the present model stays; None where there is room for one of them only."""
        try:
            # One store serves both: two on one folder would not know of each other.
            blobs = self._blobs_in(settings.cache_folder)
            return load(settings, progress, flag.check, blobs)
        except NotEnoughMemoryError:
            if self.loaded is None or not fits_without(self.loaded, settings, flag.check):
                raise
        # Past the handler, in which the error kept alive what the failed load had made.
        return None

    def unload(self) -> None:
        """Drop the model and everything cached for it in memory."""
        self._write_out(WRITE_OUT_S, CancelFlag())
        self._put(None)

    def _put(self, loaded: LoadedModel | None) -> None:
        """Hold this model instead of the present one, whose memory goes back to the system."""
        on_gpu = self.loaded is not None and self.loaded.model.device.type == "cuda"
        before, self.loaded = self._blobs, loaded
        if before is not None and before is not self._blobs:
            before.close()
        gc.collect()
        release_to_system()
        if on_gpu:
            # Torch keeps what it freed, and what others could use then counts as taken.
            torch.cuda.empty_cache()
            torch.accelerator.memory.empty_host_cache()

    def generate(self, command: Generate, flag: CancelFlag, emit: Emit) -> Finished:
        """Answer a conversation. Raises NoModelError without a model."""
        if self.loaded is None:
            raise NoModelError("Choose a model folder first; the message is kept.")
        try:
            return Session(self.loaded, command, flag, emit).run()
        finally:
            release_to_system()

    def prepare(self, command: IdleWork, flag: CancelFlag) -> Prepared:
        """Prefill what the next request is sure to need. Raises NoModelError without a model."""
        if self.loaded is None:
            raise NoModelError("There is no model to read with.")
        try:
            return Ahead(self.loaded, command, flag).run()
        finally:
            release_to_system()

    def clear_cache(self) -> None:
        """Forget every prefix; the next request is cold."""
        if self.loaded is not None:
            self.loaded.cache.clear()

    def forget(self, command: Forget) -> None:
        """Delete what only one chat used, or everything, of this model and all others on disk.

        Raises NotDeletedError where something stays, with all else deleted.
        """
        try:
            if self.loaded is not None:
                self.loaded.catalog.drop_described()
                self.loaded.text.forget()
                self.loaded.cache.forget(command.chat)
        finally:
            with self._stored(command.cache_folder) as blobs:
                if blobs is not None:
                    forget(blobs, command.chat)

    def delete_matrices(self, command: DeleteMatrices) -> None:
        """Delete what loads kept quantised; no loaded model needs it. Raises NotDeletedError."""
        with self._stored(command.cache_folder) as blobs:
            if blobs is not None:
                delete_quantised(blobs)

    @property
    def _blobs(self) -> DiskStore | None:
        """The loaded model's store on disk."""
        store = self.loaded.cache.disk.store if self.loaded is not None else None
        return store.blobs if store is not None else None

    def _blobs_in(self, folder: str | None) -> DiskStore | None:
        """The loaded model's store, if it is in this folder."""
        blobs = self._blobs
        return blobs if folder is not None and blobs and blobs.folder == Path(folder) else None

    @contextmanager
    def _stored(self, folder: str | None) -> Iterator[DiskStore | None]:
        """The store in a folder, the loaded model's where it is that one; None for no folder."""
        if (blobs := self._blobs_in(folder)) is not None:
            yield blobs
        elif folder is None or not _may_be_there(Path(folder)):
            yield None
        else:
            blobs = DiskStore(Path(folder))
            try:
                yield blobs
            finally:
                blobs.close()

    def flush(self, command: Flush, flag: CancelFlag) -> Done:
        """Write what is computed to disk until it is done, cancelled or out of time."""
        self._write_out(command.seconds, flag)
        totals = cache_bytes(self.loaded.cache) if self.loaded is not None else None
        return Done(request=command.request, bytes=totals)

    def write_some(self, flag: CancelFlag) -> bool:
        """Write one segment of what is computed to disk; False when there is nothing to write."""
        flag.check()
        return self.loaded is not None and self.loaded.cache.write_some()

    def check_integrity(self) -> None:
        """Assert the cache's invariants; for debugging."""
        if self.loaded is not None:
            self.loaded.cache.check_integrity()

    def _write_out(self, seconds: float, flag: CancelFlag) -> None:
        deadline = time.monotonic() + seconds
        while self.write_some(flag) and time.monotonic() < deadline:
            pass

    def count_tokens(self, command: CountTokens) -> Counted:
        """Count a text's tokens; may run beside another request. Raises NoModelError."""
        loaded = self.loaded
        if loaded is None:
            raise NoModelError("There is no model to count with.")
        return Counted(request=command.request, tokens=loaded.text.count(command.text))

    def describe(self, command: DescribeImage) -> ImageDescribed:
        """Decode a picture and say what it will cost; may run beside another request."""
        part = command.image
        with self._opened(part) as picture:
            size, thumbnail = picture.size, picture.thumbnail(command.thumbnail)
            # Looked up only now: a model that went while the picture was decoded is not held.
            if (loaded := self.loaded) is not None:
                loaded.catalog.learn(part, picture)
        resized, tokens, loaded = None, None, self.loaded
        if loaded is not None and loaded.processor is not None:
            with naming(part):
                plan = loaded.processor.measure(*size)
            resized, tokens = (plan.width, plan.height), plan.tokens
        return ImageDescribed(
            request=command.request,
            digest=part.digest,
            size=size,
            resized=resized,
            tokens=tokens,
            thumbnail=thumbnail,
        )

    def render_image(self, command: RenderImage) -> ImageRendered:
        """A picture's pixels for a screen; may run beside another request."""
        with self._opened(command.image) as picture:
            size, pixels = picture.fit(command.width, command.height)
        return ImageRendered(request=command.request, width=size[0], height=size[1], pixels=pixels)

    @contextmanager
    def _opened(self, part: ImagePart) -> Iterator[DecodedPicture]:
        data = read_picture(Path(part.path), part.digest, part.called)
        with self._decoder.open(data, part.called) as picture:
            yield picture


def _may_be_there(folder: Path) -> bool:
    """Whether a folder exists, or can't be looked for: using it then says why."""
    try:
        return folder.is_dir()
    except OSError:
        return True
