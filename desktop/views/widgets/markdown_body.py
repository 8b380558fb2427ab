"""The words of a message: Markdown that may still be growing.

Knows which blocks changed, and draws only those. Leaves splitting to markdown_source, drawing to
BlockText and CodeBlock, and opening a link to whoever hears `link_activated`.
"""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from desktop import theme
from desktop.views.widgets.block_text import BlockText
from desktop.views.widgets.code_block import CodeBlock
from desktop.views.widgets.markdown_source import Block, BlockStream

BLOCK_SPACING = 9


class MarkdownBody(QWidget):
    """Shows Markdown block by block. `link_activated` carries a full http or https address."""

    link_activated = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pieces: list[str] = []
        self._waiting = ""  # the end of the text, not read yet
        self._stream = BlockStream()
        self._shown: list[Block] = []
        self._closed_shown = 0
        self._widgets: list[BlockText | CodeBlock] = []
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(BLOCK_SPACING)
        self.num_renders = 0  # how often a block was drawn anew; tests count the work by it
        theme.signals().changed.connect(self._draw_all)

    def append(self, text: str) -> None:
        """More text; only the last block is parsed and drawn again."""
        self._pieces.append(text)
        self._waiting += text
        if len(self._waiting) >= self._stream.patience():
            self._read()

    def set_text(self, text: str) -> None:
        """Show a complete text in place of what is shown."""
        self._pieces, self._waiting = [text], text
        self._stream = BlockStream()
        self._closed_shown = 0
        self.finish()

    def finish(self) -> None:
        """The text is complete; an open listing counts as closed."""
        self._stream.append(self._waiting)
        self._stream.finish()
        self._waiting = ""
        self._draw()

    def blocks(self) -> list[BlockText | CodeBlock]:
        """The widgets that show the blocks, in order."""
        return list(self._widgets)

    def text(self) -> str:
        """Exactly the text that came in."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def _read(self) -> None:
        self._stream.append(self._waiting)
        self._waiting = ""
        self._draw()

    def _draw(self) -> None:
        first = self._closed_shown
        fresh = self._stream.closed[first:] + self._stream.open
        for number, block in enumerate(fresh, start=first):
            self._draw_block(number, block)
        for widget in self._widgets[first + len(fresh) :]:
            self._layout.removeWidget(widget)
            widget.hide()
            widget.deleteLater()
        del self._widgets[first + len(fresh) :]
        del self._shown[first + len(fresh) :]
        self._closed_shown = len(self._stream.closed)

    def _draw_block(self, number: int, block: Block) -> None:
        if number < len(self._shown) and self._shown[number] == block:
            return
        widget = self._widget_for(number, block)
        self.num_renders += 1
        if isinstance(widget, CodeBlock):
            widget.set_code(block.source, block.language, block.closed)
        elif block.kind == "plain":
            widget.show_plain(block.source)
        else:
            widget.show_markdown(block.source)
        self._shown[number : number + 1] = [block]

    def _widget_for(self, number: int, block: Block) -> BlockText | CodeBlock:
        """The widget that draws block `number`: the one there is, if it is of the right kind."""
        wanted = CodeBlock if block.kind == "code" else BlockText
        if number < len(self._widgets):
            present = self._widgets[number]
            if isinstance(present, wanted):
                return present
            self._layout.removeWidget(present)
            present.hide()
            present.deleteLater()
        widget = wanted(self)
        # Laid out once at the width it will have, not first at the width of a fresh widget.
        widget.resize(self.width(), 1)
        if isinstance(widget, BlockText):
            widget.web_link.connect(self.link_activated)
        self._widgets[number : number + 1] = [widget]
        self._layout.insertWidget(number, widget)
        return widget

    def _draw_all(self) -> None:
        """The theme has changed: words carry their colours with them."""
        for block, widget in zip(self._shown, self._widgets, strict=True):
            if isinstance(widget, BlockText) and block.kind == "prose":
                widget.show_markdown(block.source)
