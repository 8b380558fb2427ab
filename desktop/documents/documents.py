"""Adds files to drafts: pictures go to `desktop.pictures`, documents become text.

A document is read once, and found again by its file's digest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QTimer, Signal

from core.api.commands import CountTokens
from core.api.errors import SlowFileError, WaymarkError
from desktop.documents.parts import estimated_tokens, prompt_text
from desktop.documents.reading import (
    MOST_FILES,
    DocumentReader,
    document_of_text,
    files_in,
    kind_of,
    read_document_file,
    source_of,
)
from desktop.engine.engine_status import model_name
from desktop.engine.tasks import answered
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.pictures.draft import Draft, DraftDocument
from desktop.pictures.picture_files import Refusal
from desktop.pictures.pictures import PictureController, reason_of
from desktop.services import Controller, Services
from desktop.store.tables import attachments
from desktop.store.tables.records import Document
from desktop.store.tables.replies import prefill_speeds
from desktop.threads import DaemonExecutor

T = TypeVar("T")

MOST_PAGE_PICTURES = 20
# The helper ends when nothing was asked of it for this long.
IDLE_MS = 30_000
GLANCE_S = 0.01


class DocumentController(Controller):
    # Draft: documents were added, read, chosen from or removed.
    changed = Signal(object)
    # Draft: reading or counting went on.
    progressed = Signal(object)

    def __init__(self, services: Services, pictures: PictureController) -> None:
        super().__init__(services)
        self.reader = DocumentReader()
        self.pictures = pictures
        # One document at a time, to limit memory; the helper's calls come from one thread.
        self._turn = asyncio.Lock()
        self._executor = DaemonExecutor("documents", 1)
        self._idle = QTimer(self, singleShot=True, interval=IDLE_MS)
        self._idle.timeout.connect(lambda: self._executor.submit(self.reader.close))
        # Seconds a token, by the replies of the loaded model; None until there are some.
        self._speed: float | None = None

    def add_files(self, draft: Draft, paths: Iterable[Path]) -> None:
        """Also takes folders."""
        draft.adding += 1
        self.progressed.emit(draft)
        self._tasks.spawn(self._add_files(draft, list(paths)), tr("Adding files"))

    def add_text(self, draft: Draft, text: str) -> int:
        """At once, as the program may be closed; returns its number."""
        name = tr("Pasted text, {count} characters").format(count=format_count(len(text)))
        each = DraftDocument(name, document=document_of_text(name, text))
        draft.documents.append(each)
        self.changed.emit(draft)
        self.count_again([draft])
        return each.number

    def remove(self, draft: Draft, number: int) -> None:
        draft.lost += 1
        draft.documents = [each for each in draft.documents if each.number != number]
        self.changed.emit(draft)

    def choose(self, draft: Draft, number: int, places: Sequence[int]) -> None:
        """The model reads only the parts at these places."""
        each = draft.document(number)
        if each is None or each.document is None or not places:
            return
        chosen = None if len(places) == len(each.document.parts) else tuple(places)
        if chosen != each.document.chosen:
            each.document = replace(each.document, chosen=chosen, tokens=None)
            self.changed.emit(draft)
            self.count_again([draft])

    def add_as_pictures(self, draft: Draft, number: int, keeps_text: bool) -> None:
        """The chosen pages of a PDF, instead of their text or with it."""
        each = draft.document(number)
        if each is None or each.document is None or each.path is None:
            return
        places = each.document.places
        if len(places) > MOST_PAGE_PICTURES:
            words = tr(
                "{name} was not added as pictures: at most {most} pages are possible. Press "
                "the document to choose pages first."
            )
            said = words.format(name=each.name, most=MOST_PAGE_PICTURES)
            self.pictures.refuse(draft, Refusal(said=said))
            return
        self._idle.start()
        for place in places:
            page = tr("{name}, page {page}")
            name = page.format(name=each.name, page=format_count(place + 1))
            read = partial(self._page_picture, each.path, place, each.document.source)
            self.pictures.add_bytes(draft, read, name)
        if not keeps_text:
            # Not lost, so a message that waits for other files is sent.
            draft.documents.remove(each)
            self.changed.emit(draft)

    def seconds(self, document: Document) -> float | None:
        """None before the model has read anything."""
        return estimated_tokens(document) * self._speed if self._speed else None

    @property
    def room(self) -> int | None:
        """The context's tokens; None without a model."""
        return self._engine.model.context_length if self._engine.model is not None else None

    def count_again(self, drafts: Iterable[Draft]) -> None:
        for draft in drafts:
            for each in draft.documents:
                if each.document is not None:
                    self._tasks.spawn(self._count(draft, each), tr("Counting tokens"))

    async def settled(self, draft: Draft) -> bool:
        """Wait until all files are read; False if one was refused or removed."""
        before = draft.lost
        while not draft.complete:
            async with self._turn, self.pictures.held():
                pass
            await asyncio.sleep(GLANCE_S)
        return draft.lost == before

    def close(self) -> None:
        self._idle.stop()
        self._executor.submit(self.reader.close)
        self._executor.shutdown()

    async def _add_files(self, draft: Draft, paths: list[Path]) -> None:
        try:
            documents = await self._sorted(draft, paths)
        finally:
            draft.adding -= 1
        taken = [DraftDocument(path.name, path, progress=tr("Waiting…")) for path in documents]
        draft.documents += taken
        self.changed.emit(draft)
        for each in taken:
            self._tasks.spawn(self._take(draft, each), tr("Adding files"))

    async def _sorted(self, draft: Draft, paths: list[Path]) -> list[Path]:
        """Returns documents; adds pictures."""
        pictures: list[Path] = []
        documents: list[Path] = []
        refusals: list[Refusal] = []
        for path in paths:
            try:
                kind = await answered(partial(kind_of, path))
                if kind == "folder":
                    await self._sort_folder(path, pictures, documents, refusals)
                    continue
            except SlowFileError as error:
                refusals.append(Refusal(path.name, said=error.message))
                continue
            # Pictures refuse what is neither, with the reason.
            (documents if kind == "document" else pictures).append(path)
        if refusals:
            self.pictures.refuse(draft, *refusals)
        if pictures:
            self.pictures.add_files(draft, pictures)
        return documents

    async def _sort_folder(
        self, folder: Path, pictures: list[Path], documents: list[Path], refusals: list[Refusal]
    ) -> None:
        """Files of unknown kinds are only counted."""
        paths = await answered(partial(files_in, folder))
        if len(paths) > MOST_FILES:
            words = tr("it has more than {most} files. Add the ones you need.")
            refusals.append(Refusal(folder.name, said=words.format(most=MOST_FILES)))
            return
        kinds = await answered(lambda: [kind_of(path) for path in paths])
        pictures += [path for path, kind in zip(paths, kinds, strict=True) if kind == "picture"]
        documents += [path for path, kind in zip(paths, kinds, strict=True) if kind == "document"]
        others = kinds.count("other")
        if not paths:
            refusals.append(Refusal(folder.name, said=tr("there are no files in it.")))
        if others:
            words = tr("files in it that are neither pictures nor documents: {count}.")
            refusals.append(Refusal(folder.name, said=words.format(count=format_count(others))))

    async def _take(self, draft: Draft, each: DraftDocument) -> None:
        async with self._turn:
            if each not in draft.documents:
                return
            try:
                read = await self._read(draft, each)
            except Exception as error:
                self.remove(draft, each.number)
                self.pictures.refuse(draft, Refusal(each.name, said=reason_of(error)))
                return
        each.document, each.progress = read, ""
        self.changed.emit(draft)
        await self._count(draft, each)

    async def _read(self, draft: Draft, each: DraftDocument) -> Document:
        assert each.path is not None
        data = await answered(partial(read_document_file, each.path))
        source = await self._in_thread(partial(source_of, data, each.name))
        known = await self._database.run(attachments.extracted, source)
        if known is not None:
            return replace(known, name=each.name)
        loop = asyncio.get_running_loop()

        def show(words: str) -> None:
            each.progress = words
            self.progressed.emit(draft)

        def progress(words: str) -> bool:
            loop.call_soon_threadsafe(show, words)
            return each in draft.documents

        return await self._in_thread(partial(self.reader.text_of, data, each.name, progress))

    async def _count(self, draft: Draft, each: DraftDocument) -> None:
        """If this fails, the estimate stays."""
        model, document = self._engine.model, each.document
        if model is None or document is None:
            return
        speeds = await self._database.run(prefill_speeds)
        self._speed = speeds.get(model_name(model))
        if document.tokens is None or each.counted != model.tokenizer:
            try:
                counted = await self._engine.client.ask(
                    CountTokens(text=prompt_text(document))
                ).last()
            except WaymarkError:
                return
            if each.document is document:
                each.document = replace(document, tokens=counted.tokens)
                each.counted = model.tokenizer
        self.progressed.emit(draft)

    def _page_picture(self, path: Path, page: int, source: str) -> bytes:
        # Called in a thread that may end, and its process with it.
        return self._executor.submit(self.reader.picture_of, path, page, source).result()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        self._idle.start()
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)
