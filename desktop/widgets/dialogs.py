"""Dialogs that are waited for without a second event loop: opened, and a future on their end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QFileDialog, QWidget

from desktop.widgets.link_dialog import LinkDialog
from desktop.widgets.plain import make_plain
from desktop.widgets.web_address import RefusedAddressError, web_address
from desktop.words import frame as words

KINDS = "*.png *.jpg *.jpeg *.webp *.gif *.bmp *.tif *.tiff"


async def outcome(dialog: QDialog) -> int:
    """Open a dialog and wait for its result; it deletes itself."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def ended(result: int) -> None:
        if not future.done():
            future.set_result(result)

    make_plain(dialog)
    dialog.finished.connect(ended)
    dialog.open()
    try:
        return await future
    finally:
        dialog.deleteLater()


async def choose_folder(parent: QWidget, title: str, start: str) -> str:
    """A folder the user picks, or ''."""
    dialog = QFileDialog(parent, title, start)
    dialog.setObjectName("folderDialog")
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.setOption(QFileDialog.Option.ShowDirsOnly)
    dialog.setOption(QFileDialog.Option.ReadOnly)
    accepted = await outcome(dialog) == QDialog.DialogCode.Accepted
    return dialog.selectedFiles()[0] if accepted and dialog.selectedFiles() else ""


async def choose_pictures(parent: QWidget) -> list[str]:
    """Picture files the user picks."""
    dialog = QFileDialog(parent, words.ADD_PICTURES, "", words.picture_kinds(KINDS))
    dialog.setObjectName("pictureDialog")
    dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
    dialog.setOption(QFileDialog.Option.ReadOnly)
    accepted = await outcome(dialog) == QDialog.DialogCode.Accepted
    return dialog.selectedFiles() if accepted else []


async def choose_target(parent: QWidget, title: str, name: str) -> str:
    """A file to write to, or ''; the dialog asks before one that exists is replaced."""
    dialog = QFileDialog(parent, title)
    dialog.setObjectName("saveDialog")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.selectFile(name)
    accepted = await outcome(dialog) == QDialog.DialogCode.Accepted
    return dialog.selectedFiles()[0] if accepted and dialog.selectedFiles() else ""


async def open_link(parent: QWidget, address: str) -> None:
    """Ask before a link that the model wrote is opened, showing where it leads, or why it isn't."""
    try:
        found = web_address(address)
    except RefusedAddressError as refusal:
        await outcome(LinkDialog.refused(address, str(refusal), parent))
        return
    if await outcome(LinkDialog.asking(found, parent)) == QDialog.DialogCode.Accepted:
        QDesktopServices.openUrl(QUrl(found.opened, QUrl.ParsingMode.StrictMode))


def open_folder(folder: Path) -> None:
    """Show a folder in the system's own window for files."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
