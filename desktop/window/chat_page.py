"""The middle of the window: header, conversation or empty page, composer.

After an action on a message the composer has the focus, and letters typed elsewhere go to it.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible, QDragEnterEvent, QDragLeaveEvent, QDropEvent, QKeyEvent
from PySide6.QtWidgets import QApplication, QDialog, QStackedWidget, QWidget

from core.remote.connection import host_of, is_readable
from core.remote.messages import Place
from desktop.chat.compose.chat_options import InstructionsPanel
from desktop.chat.compose.composer import Composer
from desktop.chat.compose.empty_page import EmptyPage, samples
from desktop.chat.compose.format_dialog import FormatDialog
from desktop.chat.compose.message_editor import InsertDialog
from desktop.chat.data.formats import Kind
from desktop.chat.markdown.conversion import copy, plain_text
from desktop.chat.rows.find_bar import FindBar
from desktop.chat.rows.transcript_view import TranscriptView
from desktop.chat.transcript import LiveReply
from desktop.context.limit import LimitBar
from desktop.engine.error_words import error_text
from desktop.i18n import tr
from desktop.models.model_choice import may_be_model
from desktop.numbers import count_of
from desktop.pictures.given_data import accept_copy, may_take, sort_data
from desktop.store.folders import DEMO_MODEL
from desktop.store.tables.records import Reply
from desktop.widgets import dialogs
from desktop.widgets.layouts import column, in_column, scrolled
from desktop.widgets.notices import Question
from desktop.widgets.plain import announce
from desktop.window.header_bar import HeaderBar
from desktop.window.window_parts import WindowParts

# Characters of a finished reply that a screen reader is given: some two minutes.
MOST_SPOKEN = 2_000
COMMAND_KEYS = (
    Qt.KeyboardModifier.ControlModifier
    | Qt.KeyboardModifier.AltModifier
    | Qt.KeyboardModifier.MetaModifier
)


class ChatPage(QWidget):
    # list[Path]: dropped files, or a folder, that may be a model.
    model_dropped = Signal(object)

    def __init__(self, parts: WindowParts, sample_folder: Path, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("chatPage")
        self.setAcceptDrops(True)
        self._parts = parts
        self.header = HeaderBar(parts.chats, parts.engine, parts.settings, parts.chat)
        self.instructions = InstructionsPanel(parts.chat)
        self.limit = LimitBar(parts.limit)
        self.transcript = TranscriptView(parts.transcript, parts.drafts, parts.formats)
        self.empty = EmptyPage(sample_folder)
        self._for_demo = False
        self.composer = Composer(parts.chat, parts.documents, parts.draft_size)
        self.find_bar = FindBar(parts.transcript, self.transcript)
        self._pages = QStackedWidget()
        self._empty_page = scrolled(self.empty, "emptyScroll")
        self._pages.addWidget(self._empty_page)
        self._pages.addWidget(self.transcript)
        self._build()
        # Made last, to be above everything else.
        self.delete_all = Question(
            self, "deleteAll", tr("Delete all data"), tr("Keep everything"), tr("Delete everything")
        )
        self.send_there = Question(
            self, "sendThere", tr("Send this chat"), tr("Keep it here"), tr("Send it there")
        )
        self.restore = Question(
            self, "restore", tr("Restore a backup"), tr("Leave everything"), tr("Close and restore")
        )
        self._asked_place: Place | None = None
        self._connect()
        self._follow_settings()
        self._turn()

    def _follow_settings(self) -> None:
        window = self._parts.settings.settings.window
        self.transcript.messages.show_formatted(window.format_messages)

    def _build(self) -> None:
        bottom = in_column(self.limit, self.composer, top=4, bottom=16)
        top = in_column(self.instructions, self.find_bar)
        column(self.header, top, (self._pages, 1), bottom, of=self, spacing=0)

    def _connect(self) -> None:
        chat, transcript = self._parts.chat, self._parts.transcript
        self._parts.settings.changed.connect(self._follow_settings)
        transcript.chat_changed.connect(self._turn)
        transcript.rows_replaced.connect(self._turn)
        shown = self.transcript.messages
        for asked, done in (
            (shown.edit_asked, chat.edit),
            (shown.regenerate_asked, chat.regenerate),
            (shown.go_on_asked, chat.go_on),
            (shown.choose_asked, chat.choose),
            (shown.fork_asked, self._fork),
            (shown.tell_all_asked, self._parts.limit.tell_all),
            (shown.delete_asked, chat.delete),
            (shown.take_over_asked, chat.take_over),
            (shown.quote_asked, self.composer.quote),
        ):
            asked.connect(done)
            asked.connect(self._write_on)
        shown.copy_asked.connect(
            lambda text, rich: self._parts.tasks.spawn(copy(text, rich), tr("Copying a message"))
        )
        shown.reply_typed.connect(chat.reply_typed)
        shown.insert_asked.connect(self._ask_to_insert)
        shown.pointed.connect(self._parts.predictions.point)
        self.find_bar.closed.connect(self._write_on)
        self.delete_all.kept.connect(self._write_on)
        self.delete_all.confirmed.connect(self._write_on)
        self.delete_all.confirmed.connect(self._parts.deletion.delete_everything)
        self.restore.kept.connect(self._parts.backup.decline)
        self.restore.kept.connect(self._write_on)
        self.restore.confirmed.connect(self._parts.backup.accept)
        self.send_there.kept.connect(self._write_on)
        self.send_there.confirmed.connect(self._run_there)
        chat.shown.connect(self._withdraw_place)
        for changed in (chat.placed, self._parts.remote.changed):
            changed.connect(lambda: self.empty.show_place(chat.place))
        self.empty.show_place(chat.place)
        self._parts.replies.ended.connect(self._announce)
        self.limit.edit_asked.connect(self.transcript.edit_last)
        self.header.instructions.clicked.connect(self._toggle_instructions)
        self.composer.instructions.clicked.connect(self._toggle_instructions)
        self.instructions.changed.connect(self._mark_instructions)
        self.instructions.done.clicked.connect(self._toggle_instructions)
        self.composer.format.written_asked.connect(
            lambda kind: self._parts.tasks.spawn(self._write_format(kind), tr("Writing a format"))
        )
        self.empty.sample_asked.connect(self._try_sample)
        self._parts.engine.changed.connect(self._show_samples)
        self._show_samples()
        self._parts.engine.changed.connect(self.empty.show_status)
        self.empty.show_status(self._parts.engine.status)

    def _announce(self, live: LiveReply, text: str, reply: Reply) -> None:
        if QAccessible.isActive() and live.chat == self._parts.transcript.chat:
            failed = error_text(reply.error) if reply.error else ""
            said = " ".join(part for part in (plain_text(text[:MOST_SPOKEN]), failed) if part)
            announce(self.transcript, said or tr("The reply is finished."))

    def ask_to_delete_all(self) -> None:
        chats = self._parts.chats
        said = delete_all_question(len(chats.chat_list.chats), len(chats.trash.chats))
        self.delete_all.ask(said)

    def run_at(self, place: Place | None) -> None:
        """Asks the user first if the chat has not been sent there."""
        chat = self._parts.chat
        if chat.may_run_at(place):
            chat.run_at(place)
            self._write_on()
            return
        assert place is not None
        self._asked_place = place
        host = host_of(place.address)
        words = tr(
            "Send this chat to {host}? From your next message on, all of it is sent there: every "
            "message, document, picture and instruction. What has been sent can't be taken back."
        )
        if is_readable(place.address):
            words += " " + tr("The connection isn't encrypted: others in the network can read it.")
        self.send_there.ask(words.format(host=host))

    def _run_there(self) -> None:
        place, self._asked_place = self._asked_place, None
        if place is not None:
            self._parts.chat.run_at(place)
        self._write_on()

    def _withdraw_place(self) -> None:
        # The question is about the chat that was on screen.
        self._asked_place = None
        self.send_there.withdraw()

    def _write_on(self) -> None:
        self.composer.setFocus()

    def _fork(self, message: int) -> None:
        chat = self._parts.transcript.chat
        if chat is not None:
            self._parts.chats.fork(chat, message)

    def show_instructions(self) -> None:
        self.instructions.show()
        self.instructions.text.setFocus()

    def _toggle_instructions(self) -> None:
        shown = self.instructions.isHidden()
        self.instructions.setVisible(shown)
        (self.instructions.text if shown else self.composer).setFocus()

    def _ask_to_insert(self, message: int, above: bool) -> None:
        self._parts.tasks.spawn(self._insert(message, above), tr("Inserting messages"))

    async def _insert(self, message: int, above: bool) -> None:
        dialog = InsertDialog(self)
        if await dialogs.outcome(dialog) == QDialog.DialogCode.Accepted:
            self._parts.chat.insert(message, above, *dialog.texts())
        self._write_on()

    async def _write_format(self, kind: Kind) -> None:
        chat = self._parts.chat
        dialog = FormatDialog(self._parts.formats, kind, chat.last_written(kind), self)
        if await dialogs.outcome(dialog) == QDialog.DialogCode.Accepted:
            chat.ask_for(dialog.format())
        self._write_on()

    def _mark_instructions(self) -> None:
        given = bool(self._parts.chat.instructions)
        self.header.mark_instructions(given)
        self.composer.instructions.setVisible(given)

    def _turn(self) -> None:
        rows = self._parts.transcript.rows
        self._pages.setCurrentWidget(self.transcript if rows else self._empty_page)

    def _show_samples(self) -> None:
        model, chosen = self._parts.engine.model, self._parts.settings.settings.model.path
        demo = str(DEMO_MODEL)
        is_demo = (model.path if model is not None else chosen or demo) == demo
        if is_demo != self._for_demo:
            self._for_demo = is_demo
            self.empty.show_samples(is_demo)

    def _try_sample(self, path: Path | None, question: str) -> None:
        first = samples()[0][1]
        names = {name for name, _ in samples() if name is not None}
        self.composer.suggest(question if self._for_demo else first, instead_of=names)
        if path is not None:
            self.composer.add_files([path])

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.text().isprintable() and event.text() and not event.modifiers() & COMMAND_KEYS:
            self.composer.setFocus()
            QApplication.sendEvent(self.composer.text, event)
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if may_take(event):
            self.composer.set_active(True)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self.composer.set_active(False)

    def dropEvent(self, event: QDropEvent) -> None:
        self.composer.set_active(False)
        files = list(sort_data(event.mimeData()).files)
        if may_be_model(files):
            self.model_dropped.emit(files)
        else:
            self.composer.take_data(event.mimeData())
        accept_copy(event)


def delete_all_question(count: int, in_trash: int) -> str:
    chats, deleted = count_of(count, "chat"), count_of(in_trash, "deleted chat")
    if count and in_trash:
        all_chats = tr("{chats} and {deleted}").format(chats=chats, deleted=deleted)
    elif count or in_trash:
        all_chats = chats if count else deleted
    else:
        all_chats = tr("all data")
    return tr(
        "Delete {} for good, with all messages, pictures, drafts, backups, damaged files of chats "
        "and saved contexts? This can't be undone. Your settings and models stay."
    ).format(all_chats)
