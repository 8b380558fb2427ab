"""A listing: its language, a Copy button and the code in a fixed-width font.

Knows when to colour the words (once the listing has ended and is first seen) and that Copy gives
exactly the code. Leaves finding the listing in the text to markdown_source, and the colours to the
theme.
"""

from __future__ import annotations

from PySide6.QtGui import QGuiApplication, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from desktop import theme
from desktop.chat.markdown.code_text import CodeText
from desktop.chat.markdown.highlight import Highlighting
from desktop.widgets.icon_button import CopyButton
from desktop.widgets.pacing import pace
from desktop.widgets.plain import Label
from desktop.words.conversation import BEGINNING_LATER, COPY_CODE, code_words

# How long words are looked up for their colours before others have their turn.
COLOUR_FOR_S = 0.004


class CodeBlock(QFrame):
    """Shows code. `set_code` may be called again and again while the listing grows."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._code = ""
        self._language = ""
        self._closed = False
        # Which words have which colour; None until somebody has looked at the whole listing.
        self._colours: Highlighting | None = None
        self._coloured = False
        self._label = Label(parent=self, name="codeLanguage")
        self._copy_button = CopyButton(COPY_CODE, self)
        self._copy_button.setObjectName("codeCopy")
        self._copy_button.clicked.connect(self.copy)
        self._note = Label(BEGINNING_LATER, self, name="codeTail", style="muted small", wraps=True)
        self._note.setIndent(6)
        self._note.hide()
        self._text = CodeText(self)
        self._lay_out()
        theme.signals().changed.connect(self._text.rehighlight)

    def set_code(
        self, code: str, language: str = "", closed: bool = True, grows: bool = False
    ) -> None:
        """Show `code`; it is coloured only once `closed`. Of what `grows` the end is seen."""
        self._code, self._language, self._closed = code, language, closed
        self._colours, self._coloured = None, False
        self._label.setText(language or "text")
        self._text.set_code(code, grows)
        self._note.setVisible(self._text.shows_tail())
        self._text.setAccessibleName(code_words(language))
        self.update()

    def code(self) -> str:
        """Exactly the code that Copy gives."""
        return self._code

    def language(self) -> str:
        """The language as the text names it."""
        return self._language

    def is_coloured(self) -> bool:
        """Whether the words have been looked up for their colours."""
        return self._coloured

    def copy(self) -> None:
        """Put the code on the clipboard."""
        QGuiApplication.clipboard().setText(self._code)
        self._copy_button.say_copied()

    def _colour(self) -> bool:
        """Look up which words have which colour, for a moment; says whether any are left."""
        if self._coloured or not self._closed:
            return False
        if self._colours is None:
            self._colours = Highlighting(self._code, self._language)
        if self._colours.go_on(COLOUR_FOR_S):
            return True
        self._coloured = True
        self._text.set_spans(self._colours.spans)
        return False

    def _lay_out(self) -> None:
        header = QHBoxLayout()
        header.setContentsMargins(6, 4, 0, 0)
        header.addWidget(self._label)
        header.addStretch(1)
        header.addWidget(self._copy_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 0, 6, 4)
        layout.setSpacing(0)
        layout.addLayout(header)
        layout.addWidget(self._note)
        layout.addWidget(self._text)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        # A long chat holds many listings; only those that come into view are coloured.
        if self._closed and not self._coloured:
            pace().go_on(self._colour)
