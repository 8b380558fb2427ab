from __future__ import annotations

from pathlib import Path

import pytest

from core.api.chat import AssistantMessage, ImagePart, TextPart, UserMessage
from core.api.errors import InternalError
from desktop.context.idle_prefill import LONG_TEXT
from tests.desktop.chat.test_chat import ask, ended
from tests.desktop.conftest import OpenParts, ready, until
from tests.desktop.fake_engine import FakeEngine, model_info, png


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    path.write_bytes(png())
    return path


async def test_finished_and_stopped_replies_are_prefilled_and_failed_ones_are_not(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts)
    asked = await ask(parts, engine, "Hello")
    asked.finish("Good day")
    await ended(parts)
    await until(lambda: engine.settled)
    question, answer = engine.settled[0].conversation.messages
    assert question == UserMessage(content=(TextPart(text="Hello"),))
    assert isinstance(answer, AssistantMessage) and answer.text == "Good day"
    assert engine.settled[0].conversation.created == asked.conversation.created
    (await ask(parts, engine, "More")).say("Goo", ids=(1,))
    parts.chat.stop()
    await ended(parts)
    await until(lambda: len(engine.settled) == 2)
    (await ask(parts, engine, "And?")).fail(InternalError("no").info())
    await ended(parts)
    assert len(engine.settled) == 2


async def test_a_picture_is_prefilled_until_it_is_removed_or_sent(
    open_parts: OpenParts, engine: FakeEngine, picture: Path
) -> None:
    parts = await ready(open_parts)
    parts.pictures.add_files(parts.chat.draft, [picture])
    await until(lambda: engine.read)
    (message,) = engine.read[0].conversation.messages
    assert isinstance(message, UserMessage) and isinstance(message.content[0], ImagePart)
    parts.pictures.remove(parts.chat.draft, parts.chat.draft.pictures[0].number)
    assert engine.unread == [0] and len(engine.read) == 1
    parts.pictures.add_files(parts.chat.draft, [picture])
    await until(lambda: len(engine.read) == 2)
    await ask(parts, engine, "What is it?")
    assert engine.unread == [0, 1] and len(engine.read) == 2


async def test_a_long_pasted_text_is_read_and_a_short_one_is_not(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts)
    draft = parts.chat.draft
    draft.text = "Hello"
    parts.chat.note_pause(draft)
    draft.text = "word " * (LONG_TEXT // 5)
    parts.chat.note_pause(draft)
    await until(lambda: engine.read)
    (message,) = engine.read[0].conversation.messages
    assert message == UserMessage(content=(TextPart(text=draft.text.strip()),))
    draft.text += "and more"
    parts.chat.note_pause(draft)
    await until(lambda: len(engine.read) == 2)
    assert engine.unread == [0]


async def test_a_draft_waits_for_the_reply_before_it(
    open_parts: OpenParts, engine: FakeEngine, picture: Path
) -> None:
    parts = await ready(open_parts)
    asked = await ask(parts, engine, "Hello")
    parts.pictures.add_files(parts.chat.draft, [picture])
    await until(lambda: parts.chat.draft.pictures and parts.chat.draft.complete)
    assert engine.read == []
    asked.finish("Good day")
    await until(lambda: engine.read)
    assert [message.role for message in engine.read[0].conversation.messages] == [
        "user",
        "assistant",
        "user",
    ]


@pytest.mark.parametrize("why", ["off", "blind"])
async def test_nothing_is_read_ahead_where_it_is_off_or_the_model_is_blind(
    open_parts: OpenParts, engine: FakeEngine, picture: Path, why: str
) -> None:
    if why == "blind":
        engine.model_to_load = model_info(vision=False)
    parts = await ready(open_parts)
    if why == "off":
        parts.settings.set_value("ahead.read_ahead", False)
    parts.pictures.add_files(parts.chat.draft, [picture])
    await until(lambda: parts.chat.draft.pictures and parts.chat.draft.complete)
    # A request to answer goes through the same store; when it is there, the other would be too.
    parts.pictures.remove(parts.chat.draft, parts.chat.draft.pictures[0].number)
    await ask(parts, engine, "Hello")
    assert engine.read == []
