"""A message in the transcript: the base of user messages and replies, and their buttons."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAction, QContextMenuEvent, QEnterEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QGraphicsOpacityEffect,
    QMenu,
    QPushButton,
    QWidget,
)

from desktop import theme
from desktop.chat.drafts import Drafts
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.markdown.text_selection import TextOwner, text_selection
from desktop.chat.rows.row_actions import Deed, RowActions
from desktop.chat.transcript import Row
from desktop.i18n import tr
from desktop.widgets.icon_button import CopyButton, IconButton
from desktop.widgets.layouts import row
from desktop.widgets.plain import Button, Label, action, named, set_tip

MenuEntry: TypeAlias = tuple[str, Callable[[], object]]


class MessageRow(TextOwner):
    """Subclasses place `bar`, and `_editor` during an edit. Hooks raise NotImplementedError,
    because a class of Qt can't be an ABC."""

    def __init__(
        self,
        row: Row,
        role: Literal["user", "assistant"],
        actions: RowActions,
        drafts: Drafts,
    ) -> None:
        super().__init__()
        is_reply = role == "assistant"
        self.setObjectName("replyRow" if is_reply else "userRow")
        self.setAccessibleName(tr("Reply") if is_reply else tr("Your message"))
        self.setProperty("class", "messageRow")
        self.setProperty("role", role)
        self.row = row
        self._asked = actions
        self._drafts = drafts
        self._editor: QWidget | None = None
        self.bar = MessageBar(is_reply)
        self.bar.copy.clicked.connect(self._copy)
        self.bar.before.clicked.connect(lambda: self._turn(-1))
        self.bar.after.clicked.connect(lambda: self._turn(1))
        self.bar.fork.clicked.connect(lambda: actions.fork_asked.emit(self.row.id))
        self.bar.more.clicked.connect(self._open_menu)
        actions.watch(self.bar.again, Deed("regenerate" if is_reply else "edit", row.id))
        actions.watch(self.bar.go_on, Deed("continue", row.id))
        actions.watch(self.bar.fork, Deed("fork", row.id))
        actions.watch(self.bar.before, Deed("before", row.id))
        actions.watch(self.bar.after, Deed("after", row.id))
        self._hidden: QGraphicsOpacityEffect | None = None

    def is_busy(self) -> bool:
        in_use = self._has_focus() or text_selection().is_in(self)
        return self._editor is not None or in_use

    def notice(self) -> None:
        if self._hidden is not None:
            is_seen = self.shows_always() or self.underMouse() or self._has_focus()
            self._hidden.setEnabled(not is_seen)

    def _has_focus(self) -> bool:
        focused = QApplication.focusWidget()
        return focused is not None and self.isAncestorOf(focused)

    def shows_always(self) -> bool:
        return len(self.row.message.siblings) > 1

    def hides(self, buttons: QWidget) -> None:
        """Show them only while the pointer or focus is on the message; they keep their room."""
        self._hidden = QGraphicsOpacityEffect(buttons)
        self._hidden.setOpacity(0.0)
        buttons.setGraphicsEffect(self._hidden)
        self.notice()

    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.notice()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.notice()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = self._menu()
        self.add_entries(menu)
        if menu.actions():
            menu.popup(event.globalPos())

    def add_entries(self, menu: QMenu) -> None:
        entries = self.bar.entries(menu)
        if entries and menu.actions():
            menu.addSeparator()
        menu.addActions(entries)
        if self.row.live is None:
            self._add_rare_entries(menu)

    def edit(self) -> None:
        raise NotImplementedError

    def _show_parts(self) -> None:
        """Hide what the editor replaces."""
        raise NotImplementedError

    def _save(self, text: str) -> None:
        self._close_editor()
        self._asked.edit_asked.emit(self.row.id, text)

    def _cancel(self) -> None:
        self._drafts.end_edit(self.row.id)
        self._close_editor()

    def _close_editor(self) -> None:
        if self._editor is not None:
            self._editor.hide()
            self._editor.deleteLater()
            self._editor = None
        self._show_parts()

    def _menu(self) -> QMenu:
        menu = QMenu(self)
        menu.setObjectName("messageMenu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return menu

    def _open_menu(self) -> None:
        menu = self._menu()
        self._add_rare_entries(menu)
        menu.popup(self.bar.more.mapToGlobal(self.bar.more.rect().bottomLeft()))

    def _add_rare_entries(self, menu: QMenu) -> None:
        asked, row = self._asked, self.row
        # The selection is gone once the menu has closed.
        quoted = text_selection().text() if text_selection().is_in(self) else ""
        of_text: list[MenuEntry] = [
            (tr("Copy as plain text"), lambda: asked.copy_asked.emit(row.text, False)),
            (tr("Copy as formatted text"), lambda: asked.copy_asked.emit(row.text, True)),
            (tr("Quote in your message"), lambda: asked.quote_asked.emit(quoted or row.text)),
        ]
        of_place: list[MenuEntry] = [
            (tr("Insert above…"), lambda: asked.insert_asked.emit(row.id, True)),
            (tr("Insert below…"), lambda: asked.insert_asked.emit(row.id, False)),
        ]
        if row.message.is_reply:
            of_place.insert(0, (tr("Edit the reply"), self.edit))
        if row.last and len(row.message.siblings) > 1:
            take_over = tr("Move the messages after another version here")
            of_place.append((take_over, lambda: asked.take_over_asked.emit(row.id)))
        if row.last and not row.message.is_reply:
            answer = tr("Write a reply")
            of_place.append((answer, lambda: asked.regenerate_asked.emit(row.id)))
        for entries in (of_text if row.text else [], of_place):
            if menu.actions():
                menu.addSeparator()
            menu.addActions([action(words, menu, act) for words, act in entries])
        menu.addSeparator()
        self._add_deletes(menu)

    def _add_deletes(self, menu: QMenu) -> None:
        asked, message = self._asked, self.row.id
        menu.setToolTipsVisible(True)
        for words, deed in (
            (tr("Delete"), Deed("delete", message)),
            (tr("Delete with its reply"), Deed("delete_with_reply", message)),
        ):
            answers = deed.kind == "delete_with_reply"
            if not (answers and self.row.message.is_reply):
                delete = partial(asked.delete_asked.emit, message, answers)
                entry = action(words, menu, delete)
                entry.hovered.connect(partial(asked.pointed.emit, entry, deed))
                menu.addAction(entry)

    def open_link(self, address: str) -> None:
        self._asked.link_asked.emit(address)

    def is_drawn(self) -> bool:
        return all(body.is_drawn() for body in self.findChildren(MarkdownBody))

    def more_button(self) -> QPushButton | None:
        found = self.findChild(QPushButton, "showMore")
        return found if isinstance(found, QPushButton) and found.isVisibleTo(self) else None

    def _copy(self) -> None:
        # The source, not what Markdown makes of it.
        self.bar.copy.copy_text(self.row.text)

    def _turn(self, step: int) -> None:
        sibling = self.row.sibling(step)
        if sibling is not None:
            self._asked.choose_asked.emit(sibling)


class MessageBar(QWidget):
    def __init__(self, is_reply: bool) -> None:
        super().__init__()
        self.before = IconButton("chevron_left", tr("Show the previous version"), name="turnBack")
        self._place = Label(name="alternativePlace", style="muted small")
        self.after = IconButton("chevron_right", tr("Show the next version"), name="turnOn")
        self.copy = CopyButton(tr("Copy the reply") if is_reply else tr("Copy the message"))
        self.copy.setObjectName("copyMessage")
        self.copy_json = named(CopyButton(tr("Copy as JSON, indented"), icon="braces"), "copyJson")
        self.again = (
            IconButton("regenerate", tr("Write another reply"), name="regenerate")
            if is_reply
            else IconButton("edit", tr("Edit the message and send it again"), name="editMessage")
        )
        self.fork = IconButton("fork", tr("Fork into a new chat"), name="forkChat")
        self.more = IconButton("more", tr("More actions"), name="messageMore")
        # With its word: what to do about an incomplete reply should be seen at once.
        tip = tr("Continue the reply from where it stopped")
        self.go_on = Button(tr("Continue"), name="continueReply", style="flat", spoken=tip, tip=tip)
        # A user's message shows neither; a widget without a parent would outlive it.
        for button in (self.copy_json, self.go_on):
            button.setParent(self)
            button.hide()
        theme.signals().changed.connect(self._draw)
        self._draw()
        self._lay_out(is_reply)

    def _lay_out(self, is_reply: bool) -> None:
        # Buttons that come and go are at the open end, so that the others keep their places.
        versions = (self.before, self._place, self.after)
        if is_reply:
            steady = (self.copy, self.again, self.fork, self.more)
            row(*steady, self.copy_json, self.go_on, *versions, None, of=self, spacing=2)
        else:
            row(None, *versions, self.copy, self.again, self.fork, self.more, of=self, spacing=2)

    def entries(self, parent: QObject) -> list[QAction]:
        """Empty while the bar is hidden."""
        layout = self.layout()
        assert layout is not None
        entries: list[QAction] = []
        for place in range(layout.count() if not self.isHidden() else 0):
            item = layout.itemAt(place)
            button = item.widget() if item is not None else None
            if button is self.more:
                continue
            if isinstance(button, QAbstractButton) and not button.isHidden():
                entries.append(action(button.accessibleName(), parent, button.click))
                entries[-1].setIcon(button.icon())
                entries[-1].setEnabled(button.isEnabled())
        return entries

    def show_row(self, row: Row) -> None:
        count = len(row.message.siblings)
        for widget in (self.before, self._place, self.after):
            widget.setVisible(count > 1)
        self._place.setText(f"{row.place + 1}/{count}")
        tip = tr("Version {number} of {count}").format(number=row.place + 1, count=count)
        set_tip(self._place, tip)
        self.before.setEnabled(row.sibling(-1) is not None)
        self.after.setEnabled(row.sibling(1) is not None)
        self.go_on.setVisible(row.offers_continue)

    def _draw(self) -> None:
        self.go_on.setIcon(theme.icon("continue"))
