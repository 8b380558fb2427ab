"""The two pages of the menu Help: what runs here, and which keys do what. Neither is modal."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QDialog, QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from desktop.widgets.plain import Button, Label
from desktop.widgets.scrolled import scrolled
from desktop.window.diagnostics import Diagnostics
from desktop.words import frame as words

WIDTH, HEIGHT = 460, 520


class _Page(QDialog):
    """A title and pairs of words below it, which scroll; deleted when it is closed."""

    def __init__(self, title: str, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        content = QWidget()
        self.inside = QVBoxLayout(content)
        self.inside.setContentsMargins(0, 0, 8, 0)
        self.buttons = QHBoxLayout()
        self.buttons.addStretch(1)
        close = Button(words.CLOSE, name="helpClose", spoken=words.CLOSE)
        close.clicked.connect(self.close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 16)
        layout.setSpacing(12)
        layout.addWidget(Label(title, style="title"))
        layout.addWidget(scrolled(content, f"{name}Scroll"), 1)
        layout.addLayout(self.buttons)
        self.buttons.addWidget(close)
        self.resize(WIDTH, HEIGHT)

    def add_pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Names on the left, what they stand for on the right."""
        grid = QGridLayout()
        grid.setHorizontalSpacing(18)
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(1, 1)
        top = Qt.AlignmentFlag.AlignTop
        for line, (name, value) in enumerate(pairs):
            grid.addWidget(Label(name, style="label"), line, 0, top)
            grid.addWidget(Label(value, wraps=True, selectable=True), line, 1, top)
        self.inside.addLayout(grid)


class ShortcutsDialog(_Page):
    """Every key: those of the menus as they are, and the others."""

    def __init__(self, actions: Sequence[QAction], parent: QWidget) -> None:
        super().__init__(words.SHORTCUTS, "shortcutsDialog", parent)
        native = QKeySequence.SequenceFormat.NativeText
        of_menus = [
            (each.shortcut().toString(native), each.text().replace("&", ""))
            for each in actions
            if not each.shortcut().isEmpty()
        ]
        self.add_pairs([*words.OTHER_KEYS, *of_menus])
        self.inside.addStretch(1)


class AboutDialog(_Page):
    """Versions, processor, kernels and licences, and a button that copies all but the licences."""

    def __init__(self, told: Diagnostics, parent: QWidget) -> None:
        super().__init__(words.ABOUT, "aboutDialog", parent)
        self._told = told
        self.inside.addWidget(Label(words.ABOUT_WORDS, wraps=True))
        self.add_pairs(told.facts)
        self.inside.addWidget(Label(words.LICENCES, style="heading"))
        self.add_pairs(told.licences)
        self.inside.addStretch(1)
        self._copy = Button(
            words.COPY_DIAGNOSTICS, name="copyDiagnostics", spoken=words.COPY_DIAGNOSTICS
        )
        self._copy.clicked.connect(self._on_copy)
        self.buttons.insertWidget(1, self._copy)

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(self._told.text())
        self._copy.set_words(words.COPIED)
