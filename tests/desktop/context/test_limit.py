from __future__ import annotations

from core.api.chat import AssistantMessage, Conversation, ImagePart, SystemMessage, UserMessage
from core.api.errors import InternalError, PromptTooLongError
from core.api.events import Finished
from core.api.stats import RequestStats
from desktop.engine.engine_status import Phase
from desktop.store.tables.records import ReplyState
from desktop.window.window_parts import WindowParts
from tests.desktop.chat.test_chat import ask, ended, shown
from tests.desktop.conftest import OpenParts, until
from tests.desktop.fake_engine import Asked, FakeEngine, model_info

LIMIT = 1000


def spoken(conversation: Conversation) -> list[str]:
    said = []
    for message in conversation.messages:
        part = message.content[-1] if isinstance(message, UserMessage) else message
        assert not isinstance(part, ImagePart)
        said.append(part.text)
    return said


def counted(asked: Asked, each: int, reply: int) -> RequestStats:
    """Every message of the request takes `each` tokens."""
    count = sum(not isinstance(message, SystemMessage) for message in asked.conversation.messages)
    return RequestStats(
        prompt_tokens=each * count,
        evaluated_tokens=each * count,
        reply_tokens=reply,
        message_starts=tuple(range(0, each * count, each)),
        context_length=LIMIT,
    )


async def turn(parts: WindowParts, engine: FakeEngine, text: str, each: int = 100) -> Asked:
    asked = await ask(parts, engine, text)
    asked.finish(f"on {text}", stats=counted(asked, each, each))
    await ended(parts)
    return asked


async def ready(open_parts: OpenParts, engine: FakeEngine, turns: int = 0) -> WindowParts:
    engine.model_to_load = model_info(context_length=LIMIT)
    parts = await open_parts()
    await until(lambda: parts.engine.status.phase is Phase.READY)
    for number in range(turns):
        await turn(parts, engine, str(number))
    return parts


async def test_a_nearly_full_chat_says_so_and_prefills_what_would_stay(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts, engine, turns=3)
    await until(lambda: len(engine.settled) == 3)
    assert parts.limit.words() == ""
    await turn(parts, engine, "3")
    assert parts.limit.words() == "This chat fills 80 % of the context (800 of 1,000 tokens)."
    await until(lambda: len(engine.settled) == 5)
    told = spoken(engine.settled[3].conversation)
    assert told[0] == "0" and len(told) == 8
    # Prefilled only; no message is left out yet.
    assert spoken(engine.settled[4].conversation) == ["3", "on 3"]
    assert {each.chat for each in engine.settled} == {parts.chat.key}
    await turn(parts, engine, "4")
    # The choice holds as the chat grows: what was read for it is a beginning of what comes.
    await until(lambda: len(engine.settled) == 7)
    assert spoken(engine.settled[6].conversation) == ["3", "on 3", "4", "on 4"]
    parts.limit.drop()
    await until(lambda: any(row.first_in_prompt for row in parts.transcript.rows))
    assert parts.limit.words() == ""
    asked = await ask(parts, engine, "5")
    assert asked.conversation.messages[:-1] == engine.settled[6].conversation.messages
    assert spoken(asked.conversation)[-1] == "5"
    # All of it is still there to read, and the line stands above what is told.
    assert len(parts.transcript.rows) == 12
    assert [row.text for row in parts.transcript.rows if row.first_in_prompt] == ["3"]


async def test_a_reply_that_found_no_room_to_go_on_goes_on_once_there_is(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts, engine, turns=4)
    asked = await ask(parts, engine, "long")
    asked.say("half", ids=(1,))
    asked.finish("half", reason="context", stats=counted(asked, 100, 100))
    await ended(parts)
    assert "The context is full" in parts.limit.words()
    assert "cut off" not in parts.limit.words()
    last = parts.transcript.rows[-1]
    assert last.can_go_on and not last.offers_continue
    parts.chat.go_on(parts.transcript.rows[-1].id)
    await until(lambda: len(engine.asked) == 6)
    engine.asked[-1].fail(PromptTooLongError("1,000 of 1,000.").info())
    reply = await ended(parts)
    assert shown(parts)[-1] == "half" and reply.state is ReplyState.STOPPED
    parts.limit.drop()
    await until(lambda: len(engine.asked) == 7)
    begun = engine.asked[-1].conversation.messages[-1]
    assert isinstance(begun, AssistantMessage) and begun.text == "half"
    assert parts.transcript.rows[-1].live is not None
    engine.asked[-1].finish("half and half", reason="length")
    await ended(parts)
    assert shown(parts)[-1] == "half and half"
    assert parts.transcript.rows[-1].offers_continue


