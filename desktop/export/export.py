"""Exports chats to files, and imports those of Waymark and other programs, from the menu."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QSize, Qt, Signal
from PySide6.QtPrintSupport import QPrintDialog, QPrinter
from PySide6.QtWidgets import QDialog, QFileDialog, QPlainTextEdit, QWidget

from core.api.archive import ArchivedChat
from core.api.errors import NotAnExportError, WaymarkError
from core.helper.chats import Lost
from core.system.private_files import write_whole
from desktop import theme
from desktop.chats.chats import ChatsController
from desktop.engine.tasks import Tasks
from desktop.export.archive import add_archive, known_pictures, read_archive
from desktop.export.printing import Printout
from desktop.export.reading import ChatsFile, FoundChat
from desktop.export.writing import WRITERS, ExportError, Writer, digests_of, in_thread
from desktop.i18n import tr
from desktop.numbers import count_of
from desktop.pictures.pictures import PictureController
from desktop.services import Services
from desktop.store.tables.records import Chat, Picture
from desktop.widgets import dialogs
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, named
from desktop.widgets.plain_text import shortened

PDF = ".pdf"
WIDTH, HEIGHT = 560, 360
LONGEST_NAME = 60
LONGEST_REPORT = 100_000


@dataclass
class ImportReport:
    """Chats imported from a file, and those refused: (title of the chat, reason)."""

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


class ExportController(QObject):
    said = Signal(str)
    # list[ImportReport]: an import has ended.
    imported = Signal(object)

    def __init__(
        self, services: Services, chats: ChatsController, pictures: PictureController
    ) -> None:
        super().__init__()
        self._database, self._blobs = services.database, services.blobs
        self._tasks = services.tasks
        self._chats, self._pictures = chats, pictures

    def export(self, chats: Sequence[int], path: Path) -> None:
        self._tasks.spawn(self.write(chats, path), tr("Exporting chats"))

    def import_files(self, paths: Sequence[Path]) -> None:
        self._tasks.spawn(self._import_all(paths), tr("Importing chats"))

    def print_chat(self, chat: int, printer: QPrinter) -> None:
        self._tasks.spawn(self._print(chat, printer), tr("Printing"))

    async def write(self, chats: Sequence[int], path: Path) -> None:
        """In the format that the suffix names. Raises ExportError, StoreError."""
        self.said.emit(tr("Exporting to {}…").format(path.name))
        write = self._write_pdf if path.suffix.lower() == PDF else self._write_file
        try:
            count, missing = await write(chats, path)
        except OSError as error:
            words = tr("{path} can't be written: {reason}.")
            reason = error.strerror or type(error).__name__
            raise ExportError(words.format(path=path, reason=reason)) from error
        words = tr("Exported to {path}: {chats}.")
        said = [words.format(path=path, chats=count_of(count, "chat"))]
        if missing:
            lost = tr("Files that were missing: {pictures}.")
            said.append(lost.format(pictures=count_of(missing, "picture")))
        self.said.emit(" ".join(said))

    async def _write_file(self, chats: Sequence[int], path: Path) -> tuple[int, int]:
        """Returns the numbers of chats written and of pictures missing."""
        kind, count = WRITERS.get(path.suffix.lower(), WRITERS[".zip"]), 0
        writer: Writer = await in_thread(partial(kind, path, self._blobs.path))
        try:
            async for chat in self._archived(chats):
                await in_thread(partial(writer.add, chat))
                count += 1
            await in_thread(writer.end)
        except BaseException:
            writer.discard()
            raise
        return count, writer.missing

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
                raise ExportError(tr("The printer did not take the pages."))
            self.said.emit(
                tr("Sent to {}.").format(printer.outputFileName() or printer.printerName())
            )

    async def _archived(self, chats: Sequence[int]) -> AsyncIterator[ArchivedChat]:
        """Those that are still there."""
        for chat in chats:
            if (found := await self._database.run(read_archive, chat)) is not None:
                yield found

    async def _import_all(self, paths: Sequence[Path]) -> None:
        reports = []
        for path in paths:
            self.said.emit(tr("Importing {}…").format(path.name))
            reports.append(await self.read(path))
            await self._chats.refresh()
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
            title = "" if isinstance(error, NotAnExportError) else f"{error.title}. "
            report.error = f"{title}{error.message}"
        return report

    async def _take(self, file: ChatsFile, found: FoundChat, report: ImportReport) -> None:
        title = found.title or tr("A chat without a title")
        if found.chat is None:
            report.left_out.append((title, tr("could not be read")))
            return
        lost = found.lost
        # No picture is deleted as unused before its chat is stored.
        async with self._pictures.held():
            chat, known = await self._stored_pictures(file, found.chat, lost)
            await self._database.run(add_archive, chat, known)
        report.chats += 1
        report.messages += len(chat.messages)
        report.pictures += len(digests_of(chat))
        report.documents += len(chat.documents)
        report.left_out += [(title, _lost_words(kind, count)) for kind, count in lost.items()]

    async def _stored_pictures(
        self, file: ChatsFile, chat: ArchivedChat, lost: Counter[Lost]
    ) -> tuple[ArchivedChat, dict[str, Picture]]:
        """Returns the chat with the pictures that could be stored, by their digests."""
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
            return tr("messages of tools, left out: {}").format(count)


async def choose_export(parent: QWidget, title: str, name: str) -> Path | None:
    """With the suffix of its format; none is replaced unasked."""
    kinds = {
        tr("Everything: ZIP ({patterns})"): ".zip",
        tr("Everything: JSON ({patterns})"): ".json",
        tr("What is shown: HTML ({patterns})"): ".html",
        tr("What is shown: Markdown ({patterns})"): ".md",
        tr("What is shown: PDF ({patterns})"): PDF,
    }
    filters = {each.format(patterns=f"*{suffix}"): suffix for each, suffix in kinds.items()}
    dialog = named(QFileDialog(parent, title), "exportDialog")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilters(list(filters))
    dialog.filterSelected.connect(lambda each: dialog.setDefaultSuffix(filters[each]))
    dialog.setDefaultSuffix(".zip")
    dialog.selectFile(f"{file_name(name)}.zip")
    if await dialogs.outcome(dialog) != QDialog.DialogCode.Accepted:
        return None
    path = Path(dialog.selectedFiles()[0])
    suffix = filters[dialog.selectedNameFilter()]
    if path.suffix.lower() == suffix:
        return path
    # The dialog replaces no suffix when another format is picked, and asked about this name only.
    stem = path.stem if path.suffix.lower() in filters.values() else path.name
    return unused(path.with_name(stem + suffix))


def unused(path: Path) -> Path:
    """The path, with a number if a file has it already."""
    number, found = 1, path
    while found.exists() or found.is_symlink():
        number += 1
        found = path.with_stem(f"{path.stem} {number}")
    return found


async def choose_imports(parent: QWidget) -> list[Path]:
    kinds = tr("Exported chats ({patterns});;All files (*)").format(patterns="*.zip *.json")
    dialog = named(QFileDialog(parent, tr("Import chats"), "", kinds), "importFilesDialog")
    dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
    dialog.setOption(QFileDialog.Option.ReadOnly)
    accepted = await dialogs.outcome(dialog) == QDialog.DialogCode.Accepted
    return [Path(name) for name in dialog.selectedFiles()] if accepted else []


def file_name(title: str) -> str:
    """A name that every system allows."""
    plain = re.sub(r"[^\w .-]+", " ", title).strip(" .")
    return " ".join(plain.split())[:LONGEST_NAME].rstrip(" .") or "chat"


class ImportDialog(QDialog):
    def __init__(self, reports: Sequence[ImportReport], parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("importDialog")
        self.setWindowTitle(tr("Imported chats"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        words = "\n\n".join(report.words() for report in reports)
        shown = named(QPlainTextEdit(shortened(words, LONGEST_REPORT)), "importWords")
        shown.setAccessibleName(tr("What was imported"))
        shown.setReadOnly(True)
        shown.setProperty("class", "field")
        shown.setTabChangesFocus(True)
        close = Button(tr("Close"), name="importClose")
        close.clicked.connect(self.close)
        column((shown, 1), row(None, close), of=self, margins=(16, 14, 16, 14), spacing=10)
        screen = self.screen().availableSize() - QSize(0, theme.px(40))
        self.resize(QSize(theme.px(WIDTH), theme.px(HEIGHT)).boundedTo(screen))


class ExportMenu(QObject):
    def __init__(
        self, export: ExportController, chats: ChatsController, tasks: Tasks, window: QWidget
    ) -> None:
        super().__init__(window)
        self._export, self._chats, self._tasks, self._window = export, chats, tasks, window
        export.imported.connect(self._show_report)

    def export_shown(self) -> None:
        place = self._chats.chat_list.place_of(self._chats.shown)
        if place is not None:
            chat = self._chats.chat_list.chats[place]
            title = tr("Export this chat")
            self._tasks.spawn(self._write([chat.id], title, chat.title), title)

    def print_shown(self) -> None:
        place = self._chats.chat_list.place_of(self._chats.shown)
        if place is not None:
            self._tasks.spawn(self._print(self._chats.chat_list.chats[place]), tr("Printing"))

    def export_all(self) -> None:
        chats = [chat.id for chat in self._chats.chat_list.chats]
        title = tr("Export all chats")
        self._tasks.spawn(self._write(chats, title, tr("Waymark chats")), title)

    def import_chats(self) -> None:
        self._tasks.spawn(self._import(), tr("Import chats"))

    async def _write(self, chats: Sequence[int], title: str, name: str) -> None:
        path = await choose_export(self._window, title, name)
        if path is not None:
            self._export.export(chats, path)

    async def _print(self, chat: Chat) -> None:
        printer = QPrinter(QPrinter.PrinterMode.HighResolution)
        printer.setDocName(chat.title)
        dialog = named(QPrintDialog(printer, self._window), "printDialog")
        if await dialogs.outcome(dialog) == QDialog.DialogCode.Accepted:
            self._export.print_chat(chat.id, printer)

    async def _import(self) -> None:
        if paths := await choose_imports(self._window):
            self._export.import_files(paths)

    def _show_report(self, reports: Sequence[ImportReport]) -> None:
        ImportDialog(reports, self._window).show()
