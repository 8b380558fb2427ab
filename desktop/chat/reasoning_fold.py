"""A reply's reasoning, folded away until it is asked for.

Knows how to keep words that nobody looks at without drawing them. Leaves when the model thinks to
whoever sets `set_running`.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from desktop import theme
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.widgets.plain import Button, set_tip
from desktop.words.conversation import THINKING, THOUGHT


class ReasoningFold(QWidget):
    """A button 'Thinking…' or 'Thought' over the reasoning, which it shows and hides."""

    link_activated = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pieces: list[str] = []
        self._running = False
        self._body: MarkdownBody | None = None
        self._button = Button(parent=self, name="reasoningToggle", style="flat")
        self._button.setCheckable(True)
        self._button.toggled.connect(self._on_toggled)
        self._frame = QFrame(self)
        self._frame.setObjectName("reasoningBody")
        self._frame.hide()
        self._lay_out()
        self._label()
        theme.signals().changed.connect(self._label)

    def append(self, text: str) -> None:
        """More reasoning; drawn only while it is open."""
        self._pieces.append(text)
        if self._body is not None:
            self._body.append(text)

    def set_text(self, text: str) -> None:
        """Show a complete reasoning in place of what is there."""
        self._pieces = [text]
        if self._body is not None:
            self._body.set_text(text)

    def set_running(self, running: bool) -> None:
        """Whether the model is still thinking."""
        if self._running and not running and self._body is not None:
            self._body.finish()
        self._running = running
        self._label()

    def text(self) -> str:
        """Exactly the reasoning that came in."""
        return "".join(self._pieces)

    def shed(self, count: int) -> bool:
        """Give up so many widgets of what is not shown again; says whether any are left."""
        return self._body is not None and self._body.shed(count)

    def is_open(self) -> bool:
        """Whether the reasoning is shown."""
        return self._button.isChecked()

    def set_open(self, is_open: bool) -> None:
        """Show or hide the reasoning."""
        self._button.setChecked(is_open)

    def _on_toggled(self, is_open: bool) -> None:
        if is_open and self._body is None:
            self._body = self._make_body()
        self._frame.setVisible(is_open)
        self._label()

    def _make_body(self) -> MarkdownBody:
        body = MarkdownBody(self._frame)
        body.link_activated.connect(self.link_activated)
        self._inner.addWidget(body)
        body.append(self.text())
        if not self._running:
            body.finish()
        return body

    def _label(self) -> None:
        self._button.set_words(THINKING if self._running else THOUGHT)
        arrow = "chevron_down" if self.is_open() else "chevron_right"
        self._button.setIcon(theme.icon(arrow, "muted"))
        self._button.setIconSize(theme.icon_size(14))
        action = "Hide" if self.is_open() else "Show"
        words = f"{action} what the model thought before it answered"
        set_tip(self._button, words)
        self._button.setAccessibleDescription(words)

    def _lay_out(self) -> None:
        self._inner = QVBoxLayout(self._frame)
        self._inner.setContentsMargins(14, 2, 0, 2)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self._button, alignment=Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self._frame)
