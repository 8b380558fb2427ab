"""Takes pictures into a draft: checked, stored by digest, looked at by the engine, or refused.

Never decodes anything itself: a picture that kills a decoder must not kill the window. A URL is
never fetched. What is refused is refused in words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.api.chat import ImagePart
from core.api.commands import MAX_RENDERED_EDGE, DescribeImage, RenderImage
from core.api.errors import (
    ImageEmptyError,
    ImageTooLargeError,
    ImageUnreadableError,
    SlowFileError,
    WaymarkError,
)
from core.api.events import ImageDescribed, ImageRendered
from desktop.engine.engine_status import Phase
from desktop.engine.slow_files import answered
from desktop.pictures.draft import Draft, DraftPicture
from desktop.pictures.picture_files import (
    read_picture_file,
    why_no_picture,
)
from desktop.services import Services
from desktop.store.tables.records import Picture
from desktop.words.pictures import Refusal

# What the engine says of a picture itself.
UNREADABLE = frozenset(
    kind.__name__ for kind in (ImageUnreadableError, ImageEmptyError, ImageTooLargeError)
)


class PictureController(QObject):
    """Pictures of all drafts.

    Signals:
        changed(Draft): the pictures of a draft are others, or were looked at.
        refused(Draft, tuple[Refusal, ...]): what was not taken into it, and why.
        outdated(): another model counts tokens differently; whoever holds drafts has them looked
            at again.
    """

    changed = Signal(object)
    refused = Signal(object, object)
    outdated = Signal()

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._engine = services.engine
        self._blobs = services.blobs
        self._tasks = services.tasks
        # One at a time: fifty dropped files must not be in memory at once.
        self._turn = asyncio.Lock()
        services.engine.model_loaded.connect(lambda _model: self.outdated.emit())

    def add_files(self, draft: Draft, paths: Iterable[Path]) -> None:
        """Take files into a draft, in their order, in the background."""
        self._tasks.spawn(self._add_files(draft, list(paths)), "Taking in pictures")

    def add_bytes(self, draft: Draft, read: Callable[[], bytes], name: str) -> None:
        """Take a pasted picture; `read` may be slow and is called in a thread."""
        self._tasks.spawn(self._add_pasted(draft, read, name), "Taking in a pasted picture")

    def remove(self, draft: Draft, number: int) -> None:
        draft.pictures = [each for each in draft.pictures if each.number != number]
        self.changed.emit(draft)

    def draft_picture(self, picture: Picture) -> DraftPicture:
        """A stored picture as part of a draft."""
        return DraftPicture(picture.name, self._blobs.path(picture.digest), picture)

    def look_again(self, drafts: Iterable[Draft]) -> None:
        """Bring the captions of these drafts up to date.

        Only drafts that still are any: of one that was sent, or whose chat is gone, the pictures'
        files may be gone too, and nobody is to hear of that.
        """
        for draft in drafts:
            if draft.pictures:
                self._tasks.spawn(self._describe_draft(draft), "Looking at pictures again")

    async def render(self, picture: Picture, width: int, height: int) -> ImageRendered:
        """A stored picture's pixels within this size, and what a frame holds. Raises
        WaymarkError."""
        path = str(self._blobs.path(picture.digest))
        image = ImagePart(digest=picture.digest, path=path, name=picture.name)
        await self._until_running()
        wide, high = min(width, MAX_RENDERED_EDGE), min(height, MAX_RENDERED_EDGE)
        command = RenderImage(image=image, width=wide, height=high)
        return await self._engine.client.ask(command).last()

    def path_of(self, picture: Picture) -> Path:
        """The path of a stored picture's file."""
        return self._blobs.path(picture.digest)

    def held(self) -> asyncio.Lock:
        """While it is held, no picture is on its way into a draft."""
        return self._turn

    async def settled(self, draft: Draft) -> bool:
        """Wait until all pictures were looked at; False if one was refused meanwhile."""
        before = len(draft.pictures)
        while not draft.complete:
            async with self._turn:
                pass
            await asyncio.sleep(0)
        return len(draft.pictures) >= before

    async def _add_files(self, draft: Draft, paths: list[Path]) -> None:
        refusals: list[Refusal] = []
        taken: list[DraftPicture] = []
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
                taken.append(DraftPicture(path.name, path))
        if refusals:
            self.refused.emit(draft, tuple(refusals))
        self._show(draft, taken)
        for picture in taken:
            assert picture.path is not None
            await self._take(draft, picture, partial(read_picture_file, picture.path))

    async def _add_pasted(self, draft: Draft, read: Callable[[], bytes], name: str) -> None:
        picture = DraftPicture(name)
        self._show(draft, [picture])
        await self._take(draft, picture, read)

    def _show(self, draft: Draft, taken: list[DraftPicture]) -> None:
        if taken:
            draft.pictures += taken
            self.changed.emit(draft)

    async def _take(self, draft: Draft, picture: DraftPicture, read: Callable[[], bytes]) -> None:
        """Store a picture and have it looked at; refused, it leaves the draft."""
        async with self._turn:
            if picture not in draft.pictures:
                return
            try:
                digest, path = await answered(lambda: self._blobs.put(read()))
                image = ImagePart(digest=digest, path=str(path), name=picture.name)
                described = await self._describe(image)
            except (WaymarkError, OSError) as error:
                self._refuse(draft, picture, error)
                return
            picture.path = path
            picture.picture = picture_of(described, picture.name)
            self.changed.emit(draft)

    async def _describe(self, image: ImagePart) -> ImageDescribed:
        await self._until_running()
        return await self._engine.client.ask(DescribeImage(image=image)).last()

    async def _until_running(self) -> None:
        # A picture dropped while the engine starts is looked at as soon as it runs.
        await self._engine.until(lambda status: status.runs or status.phase is Phase.FAILED)

    def _refuse(self, draft: Draft, picture: DraftPicture, error: Exception) -> None:
        self.remove(draft, picture.number)
        reason = error.message if isinstance(error, WaymarkError) else in_words(error)
        self.refused.emit(draft, (Refusal(picture.name, said=reason),))

    async def _describe_draft(self, draft: Draft) -> None:
        for each in list(draft.pictures):
            if each.picture is None or each.path is None:
                continue
            image = ImagePart(digest=each.picture.digest, path=str(each.path), name=each.name)
            try:
                each.picture = picture_of(await self._describe(image), each.name)
            except WaymarkError as error:
                # An engine that died says nothing against a picture.
                if error.info().name in UNREADABLE:
                    self._refuse(draft, each, error)
        self.changed.emit(draft)


def in_words(error: Exception) -> str:
    """What the system said of a file, without the path it has here."""
    reason = error.strerror if isinstance(error, OSError) else None
    return f"{reason or type(error).__name__}."


def picture_of(described: ImageDescribed, name: str) -> Picture:
    """What the store keeps of what the engine said."""
    return Picture(
        digest=described.digest,
        name=name,
        size=described.size,
        resized=described.resized,
        tokens=described.tokens,
        thumbnail=described.thumbnail,
    )
