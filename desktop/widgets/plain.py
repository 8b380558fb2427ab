"""Labels, buttons, tool tips and message boxes that show words as they are.

Qt's own guess whether they were given HTML, load what HTML names, and take '&' for a shortcut.
Every view makes them here; `tests/desktop/test_plain_only.py` sees to it.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtGui import (
    QAction,
    QContextMenuEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
)
from PySide6.QtWidgets import (
    QDialog,
    QLabel,
    QMenu,
    QMessageBox,
    QPushButton,
    QToolButton,
    QToolTip,
    QWidget,
)

from desktop.widgets.plain_text import breakable, shortened, tip, unbroken

# A label lays out all of its words whenever its size is asked for.
LONGEST_LABEL = 4_000
# A label of one line is never narrower than its words, nor then is the window.
LONGEST_LINE = 80


class Label(QLabel):
    """Shows words; `style` is a class of the style sheet."""

    def __init__(
        self,
        words: str = "",
        parent: QWidget | None = None,
        *,
        name: str = "",
        style: str = "",
        wraps: bool = False,
        selectable: bool = False,
    ) -> None:
        super().__init__(parent)
        self._words = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setObjectName(name)
        if style:
            self.setProperty("class", style)
        self.setWordWrap(wraps)
        if selectable:
            self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setText(words)

    def setText(self, words: str) -> None:
        self._words = words
        wraps = self.wordWrap()
        shown = shortened(words, LONGEST_LABEL if wraps else LONGEST_LINE)
        super().setText(breakable(shown) if wraps else shown)

    def text(self) -> str:
        return self._words

    def copy(self) -> None:
        """Put what is selected on the clipboard, without the places at which lines may end."""
        if self.hasSelectedText():
            QGuiApplication.clipboard().setText(unbroken(self.selectedText()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy) and self.hasSelectedText():
            self.copy()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if not self.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByMouse:
            super().contextMenuEvent(event)
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(action("Copy", menu, self.copy))
        menu.popup(event.globalPos())


class Button(QPushButton):
    """A button with words; `spoken` is what a screen reader says in their place.

    Tab reaches it, and a click leaves the keyboard where the user was typing.
    """

    def __init__(
        self,
        words: str = "",
        parent: QWidget | None = None,
        *,
        name: str = "",
        style: str = "",
        spoken: str = "",
        tip: str = "",
    ) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        if style:
            self.setProperty("class", style)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(spoken)
        set_tip(self, tip)
        self.set_words(words)

    def set_words(self, words: str) -> None:
        """Say something else on the button."""
        self.setText(unshortcut(words))


class ToolButton(QToolButton):
    """A tool button, in most places with an icon and no words."""

    def set_words(self, words: str) -> None:
        """Say something else on the button."""
        self.setText(unshortcut(words))


def set_tip(widget: QWidget, words: str) -> None:
    """Say something where the pointer rests on a widget."""
    widget.setToolTip(tip(words))


def show_tip(place: QPoint, words: str, widget: QWidget) -> None:
    """Say something over a widget at once, at a place on the screen."""
    QToolTip.showText(place, tip(words), widget)


def action(words: str, parent: QObject, act: Callable[[], object]) -> QAction:
    """An entry of a menu."""
    made = QAction(unshortcut(words), parent)
    made.triggered.connect(lambda _checked=False: act())
    return made


def message_box(title: str, words: str, parent: QWidget | None = None) -> QMessageBox:
    """A warning of Waymark's: a short line, and what there is to say of it."""
    box = QMessageBox(parent)
    make_plain(box)
    box.setIcon(QMessageBox.Icon.Warning)
    box.setWindowTitle("Waymark")
    box.setText(shortened(title, LONGEST_LINE))
    box.setInformativeText(shortened(words, LONGEST_LABEL))
    return box


def make_plain(dialog: QDialog) -> None:
    """Have one of Qt's own dialogs show the words it was given as they are."""
    if isinstance(dialog, QMessageBox):
        dialog.setTextFormat(Qt.TextFormat.PlainText)


def unshortcut(words: str) -> str:
    """Words for a button or a menu, in which a single '&' would underline what follows."""
    return shortened(words, LONGEST_LINE).replace("&", "&&")
