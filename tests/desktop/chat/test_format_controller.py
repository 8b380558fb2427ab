"""The form of replies: asked of the engine, kept with the chat and with each reply."""

from __future__ import annotations

import json

import pytest

from core.api.reply_format import ReplyFormat
from core.api.stats import RequestStats
from core.formats import check
from desktop.engine.engine_status import Phase
from desktop.store.folders import Folders
from desktop.window.window_parts import WindowParts
from tests.desktop.chat.test_chat import ask, ended
from tests.desktop.conftest import Loop, OpenParts, until
from tests.desktop.fake_engine import FakeEngine
from tests.formats.test_check import chain

JSON = ReplyFormat(kind="json")
SCHEMA = ReplyFormat(kind="json_schema", text='{"type": "array"}')


async def ready(open_parts: OpenParts) -> WindowParts:
    parts = await open_parts()
    await until(lambda: parts.engine.status.phase is Phase.READY)
    return parts


async def chosen(parts: WindowParts, form: ReplyFormat | None) -> None:
    parts.chat.ask_for(form)
    await until(lambda: parts.chat.format == form)


async def test_the_form_goes_with_the_request_and_stays_with_the_reply(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts)
    await chosen(parts, SCHEMA)
    first = await ask(parts, engine, "List them")
    assert first.command.format == SCHEMA
    first.finish("[1]")
    assert (await ended(parts)).format == SCHEMA
    await chosen(parts, None)
    second = await ask(parts, engine, "And now?")
    assert second.command.format is None
    second.finish("Done.")
    assert (await ended(parts)).format is None
    replies = [row.message.reply for row in parts.transcript.rows if row.message.reply]
    assert [reply.format for reply in replies] == [SCHEMA, None]


async def test_a_continued_reply_keeps_its_format_and_another_has_the_chats(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts)
    await chosen(parts, SCHEMA)
    asked = await ask(parts, engine, "List them")
    asked.finish("[1, 2", reason="length", stats=RequestStats(prompt_tokens=10))
    await ended(parts)
    await chosen(parts, JSON)
    parts.chat.go_on(parts.transcript.rows[-1].id)
    await until(lambda: len(engine.asked) == 2)
    assert engine.asked[-1].command.format == SCHEMA
    engine.asked[-1].finish("[1, 2]")
    assert (await ended(parts)).format == SCHEMA
    parts.chat.regenerate(parts.transcript.rows[-1].id)
    await until(lambda: len(engine.asked) == 3)
    assert engine.asked[-1].command.format == JSON


async def test_each_chat_has_its_own_form_and_the_last_schema_is_offered_again(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts)
    await chosen(parts, SCHEMA)
    (await ask(parts, engine, "List them")).finish("[1]")
    await ended(parts)
    chat = parts.transcript.chat
    parts.chat.open(None)
    assert (parts.chat.format, parts.chat.last_schema) == (None, SCHEMA.text)
    parts.chat.open(chat)
    await until(lambda: parts.transcript.chat == chat)
    assert parts.chat.format == SCHEMA
    await chosen(parts, JSON)
    assert parts.chat.last_schema == SCHEMA.text


def test_the_form_survives_a_restart(qloop: Loop, folders: Folders) -> None:
    newer = ReplyFormat(kind="json_schema", text='{"type": "object"}')

    async def first_life() -> None:
        engine = FakeEngine()
        parts = WindowParts(folders, engine)
        parts.begin()
        await until(lambda: parts.engine.status.phase is Phase.READY)
        await chosen(parts, SCHEMA)
        (await ask(parts, engine, "List them")).finish("[1]")
        await ended(parts)
        parts.chat.open(None)
        await chosen(parts, newer)
        await parts.close()

    async def second_life() -> None:
        parts = WindowParts(folders, FakeEngine())
        parts.begin()
        assert (parts.chat.format, parts.chat.last_schema) == (newer, newer.text)
        await until(lambda: parts.chat_list.chats)
        parts.chat.open(parts.chat_list.chats[0].id)
        await until(lambda: parts.transcript.rows)
        assert (parts.chat.format, parts.chat.last_schema) == (SCHEMA, SCHEMA.text)
        await parts.close()

    qloop.run(first_life())
    qloop.run(second_life())


async def test_closing_does_not_wait_for_a_check_that_runs(
    open_parts: OpenParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "CHECK_S", 600.0)
    check._checks.close()
    parts = await ready(open_parts)
    endless = ReplyFormat(kind="json_schema", text=json.dumps(chain(40, "anyOf")))
    parts.formats.read(1, "1", endless)
    await until(lambda: check._checks.pid is not None)
    await parts.close()
    # Its thread is told, and not waited for.
    await until(lambda: check._checks.pid is None)
