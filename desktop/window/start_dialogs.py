"""What is said at the start: why there is no window, and what happened to files meanwhile."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from core.api.errors import WaymarkError
from desktop.widgets import dialogs
from desktop.widgets.plain import message_box
from desktop.words import frame as words


class Choice(enum.Enum):
    """What the user wants where Waymark could not start."""

    CLOSE = enum.auto()
    AGAIN = enum.auto()
    ANEW = enum.auto()


async def choose(error: WaymarkError, folder: Path | None, anew: bool) -> Choice:
    """Say why there is no window; `anew` offers to begin with empty chats beside the old file."""
    while True:
        box = message_box(error.title, error.message + (f"\n\n{words.ANEW_WORDS}" if anew else ""))
        box.setObjectName("refusal")
        box.setStandardButtons(QMessageBox.StandardButton.Close | QMessageBox.StandardButton.Retry)
        anew_button = open_button = None
        if anew:
            anew_button = box.addButton(words.ANEW, QMessageBox.ButtonRole.ActionRole)
        if folder is not None:
            open_button = box.addButton(words.OPEN_FOLDER, QMessageBox.ButtonRole.ActionRole)
        box.setEscapeButton(QMessageBox.StandardButton.Close)
        await dialogs.outcome(box)
        clicked = box.clickedButton()
        if folder is not None and clicked is open_button:
            dialogs.open_folder(folder)
        elif anew_button is not None and clicked is anew_button:
            return Choice.ANEW
        else:
            retry = clicked is box.button(QMessageBox.StandardButton.Retry)
            return Choice.AGAIN if retry else Choice.CLOSE


def tell(window: QWidget, notices: Sequence[str], folder: Path) -> QMessageBox:
    """Say beside the window what happened at the start; it stays until it is closed."""
    box = message_box(words.STARTED_WITH_TROUBLE, "\n\n".join(notices), window)
    box.setObjectName("startNotice")
    box.setStandardButtons(QMessageBox.StandardButton.Close)
    opens = box.addButton(words.OPEN_FOLDER, QMessageBox.ButtonRole.ActionRole)
    opens.clicked.connect(lambda: dialogs.open_folder(folder))
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setWindowModality(Qt.WindowModality.NonModal)
    box.show()
    return box
