"""Adds pictures to drafts: check, store by digest, have the engine describe.

Nothing is decoded here: a picture that crashes a decoder must not crash the window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtGui import QImage

from core.api.chat import ImagePart
from core.api.commands import MAX_RENDERED_EDGE, DescribeImage, RenderImage
from core.api.errors import (
    ImageEmptyError,
    ImageTooLargeError,
    ImageUnreadableError,
    SlowFileError,
    WaymarkError,
)
from core.api.events import ImageRendered
from core.api.limits import picture_format
from desktop.engine.engine_status import Phase
from desktop.engine.error_words import in_language
from desktop.engine.tasks import answered
from desktop.i18n import tr
from desktop.pictures.draft import Draft, DraftPicture
from desktop.pictures.picture_files import Refusal, read_picture_file, why_no_picture
from desktop.services import Controller, Services
from desktop.store.tables.records import Picture

# Errors of the picture itself, not of the engine.
UNREADABLE = frozenset(
    kind.__name__ for kind in (ImageUnreadableError, ImageEmptyError, ImageTooLargeError)
)


class PictureController(Controller):
    # Draft: pictures were added, removed or described.
    changed = Signal(object)
    # Draft, tuple[Refusal, ...]: pictures or documents were not added.
    refused = Signal(object, object)

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        # One picture at a time, to limit memory.
        self._turn = asyncio.Lock()

    def add_files(self, draft: Draft, paths: Iterable[Path]) -> None:
        draft.adding += 1
        self.changed.emit(draft)
        self._tasks.spawn(self._add_files(draft, list(paths)), tr("Adding pictures"))

    def add_bytes(self, draft: Draft, read: Callable[[], bytes], name: str) -> None:
        """`read` is called in a thread."""
        self._tasks.spawn(self._add_pasted(draft, read, name), tr("Adding a pasted picture"))

    def remove(self, draft: Draft, number: int) -> None:
        draft.lost += 1
        draft.pictures = [each for each in draft.pictures if each.number != number]
        self.changed.emit(draft)

    def refuse(self, draft: Draft, *refusals: Refusal) -> None:
        draft.lost += len(refusals)
        self.refused.emit(draft, refusals)

    def look_again(self, drafts: Iterable[Draft]) -> None:
        """Another model counts other tokens."""
        for draft in drafts:
            if draft.pictures:
                self._tasks.spawn(self._describe_draft(draft), tr("Checking pictures again"))

    async def render(self, picture: Picture, width: int, height: int) -> QImage:
        """At most this size and a wire frame. Raises WaymarkError."""
        await self._until_running()
        wide, high = min(width, MAX_RENDERED_EDGE), min(height, MAX_RENDERED_EDGE)
        image = self._part(picture.digest, picture.name)
        command = RenderImage(image=image, width=wide, height=high)
        return image_of(await self._engine.client.ask(command).last())

    def path_of(self, picture: Picture) -> Path:
        return self._blobs.path(picture.digest)

    def held(self) -> asyncio.Lock:
        """Keeps pictures from being added."""
        return self._turn

    async def take_in(self, data: bytes, name: str) -> Picture | None:
        """Store an imported picture, without an engine without thumbnail; None if it can't be read.
        Call while `held`. Raises OSError."""
        if picture_format(data) is None:
            return None
        digest, _ = await answered(lambda: self._blobs.put(data))
        try:
            return await self._described(digest, name)
        except WaymarkError as error:
            if error.info().name in UNREADABLE:
                self._blobs.remove(digest)
                return None
            return Picture(digest, name, (0, 0))

    async def _add_files(self, draft: Draft, paths: list[Path]) -> None:
        refusals: list[Refusal] = []
        taken: list[tuple[Path, DraftPicture]] = []
        try:
            for path in paths:
                name = path.name or str(path)
                try:
                    reason = await answered(partial(why_no_picture, path))
                except SlowFileError as error:
                    refusals.append(Refusal(name, said=error.message))
                    continue
                if reason:
                    refusals.append(Refusal(name, why=reason))
                else:
                    taken.append((path, DraftPicture(path.name)))
        finally:
            draft.adding -= 1
        if refusals:
            self.refuse(draft, *refusals)
        self._show(draft, [picture for _, picture in taken])
        for path, picture in taken:
            await self._take(draft, picture, partial(read_picture_file, path))

    async def _add_pasted(self, draft: Draft, read: Callable[[], bytes], name: str) -> None:
        picture = DraftPicture(name)
        self._show(draft, [picture])
        await self._take(draft, picture, read)

    def _show(self, draft: Draft, taken: list[DraftPicture]) -> None:
        draft.pictures += taken
        self.changed.emit(draft)

    async def _take(self, draft: Draft, picture: DraftPicture, read: Callable[[], bytes]) -> None:
        async with self._turn:
            if picture not in draft.pictures:
                return
            try:
                digest, _ = await answered(lambda: self._blobs.put(read()))
                picture.picture = await self._described(digest, picture.name)
            except Exception as error:
                self.remove(draft, picture.number)
                self.refuse(draft, Refusal(picture.name, said=reason_of(error)))
                return
            self.changed.emit(draft)

    async def _described(self, digest: str, name: str) -> Picture:
        await self._until_running()
        command = DescribeImage(image=self._part(digest, name))
        found = await self._engine.client.ask(command).last()
        return Picture(found.digest, name, found.size, found.resized, found.tokens, found.thumbnail)

    def _part(self, digest: str, name: str) -> ImagePart:
        return ImagePart(digest=digest, path=str(self._blobs.path(digest)), name=name)

    async def _until_running(self) -> None:
        await self._engine.until(lambda status: status.runs or status.phase is Phase.FAILED)

    async def _describe_draft(self, draft: Draft) -> None:
        for each in list(draft.pictures):
            if each.picture is None:
                continue
            try:
                each.picture = await self._described(each.picture.digest, each.name)
            except WaymarkError as error:
                # If the engine failed, the picture stays.
                if error.info().name in UNREADABLE:
                    self.remove(draft, each.number)
                    self.refuse(draft, Refusal(each.name, said=reason_of(error)))
        self.changed.emit(draft)


def reason_of(error: Exception) -> str:
    """Raises unexpected errors again."""
    if isinstance(error, WaymarkError):
        return in_language(error.message)
    if not isinstance(error, OSError):
        raise error
    return f"{error.strerror or type(error).__name__}."


def image_of(rendered: ImageRendered) -> QImage:
    """Raises ImageUnreadableError if the size and the pixels don't agree."""
    width, height, pixels = rendered.width, rendered.height, rendered.pixels
    if not pixels or len(pixels) != 4 * width * height:
        raise ImageUnreadableError(tr("The engine sent no valid picture."))
    return QImage(pixels, width, height, 4 * width, QImage.Format.Format_RGBA8888).copy()
