"""Dialogs that are waited for without a second event loop: opened, and a future on their end."""

from __future__ import annotations

import asyncio

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QFileDialog, QMessageBox, QWidget

PICTURES = "Pictures (*.png *.jpg *.jpeg *.webp *.gif *.bmp *.tif *.tiff);;All files (*)"


async def outcome(dialog: QDialog) -> int:
    """Open a dialog and wait for its result; it deletes itself."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def ended(result: int) -> None:
        if not future.done():
            future.set_result(result)

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
    accepted = await outcome(dialog) == QDialog.DialogCode.Accepted
    return dialog.selectedFiles()[0] if accepted and dialog.selectedFiles() else ""


async def choose_pictures(parent: QWidget) -> list[str]:
    """Picture files the user picks."""
    dialog = QFileDialog(parent, "Add pictures", "", PICTURES)
    dialog.setObjectName("pictureDialog")
    dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
    accepted = await outcome(dialog) == QDialog.DialogCode.Accepted
    return dialog.selectedFiles() if accepted else []


async def open_link(parent: QWidget, address: str) -> None:
    """Ask before a link that the model wrote is opened, showing all of it; web addresses only."""
    url = QUrl(address)
    box = QMessageBox(parent)
    box.setObjectName("linkDialog")
    box.setWindowTitle("Open this link?")
    box.setTextFormat(box.textFormat().PlainText)
    if url.scheme() not in ("http", "https") or not url.host():
        box.setText("Waymark opens web addresses only. The model wrote this:")
        box.setInformativeText(address[:2000])
        box.setStandardButtons(QMessageBox.StandardButton.Close)
        await outcome(box)
        return
    box.setText("The model wrote this address. Open it in your browser?")
    box.setInformativeText(url.toString()[:2000])
    box.setStandardButtons(QMessageBox.StandardButton.Open | QMessageBox.StandardButton.Cancel)
    if await outcome(box) == QMessageBox.StandardButton.Open:
        QDesktopServices.openUrl(url)
