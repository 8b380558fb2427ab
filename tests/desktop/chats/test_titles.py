"""Titles that the model writes: asked for once, in idle time, and never over a person's own."""

from __future__ import annotations

import pytest

from core.api.errors import InternalError
from desktop.chats.chats import ASK
from desktop.engine.engine_status import Phase
from desktop.store.tables.chats import TITLE_LENGTH, title_of
from desktop.window.window_parts import WindowParts
from tests.desktop.chat.test_chat import ask, ended
from tests.desktop.conftest import OpenParts, until
from tests.desktop.fake_engine import Asked, FakeEngine


async def answered(open_parts: OpenParts, engine: FakeEngine) -> tuple[WindowParts, Asked]:
    """A chat with its first reply, and the request for its title."""
    parts = await open_parts()
    await until(lambda: parts.engine.status.phase is Phase.READY)
    (await ask(parts, engine, "Why is the sky blue?")).finish("Light scatters.")
    await ended(parts)
    await until(lambda: engine.titles)
    return parts, engine.titles[-1]


async def turn(parts: WindowParts, engine: FakeEngine) -> None:
    (await ask(parts, engine, "And then?")).finish("So it is.")
    await ended(parts)


def title(parts: WindowParts) -> str:
    return parts.chat_list.chats[0].title


async def test_M5_the_model_is_asked_once_for_a_title_beside_the_chat(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts, asked = await answered(open_parts, engine)
    command = asked.command
    assert command.side and command.idle and command.chat == parts.chat.key
    assert command.thinking is False and command.sampling.temperature == 0
    *before, question = command.conversation.messages
    assert len(before) == 2 and question == ASK
    assert title(parts) == "Why is the sky blue?"
    asked.finish('**Title:** "Blue skies"\nHere it is.')
    await until(lambda: title(parts) == "Blue skies")
    await turn(parts, engine)
    await until(lambda: len(engine.settled) == 2)
    assert len(engine.titles) == 1


async def test_a_title_that_a_person_gave_stays(open_parts: OpenParts, engine: FakeEngine) -> None:
    parts, asked = await answered(open_parts, engine)
    parts.chats.rename(parts.chat_list.chats[0].id, "Mine")
    await until(lambda: title(parts) == "Mine")
    asked.finish("Blue skies")
    await turn(parts, engine)
    await until(lambda: len(engine.settled) == 2)
    assert title(parts) == "Mine" and len(engine.titles) == 1


async def test_a_request_that_failed_is_made_again_and_one_that_gave_no_title_is_not(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts, asked = await answered(open_parts, engine)
    asked.fail(InternalError("no room").info())
    await turn(parts, engine)
    await until(lambda: len(engine.titles) == 2)
    engine.titles[-1].finish("The user asks why the", reason="length")
    await turn(parts, engine)
    await until(lambda: len(engine.settled) == 3)
    assert title(parts) == "Why is the sky blue?" and len(engine.titles) == 2


async def test_a_setting_leaves_the_first_words(parts: WindowParts, engine: FakeEngine) -> None:
    await until(lambda: parts.engine.status.phase is Phase.READY)
    parts.settings.set_value("background.titles", False)
    await turn(parts, engine)
    await until(lambda: engine.settled)
    assert not engine.titles


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("Blue skies", "Blue skies"),
        ("\n\n# Blue skies.\nBecause", "Blue skies"),
        ("„Blauer Himmel“", "Blauer Himmel"),
        ("Title: Names in snake_case", "Names in snake_case"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("A\u202eB\u0007\x1b[0m <b>C</b>", "AB[0m <b>C</b>"),
        ("", ""),
        ('"."\n**', ""),
        ("word " * 100_000, ""),
    ],
)
def test_a_title_is_one_plain_bounded_line(reply: str, shown: str) -> None:
    assert title_of(reply) == shown
    assert len(title_of("w" * 60)) <= TITLE_LENGTH + 1
