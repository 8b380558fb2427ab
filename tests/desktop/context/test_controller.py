from __future__ import annotations

from pathlib import Path

import pytest

from core.api.errors import BudgetTooSmallError
from core.api.events import Failed, Prepared
from core.api.model_info import ModelInfo
from core.api.stats import CacheBytes, ContextPart, HeldCheckpoint, RequestStats
from desktop.chat.context_fill import DraftTokens
from desktop.context.strip import Strip
from desktop.engine.engine_status import Phase
from desktop.window.window_parts import WindowParts
from tests.desktop.chat.test_chat import ask, ended
from tests.desktop.conftest import Loop, OpenParts, ready, until
from tests.desktop.fake_engine import FakeEngine, model_info, png

STATS = RequestStats(
    prompt_tokens=10,
    evaluated_tokens=10,
    parts=(ContextPart(start=0, end=10, kind="text", source="evaluated"),),
    bytes=CacheBytes(kv=5, host_budget=100),
    context_length=4096,
)
PREPARED = Prepared(
    request=0,
    tokens=4,
    encoded=0,
    bytes=CacheBytes(kv=9, host_budget=100),
    prompt_tokens=14,
    parts=(ContextPart(start=0, end=14, kind="text", source="reused", tier="memory"),),
    checkpoints=(HeldCheckpoint(token=14, position=14, bytes=1),),
    message_starts=(0, 10),
)


@pytest.fixture
def parts(qloop: Loop, open_parts: OpenParts) -> WindowParts:
    return qloop.run(ready(open_parts))


async def answered(parts: WindowParts, engine: FakeEngine, text: str = "Hello") -> None:
    (await ask(parts, engine, text)).finish("Good day", stats=STATS)
    await ended(parts)


async def test_the_strip_shows_what_settling_left_behind(
    parts: WindowParts, engine: FakeEngine
) -> None:
    before = parts.context.view
    assert before.bytes is None
    await answered(parts, engine)
    assert parts.context.view.strip.parts == STATS.parts
    assert parts.context.view.bytes == STATS.bytes
    await until(lambda: engine.settling)
    engine.settling[0].put(PREPARED)
    await until(lambda: parts.context.view.bytes == PREPARED.bytes)
    strip = parts.context.view.strip
    assert (strip.parts, strip.checkpoints) == (PREPARED.parts, PREPARED.checkpoints)
    # What the reply had to read stays to be seen beside it.
    assert (strip.asked, strip.context_length, strip.known) == (STATS.parts, 4096, True)
    # The message field says that the rest of the context is left, until something else is shown.
    assert parts.draft_size.size == DraftTokens(0, 4096 - 14)
    parts.chat.open(None)
    await until(lambda: not parts.transcript.rows)
    assert parts.draft_size.size == DraftTokens(0, 4096)


async def test_a_reply_that_was_not_prefilled_still_counts(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts)
    await answered(parts, engine)
    before = parts.draft_size.size
    await until(lambda: engine.settling)
    engine.settling[0].put(PREPARED.model_copy(update={"message_starts": (0, 14)}))
    await until(lambda: parts.context.view.bytes == PREPARED.bytes)
    assert parts.draft_size.size == before


async def test_opening_a_chat_makes_it_ready_and_shows_where_it_lies(
    parts: WindowParts, engine: FakeEngine
) -> None:
    await answered(parts, engine)
    chat = parts.transcript.chat
    parts.chat.open(None)
    await answered(parts, engine, "Another")
    await until(lambda: len(engine.settling) == 2)
    parts.chat.open(chat)
    await until(lambda: len(engine.settling) == 3)
    assert [message.role for message in engine.settled[2].conversation.messages] == [
        "user",
        "assistant",
    ]
    # What another chat did since may have moved it.
    assert not parts.context.view.strip.known
    engine.settling[2].put(PREPARED)
    await until(lambda: parts.context.view.strip.known)
    assert parts.context.view.strip.parts == PREPARED.parts


async def test_a_chat_left_again_is_no_longer_made_ready(
    parts: WindowParts, engine: FakeEngine
) -> None:
    await answered(parts, engine)
    chat = parts.transcript.chat
    parts.chat.open(None)
    parts.chat.open(chat)
    await until(lambda: len(engine.settling) == 2)
    parts.chat.open(None)
    # The first was of the same reply, and void when that was asked for anew.
    assert engine.unsettled == [0, 1]


