"""A bar between conversation and composer that says one thing and offers ways on; never modal."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QVBoxLayout

from desktop import theme
from desktop.widgets.plain import Button, Label


class NoticeBar(QFrame):
    """Words over a row of buttons. Its parts are named after it: `limitBar`, `limitWords`."""

    def __init__(self, name: str, spoken: str) -> None:
        super().__init__()
        self.setObjectName(f"{name}Bar")
        self.setAccessibleName(spoken)
        self.setProperty("class", "notice")
        self._words = Label(name=f"{name}Words", wraps=True)
        self._buttons = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._buttons.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(14, 10, 10, 10)
        layout.setSpacing(8)
        layout.addWidget(self._words)
        layout.addLayout(self._buttons)
        self.hide()

    def add_button(
        self, name: str, words: str, act: Callable[[], object], style: str = ""
    ) -> Button:
        """One more way on; `style` is a class of the style sheet."""
        button = Button(words, name=name, style=style, spoken=words)
        button.clicked.connect(lambda _checked: act())
        self._buttons.addWidget(button)
        return button

    def say(self, words: str, kind: str = "info") -> None:
        """Show `words`; '' takes the bar away. `kind` is info, warning or danger."""
        self._words.setText(words)
        self.setAccessibleDescription(words)
        if self.property("kind") != kind:
            self.setProperty("kind", kind)
            theme.restyle(self)
        self.setVisible(bool(words))
        self._fit()

    def _fit(self) -> None:
        """All words are seen, and buttons that find no room side by side stand in a column."""
        margins = self.contentsMargins().left() + self.contentsMargins().right()
        layout = self.layout()
        assert layout is not None
        inner = layout.contentsMargins()
        room = self.width() - margins - inner.left() - inner.right()
        self._words.setMinimumHeight(max(0, self._words.heightForWidth(room)))
        shown = [each for each in self.findChildren(Button) if not each.isHidden()]
        wanted = sum(each.sizeHint().width() + self._buttons.spacing() for each in shown)
        kinds = QBoxLayout.Direction
        self._buttons.setDirection(kinds.TopToBottom if wanted > room else kinds.LeftToRight)

    def minimumSizeHint(self) -> QSize:
        # Never wider than the widest button: a narrow window has them in a column.
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
