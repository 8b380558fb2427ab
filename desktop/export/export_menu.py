"""Dialogs of exports, imports, backups and printing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtPrintSupport import QPrintDialog, QPrinter
from PySide6.QtWidgets import QDialog, QFileDialog, QWidget

from desktop.chats.chats import ChatsController
from desktop.engine.tasks import Tasks
from desktop.export.backup import BackupController
from desktop.export.export import PDF, ExportController, ImportReport
from desktop.i18n import tr
from desktop.store.tables.records import Chat
from desktop.widgets import dialogs
from desktop.widgets.dialogs import Dialog
from desktop.widgets.layouts import column, row
from desktop.widgets.plain import Button, named, text_box
from desktop.widgets.plain_text import shortened

WIDTH, HEIGHT = 560, 360
LONGEST_NAME = 60
LONGEST_REPORT = 100_000


class ExportMenu(QObject):
    def __init__(
        self,
        export: ExportController,
        backup: BackupController,
        chats: ChatsController,
        tasks: Tasks,
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._export, self._backup, self._chats = export, backup, chats
        self._tasks, self._window = tasks, window
        export.imported.connect(self._show_report)

    def export_shown(self) -> None:
        chat = self._chats.chat_list.chat_of(self._chats.shown)
        if chat is not None:
            title = tr("Export this chat")
            self._tasks.spawn(self._write([chat.id], title, chat.title), title)

    def print_shown(self) -> None:
        chat = self._chats.chat_list.chat_of(self._chats.shown)
        if chat is not None:
            self._tasks.spawn(self._print(chat), tr("Printing"))

    def export_all(self) -> None:
        chats = [chat.id for chat in self._chats.chat_list.chats]
        title = tr("Export all chats")
        self._tasks.spawn(self._write(chats, title, tr("Waymark chats")), title)

    def import_chats(self) -> None:
        self._tasks.spawn(self._import(), tr("Import chats"))

    def back_up(self) -> None:
        self._tasks.spawn(self._back_up(), tr("Back up everything"))

    def restore(self) -> None:
        self._tasks.spawn(self._restore(), tr("Restore a backup"))

    async def _back_up(self) -> None:
        if path := await choose_backup(self._window):
            self._backup.back_up(path)

    async def _restore(self) -> None:
        if path := await choose_restored(self._window):
            self._backup.restore(path)

    async def _write(self, chats: Sequence[int], title: str, name: str) -> None:
        path = await choose_export(self._window, title, name)
        if path is not None:
            self._export.export(chats, path)

    async def _print(self, chat: Chat) -> None:
        printer = QPrinter(QPrinter.PrinterMode.HighResolution)
        # Qt proposes it as the name of a file, with any slash.
        printer.setDocName(file_name(chat.title))
        dialog = named(QPrintDialog(printer, self._window), "printDialog")
        if await dialogs.outcome(dialog) == QDialog.DialogCode.Accepted:
            self._export.print_chat(chat.id, printer)

    async def _import(self) -> None:
        if paths := await choose_imports(self._window):
            self._export.import_files(paths)

    def _show_report(self, reports: Sequence[ImportReport]) -> None:
        ImportDialog(reports, self._window).show()


async def choose_export(parent: QWidget, title: str, name: str) -> Path | None:
    """The path has its format's suffix; no file is replaced unasked."""
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
    if not (chosen := await dialogs.chosen(dialog)):
        return None
    path = Path(chosen[0])
    suffix = filters[dialog.selectedNameFilter()]
    if path.suffix.lower() == suffix:
        return path
    # The dialog replaces no suffix when another format is picked, and asked about this name only.
    stem = path.stem if path.suffix.lower() in filters.values() else path.name
    return unused(path.with_name(stem + suffix))


def unused(path: Path) -> Path:
    number, found = 1, path
    while found.exists() or found.is_symlink():
        number += 1
        found = path.with_stem(f"{path.stem} {number}")
    return found


async def choose_backup(parent: QWidget) -> Path | None:
    dialog = named(QFileDialog(parent, tr("Back up everything")), "backupDialog")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilter(tr("Backups ({patterns})").format(patterns="*.zip"))
    dialog.setDefaultSuffix(".zip")
    dialog.selectFile(f"{tr('Waymark backup')} {datetime.now():%Y-%m-%d}.zip")
    return next(map(Path, await dialogs.chosen(dialog)), None)


async def choose_restored(parent: QWidget) -> Path | None:
    kinds = tr("Backups ({patterns})").format(patterns="*.zip")
    dialog = named(QFileDialog(parent, tr("Restore a backup"), "", kinds), "restoreDialog")
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.setOption(QFileDialog.Option.ReadOnly)
    return next(map(Path, await dialogs.chosen(dialog)), None)


async def choose_imports(parent: QWidget) -> list[Path]:
    kinds = tr("Exported chats ({patterns});;All files (*)").format(patterns="*.zip *.json")
    dialog = named(QFileDialog(parent, tr("Import chats"), "", kinds), "importFilesDialog")
    dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
    dialog.setOption(QFileDialog.Option.ReadOnly)
    return list(map(Path, await dialogs.chosen(dialog)))


def file_name(title: str) -> str:
    """A name that every system allows."""
    plain = re.sub(r"[^\w .-]+", " ", title).strip(" .")
    return " ".join(plain.split())[:LONGEST_NAME].rstrip(" .") or "chat"


class ImportDialog(Dialog):
    def __init__(self, reports: Sequence[ImportReport], parent: QWidget) -> None:
        super().__init__("importDialog", tr("Imported chats"), parent, once=True)
        words = "\n\n".join(report.words() for report in reports)
        report = shortened(words, LONGEST_REPORT)
        shown = text_box("importWords", tr("What was imported"), report)
        close = Button(tr("Close"), name="importClose")
        close.clicked.connect(self.close)
        column((shown, 1), row(None, close), of=self, margins=(16, 14, 16, 14), spacing=10)
        self.fit(WIDTH, HEIGHT)
