"""A message's Markdown: only changed blocks are drawn again.

Long texts are parsed and drawn in steps; a very long one is shown in pages.
"""

from __future__ import annotations

import time

import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLayout, QWidget

from desktop.chat.markdown.block_text import INDENT, BlockText
from desktop.chat.markdown.blocks import Block
from desktop.chat.markdown.code_block import CodeBlock
from desktop.chat.markdown.stream import BlockStream
from desktop.chat.markdown.text_selection import WholeText
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.widgets.layouts import column
from desktop.widgets.pacing import SLICE_S, pace
from desktop.widgets.plain import Button

BLOCK_SPACING = 9
# Parsed and drawn at a step: some milliseconds each.
READ_AT_ONCE = 2_000
DRAWN_AT_ONCE = 4_000
# The cost of a block, in letters: its widget, each line and cell.
BLOCK_COST = 600
LINE_COST = 30
CELL_COST = 25
CODE_LINE_COST = 4
# Drawn at first, in the same unit: some fifty screens. A button draws the next page.
PAGE = 200_000


class _Indented(QWidget):
    def __init__(self, parent: QWidget, depth: int) -> None:
        super().__init__(parent)
        self.indent = depth * INDENT
        self._inner = column(of=self, margins=(self.indent, 0, 0, 0))
        self.resize(parent.width(), 1)

    def hold(self, widget: QWidget) -> None:
        self._inner.addWidget(widget)


