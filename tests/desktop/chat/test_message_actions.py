"""Delete, edit, insert, move, copy and quote messages in the window."""

from __future__ import annotations

import asyncio

import pytest
from PySide6.QtCore import QMimeData, QUrl
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QPlainTextEdit

from core.api.chat import AssistantMessage, Conversation, UserMessage
from desktop.app import App
from desktop.chat.compose.composer_text import LONG_PASTE
from desktop.chat.compose.message_editor import InsertDialog
from desktop.chat.markdown.conversion import plain_text
from desktop.chat.rows.message_row import MessageRow
from desktop.store.tables import messages
from desktop.widgets import long_text
from desktop.widgets.long_text import LongText
from tests.desktop.conftest import until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, find, press, send, type_in, words


def settled_as(engine: FakeEngine, text: str) -> AssistantMessage | None:
    """The reply of this text that was read in idle time, however many others were."""
    last = [each.conversation.messages[-1] for each in engine.settled]
    replies = [each for each in last if isinstance(each, AssistantMessage) and each.text == text]
    return replies[-1] if replies else None


async def talk(app: App, engine: FakeEngine, *turns: tuple[str, str]) -> None:
    for question, answer in turns:
        (await send(app, engine, question)).finish(answer)
        await ended(app)


def shown(app: App) -> list[str]:
    return [row.text for row in app.parts.transcript.rows]


def said_in(conversation: Conversation) -> list[tuple[str, str]]:
    found = []
    for message in conversation.messages:
        if isinstance(message, UserMessage):
            found.append(("user", "".join(getattr(part, "text", "") for part in message.content)))
        elif isinstance(message, AssistantMessage):
            found.append(("reply", message.text))
    return found


def row_of(app: App, text: str) -> MessageRow:
    place = shown(app).index(text)
    row = app.window.page.transcript.messages.at(place)
    assert row is not None
    return row


def choose(app: App, text: str, entry: str) -> None:
    """Choose an entry of a message's menu."""
    menu = QMenu()
    row_of(app, text).add_entries(menu)
    found = [each for each in menu.actions() if each.text() == entry]
    assert found, f"{entry} is not in the menu"
    found[0].trigger()


async def test_a_message_is_deleted_with_its_reply_and_comes_back(
    app: App, engine: FakeEngine
) -> None:
    await talk(app, engine, ("one", "first"), ("two", "second"), ("three", "third"))
    choose(app, "two", "Delete with its reply")
    await until(lambda: shown(app) == ["one", "first", "three", "third"])
    await until(lambda: words(app, "toastText").endswith("days: two"))
    asked = await send(app, engine, "four")
    assert said_in(asked.conversation) == [
        ("user", "one"),
        ("reply", "first"),
        ("user", "three"),
        ("reply", "third"),
        ("user", "four"),
    ]
    asked.finish("fourth")
    await ended(app)
    press(app, "toastAction")
    await until(lambda: shown(app)[2:4] == ["two", "second"])
    assert len(shown(app)) == 8


async def test_the_trash_lists_deleted_messages_and_deletes_them_for_good(
    app: App, engine: FakeEngine
) -> None:
    await talk(app, engine, ("one", "first"), ("two", "second"))
    key = app.parts.chat.key
    choose(app, "first", "Delete")
    await until(lambda: app.parts.chats.trash.shown)
    choose(app, "second", "Delete")
    await until(lambda: len(app.parts.chats.trash.shown) == 2 and shown(app) == ["one", "two"])
    assert app.parts.chats.trash.chats == []
    press(app, "openTrash")
    index = app.parts.chats.trash.index(0)
    assert index.data() == "second"
    press(app, "restoreChat")
    await until(lambda: shown(app) == ["one", "two", "second"])
    press(app, "deleteForGood")
    app.window.side_bar.trash.asks.confirmed.emit()
    await until(lambda: not app.parts.chats.trash.shown and engine.forgotten)
    assert engine.forgotten[0][0] == key
    await until(lambda: app.parts.chat.key != key)
    assert shown(app) == ["one", "two", "second"]


async def test_roles_alternate_for_the_engine_whatever_is_deleted(
    app: App, engine: FakeEngine
) -> None:
    await talk(app, engine, ("one", "first"), ("two", "second"), ("three", "third"))
    choose(app, "one", "Delete")
    await until(lambda: shown(app)[0] == "first")
    choose(app, "second", "Delete")
    await until(lambda: "second" not in shown(app))
    asked = await send(app, engine, "four")
    assert said_in(asked.conversation) == [
        ("user", ""),
        ("reply", "first"),
        ("user", "two"),
        ("reply", ""),
        ("user", "three"),
        ("reply", "third"),
        ("user", "four"),
    ]
    asked.finish("fourth")


