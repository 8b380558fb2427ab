"""The engine: at most one loaded model. Methods raise a WaymarkError and change nothing if they
fail."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from core.api.chat import ImagePart
from core.api.commands import (
    ClearCache,
    Command,
    CountPrompt,
    CountTokens,
    DeleteMatrices,
    DescribeImage,
    EditReply,
    Flush,
    Forget,
    Generate,
    IdleWork,
    LoadModel,
    Predict,
    PrefillDraft,
    PrefillReply,
    RenderImage,
    UnloadModel,
)
from core.api.errors import NoModelError, NotEnoughMemoryError
from core.api.events import (
    Answer,
    Counted,
    Done,
    Edited,
    Event,
    Finished,
    ImageDescribed,
    ImageRendered,
    Loaded,
    Loading,
    Predicted,
    Prepared,
)
from core.api.params import ModelSettings
from core.cache.disk.store import forget
from core.engine.cancel import CancelFlag
from core.engine.idle_work import IdlePrefill
from core.engine.images import naming
from core.engine.loaded import LoadedModel, fits_without, load
from core.engine.session import Session
from core.engine.stats import cache_bytes
from core.loading.quantised_store import delete_quantised
from core.storage.store import DiskStore
from core.vision.decode import DecodedPicture, PictureDecoder, read_picture
from core.weights.memory import release_to_system

# Time for writing contexts to disk before a model is unloaded.
WRITE_OUT_S = 5.0
Emit = Callable[[Event], None]
# Carries out a command of one class; None is answered by Done.
Handler = Callable[[Any, CancelFlag], Answer | None]


class Engine:
    def __init__(self) -> None:
        self.loaded: LoadedModel | None = None
        # Separate from the loaded model's, so that a thumbnail waits for no reply.
        self._decoder = PictureDecoder()

    def handlers(self, emit: Emit) -> dict[type[Command], Handler]:
        return {
            LoadModel: lambda command, flag: self.load(command, flag, emit),
            UnloadModel: lambda command, flag: self.unload(),
            Generate: lambda command, flag: self.generate(command, flag, emit),
            PrefillReply: self.prepare,
            PrefillDraft: self.prepare,
            Predict: self.predict,
            DescribeImage: lambda command, flag: self.describe(command),
            RenderImage: lambda command, flag: self.render_image(command),
            CountPrompt: self.count_prompt,
            CountTokens: lambda command, flag: self.count_tokens(command),
            EditReply: lambda command, flag: self.edit_reply(command),
            ClearCache: lambda command, flag: self.clear_cache(),
            Forget: lambda command, flag: self.forget(command),
            DeleteMatrices: lambda command, flag: self.delete_matrices(command),
            Flush: self.flush,
        }

    def load(self, command: LoadModel, flag: CancelFlag, emit: Emit) -> Loaded:
        """The present model stays if the load fails, or goes first if memory holds only one."""

        def progress(done: int, total: int) -> None:
            emit(Loading(request=command.request, done=done, total=total))

        self._write_out(WRITE_OUT_S, flag)
        loaded = self._load_beside(command.settings, progress, flag)
        if loaded is None:
            self.unload()
            loaded = self._load(command.settings, progress, flag)
        self._put(loaded)
        return Loaded(request=command.request, model=loaded.info)

    def _load_beside(
        self, settings: ModelSettings, progress: Callable[[int, int], None], flag: CancelFlag
    ) -> LoadedModel | None:
        try:
            return self._load(settings, progress, flag)
        except NotEnoughMemoryError:
            if self.loaded is None or not fits_without(self.loaded, settings, flag.check):
                raise
        # Outside the handler, whose error keeps alive what the failed load had made.
        return None

    def _load(
        self, settings: ModelSettings, progress: Callable[[int, int], None], flag: CancelFlag
    ) -> LoadedModel:
        # A model that is too large beside another may fit in its place without being mapped.
        most_on_disk = settings.weights_bytes if self.loaded is None else 0
        open_store = partial(self._store_of, settings)
        return load(settings, progress, flag.check, open_store, most_on_disk)

    def unload(self) -> None:
        self._write_out(WRITE_OUT_S, CancelFlag())
        self._put(None)

    def _put(self, loaded: LoadedModel | None) -> None:
        on_gpu = self.loaded is not None and self.loaded.model.device.type == "cuda"
        before, self.loaded = self._blobs, loaded
        if before is not None and before is not self._blobs:
            before.close()
        gc.collect()
        release_to_system()
        if on_gpu:
            # Torch caches freed memory, which would count as taken.
            torch.cuda.empty_cache()
            torch.accelerator.memory.empty_host_cache()

    def generate(self, command: Generate, flag: CancelFlag, emit: Emit) -> Finished:
        loaded = self._needed("Choose a model folder first; the message is kept.")
        try:
            return Session(loaded, command, flag, emit).run()
        finally:
            release_to_system()

    def prepare(self, command: IdleWork[Prepared], flag: CancelFlag) -> Prepared:
        loaded = self._needed("There is no model to read with.")
        try:
            return IdlePrefill(loaded, command, flag).run()
        finally:
            release_to_system()

    def predict(self, command: Predict, flag: CancelFlag) -> Predicted:
        loaded = self._needed("There is no model to predict for.")
        return IdlePrefill(loaded, command, flag).predict()

    def _needed(self, otherwise: str) -> LoadedModel:
        if (loaded := self.loaded) is None:
            raise NoModelError(otherwise)
        return loaded

    def clear_cache(self) -> None:
        if self.loaded is not None:
            self.loaded.cache.clear()

    def forget(self, command: Forget) -> None:
        """Raises NotDeletedError after deleting the rest."""
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
        """Raises NotDeletedError."""
        with self._stored(command.cache_folder) as blobs:
            if blobs is not None:
                delete_quantised(blobs)

    def _store_of(self, settings: ModelSettings) -> DiskStore | None:
        """Shared with the present model: two stores wouldn't know of each other."""
        blobs = self._blobs_in(settings.cache_folder)
        if settings.cache_folder is not None and (blobs is None or blobs.closed):
            return DiskStore(Path(settings.cache_folder))
        return blobs

    @property
    def _blobs(self) -> DiskStore | None:
        store = self.loaded.cache.disk.store if self.loaded is not None else None
        return store.blobs if store is not None else None

    def _blobs_in(self, folder: str | None) -> DiskStore | None:
        blobs = self._blobs
        return blobs if folder is not None and blobs and blobs.folder == Path(folder) else None

    @contextmanager
    def _stored(self, folder: str | None) -> Iterator[DiskStore | None]:
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
        self._write_out(command.seconds, flag)
        totals = cache_bytes(self.loaded.cache) if self.loaded is not None else None
        return Done(request=command.request, bytes=totals)

    def write_some(self, flag: CancelFlag) -> bool:
        flag.check()
        return self.loaded is not None and self.loaded.cache.write_some()

    def check_integrity(self) -> None:
        if self.loaded is not None:
            self.loaded.cache.check_integrity()

    def _write_out(self, seconds: float, flag: CancelFlag) -> None:
        deadline = time.monotonic() + seconds
        while self.write_some(flag) and time.monotonic() < deadline:
            pass

    def count_tokens(self, command: CountTokens) -> Counted:
        loaded = self._needed("There is no model to count with.")
        return Counted(request=command.request, tokens=loaded.text.count(command.text))

    def edit_reply(self, command: EditReply) -> Edited:
        loaded = self._needed("There is no model to edit with.")
        ids = loaded.text.edited_ids(command.reply, command.text)
        return Edited(request=command.request, ids=ids)

    def count_prompt(self, command: CountPrompt, flag: CancelFlag) -> Counted:
        loaded = self._needed("There is no model to count with.")
        conversation = command.conversation
        try:
            images = loaded.catalog.segments(conversation.pictures, flag.check)
            grid = loaded.settings.grid
            prompt = loaded.text.render(conversation, images, command.thinking, grid).prompt
        finally:
            loaded.catalog.drop_fresh()
        image_id = loaded.text.image_token_id
        ids = prompt.ids(image_id if image_id is not None else 0)
        return Counted(request=command.request, tokens=prompt.num_tokens, ids=tuple(ids))

    def describe(self, command: DescribeImage) -> ImageDescribed:
        part = command.image
        with self._opened(part) as picture:
            size, thumbnail = picture.size, picture.thumbnail(command.thumbnail)
            # Looked up only now, so as not to keep a model unloaded meanwhile.
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
        with self._opened(command.image) as picture:
            size, pixels = picture.fit(command.width, command.height)
        return ImageRendered(request=command.request, width=size[0], height=size[1], pixels=pixels)

    @contextmanager
    def _opened(self, part: ImagePart) -> Iterator[DecodedPicture]:
        data = read_picture(Path(part.path), part.digest, part.called)
        with self._decoder.open(data, part.called) as picture:
            yield picture


def _may_be_there(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError:
        return True
