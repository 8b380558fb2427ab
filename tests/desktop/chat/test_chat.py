from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

import pytest

from core.api.chat import AssistantMessage, TextPart, UserMessage
from core.api.commands import Answered, Last_co
from core.api.errors import ErrorInfo
from core.api.events import Prefilling
from core.api.stats import ContextPart, RequestStats
from core.client.requests import Request
from desktop.chat import replies
from desktop.chat.transcript import LiveReply, ending_text
from desktop.engine.engine_status import Phase
from desktop.numbers import images_reused
from desktop.pictures.draft import DraftPicture
from desktop.store.folders import Folders
from desktop.store.tables import messages
from desktop.store.tables.records import Picture, Reply, ReplyState
from desktop.window.window_parts import WindowParts
from tests.desktop.conftest import Loop, OpenParts, until
from tests.desktop.fake_engine import Asked, FakeEngine, model_info

READY = Phase.READY


async def ask(parts: WindowParts, engine: FakeEngine, text: str) -> Asked:
    before = len(engine.asked)
    parts.chat.draft.text = text
    parts.chat.send()
    await until(lambda: len(engine.asked) > before)
    return engine.asked[-1]


async def ended(parts: WindowParts) -> Reply:
    await until(lambda: parts.transcript.rows and parts.chat.running is None)
    reply = parts.transcript.rows[-1].message.reply
    assert reply is not None
    return reply


def shown(parts: WindowParts) -> list[str]:
    return [row.text for row in parts.transcript.rows]