async def test_a_deleted_last_reply_can_be_written_again(app: App, engine: FakeEngine) -> None:
    await talk(app, engine, ("one", "first"))
    choose(app, "first", "Delete")
    await until(lambda: shown(app) == ["one"])
    choose(app, "one", "Write a reply")
    await until(lambda: len(engine.asked) == 2)
    engine.asked[1].finish("again")
    await until(lambda: shown(app) == ["one", "again"])


async def test_a_reply_whose_question_is_deleted_is_written_anew(
    app: App, engine: FakeEngine
) -> None:
    await talk(app, engine, ("one", "first"), ("two", "second"))
    choose(app, "two", "Delete")
    await until(lambda: shown(app) == ["one", "first", "second"])
    choose(app, "second", "Write another reply")
    await until(lambda: len(engine.asked) == 3)
    # Not a continuation of the first reply.
    begun = [("user", "one"), ("reply", "first"), ("user", "")]
    assert said_in(engine.asked[2].conversation) == begun
    engine.asked[2].finish("other")
    await until(lambda: shown(app) == ["one", "first", "other"])


async def test_a_long_draft_after_a_deleted_reply_is_read_as_it_will_be_sent(
    app: App, engine: FakeEngine
) -> None:
    await talk(app, engine, ("one", "first"))
    choose(app, "first", "Delete")
    await until(lambda: shown(app) == ["one"])
    text = "word " * 500
    type_in(app, text)
    app.parts.chat.draft_typed.emit()
    await until(lambda: engine.read)
    begun = [("user", "one"), ("reply", ""), ("user", text.strip())]
    assert said_in(engine.read[-1].conversation) == begun


async def followers_moved(app: App, engine: FakeEngine) -> None:
    """Two turns, another version of the first reply, and the second turn moved to it."""
    await talk(app, engine, ("one", "first"), ("two", "second"))
    app.parts.chat.edit(app.parts.transcript.rows[1].id, "better")
    await until(lambda: shown(app) == ["one", "better"])
    choose(app, "better", "Move the messages after another version here")
    await until(lambda: shown(app) == ["one", "better", "two", "second"])
    await until(lambda: words(app, "toastAction") == "Undo")


async def test_undoing_a_move_leaves_a_reply_of_another_chat_alone(
    app: App, engine: FakeEngine
) -> None:
    await followers_moved(app, engine)
    chat = app.parts.transcript.chat
    app.parts.chat.open(None)
    await until(lambda: shown(app) == [])
    running = await send(app, engine, "elsewhere")
    press(app, "toastAction")
    assert chat is not None
    for _ in range(1_000):
        if (await app.parts.database.run(messages.read_path, chat))[1].text == "first":
            break
        await asyncio.sleep(0.01)
    assert app.parts.chat.running is not None
    running.finish("other")
    await ended(app)
    assert shown(app) == ["elsewhere", "other"]
    app.parts.chat.open(chat)
    await until(lambda: shown(app) == ["one", "first", "two", "second"])


async def test_T3_an_edited_reply_is_a_new_version_and_can_be_continued(
    app: App, engine: FakeEngine
) -> None:
    await talk(app, engine, ("one", "It is red."), ("two", "second"))
    place = app.window.page.transcript.messages.at(1)
    assert place is not None
    choose(app, "It is red.", "Edit the reply")
    field = find(app, QPlainTextEdit, "editReplyText")
    field.setPlainText("It is blue.")
    # The part before the edit is read while the user types.
    app.window.page.transcript.messages.reply_typed.emit(2, "It is blue.")
    await until(lambda: settled_as(engine, "It is "))
    begun = settled_as(engine, "It is ")
    assert begun is not None and begun.ids is not None
    assert begun.ids.is_paused and begun.ids.num_ids == 6
    press(app, "editReplySave")
    await until(lambda: shown(app) == ["one", "It is blue."])
    assert words(app, "replyEnding") == "Edited by you."
    # The idle engine reads it with the ids up to the edit as they were sampled, and a pause there.
    await until(lambda: settled_as(engine, "It is blue."))
    told = settled_as(engine, "It is blue.")
    assert told is not None
    assert told.ids is not None
    assert told.ids.pauses == (6,)
    press(app, "continueReply")
    await until(lambda: len(engine.asked) == 3)
    assert said_in(engine.asked[2].conversation) == [("user", "one"), ("reply", "It is blue.")]
    engine.asked[2].say(" And green.")
    engine.asked[2].finish("It is blue. And green.")
    await until(lambda: shown(app)[-1] == "It is blue. And green." and not app.parts.chat.running)
    assert words(app, "replyEnding") == "Edited by you."
    press(app, "turnBack")
    await until(lambda: shown(app) == ["one", "It is red.", "two", "second"])


