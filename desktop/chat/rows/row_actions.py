"""Actions on messages of the transcript."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtWidgets import QAbstractButton

DeedKind: TypeAlias = Literal[
    "regenerate",
    "continue",
    "edit",
    "send_again",
    "fork",
    "before",
    "after",
    "delete",
    "delete_with_reply",
]


class Deed(NamedTuple):
    """An action that takes time."""

    kind: DeedKind
    message: int


class RowActions(QObject):
    """An int is a message's id.

    `tell_all_asked`: undo leaving out turns. `choose_pictures_asked(take)`: call `take` with them.
    `delete_asked(message, answers)`: also the replies to it. `insert_asked(message, above)`.
    `reply_typed`: the user paused while editing a reply. `take_over_asked`: move what follows
    another version here. `copy_asked(text, rich)`. `open_document_asked(document, choose)`: see
    `DraftEditor`; None only shows it.
    """

    edit_asked = Signal(int, str)
    regenerate_asked = Signal(int)
    go_on_asked = Signal(int)
    choose_asked = Signal(int)
    fork_asked = Signal(int)
    delete_asked = Signal(int, bool)
    insert_asked = Signal(int, bool)
    take_over_asked = Signal(int)
    reply_typed = Signal(int, str)
    copy_asked = Signal(str, bool)
    quote_asked = Signal(str)
    tell_all_asked = Signal()
    choose_pictures_asked = Signal(object)
    open_picture_asked = Signal(str)
    open_document_asked = Signal(object, object)
    link_asked = Signal(str)
    # QAbstractButton | QAction, Deed | None: the pointer or the focus came to a button, or left it.
    pointed = Signal(object, object)

    def watch(self, button: QAbstractButton, deed: Deed) -> None:
        button.installEventFilter(_Watch(button, deed, self))


class _Watch(QObject):
    def __init__(self, button: QAbstractButton, deed: Deed, actions: RowActions) -> None:
        super().__init__(button)
        self._button, self._deed, self._actions = button, deed, actions

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind in (QEvent.Type.Enter, QEvent.Type.FocusIn):
            self._actions.pointed.emit(self._button, self._deed)
        elif kind in (QEvent.Type.Leave, QEvent.Type.FocusOut):
            self._actions.pointed.emit(self._button, None)
        return False