class MarkdownBody(WholeText):
    def __init__(self, parent: QWidget | None = None, keeps_lines: bool = False) -> None:
        super().__init__(parent)
        self._keeps_lines = keeps_lines  # keep soft line breaks
        self._pieces: list[str] = []
        self._waiting = ""  # the end of the text, not parsed yet
        self._finished = False  # no more text comes
        self._all_read = False  # and the stream of blocks has been told
        self._working = False
        self._stream = BlockStream()
        # The drawn blocks and their widgets; pieces of one code block share a widget.
        self._shown: list[Block] = []
        self._widgets: list[BlockText | CodeBlock] = []
        self._growing: CodeBlock | None = None  # the code drawn last of this stream
        self._next = 0  # the first block that may need drawing
        self._spent = 0  # the cost of the blocks before it
        self._pages = 1
        self._more: Button | None = None
        self._layout = column(of=self, spacing=BLOCK_SPACING)
        # Otherwise new blocks squeeze the others until the transcript has made room.
        self._layout.setVerticalSizeConstraint(QLayout.SizeConstraint.SetMinimumSize)
        self.num_renders = 0  # for tests

    def append(self, text: str) -> None:
        """Draws the last block again; after `finish` all, as the last block may go on."""
        if self._finished and self._pieces:
            self._restart(self.text())
        self._pieces.append(text)
        self._waiting += text
        self._finished = self._all_read = False
        if len(self._waiting) >= self._stream.patience():
            self._begin()

    def set_text(self, text: str) -> None:
        self._pieces, self._pages = [text], 1
        self._restart(text)
        self._all_read = self._working = False
        self.finish()
        # Don't leave the previous text below the part of this one that is drawn now.
        if self._working:
            self._trim(self._next)

    def finish(self) -> None:
        self._finished = True
        self._begin()

    def _restart(self, text: str) -> None:
        self._waiting, self._stream, self._growing = text, BlockStream(), None
        self._next = self._spent = 0

    def is_drawn(self) -> bool:
        return not self._working

    def pages(self) -> int:
        return self._pages

    def show_pages(self, pages: int) -> None:
        self._pages = pages
        self._begin()

    def blocks(self) -> list[BlockText | CodeBlock]:
        return list(dict.fromkeys(self._widgets))

    def shed(self, count: int) -> bool:
        """Delete up to `count` widgets; False if none is left."""
        pace().forget(self._go_on)
        old = self._widgets[-count:]
        del self._widgets[-count:], self._shown[-count:]
        for widget in set(old).difference(self._widgets):
            # Now: deleteLater would delete all of them at one time.
            shiboken6.delete(self._held(widget))
        return bool(self._widgets)

    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def _begin(self) -> None:
        # What is being drawn goes on in the next turns.
        if not self._working and self._go_on():
            pace().go_on(self._go_on)

    def _go_on(self) -> bool:
        """Returns whether anything is left to do."""
        begun = time.thread_time()
        if not self._is_full() and self._next == len(self._stream.closed):
            self._read()
        # If parsing took long, draw at the next step.
        if time.thread_time() - begun < SLICE_S:
            self._draw_closed()
        unread = self._waiting or (self._finished and not self._all_read)
        left = self._next < len(self._stream.closed) or bool(unread)
        self._working = left and not self._is_full()
        if not left:
            for number, block in enumerate(self._stream.open, start=self._next):
                self._draw(number, block)
            self._trim(self._next + len(self._stream.open))
        self._offer_more(left and self._is_full())
        return self._working

    def _read(self) -> None:
        piece, self._waiting = self._waiting[:READ_AT_ONCE], self._waiting[READ_AT_ONCE:]
        ends = self._finished and not self._waiting
        self._stream.append(piece, more=bool(self._waiting) or ends)
        if ends:
            self._stream.finish()
            self._all_read = True

    def _draw_closed(self) -> None:
        room = DRAWN_AT_ONCE
        while self._next < len(self._stream.closed) and room > 0 and not self._is_full():
            block = self._stream.closed[self._next]
            if self._draw(self._next, block):
                room -= _cost(block)
            self._spent += _cost(block)
            self._next += 1

    def _is_full(self) -> bool:
        return self._spent >= self._pages * PAGE

    def _draw(self, number: int, block: Block) -> bool:
        if number < len(self._shown) and self._shown[number] == block:
            return False
        widget = self._widget_for(number, block)
        before = self._shown[number] if number < len(self._shown) else None
        self.num_renders += 1
        self._shown[number : number + 1] = [block]
        if isinstance(widget, CodeBlock):
            code = self._listing(number)
            grows = not self._finished and not block.closed
            extends = widget is self._growing and (block.continues or block.extends(before))
            widget.set_code(code, block.language, block.closed, grows, extends)
            self._growing = widget
        elif block.kind == "plain":
            widget.show_plain(block.source)
        else:
            widget.show_markdown(block.source, self._keeps_lines)
        return True

    def _listing(self, end: int) -> str:
        first = end
        while self._shown[first].continues:
            first -= 1
        return "".join(block.source for block in self._shown[first : end + 1])

    def _widget_for(self, number: int, block: Block) -> BlockText | CodeBlock:
        before = self._widgets[number - 1] if number else None
        if block.continues and isinstance(before, CodeBlock):
            self._put(number, before)
            return before
        wanted = CodeBlock if block.kind == "code" else BlockText
        present = self._widgets[number] if number < len(self._widgets) else None
        is_as_deep = number < len(self._shown) and self._shown[number].depth == block.depth
        if isinstance(present, wanted) and present is not before and is_as_deep:
            return present
        held = _Indented(self, block.depth) if block.depth else self
        widget = wanted(held)
        # So that it is laid out once, at its final width.
        widget.resize(self.width(), 1)
        self._put(number, widget)
        place = self._layout.indexOf(self._held(before)) + 1 if before is not None else 0
        if isinstance(held, _Indented):
            held.hold(widget)
        # Shown here: for each widget that it shows itself, the layout lays out all of them.
        self._layout.setEnabled(False)
        self._layout.insertWidget(place, self._held(widget))
        self._held(widget).show()
        self._layout.setEnabled(True)
        return widget

    def _held(self, widget: QWidget) -> QWidget:
        parent = widget.parentWidget()
        return parent if isinstance(parent, _Indented) else widget

    def _put(self, number: int, widget: BlockText | CodeBlock) -> None:
        old = self._widgets[number : number + 1]
        self._widgets[number : number + 1] = [widget]
        self._discard(old)

    def _trim(self, count: int) -> None:
        old = self._widgets[count:]
        del self._widgets[count:], self._shown[count:]
        self._discard(old)

    def _discard(self, widgets: list[BlockText | CodeBlock]) -> None:
        for widget in widgets:
            if widget not in self._widgets:
                held = self._held(widget)
                self._layout.removeWidget(held)
                held.hide()
                held.deleteLater()

    def _offer_more(self, offered: bool) -> None:
        if self._more is None and offered:
            self._more = Button(
                parent=self, name="showMore", spoken=tr("Show more of this message")
            )
            self._more.clicked.connect(lambda: self.show_pages(self._pages + 1))
            self._layout.addWidget(self._more, 0, Qt.AlignmentFlag.AlignLeft)
        if self._more is not None:
            blocks = self._stream.closed[self._next :] + self._stream.open
            left = len(self._waiting) + sum(len(block.source) for block in blocks)
            text = tr("Show more: {count} characters are not shown")
            self._more.set_words(text.format(count=format_count(left)))
            self._more.setVisible(offered)


def _cost(block: Block) -> int:
    cost = len(block.source) + (0 if block.continues else BLOCK_COST)
    lines = block.source.count("\n")
    if block.kind == "code":
        return cost + CODE_LINE_COST * lines
    return cost + LINE_COST * lines + CELL_COST * block.source.count("|")


def indent_of(block: QWidget) -> int:
    parent = block.parentWidget()
    return parent.indent if isinstance(parent, _Indented) else 0