async def test_a_long_text_that_is_pasted_into_a_reply_is_in_the_reply(
    app: App, engine: FakeEngine
) -> None:
    await talk(app, engine, ("one", "first"))
    choose(app, "first", "Edit the reply")
    field = find(app, LongText, "editReplyText")
    assert field.placeholderText() == ""
    field.selectAll()
    field.take_text("long " * LONG_PASTE)
    await until(field.is_complete)
    press(app, "editReplySave")
    await until(lambda: shown(app)[1].startswith("long "))
    assert shown(app)[1].split() == ["long"] * LONG_PASTE


async def test_what_an_edited_reply_can_not_take_is_said(
    app: App, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_text, "LONGEST_TEXT", 100)
    await talk(app, engine, ("one", "first"))
    choose(app, "first", "Edit the reply")
    field = find(app, LongText, "editReplyText")
    field.take_text("long " * 21)
    refused = "Not added: a message can have 100 characters, and this text has 105."
    await until(lambda: words(app, "editReplyNotice") == refused)
    given = QMimeData()
    given.setUrls([QUrl.fromLocalFile("/a.png")])
    field.insertFromMimeData(given)
    refused = "Not added: a reply can't have pictures or documents."
    assert (words(app, "editReplyNotice"), field.toPlainText()) == (refused, "first")
    field.insertPlainText("The ")
    assert words(app, "editReplyNotice") == ""


async def test_an_edit_of_a_reply_survives_scrolling_and_is_cancelled(
    app: App, engine: FakeEngine
) -> None:
    await talk(app, engine, ("one", "first"))
    choose(app, "first", "Edit the reply")
    find(app, QPlainTextEdit, "editReplyText").setPlainText("typed")
    app.parts.chat.open(None)
    await until(lambda: shown(app) == [])
    app.parts.chat.open(1)
    await until(lambda: shown(app) == ["one", "first"])
    assert find(app, QPlainTextEdit, "editReplyText").toPlainText() == "typed"
    press(app, "editReplyCancel")
    assert shown(app) == ["one", "first"]
    assert app.parts.drafts.edited(2) is None


async def test_messages_are_inserted_and_read_in_their_place(app: App, engine: FakeEngine) -> None:
    await talk(app, engine, ("one", "first"), ("two", "second"))
    choose(app, "first", "Insert below…")
    await until(lambda: app.window.findChildren(InsertDialog))
    dialog = find(app, InsertDialog, "insertDialog")
    dialog.question.take_text("x" * (long_text.LONGEST_TEXT + 1))
    assert words(app, "insertNote").startswith("Not added: a message can have 2,000,000 char")
    dialog.question.setPlainText("between")
    dialog.answer.setPlainText("mine")
    press(app, "insertUse")
    await until(lambda: shown(app) == ["one", "first", "between", "mine", "two", "second"])
    asked = await send(app, engine, "three")
    assert said_in(asked.conversation)[2:4] == [("user", "between"), ("reply", "mine")]
    asked.finish("third")


async def test_followers_move_to_the_version_shown_and_back(app: App, engine: FakeEngine) -> None:
    await followers_moved(app, engine)
    press(app, "toastAction")
    await until(lambda: shown(app) == ["one", "first", "two", "second"])
    app.parts.chat.regenerate(app.parts.transcript.rows[-1].id)
    await until(lambda: len(engine.asked) == 3)
    engine.asked[2].finish("other")
    await ended(app)
    choose(app, "other", "Move the messages after another version here")
    await until(lambda: words(app, "toastText").startswith("No messages follow"))


async def test_a_message_is_copied_in_three_ways_and_quoted(app: App, engine: FakeEngine) -> None:
    await talk(app, engine, ("one", "Some **bold** text\n\n- a\n- b"))
    text, clipboard = shown(app)[1], QGuiApplication.clipboard()
    choose(app, text, "Copy the reply")
    assert clipboard.text() == text
    choose(app, text, "Copy as plain text")
    await until(lambda: clipboard.text() == "Some bold text\n\n- a\n- b")
    choose(app, text, "Copy as formatted text")
    await until(lambda: "<strong>bold</strong>" in clipboard.mimeData().html())
    clipboard.clear()
    type_in(app, "Look:")
    choose(app, text, "Quote in your message")
    quoted = "Look:\n\n> Some **bold** text\n>\n> - a\n> - b\n\n"
    assert app.window.page.composer.text.toPlainText() == quoted


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("", ""),
        ("# Head\n\nText\\*", "Head\n\nText*"),
        ("1. a\n   - b\n2. c", "1. a\n  - b\n2. c"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a\tb\n1\t2"),
        ("Costs $5 and $x^2$", "Costs $5 and $x^2$"),
        ("```python\na  b\n```", "a  b"),
        ("![alt](http://evil) [words](http://b)", "alt words"),
        ("<script>x</script>", "<script>x</script>"),
    ],
)
def test_plain_text_has_no_marks(text: str, plain: str) -> None:
    assert plain_text(text) == plain
