"""Labels, buttons, tool tips and message boxes that show text as it is.

Qt's own guess whether text is HTML, load files that it names, and take '&' for a shortcut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject, QPoint, QSize, Qt
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QAction,
    QContextMenuEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QLabel,
    QMenu,
    QMessageBox,
    QPlainTextEdit,
    QPushButton,
    QStyle,
    QStyleOptionComboBox,
    QToolButton,
    QToolTip,
    QWidget,
)

from desktop import theme
from desktop.i18n import tr
from desktop.widgets.plain_text import breakable, shortened, tip, unbroken

Named = TypeVar("Named", bound=QWidget)
Box = TypeVar("Box", bound=QComboBox)

# A label lays out all its text whenever its size is queried.
LONGEST_LABEL = 4_000
# A label of one line, and so the window, is never narrower than its text.
LONGEST_LINE = 80
# More than the widest window shows.
LONGEST_ELIDED = 500
# Free space of the style around the text of a box.
ROOM_PX = 4


class Label(QLabel):
    def __init__(
        self,
        words: str = "",
        parent: QWidget | None = None,
        *,
        name: str = "",
        style: str = "",
        wraps: bool = False,
        selectable: bool | None = None,
    ) -> None:
        """Sentences, which wrap, are selectable unless that is False."""
        super().__init__(parent)
        self._words = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setObjectName(name)
        if style:
            self.setProperty("class", style)
        self.setWordWrap(wraps)
        if wraps if selectable is None else selectable:
            self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setText(words)

    def setText(self, words: str) -> None:
        self._words = words
        wraps = self.wordWrap()
        shown = shortened(words, LONGEST_LABEL if wraps else LONGEST_LINE)
        super().setText(breakable(shown) if wraps else shown)

    def text(self) -> str:
        return self._words

    def say(self, words: str, style: str | None = None) -> None:
        """Show these words, or nothing for ''."""
        # Setting the same text would lay out its parent again.
        if words != self._words:
            self.setText(words)
        if style is not None:
            theme.set_class(self, style)
        self.setVisible(bool(words))

    def copy(self) -> None:
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
        menu.addAction(action(tr("Copy"), menu, self.copy))
        menu.popup(event.globalPos())


class ElidedLabel(Label):
    """The tool tip has all of it."""

    def set_words(self, words: str) -> None:
        self.setText(words)
        set_tip(self, words)

    def sizeHint(self) -> QSize:
        width = self.fontMetrics().horizontalAdvance(shortened(self.text(), LONGEST_ELIDED))
        return QSize(width + 1, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(40, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        shown = self.fontMetrics().elidedText(
            shortened(self.text(), LONGEST_ELIDED), Qt.TextElideMode.ElideRight, self.width()
        )
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        painter.drawText(self.rect(), int(self.alignment()), shown)


class Button(QPushButton):
    """Screen readers say `spoken` for the text. A click doesn't move the focus."""

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
        self.setText(unshortcut(words))


class ToolButton(QToolButton):
    def set_words(self, words: str) -> None:
        self.setText(unshortcut(words))


class ElidedBox(QComboBox):
    def initStyleOption(self, option: QStyleOptionComboBox) -> None:
        super().initStyleOption(option)
        box, words = QStyle.ComplexControl.CC_ComboBox, QStyle.SubControl.SC_ComboBoxEditField
        room = self.style().subControlRect(box, option, words, self).width() - ROOM_PX
        elided = self.fontMetrics().elidedText(
            option.currentText, Qt.TextElideMode.ElideRight, room
        )
        option.currentText = elided


def named(widget: Named, name: str, spoken: str = "") -> Named:
    """`name` is its objectName; `spoken` is for screen readers."""
    widget.setObjectName(name)
    if spoken:
        widget.setAccessibleName(spoken)
    return widget


def fit_box(box: Box, letters: int) -> Box:
    """Long entries don't widen it."""
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(letters)
    return box


def text_box(name: str, spoken: str, text: str = "", read_only: bool = True) -> QPlainTextEdit:
    box = named(QPlainTextEdit(text), name, spoken)
    box.setReadOnly(read_only)
    box.setProperty("class", "field")
    box.setTabChangesFocus(True)
    return box


def announce(widget: QWidget, words: str) -> None:
    """After what the screen reader says now."""
    QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, words))


def set_tip(widget: QWidget | QAction, words: str) -> None:
    widget.setToolTip(tip(words))


def tip_is_shown() -> bool:
    return QToolTip.isVisible()


def show_tip(place: QPoint, words: str, widget: QWidget) -> None:
    QToolTip.showText(place, tip(words), widget)


def action(words: str, parent: QObject, act: Callable[[], object], name: str = "") -> QAction:
    made = QAction(unshortcut(words), parent)
    made.setObjectName(name)
    made.triggered.connect(lambda _checked=False: act())
    return made


def message_box(title: str, words: str, parent: QWidget | None = None) -> QMessageBox:
    box = QMessageBox(parent)
    make_plain(box)
    box.setIcon(QMessageBox.Icon.Warning)
    box.setWindowTitle("Waymark")
    box.setText(shortened(title, LONGEST_LINE))
    box.setInformativeText(shortened(words, LONGEST_LABEL))
    box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return box


def make_plain(dialog: QDialog) -> None:
    if isinstance(dialog, QMessageBox):
        dialog.setTextFormat(Qt.TextFormat.PlainText)


def unshortcut(words: str) -> str:
    return shortened(words, LONGEST_LINE).replace("&", "&&")