async def test_a_summary_opens_a_new_chat_that_is_told_it(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts, engine)
    parts.chat.instruct("Be brief.")
    for number in range(4):
        await turn(parts, engine, str(number))
    old = parts.chat.key
    parts.limit.summarise()
    await until(lambda: engine.asked[-1].command.side)
    asked = engine.asked[-1]
    assert (asked.command.chat, asked.command.thinking, asked.command.sampling.max_tokens) == (
        old,
        False,
        300,
    )
    # There must be room for the summary itself, so the oldest turns are not asked about.
    told = spoken(asked.conversation)
    assert told[0] == "Be brief." and "Summarise" in told[-1] and "0" not in told
    assert "Writing a summary" in parts.limit.words() and parts.limit.summarising
    asked.finish("They counted to four.")
    await until(lambda: parts.transcript.rows == [])
    assert parts.chat_list.chats[0].title == "0 (summary)"
    assert parts.chat.instructions == (
        "Be brief.\n\nSummary of the conversation so far:\n\nThey counted to four."
    )
    asked = await ask(parts, engine, "And on?")
    system = asked.conversation.messages[0]
    assert isinstance(system, SystemMessage) and "counted to four" in system.text
    assert asked.command.chat not in ("", old) and len(asked.conversation.messages) == 2


async def test_a_summary_can_be_cancelled_and_fails_in_words(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts, engine, turns=4)
    chats = len(parts.chat_list.chats)
    parts.limit.summarise()
    await until(lambda: engine.asked[-1].command.side)
    parts.limit.cancel_summary()
    await until(lambda: not parts.limit.summarising)
    assert engine.asked[-1].cancelled and parts.limit.trouble == ""
    for words, ending in (
        ("no room", InternalError("There is no room.").info()),
        ("wrote nothing", None),
    ):
        engine.asked.clear()
        parts.limit.summarise()
        await until(lambda: engine.asked)
        if ending:
            engine.asked[-1].fail(ending)
        else:
            engine.asked[-1].finish("  ")
        await until(lambda: not parts.limit.summarising)
        assert words in parts.limit.words() and "This chat fills" in parts.limit.words()
    assert len(parts.chat_list.chats) == chats
    # A question that found no room is asked again in the new chat.
    (await ask(parts, engine, "too much")).fail(PromptTooLongError("1,200 of 1,000.").info())
    await ended(parts)
    engine.asked.clear()
    parts.limit.summarise()
    await until(lambda: engine.asked)
    assert "too much" not in spoken(engine.asked[-1].conversation)
    engine.asked[-1].finish("They counted.")
    await until(lambda: parts.transcript.rows == [])
    assert parts.chat.draft.text == "too much"


async def test_a_stopped_reply_is_written_on_in_its_place(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts, engine)
    asked = await ask(parts, engine, "Hello")
    asked.say("Good", ids=(1, 2))
    parts.chat.stop()
    before = await ended(parts)
    reply = parts.transcript.rows[-1]
    parts.chat.go_on(reply.id)
    await until(lambda: len(engine.asked) == 2)
    # The worker ends a request like this if it is stopped while it waits in the queue.
    engine.asked[1].request.put(Finished.unbegun(engine.asked[1].request.id))
    after = await ended(parts)
    assert shown(parts) == ["Hello", "Good"] and after.state is ReplyState.STOPPED
    assert after.ids is not None and before.ids is not None and after.ids.data == before.ids.data
    stopped = parts.transcript.rows[-1]
    assert stopped.can_go_on
    parts.chat.go_on(reply.id)
    parts.chat.go_on(reply.id)
    await until(lambda: len(engine.asked) == 3)
    begun = engine.asked[2].conversation.messages[-1]
    assert isinstance(begun, AssistantMessage) and begun.text == "Good"
    await until(lambda: parts.chat.running is not None)
    engine.asked[2].say(" day", ids=(3,))
    await until(lambda: parts.transcript.rows[-1].text == "Good day")
    engine.asked[2].finish("Good day")
    await ended(parts)
    assert shown(parts) == ["Hello", "Good day"] and len(engine.asked) == 3
    assert not parts.transcript.rows[-1].can_go_on
    assert parts.transcript.rows[-1].message.siblings == (reply.id,)


async def test_instructions_act_on_the_next_request(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts, engine)
    parts.chat.instruct("  Be brief. ")
    first = await turn(parts, engine, "0")
    assert first.conversation.messages[0] == SystemMessage(text="Be brief.")
    parts.chat.instruct("Be long.")
    await until(lambda: parts.chat.instructions == "Be long.")
    second = await turn(parts, engine, "1")
    assert second.conversation.messages[0] == SystemMessage(text="Be long.")
    parts.chat.open(None)
    assert parts.chat.instructions == ""


async def test_a_message_longer_than_the_context_is_answered_with_a_longer_one(
    open_parts: OpenParts, engine: FakeEngine
) -> None:
    parts = await ready(open_parts, engine)
    asked = await ask(parts, engine, "a book")
    asked.fail(PromptTooLongError("3,000 of 1,000.", 3_000).info())
    await ended(parts)
    assert parts.limit.fill is not None and parts.limit.fill.alone
    assert parts.limit.longer == (4_096, 4_096 * 1_024)
    engine.model_to_load = model_info(context_length=4_096)
    parts.limit.load_longer()
    await until(lambda: len(engine.loads) == 2)
    assert engine.loads[-1].context_length == 4_096
    await until(lambda: len(engine.asked) == 2)
    assert spoken(engine.asked[-1].conversation) == ["a book"]
    engine.asked[-1].finish("Read.")
    await ended(parts)
    assert parts.limit.words() == ""