async def test_a_message_is_on_disk_before_the_engine_hears_of_it(
    parts: WindowParts, engine: FakeEngine, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    await until(lambda: parts.engine.status.phase is READY)
    stored: list[tuple[str, str]] = []
    real = engine.ask

    def looked_at(command: Answered[Last_co]) -> Request[Last_co]:
        with sqlite3.connect(folders.database) as other:
            rows = "SELECT text, ifnull(state, '') FROM messages LEFT JOIN replies ON id = message"
            stored.extend(other.execute(rows).fetchall())
        other.close()
        return real(command)

    monkeypatch.setattr(engine, "ask", looked_at)
    await ask(parts, engine, "Hello")
    assert stored == [("Hello", ""), ("", "running")]


async def test_a_chat_goes_back_and_forth(parts: WindowParts, engine: FakeEngine) -> None:
    first = await ask(parts, engine, "Hello")
    assert first.conversation.messages == (UserMessage(content=(TextPart(text="Hello"),)),)
    assert first.conversation.created > 1e9
    first.say("Good ", ids=(1,))
    first.say("day", ids=(2,))
    stats = RequestStats(prompt_tokens=9, evaluated_tokens=9)
    first.finish(stats=stats, reasoning="greet")
    reply = await ended(parts)
    assert (reply.state, reply.stats, reply.reasoning) == (ReplyState.COMPLETE, stats, "greet")
    assert reply.model == "stand-in"
    second = await ask(parts, engine, "And then?")
    answer = second.conversation.messages[1]
    assert isinstance(answer, AssistantMessage)
    assert (answer.text, answer.reasoning, answer.ids) == ("Good day", "greet", reply.ids)
    assert second.conversation.created == first.conversation.created
    assert shown(parts) == ["Hello", "Good day", "And then?", ""]
    assert [chat.title for chat in parts.chat_list.chats] == ["Hello"]


async def test_nothing_is_sent_twice_nor_when_there_is_nothing(
    parts: WindowParts, engine: FakeEngine
) -> None:
    parts.chat.draft.text = "  \n "
    parts.chat.send()
    parts.chat.draft.text = "Once"
    parts.chat.send()
    parts.chat.send()
    await until(lambda: engine.asked)
    parts.chat.draft.text = "While it runs"
    parts.chat.send()
    assert [each.text for each in parts.chat.draft.queued] == ["While it runs"]
    assert len(engine.asked) == 1
    engine.asked[0].finish("done")
    await until(lambda: len(engine.asked) == 2)
    engine.asked[1].finish("again")
    await ended(parts)
    assert shown(parts) == ["Once", "done", "While it runs", "again"]


async def test_a_message_that_an_unexpected_error_kept_from_the_store_is_a_draft_again(
    parts: WindowParts, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(messages, "append_turn", fail)
        parts.chat.draft.text = "Hello"
        parts.chat.send()
        await until(lambda: not parts.chat._sending and parts.chat.draft.text == "Hello")
    assert engine.asked == [] and parts.chat.draft.queued == []
    parts.chat.send()
    await until(lambda: engine.asked)
    engine.asked[0].finish("done")
    await ended(parts)


async def test_a_message_sent_before_there_is_a_model_waits_and_can_be_stopped(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    engine.may_load.clear()
    engine.model_to_load = None
    parts = await open_parts()
    parts.chat.draft.text = "Early"
    parts.chat.send()
    await until(lambda: parts.chat.running and "Waiting for the model" in parts.chat.running.status)
    engine.may_load.set()
    await until(lambda: parts.chat.running and "choose one" in parts.chat.running.status)
    parts.chat.stop()
    reply = await ended(parts)
    assert (reply.state, ending_text(reply)) == (ReplyState.STOPPED, "Stopped.")
    assert engine.asked == []
    parts.chat.regenerate(parts.transcript.rows[-1].id)
    await until(lambda: parts.chat.running and "choose one" in parts.chat.running.status)
    engine.model_to_load = model_info()
    parts.settings.load()
    await until(lambda: engine.asked)
    engine.asked[0].finish("here")
    assert (await ended(parts)).state is ReplyState.COMPLETE


async def test_an_engine_that_does_not_stop_is_not_waited_for(
    open_parts: OpenParts, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "STOP_PATIENCE_S", 0.02)
    parts = await open_parts()
    asked = await ask(parts, engine, "Tell me")
    asked.deaf = True
    asked.say("Half a", ids=(1, 2))
    await until(lambda: shown(parts)[-1] == "Half a")
    parts.chat.stop()
    reply = await ended(parts)
    assert asked.cancelled
    assert (reply.state, shown(parts)[-1]) == (ReplyState.STOPPED, "Half a")
    asked.finish("Late words")
    (await ask(parts, engine, "Go on")).finish("Yes.")
    await ended(parts)
    assert shown(parts) == ["Tell me", "Half a", "Go on", "Yes."]


def bytes_in_log(folders: Folders) -> int:
    return Path(f"{folders.database}-wal").stat().st_size


def is_saved(live: LiveReply, count: int) -> bool:
    return len(live.ids) == count and live.saved


async def test_a_growing_reply_is_not_stored_anew_each_second(
    open_parts: OpenParts, engine: FakeEngine, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes written are counted in the log of the file of chats, which isn't emptied here."""
    monkeypatch.setattr(replies, "SAVE_EVERY_S", 0.01)
    parts = await open_parts()
    await parts.database.run(lambda each: each.execute("PRAGMA wal_autocheckpoint = 0").fetchall())
    asked = await ask(parts, engine, "Tell me")
    live = parts.chat.running
    assert live is not None
    piece, count = "word " * 2_000, 60
    for number in range(count):
        asked.say(piece, reasoning="hm", ids=(number,))
        await until(partial(is_saved, live, number + 1))
    written = bytes_in_log(folders)
    assert count * len(piece) < written < 4 * count * len(piece)
    assert parts.transcript.chat is not None
    stored = (await parts.database.run(messages.read_path, parts.transcript.chat))[-1]
    assert stored.text == piece * count and stored.reply is not None
    assert (stored.reply.reasoning, stored.reply.state) == ("hm" * count, ReplyState.RUNNING)
    assert stored.reply.ids is not None and stored.reply.ids.unpack() == list(range(count))
    asked.finish()
    await ended(parts)
    assert shown(parts)[-1] == piece * count


async def test_a_reply_broken_off_by_a_death_stays_and_the_chat_goes_on(
    parts: WindowParts, engine: FakeEngine
) -> None:
    asked = await ask(parts, engine, "Tell me")
    asked.say("Half a", ids=(1, 2))
    await until(lambda: shown(parts)[-1] == "Half a")
    await engine.die()
    reply = await ended(parts)
    assert (reply.state, shown(parts)[-1]) == (ReplyState.STOPPED, "Half a")
    assert "SIGSEGV" in ending_text(reply)
    await until(lambda: parts.engine.status.phase is READY)
    again = await ask(parts, engine, "Go on")
    stopped = again.conversation.messages[1]
    assert isinstance(stopped, AssistantMessage)
    assert stopped.text == "Half a"
    assert stopped.ids is not None
    assert stopped.ids.unpack() == [1, 2]


async def test_a_queued_reply_outlives_the_death_of_another(
    parts: WindowParts, engine: FakeEngine
) -> None:
    guilty = await ask(parts, engine, "First")
    guilty.say("Half")
    parts.chat.open(None)
    queued = await ask(parts, engine, "Second")
    queued.queue(1)
    await until(lambda: parts.chat.running and "another reply" in parts.chat.running.status)
    await engine.die()
    await until(lambda: len(engine.asked) == 3)
    assert engine.asked[2].conversation == queued.conversation
    engine.asked[2].finish("fine")
    assert (await ended(parts)).state is ReplyState.COMPLETE


async def test_switching_chats_cancels_nothing(parts: WindowParts, engine: FakeEngine) -> None:
    first = await ask(parts, engine, "First")
    chat = parts.transcript.chat
    parts.chat.open(None)
    first.say("one ")
    parts.chat.open(chat)
    await until(lambda: shown(parts) == ["First", "one "])
    parts.chat.open(None)
    assert shown(parts) == []
    second = await ask(parts, engine, "Second")
    first.say("two")
    first.finish()
    second.finish("other")
    await ended(parts)
    assert not first.cancelled
    assert shown(parts) == ["Second", "other"]
    parts.chat.open(parts.chat_list.chats[1].id)
    await until(lambda: shown(parts) == ["First", "one two"])


async def test_regenerate_while_it_grows_stops_it_first(
    parts: WindowParts, engine: FakeEngine
) -> None:
    first = await ask(parts, engine, "Hello")
    first.say("half")
    await until(lambda: shown(parts)[-1] == "half")
    parts.chat.regenerate(parts.transcript.rows[1].id)
    await until(lambda: len(engine.asked) == 2)
    assert first.cancelled
    assert engine.asked[1].conversation == first.conversation
    engine.asked[1].finish("second")
    await ended(parts)
    row = parts.transcript.rows[1]
    assert (row.text, row.place, len(row.message.siblings)) == ("second", 1, 2)


async def test_a_reply_begun_stays_one_of_its_own_whatever_is_pressed_meanwhile(
    parts: WindowParts, engine: FakeEngine
) -> None:
    (await ask(parts, engine, "Hello")).finish("first")
    await ended(parts)
    first = parts.transcript.rows[1].id
    parts.chat.regenerate(first)
    parts.chat.regenerate(first)
    parts.chat.choose(first)
    await until(lambda: len(engine.asked) == 3)
    assert len(parts.replies.live) == 2
    for asked in engine.asked[1:]:
        asked.finish(" again")
    await until(lambda: not parts.replies.live)
    assert shown(parts) == ["Hello", "first"]
    assert len(parts.transcript.rows[1].message.siblings) == 3


async def test_edit_sends_again_beside_the_old_message(
    parts: WindowParts, engine: FakeEngine
) -> None:
    (await ask(parts, engine, "one")).finish("1")
    await ended(parts)
    (await ask(parts, engine, "two")).finish("2")
    await ended(parts)
    parts.chat.edit(parts.transcript.rows[0].id, "uno")
    await until(lambda: len(engine.asked) == 3)
    assert len(engine.asked[2].conversation.messages) == 1
    engine.asked[2].finish("U")
    await ended(parts)
    assert shown(parts) == ["uno", "U"]
    before = parts.transcript.rows[0].sibling(-1)
    assert before is not None
    parts.chat.choose(before)
    await until(lambda: shown(parts) == ["one", "1", "two", "2"])


async def test_deleting_the_chat_that_is_replying_stops_it_and_can_be_undone(
    parts: WindowParts, engine: FakeEngine
) -> None:
    asked = await ask(parts, engine, "Hello")
    asked.say("half")
    chat = parts.transcript.chat
    assert chat is not None
    await until(lambda: parts.chat_list.chats)
    deleted: list[tuple[int, str]] = []
    parts.chats.deleted.connect(lambda *what: deleted.append(what))
    parts.chats.delete(chat)
    await until(lambda: deleted)
    assert asked.cancelled
    assert deleted == [(chat, "Hello")]
    assert parts.chat_list.chats == []
    parts.chats.restore(chat)
    await until(lambda: parts.chat_list.chats)
    parts.chat.open(None)
    parts.chat.open(chat)
    await until(lambda: shown(parts) == ["Hello", "half"])


async def test_a_picture_sent_before_the_model_turns_out_blind_is_refused_too(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    engine.model_to_load = model_info(vision=False)
    engine.may_load.clear()
    parts = await open_parts()
    parts.chat.draft.pictures.append(
        DraftPicture("a.png", picture=Picture("a" * 64, "a.png", (1, 1)))
    )
    parts.chat.draft.text = "What is it?"
    parts.chat.send()
    await until(lambda: parts.chat.running)
    engine.may_load.set()
    reply = await ended(parts)
    assert (reply.state, engine.asked) == (ReplyState.FAILED, [])
    assert "can't see them" in ending_text(reply)


async def test_a_store_that_fails_gives_the_text_back(
    parts: WindowParts, engine: FakeEngine
) -> None:
    await until(lambda: parts.engine.status.phase is READY)
    await parts.database.run(lambda connection: connection.execute("DROP TABLE replies"))
    refused: list[str] = []
    parts.chat.refused.connect(refused.append)
    parts.chat.set_own({"thinking": False})
    parts.chat.draft.text = "Precious"
    parts.chat.send()
    await until(lambda: refused)
    assert "was not sent" in refused[0]
    assert parts.chat.draft.text == "Precious"
    assert parts.chat.own == {"thinking": False}
    assert engine.asked == []


async def test_a_reply_that_cannot_be_stored_ends_on_screen_all_the_same(
    parts: WindowParts, engine: FakeEngine
) -> None:
    failed: list[ErrorInfo] = []
    parts.failed.connect(failed.append)
    asked = await ask(parts, engine, "Hello")
    await parts.database.run(lambda connection: connection.execute("DROP TABLE replies"))
    asked.finish("Hi")
    await ended(parts)
    assert shown(parts) == ["Hello", "Hi"]
    await until(lambda: failed)
    assert failed[0].title == "The chats can't be stored"


def test_closing_in_the_middle_of_a_reply_keeps_it_as_a_stopped_one(
    qloop: Loop, folders: Folders
) -> None:
    async def first_life() -> None:
        engine = FakeEngine()
        parts = WindowParts(folders, engine)
        parts.begin()
        asked = await ask(parts, engine, "Hello")
        asked.say("half", ids=(7,))
        await until(lambda: shown(parts)[-1] == "half")
        await parts.close()
        assert engine.closed

    async def second_life() -> None:
        parts = WindowParts(folders, FakeEngine())
        parts.begin()
        await until(lambda: parts.chat_list.chats)
        parts.chat.open(parts.chat_list.chats[0].id)
        await until(lambda: shown(parts) == ["Hello", "half"])
        reply = parts.transcript.rows[1].message.reply
        assert reply is not None
        assert reply.state is ReplyState.STOPPED
        assert ending_text(reply) == "Stopped: Waymark was closed before the reply was complete."
        assert parts.chat.running is None
        await parts.close()

    qloop.run(first_life())
    qloop.run(second_life())


@pytest.mark.parametrize(
    ("done", "words"),
    [(150, "Reading: 150 of 400 tokens"), (200, "Reading an image: 200 of 400 tokens")],
)
def test_an_image_counts_once_it_is_reused_or_encoded(done: int, words: str) -> None:
    parts = (
        ContextPart(start=0, end=100, kind="image", source="reused"),
        ContextPart(start=100, end=200, kind="text", source="evaluated"),
        ContextPart(start=200, end=400, kind="image", source="evaluated"),
    )
    stats = RequestStats(prompt_tokens=400, images_in_prompt=2, parts=parts)
    assert replies.prefill_text(Prefilling(request=1, done=done, stats=stats)) == words
    encoded = stats.model_copy(update={"images_encoded": 1})
    assert images_reused(stats, done) == images_reused(encoded, 400) == 1