async def test_opening_reads_nothing_where_settling_is_off(
    parts: WindowParts, engine: FakeEngine
) -> None:
    parts.settings.set_value("ahead.settle", False)
    await answered(parts, engine)
    chat = parts.transcript.chat
    parts.chat.open(None)
    parts.chat.open(chat)
    await until(lambda: parts.transcript.rows)
    await answered(parts, engine, "And?")
    assert engine.settled == []


async def test_a_draft_read_ahead_is_shown(
    parts: WindowParts, engine: FakeEngine, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(png())
    parts.pictures.add_files(parts.chat.draft, [tmp_path / "a.png"])
    await until(lambda: engine.reading)
    engine.reading[0].put(PREPARED)
    await until(lambda: parts.context.view.strip.parts)
    view = parts.context.view
    assert (view.stats, view.strip.context_length) == (None, 4096)


async def test_a_budget_too_small_for_idle_work_is_said_beside_the_setting(
    parts: WindowParts, engine: FakeEngine
) -> None:
    await answered(parts, engine)
    await until(lambda: engine.settling)
    error = BudgetTooSmallError("1 byte is too little.").info()
    engine.settling[0].put(Failed(request=0, error=error))
    await until(lambda: parts.settings.budget_trouble == "1 byte is too little.")


@pytest.mark.parametrize(
    "other",
    [
        model_info(context_length=512),
        model_info(tokenizer="o" * 64),
        # Alike in all but the weights.
        model_info(fingerprint="o" * 64),
    ],
)
async def test_numbers_of_another_model_are_not_shown(
    parts: WindowParts, engine: FakeEngine, other: ModelInfo
) -> None:
    await answered(parts, engine)
    assert parts.context.view.stats == STATS
    mine, engine.model_to_load = engine.model_to_load, other
    parts.settings.load()
    await until(lambda: parts.engine.model is other)
    view = parts.context.view
    assert (view.stats, view.strip, view.bytes, view.foreign) == (None, Strip(), None, True)
    # They are its own, which has them again; where the context lies is not known.
    engine.model_to_load = mine
    parts.settings.load()
    await until(lambda: parts.engine.model is mine)
    view = parts.context.view
    assert (view.stats, view.foreign, view.strip.known) == (STATS, False, False)


async def test_a_reply_that_waits_leaves_the_context_as_it_was(
    parts: WindowParts, engine: FakeEngine
) -> None:
    await answered(parts, engine)
    await ask(parts, engine, "More")
    strip = parts.context.view.strip
    assert strip.known and strip.parts == STATS.parts
    engine.asked[-1].finish("x", stats=STATS)
    await ended(parts)


async def test_trouble_with_the_disk_is_shown_and_said_once(
    parts: WindowParts, engine: FakeEngine
) -> None:
    said: list[str] = []
    parts.said.connect(said.append)
    full = STATS.model_copy(update={"disk_trouble": "No space left on device."})
    for _ in range(2):
        (await ask(parts, engine, "Hello")).finish("Good day", stats=full)
        await ended(parts)
        assert parts.context.view.disk_trouble == "No space left on device."
    (told,) = said
    assert told.startswith("Contexts can't be saved on disk") and told.endswith("left on device.")
    # Of an older chat too, until a request says that it is well again.
    parts.chat.open(None)
    assert parts.context.view.disk_trouble
    await answered(parts, engine)
    assert parts.context.view.disk_trouble == ""
    (await ask(parts, engine, "Hello")).finish("Good day", stats=full)
    await ended(parts)
    assert len(said) == 2


async def test_a_chat_on_screen_is_asked_for_anew_when_the_model_comes_back(
    parts: WindowParts, engine: FakeEngine
) -> None:
    await answered(parts, engine)
    await until(lambda: len(engine.settled) == 1)
    engine.settling[0].put(PREPARED)
    await until(lambda: parts.context.view.bytes == PREPARED.bytes)
    await engine.die()
    await until(lambda: parts.engine.status.phase is Phase.READY)
    assert parts.context.view.bytes is None and not parts.context.view.strip.known
    await until(lambda: len(engine.settled) == 2)
    assert engine.settled[1].conversation == engine.settled[0].conversation
    engine.settling[1].put(PREPARED)
    await until(lambda: parts.context.view.strip.known)
    assert parts.context.view.strip.parts == PREPARED.parts
