"""Exports chats, and imports those of Waymark and others."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from PySide6.QtCore import Signal
from PySide6.QtPrintSupport import QPrinter

from core.api.archive import ArchivedChat
from core.api.errors import NotAnExportError, WaymarkError
from core.helper.chats import Lost
from core.system.private_files import write_whole
from desktop.chats.chats import ChatsController
from desktop.engine.error_words import error_text, in_language
from desktop.export.archive import add_archive, known_pictures, read_archive
from desktop.export.printing import Printout, rendered
from desktop.export.reading import ChatsFile, FoundChat
from desktop.export.writing import (
    WRITERS,
    ExportError,
    HtmlWriter,
    Writer,
    digests_of,
    in_thread,
    shown_by_browsers,
)
from desktop.i18n import tr
from desktop.numbers import count_of
from desktop.pictures.given_data import png_bytes
from desktop.pictures.pictures import PictureController
from desktop.services import Controller, Services
from desktop.store.database import Database
from desktop.store.tables.records import Picture

PDF = ".pdf"
# The longer edge of a picture drawn for HTML.
LONGEST_DRAWN = 2_048
# Makes a writer of a file, with a function that finds pictures by their digests.
Kind: TypeAlias = Callable[[Path, Callable[[str], Path]], Writer]


@dataclass
class ImportReport:
    """`left_out`: titles and reasons."""

    file: str
    program: str = ""
    chats: int = 0
    messages: int = 0
    pictures: int = 0
    documents: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)
    error: str = ""

    def words(self) -> str:
        counts = (
            count_of(self.chats, "chat"),
            count_of(self.messages, "message"),
            count_of(self.pictures, "picture"),
            *([count_of(self.documents, "document")] if self.documents else ()),
        )
        came = tr("{file}: {counts} from {program}.").format(
            file=self.file, counts=", ".join(counts), program=self.program or tr("no program")
        )
        lines = [came] if self.chats or not self.error else []
        if self.error:
            lines.append(tr("{file}: {error}").format(file=self.file, error=self.error))
        lines += [f"  {title}: {why}" for title, why in self.left_out]
        return "\n".join(lines)


class ExportController(Controller):
    said = Signal(str)
    # list[ImportReport]: an import has ended.
    imported = Signal(object)

    def __init__(
        self, services: Services, chats: ChatsController, pictures: PictureController
    ) -> None:
        super().__init__(services)
        self._chats, self._pictures = chats, pictures

    def export(self, chats: Sequence[int], path: Path) -> None:
        self._tasks.spawn(self.write(chats, path), tr("Exporting chats"))

    def import_files(self, paths: Sequence[Path]) -> None:
        self._tasks.spawn(self._import_all(paths), tr("Importing chats"))

    def print_chat(self, chat: int, printer: QPrinter) -> None:
        self._tasks.spawn(self._print(chat, printer), tr("Printing"))

    async def write(self, chats: Sequence[int], path: Path, kind: Kind | None = None) -> None:
        """In the format of the suffix, or of `kind`. Raises ExportError, StoreError."""
        self.said.emit(tr("Exporting to {}…").format(path.name))
        kind = kind or WRITERS.get(path.suffix.lower(), WRITERS[".zip"])
        write = self._write_pdf if path.suffix.lower() == PDF else partial(self._write_file, kind)
        try:
            count, missing = await write(chats, path)
        except OSError as error:
            words = tr("{path} can't be written: {reason}.")
            reason = error.strerror or type(error).__name__
            raise ExportError(words.format(path=path, reason=reason)) from error
        words = tr("Exported to {path}: {chats}.")
        said = [words.format(path=path, chats=count_of(count, "chat"))]
        if missing:
            lost = tr("Missing files: {pictures}.")
            said.append(lost.format(pictures=count_of(missing, "picture")))
        self.said.emit(" ".join(said))

    async def _write_file(self, kind: Kind, chats: Sequence[int], path: Path) -> tuple[int, int]:
        """Returns the numbers of chats written and pictures missing."""
        writer, count = await in_thread(partial(kind, path, self._blobs.path)), 0
        try:
            async for chat in self._archived(chats):
                if isinstance(writer, HtmlWriter):
                    await self._add_drawn(writer, chat)
                else:
                    await in_thread(partial(writer.add, chat), writer)
                count += 1
            await in_thread(writer.end, writer)
        except BaseException:
            writer.discard()
            raise
        return count, writer.missing

    async def _add_drawn(self, writer: HtmlWriter, chat: ArchivedChat) -> None:
        """Draw pictures that not all browsers show, one at a time."""
        writing = writer.writing(chat)
        while (picture := await in_thread(partial(next, writing, None), writer)) is not None:
            path = self._blobs.path(picture.digest)
            if not await in_thread(partial(shown_by_browsers, path)):
                image = await rendered(self._pictures, picture, LONGEST_DRAWN)
                if not image.isNull():
                    writer.drawn = await in_thread(partial(png_bytes, image))

    async def _write_pdf(self, chats: Sequence[int], path: Path) -> tuple[int, int]:
        printout, count = Printout(self._pictures), 0
        async for chat in self._archived(chats):
            await printout.add(chat)
            count += 1
        data = await in_thread(partial(printout.pdf, path.stem))
        await in_thread(partial(write_whole, path, data))
        return count, printout.missing

    async def _print(self, chat: int, printer: QPrinter) -> None:
        printout = Printout(self._pictures)
        async for each in self._archived([chat]):
            await printout.add(each)
            await in_thread(partial(printout.paint, printer))
            if printer.printerState() in (
                QPrinter.PrinterState.Error,
                QPrinter.PrinterState.Aborted,
            ):
                raise ExportError(tr("The printer did not accept the pages."))
            file = printer.outputFileName()
            words = tr("Printed to {}.") if file else tr("Sent to {}.")
            self.said.emit(words.format(file or printer.printerName()))

    async def _archived(self, chats: Sequence[int]) -> AsyncIterator[ArchivedChat]:
        """Skips chats that no longer exist."""
        for chat in chats:
            if (found := await self._database.run(read_archive, chat)) is not None:
                yield found

    async def _import_all(self, paths: Sequence[Path]) -> None:
        reports = []
        for path in paths:
            self.said.emit(tr("Importing {}…").format(path.name))
            reports.append(await self.read(path))
            await self._chats.refresh()
        chats = count_of(sum(report.chats for report in reports), "chat")
        self.said.emit(tr("Imported: {chats}.").format(chats=chats))
        self.imported.emit(reports)

    async def read(self, path: Path) -> ImportReport:
        """Chats that came before an error stay."""
        report = ImportReport(path.name)
        try:
            file = await in_thread(partial(ChatsFile, path))
            try:
                found = file.chats()
                while (each := await in_thread(lambda: next(found, None))) is not None:
                    report.program = file.program
                    await self._take(file, each, report)
            finally:
                file.close()
        except OSError as error:
            report.error = f"{error.strerror or type(error).__name__}."
        except WaymarkError as error:
            alone = isinstance(error, NotAnExportError)
            report.error = in_language(error.message) if alone else error_text(error)
        return report

    async def _take(self, file: ChatsFile, found: FoundChat, report: ImportReport) -> None:
        title = found.title or tr("A chat without a title")
        if found.chat is None:
            report.left_out.append((title, tr("could not be read")))
            return
        pictures = await self.store(file, found.chat, found.lost, self._database)
        report.chats += 1
        report.messages += len(found.chat.messages)
        report.pictures += len(pictures)
        report.documents += len(found.chat.documents)
        lost = found.lost.items()
        report.left_out += [(title, _lost_words(kind, count)) for kind, count in lost]

    async def store(
        self, file: ChatsFile, chat: ArchivedChat, lost: Counter[Lost], database: Database
    ) -> list[str]:
        """Returns the digests of the chat's pictures; counts unreadable ones in `lost`. Raises
        StoreError, OSError."""
        # No picture is deleted as unused before its chat is stored.
        async with self._pictures.held():
            chat, known = await self._stored_pictures(file, chat, lost)
            await database.run(add_archive, chat, known)
        return digests_of(chat)

    async def _stored_pictures(
        self, file: ChatsFile, chat: ArchivedChat, lost: Counter[Lost]
    ) -> tuple[ArchivedChat, dict[str, Picture]]:
        """The chat with the pictures that could be stored."""
        known = await self._database.run(known_pictures, set(digests_of(chat)))
        known = {
            digest: each for digest, each in known.items() if self._blobs.path(digest).exists()
        }
        messages = []
        for message in chat.messages:
            pictures = []
            for picture in message.pictures:
                digest = picture.digest
                if digest not in known:
                    data = await in_thread(partial(file.picture, picture))
                    taken = await self._pictures.take_in(data, picture.name) if data else None
                    if taken is None:
                        lost["pictures"] += 1
                        continue
                    digest = taken.digest
                    known[digest] = taken
                pictures.append(picture.model_copy(update={"digest": digest, "file": ""}))
            messages.append(message.model_copy(update={"pictures": tuple(pictures)}))
        return chat.model_copy(update={"messages": tuple(messages)}), known


def _lost_words(kind: Lost, count: int) -> str:
    match kind:
        case "pictures":
            return tr("pictures that are not in the file or can't be read: {}").format(count)
        case "files":
            return tr("attached files, left out: {}").format(count)
        case _:
            return tr("tool messages, left out: {}").format(count)
