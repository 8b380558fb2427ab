"""Takes pictures into a draft: checked, stored by digest, looked at by the engine, or refused.

Never decodes anything itself: a picture that kills a decoder must not kill the window. A URL is
never fetched. What is refused is refused in words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from core.api.chat import ImagePart
from core.api.errors import WaymarkError
from core.api.events import ImageDescribed, ImageRendered
from core.client.blobs import BlobStore
from desktop.controllers.engine import EngineController
from desktop.controllers.tasks import Tasks
from desktop.item_models.draft import Draft, DraftPicture
from desktop.item_models.engine_status import Phase
from desktop.store.records import Picture
from desktop.words.numbers import format_bytes

# A file larger than this is no picture anyone looks at, and reading it would hold up the rest.
LARGEST_FILE_BYTES = 256 * 2**20
# How the files that the engine may read begin; the rest is refused without asking it.
BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF", b"II*\0", b"MM\0*")
NAMES_SHOWN = 3


class PictureController(QObject):
    """Pictures of all drafts.

    Signals:
        changed(Draft): the pictures of a draft are others, or were looked at.
        refused(str): what was not taken, and why.
    """

    changed = Signal(object)
    refused = Signal(str)

    def __init__(self, engine: EngineController, blobs: BlobStore, tasks: Tasks) -> None:
        super().__init__()
        self._engine = engine
        self._blobs = blobs
        self._tasks = tasks
        self._looking: set[int] = set()
        self._drafts: list[Draft] = []
        # One at a time: fifty dropped files must not be in memory at once.
        self._turn = asyncio.Lock()
        engine.model_loaded.connect(self._look_again)

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

    def adopt(self, draft: Draft) -> None:
        """Keep the captions of a draft made elsewhere up to date."""
        if draft.pictures and draft not in self._drafts:
            self._drafts.append(draft)

    async def render(self, digest: str, width: int, height: int) -> ImageRendered:
        """A stored picture's pixels within this size. Raises WaymarkError."""
        image = ImagePart(digest=digest, path=str(self._blobs.path(digest)))
        await self._until_running()
        return await self._engine.client.render_image(image, width, height)

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
        loop = asyncio.get_running_loop()
        refusals: dict[str, list[str]] = {}
        taken: list[DraftPicture] = []
        for path in paths:
            reason = await loop.run_in_executor(None, why_no_picture, path)
            if reason:
                refusals.setdefault(reason, []).append(path.name or str(path))
            else:
                taken.append(DraftPicture(path.name, path))
        if refusals:
            self.refused.emit(" ".join(refusal_words(*each) for each in refusals.items()))
        self._show(draft, taken)
        for picture in taken:
            await self._take(draft, picture, picture.path.read_bytes if picture.path else bytes)

    async def _add_pasted(self, draft: Draft, read: Callable[[], bytes], name: str) -> None:
        picture = DraftPicture(name)
        self._show(draft, [picture])
        await self._take(draft, picture, read)

    def _show(self, draft: Draft, taken: list[DraftPicture]) -> None:
        if draft not in self._drafts:
            self._drafts.append(draft)
        if taken:
            draft.pictures += taken
            self.changed.emit(draft)

    async def _take(self, draft: Draft, picture: DraftPicture, read: Callable[[], bytes]) -> None:
        """Store a picture and have it looked at; refused, it leaves the draft."""
        async with self._turn:
            if picture not in draft.pictures:
                return
            try:
                digest, path = await asyncio.get_running_loop().run_in_executor(
                    None, lambda: self._blobs.put(read())
                )
                described = await self._describe(ImagePart(digest=digest, path=str(path)))
            except (WaymarkError, OSError) as error:
                self._refuse(draft, picture, error)
                return
            picture.path = path
            picture.picture = picture_of(described, picture.name)
            self.changed.emit(draft)

    async def _describe(self, image: ImagePart) -> ImageDescribed:
        await self._until_running()
        return await self._engine.client.describe_image(image)

    async def _until_running(self) -> None:
        # A picture dropped while the engine starts is looked at as soon as it runs.
        await self._engine.until(lambda status: status.runs or status.phase is Phase.FAILED)

    def _refuse(self, draft: Draft, picture: DraftPicture, error: Exception) -> None:
        self.remove(draft, picture.number)
        reason = error.message if isinstance(error, WaymarkError) else str(error)
        self.refused.emit(f"{picture.name} was not taken: {reason}")

    def _look_again(self) -> None:
        """Another model counts tokens differently: bring the captions of all drafts up to date."""
        self._drafts = [draft for draft in self._drafts if draft.pictures]
        for draft in self._drafts:
            self._tasks.spawn(self._describe_draft(draft), "Looking at pictures again")

    async def _describe_draft(self, draft: Draft) -> None:
        for each in list(draft.pictures):
            if each.picture is None or each.path is None:
                continue
            image = ImagePart(digest=each.picture.digest, path=str(each.path))
            try:
                each.picture = picture_of(await self._describe(image), each.name)
            except WaymarkError as error:
                self._refuse(draft, each, error)
        self.changed.emit(draft)


def why_no_picture(path: Path) -> str:
    """Why a file can't be a picture, as the end of a sentence; '' if it may be one."""
    try:
        if path.is_dir():
            return "a folder; drop the pictures in it instead"
        # Opening a pipe or a device may never end.
        if path.exists() and not path.is_file():
            return "no file"
        size = path.stat().st_size
        if size > LARGEST_FILE_BYTES:
            return f"larger than {format_bytes(LARGEST_FILE_BYTES)}"
        with path.open("rb") as file:
            beginning = file.read(4)
    except OSError as error:
        return f"not readable ({error.strerror or error})"
    if not size:
        return "empty"
    return "" if beginning.startswith(BEGINNINGS) else "no picture"


def refusal_words(reason: str, names: list[str]) -> str:
    """'notes.txt was not taken: no picture.', or the same for many files."""
    shown = ", ".join(names[:NAMES_SHOWN])
    if len(names) > NAMES_SHOWN:
        shown += f" and {len(names) - NAMES_SHOWN} more"
    verb = "is" if len(names) == 1 else "are"
    return f"Not taken: {shown} {verb} {reason}."


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
