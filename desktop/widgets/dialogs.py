"""Dialogs that are awaited, without a second event loop: files, folders and links."""

from __future__ import annotations

import asyncio
from pathlib import Path

from PySide6.QtCore import QSize, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QTextOption
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QVBoxLayout,
    QWidget,
)

from core.api.limits import PICTURE_FORMATS
from desktop import theme
from desktop.i18n import tr
from desktop.widgets.layouts import row
from desktop.widgets.notices import GuardedButton
from desktop.widgets.plain import Button, Label, make_plain, named, text_box
from desktop.widgets.plain_text import shortened, visible
from desktop.widgets.web_address import RefusedAddressError, WebAddress, web_address

LINK_WIDTH = 460
ADDRESS_HEIGHT = 96
MOST_UNSEEN = 5
LONGEST_SHOWN = 8_000
# Longer hosts have smaller letters, so that all of it is visible.
LONGEST_TITLE = 40


class Dialog(QDialog):
    """With `once`, deleted when it is closed."""

    def __init__(self, name: str, title: str, parent: QWidget | None, once: bool = False) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, once)

    def fit(self, width: int, height: int) -> None:
        """In pixels at the usual text size; at most the screen."""
        # A part of the screen is the title's.
        screen = self.screen().availableSize() - QSize(0, theme.px(40))
        self.resize(QSize(theme.px(width), theme.px(height)).boundedTo(screen))

    def button(self, name: str, words: str, act: object, style: str = "", tip: str = "") -> Button:
        """Enter belongs to the dialog's fields, and doesn't press it."""
        made = Button(words, name=name, style=style, tip=tip)
        made.setAutoDefault(False)
        made.clicked.connect(act)
        return made


async def outcome(dialog: QDialog) -> int:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def ended(result: int) -> None:
        if not future.done():
            future.set_result(result)

    make_plain(dialog)
    dialog.finished.connect(ended)
    # A print dialog's own `open` is another one.
    QDialog.open(dialog)
    try:
        return await future
    finally:
        dialog.deleteLater()


def come_up(window: QWidget, focus: QWidget | None = None) -> None:
    window.show()
    window.raise_()
    window.activateWindow()
    if focus is not None:
        focus.setFocus()


async def choose_folder(parent: QWidget, title: str, start: str) -> str:
    dialog = named(QFileDialog(parent, title, start), "folderDialog")
    dialog.setOption(QFileDialog.Option.ShowDirsOnly)
    return next(iter(await _existing(dialog, QFileDialog.FileMode.Directory)), "")


async def choose_model_file(parent: QWidget, title: str, start: str) -> str:
    # Files of Ollama have no ending.
    kinds = tr("GGUF models ({patterns});;All files (*)").format(patterns="*.gguf")
    dialog = named(QFileDialog(parent, title, start, kinds), "modelFileDialog")
    return next(iter(await _existing(dialog, QFileDialog.FileMode.ExistingFile)), "")


async def choose_files(parent: QWidget) -> list[str]:
    patterns = " ".join(f"*{suffix}" for each in PICTURE_FORMATS for suffix in each.suffixes)
    kinds = tr("All files (*);;Pictures ({patterns})").format(patterns=patterns)
    dialog = named(QFileDialog(parent, tr("Add pictures or documents"), "", kinds), "pictureDialog")
    return await _existing(dialog, QFileDialog.FileMode.ExistingFiles)


async def choose_target(parent: QWidget, title: str, name: str) -> str:
    """Returns '' for none; the dialog confirms replacing."""
    dialog = named(QFileDialog(parent, title), "saveDialog")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.selectFile(name)
    return next(iter(await chosen(dialog)), "")


async def _existing(dialog: QFileDialog, mode: QFileDialog.FileMode) -> list[str]:
    dialog.setFileMode(mode)
    dialog.setOption(QFileDialog.Option.ReadOnly)
    return await chosen(dialog)


async def chosen(dialog: QFileDialog) -> list[str]:
    accepted = await outcome(dialog) == QDialog.DialogCode.Accepted
    return dialog.selectedFiles() if accepted else []


async def open_link(parent: QWidget, address: str) -> None:
    """Ask before opening a link that the model wrote."""
    try:
        found = web_address(address)
    except RefusedAddressError as refusal:
        await outcome(LinkDialog.refused(address, str(refusal), parent))
        return
    if await outcome(LinkDialog.asking(found, parent)) == QDialog.DialogCode.Accepted:
        QDesktopServices.openUrl(QUrl(found.opened, QUrl.ParsingMode.StrictMode))


def open_folder(folder: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


class LinkDialog(Dialog):
    def __init__(self, question: str, address: str, parent: QWidget | None = None) -> None:
        super().__init__("linkDialog", tr("Link"), parent)
        self._column = QVBoxLayout(self)
        self._column.setSpacing(8)
        self._column.addWidget(Label(question, style="muted", wraps=True))
        shown, spoken = shortened(address, LONGEST_SHOWN), tr("The whole address")
        self._address = text_box("linkAddress", spoken, shown)
        self._address.setFixedHeight(theme.px(ADDRESS_HEIGHT))
        self._address.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)

    @classmethod
    def asking(cls, address: WebAddress, parent: QWidget | None = None) -> LinkDialog:
        question = tr("The model wrote this address. It leads to:")
        dialog = cls(question, address.opened, parent)
        dialog._add_host(address)
        dialog._finish(("linkCancel", tr("Cancel")), ("linkOpen", tr("Open in the browser")))
        return dialog

    @classmethod
    def refused(cls, address: str, reason: str, parent: QWidget | None = None) -> LinkDialog:
        said = tr("The model wrote this address, which can't be opened.")
        dialog = cls(said, visible(address), parent)
        dialog._warn("linkRefusal", reason)
        dialog._finish(("linkCancel", tr("Close")))
        return dialog

    def _add_host(self, address: WebAddress) -> None:
        style = "title" if len(address.host) <= LONGEST_TITLE else "heading"
        self._column.addWidget(
            Label(address.host, name="linkHost", style=style, wraps=True, selectable=True)
        )
        if address.letters:
            said = tr(
                "In letters: {host}. Letters of other alphabets can make one name look like "
                "another."
            )
            self._warn("linkLetters", said.format(host=address.letters))
        if address.unseen:
            said = tr(
                "Shown in letters, it would contain characters that are invisible or reverse the "
                "text: {characters}."
            )
            characters = " ".join(address.unseen[:MOST_UNSEEN])
            self._warn("linkUnseen", said.format(characters=characters))

    def _warn(self, name: str, said: str) -> None:
        self._column.addWidget(Label(said, name=name, style="warning", wraps=True))

    def _finish(self, leave: tuple[str, str], accept: tuple[str, str] | None = None) -> None:
        self._column.addWidget(self._address)
        buttons = [self._button(*leave, self.reject)]
        if accept is not None:
            buttons.append(self._button(*accept, self.accept))
        self._column.addLayout(row(None, *buttons))
        # A layout assumes one line for wrapped labels, unless it is asked.
        width = theme.px(LINK_WIDTH)
        self.resize(width, self._column.totalHeightForWidth(width))

    def _button(self, name: str, said: str, act: object) -> Button:
        # A double click on the link must not press a button that appears under the pointer.
        kind = Button if name == "linkCancel" else GuardedButton
        button = kind(said, name=name)
        # Enter cancels; opening takes a press on its button.
        button.setDefault(name == "linkCancel")
        button.setAutoDefault(name == "linkCancel")
        button.clicked.connect(act)
        return button
