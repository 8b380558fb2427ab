"""The real window with the real worker: both ways on at the context's end, and writing on.

Short contexts and the demo model. What idle work reads is waited for, so every count is certain.
"""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QLineEdit

from core.api.errors import PromptTooLongError
from core.api.events import Prepared
from core.client.requests import Request
from desktop.app import App
from desktop.chat.rows.reply_row import ReplyRow
from desktop.store.folders import Folders
from desktop.store.tables import messages
from desktop.store.tables.records import ReplyState
from tests.desktop.conftest import OpenApp, until
from tests.desktop.hands import ended, find, press, reply_of, said, stats_of, words
from tests.desktop.test_end_to_end import (
    Heard,
    answer,
    begin,
    make_replies_long,
    make_replies_sober,
    with_model,
)

LIMIT = 256
QUESTIONS = (
    "Hello, my name is Anna.",
    "Remember that my name is Anna.",
    "What is my name?",
    "Do you know my name?",
)


async def with_short_context(open_app: OpenApp, folders: Folders) -> App:
    folders.settings_file.write_text(f'{{"model": {{"path": "", "context_length": {LIMIT}}}}}')
    app, _ = await with_model(open_app, folders)
    assert app.parts.engine.model is not None
    assert app.parts.engine.model.context_length == LIMIT
    return app


async def talk(app: App, heard: Heard) -> Prepared:
    """Chat until the window says that the context fills up.

    Returns what idle work says of the chat without its oldest turns.
    """
    number = 0
    told: dict[Request[Prepared], Prepared] = {}
    while "fills" not in words(app, "limitWords"):
        await answer(app, QUESTIONS[number % len(QUESTIONS)])
        await heard.of_last()
        number += 1
        asked = app.parts.idle_prefill.compacting
        if asked is not None:
            told[asked] = await asked.last()
    assert told, "it was read in advance what would be left"
    return next(reversed(told.values()))


async def stored(app: App) -> list[str]:
    chat = app.parts.transcript.chat
    assert chat is not None
    chat_path = await app.parts.database.run(messages.read_chat, chat)
    assert chat_path is not None
    return [message.text for message in chat_path.path]


def set_longest_reply(app: App, tokens: str) -> None:
    field = find(app, QLineEdit, "settingSamplingMaxTokens")
    field.setText(tokens)
    field.editingFinished.emit()


async def go_on(app: App, heard: Heard) -> ReplyRow:
    await heard.of_last()
    heard.forget()
    press(app, "continueReply")
    await until(lambda: app.parts.chat.running is not None)
    return await ended(app)


async def test_M8_leaving_out_the_oldest_turns_costs_the_next_turn_only_its_own_words(
    open_app: OpenApp, folders: Folders
) -> None:
    app = await with_short_context(open_app, folders)
    heard = Heard(app)
    left = await talk(app, heard)
    before = await stored(app)
    press(app, "limitDrop")
    await until(lambda: any(row.first_in_prompt for row in app.parts.transcript.rows))
    assert words(app, "limitWords") == ""
    row = await answer(app, "What is my name?")
    stats = stats_of(row)
    # All that is left was read in advance, and nothing twice.
    assert stats.reused_tokens == left.parts[-1].end
    assert stats.evaluated_tokens == stats.prompt_tokens - left.parts[-1].end
    assert stats.miss is None
    assert stats.prompt_tokens < LIMIT / 2 + 40
    assert (await stored(app))[:-2] == before
    await heard.of_last()
    after = stats_of(await answer(app, "Do you know my name?"))
    assert after.miss is None and after.evaluated_tokens < 40
    press(app, "leftOutUndo")
    await until(lambda: not any(row.first_in_prompt for row in app.parts.transcript.rows))
    assert (await stored(app))[: len(before)] == before


async def test_M8_a_message_that_finds_no_room_is_answered_after_leaving_out(
    open_app: OpenApp, folders: Folders
) -> None:
    app = await with_short_context(open_app, folders)
    await talk(app, Heard(app))
    long = "The cat sat on the mat. " * 12
    row = await answer(app, long)
    reply = reply_of(row)
    assert reply.state is ReplyState.FAILED and reply.error is not None
    assert reply.error.name == PromptTooLongError.__name__ and str(LIMIT) in reply.error.message
    assert "no room for the last message" in words(app, "limitWords")
    before = await stored(app)
    press(app, "limitDrop")
    await until(lambda: app.parts.transcript.rows[-1].place == 1)
    row = await ended(app)
    assert reply_of(row).state is ReplyState.COMPLETE and said(row)
    assert stats_of(row).prompt_tokens < LIMIT
    assert (await stored(app))[:-1] == before[:-1]


@pytest.mark.slow
async def test_M8_a_summary_begins_a_new_chat_and_costs_the_old_one_nothing(
    open_app: OpenApp, folders: Folders
) -> None:
    app = await with_short_context(open_app, folders)
    await talk(app, Heard(app))
    old, before = app.parts.transcript.chat, await stored(app)
    set_longest_reply(app, "")
    press(app, "limitSummary")
    await until(lambda: not app.parts.limit.summarising)
    assert app.parts.limit.trouble == ""
    await until(lambda: app.parts.transcript.rows == [])
    assert "Summary of the conversation so far:" in app.parts.chat.instructions
    row = await answer(app, "What is my name?")
    assert reply_of(row).state is ReplyState.COMPLETE
    assert app.parts.transcript.chat != old
    app.parts.chat.open(old)
    await until(lambda: [row.text for row in app.parts.transcript.rows] == before)
    assert "fills" in words(app, "limitWords")


async def test_T3_a_reply_cut_off_by_the_longest_reply_goes_on_as_if_it_had_not_been(
    open_app: OpenApp, folders: Folders
) -> None:
    app, _ = await with_model(open_app, folders)
    heard = Heard(app)
    whole = said(await answer(app, QUESTIONS[0]))
    await heard.of_last()
    set_longest_reply(app, "3")
    press(app, "regenerate")
    await until(lambda: app.parts.transcript.rows[-1].place == 1)
    row = await ended(app)
    assert reply_of(row).finish_reason == "length" and len(said(row)) < len(whole)
    assert whole.startswith(said(row))
    set_longest_reply(app, "")
    row = await go_on(app, heard)
    assert reply_of(row).finish_reason == "stop" and said(row) == whole
    assert stats_of(row).evaluated_tokens == 0 and stats_of(row).miss is None
    assert await stored(app) == [QUESTIONS[0], whole]
    settled = await heard.of_last()
    after = stats_of(await answer(app, "What is my name?"))
    assert after.reused_tokens == settled.parts[-1].end and after.miss is None


async def test_T3_a_stopped_reply_goes_on_from_its_last_word(
    open_app: OpenApp, folders: Folders
) -> None:
    app, _ = await with_model(open_app, folders)
    heard = Heard(app)
    make_replies_long(app)
    await begin(app, QUESTIONS[0])
    await until(lambda: app.parts.transcript.rows[-1].text.strip() != "")
    press(app, "sendButton")
    stopped = said(await ended(app))
    make_replies_sober(app)
    set_longest_reply(app, "8")
    row = await go_on(app, heard)
    assert stats_of(row).evaluated_tokens == 0 and stats_of(row).miss is None
    assert reply_of(row).state is ReplyState.COMPLETE
    assert said(row).startswith(stopped.strip()) or stopped in said(row)
    assert (await stored(app))[1] == said(row)
    assert row.row.message.siblings == (row.row.id,)
    settled = await heard.of_last()
    after = stats_of(await answer(app, "What is my name?"))
    assert after.reused_tokens == settled.parts[-1].end and after.miss is None
