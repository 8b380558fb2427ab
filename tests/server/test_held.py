"""Replies that come back as text are found again with the ids that were sampled."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    ImagePart,
    Message,
    ReplyIds,
    SystemMessage,
    TextPart,
    ToolCall,
    UserMessage,
)
from core.api.commands import tenant_of
from core.server.held import HeldReplies, Placed
from core.server.kept_replies import KeptReplies, KeptReply

IMAGE = ImagePart(digest="a" * 64, path="here", name="one")


def said(*parts: str | ImagePart) -> UserMessage:
    content: list[ContentPart] = [
        TextPart(text=part) if isinstance(part, str) else part for part in parts
    ]
    return UserMessage(content=tuple(content))


def reply(text: str, number: int, reasoning: str = "") -> AssistantMessage:
    ids = ReplyIds.pack((number,), "t", False)
    return AssistantMessage(text=text, reasoning=reasoning, ids=ids)


def placed(held: HeldReplies, *messages: Message, client: str = "me") -> Placed:
    return held.place(Conversation(messages=messages), client)


def numbers(found: Placed) -> list[int | None]:
    """The id of each reply, None for one that is unknown."""
    replies = [each for each in found.conversation.messages if isinstance(each, AssistantMessage)]
    return [each.ids.unpack()[0] if each.ids is not None else None for each in replies]


SYSTEM, FIRST = SystemMessage(text="Be brief."), said("How tall is it, please?")
ANSWER = reply("It is 300 metres tall. ", 1, "Let me think")
NEXT = said("And how old?")


@pytest.fixture
def held() -> HeldReplies:
    held = HeldReplies()
    held.keep(placed(held, SYSTEM, FIRST), ANSWER)
    return held


@pytest.mark.parametrize(
    ("sent", "number"),
    [
        (AssistantMessage(text="It is 300 metres tall. "), 1),
        (AssistantMessage(text="It is 300 metres tall."), 1),
        (AssistantMessage(text=ANSWER.text, reasoning="Let me think\n"), 1),
        (AssistantMessage(text=ANSWER.text, reasoning="Another thought"), None),
        (AssistantMessage(text="It is 301 metres tall."), None),
        (AssistantMessage(text=""), None),
    ],
)
def test_a_reply_is_found_by_its_text(
    held: HeldReplies, sent: AssistantMessage, number: int | None
) -> None:
    found = placed(held, SYSTEM, FIRST, sent, NEXT)
    assert numbers(found) == [number]
    kept = found.conversation.messages[2]
    assert kept == (ANSWER if number else sent)


@pytest.mark.parametrize(
    ("before", "number"),
    [
        ((SYSTEM, said("How tall ", "is it, please?")), 1),
        ((SystemMessage(text="Be brief. It is Tuesday."), FIRST), 1),
        ((FIRST,), 1),
        ((SYSTEM, said("How wide is it, please?")), None),
        ((SYSTEM, said("How tall is it, please?", IMAGE)), None),
    ],
)
def test_what_is_before_a_reply_tells_it_from_others(
    held: HeldReplies, before: Sequence[Message], number: int | None
) -> None:
    sent = AssistantMessage(text=ANSWER.text)
    assert numbers(placed(held, *before, sent, NEXT)) == [number]


def test_equal_texts_after_different_messages_are_different_replies() -> None:
    held = HeldReplies()
    one, other = said("One?"), said("Other?")
    for number, question in ((1, one), (2, other)):
        held.keep(placed(held, question), reply("Yes.", number, f"thought {number}"))
    sent = AssistantMessage(text="Yes.")
    assert numbers(placed(held, one, sent, NEXT)) == [1]
    assert numbers(placed(held, other, sent, one, sent, NEXT)) == [2, 1]


def test_a_chat_keeps_its_key_and_time_over_turns_edits_and_other_replies(
    held: HeldReplies,
) -> None:
    branch = placed(held, SYSTEM, FIRST).branch
    sent = AssistantMessage(text=ANSWER.text)
    second = placed(held, SYSTEM, FIRST, sent, NEXT)
    assert second.branch == branch and second.conversation.created == branch.created
    held.keep(second, reply("Old.", 2))
    assert placed(held, SYSTEM, FIRST, sent, said("Edited")).branch == branch
    assert placed(held, SYSTEM, FIRST, AssistantMessage(text="Not it."), NEXT).branch == branch
    assert placed(held, SYSTEM, said("Something else entirely")).branch != branch


def test_a_continued_reply_is_found_as_a_whole() -> None:
    held = HeldReplies()
    begun = placed(held, FIRST, AssistantMessage(text="It is"))
    held.keep(begun, reply("It is tall.", 3))
    assert numbers(placed(held, FIRST, AssistantMessage(text="It is tall."), NEXT)) == [3]


def test_the_arguments_of_calls_count_towards_the_limit() -> None:
    held = HeldReplies(most_bytes=10_000)
    call = ToolCall(name="f", arguments=json.dumps({"text": "a" * 20_000}))
    held.keep(placed(held, FIRST), reply("I write.", 1).model_copy(update={"calls": (call,)}))
    sent = AssistantMessage(text="I write.", calls=(call,))
    assert numbers(placed(held, FIRST, sent, NEXT)) == [None]


def test_D1_replies_are_found_after_a_restart(tmp_path: Path) -> None:
    file, sent = tmp_path / "replies.db", AssistantMessage(text=ANSWER.text.strip())
    with closing(KeptReplies(file)) as kept:
        held = HeldReplies(kept=kept)
        first = placed(held, SYSTEM, FIRST)
        held.keep(first, ANSWER)
    # Only the conversation itself is the key to what was said.
    data = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"300" not in data and b"think" not in data and first.branch.chat.encode() not in data
    with closing(KeptReplies(file)) as kept:
        held = HeldReplies(kept=kept)
        found = placed(held, SYSTEM, FIRST, sent, NEXT)
        assert numbers(found) == [1] and found.branch == first.branch
        assert numbers(placed(held, said("Other?"), sent, NEXT)) == [None]


def test_D4_the_file_of_replies_is_bounded(tmp_path: Path) -> None:
    with closing(KeptReplies(tmp_path / "replies.db", most_bytes=300_000)) as kept:
        held = HeldReplies(kept=kept)
        for number in range(600):
            held.keep(placed(held, said(f"Question {number}?")), reply("x" * 400, number))
        again = HeldReplies(kept=kept)
        sent = AssistantMessage(text="x" * 400)
        assert numbers(placed(again, said("Question 0?"), sent, NEXT)) == [None]
        assert numbers(placed(again, said("Question 599?"), sent, NEXT)) == [599]
    assert (tmp_path / "replies.db").stat().st_size < 500_000


@pytest.mark.parametrize("damage", [b"nonsense" * 1_000, None])
def test_D3_a_damaged_file_of_replies_costs_what_it_held(
    tmp_path: Path, damage: bytes | None
) -> None:
    file = tmp_path / "replies.db"
    with closing(KeptReplies(file)) as kept:
        HeldReplies(kept=kept).keep(placed(HeldReplies(), SYSTEM, FIRST), ANSWER)
    file.write_bytes(damage or b"\xff".join((file.read_bytes()[:5_000], b"\xff" * 3_000)))
    with closing(KeptReplies(file)) as kept:
        held, sent = HeldReplies(kept=kept), AssistantMessage(text=ANSWER.text)
        assert numbers(placed(held, SYSTEM, FIRST, sent, NEXT)) in ([None], [1])
        held.keep(placed(held, SYSTEM, FIRST), ANSWER)
        assert numbers(placed(held, SYSTEM, FIRST, sent, NEXT)) == [1]


def test_D3_an_entry_that_was_changed_on_disk_is_not_used(tmp_path: Path) -> None:
    file, key = tmp_path / "replies.db", b"k" * 16
    entry = KeptReply(reply=reply("Yes.", 1), chat="c", created=0.0)
    with closing(KeptReplies(file)) as kept:
        kept.put(key, entry)
        assert kept.get(key) == entry
        with closing(sqlite3.connect(file)) as database:
            (data,) = database.execute("SELECT data FROM replies").fetchone()
            for at in range(len(data)):
                changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
                with database:
                    database.execute("UPDATE replies SET data = ?", (changed,))
                assert kept.get(key) is None, at
            for nonsense in (b"", "text", None, 1.5):
                with database:
                    database.execute("UPDATE replies SET data = ?", (nonsense,))
                assert kept.get(key) is None


def test_equal_replies_are_encrypted_differently_each_time(tmp_path: Path) -> None:
    # Of two texts encrypted alike, the file would tell the difference.
    found, entry = set[bytes](), KeptReply(reply=reply("Yes.", 1), chat="c", created=0.0)
    with closing(KeptReplies(tmp_path / "replies.db")) as kept:
        for _ in range(2):
            kept.put(b"k", entry)
            with closing(sqlite3.connect(tmp_path / "replies.db")) as database:
                found |= {data[-32:] for (data,) in database.execute("SELECT data FROM replies")}
    assert len(found) == 2


def test_D3_a_file_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    file, entry = tmp_path / "replies.db", KeptReply(reply=ANSWER, chat="c", created=0.0)
    with closing(KeptReplies(file)) as kept:
        kept.put(b"k", entry)
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("BEGIN EXCLUSIVE")
        with closing(KeptReplies(file, timeout_s=0)) as locked_out:
            assert locked_out.get(b"k") is None
    with closing(KeptReplies(file)) as kept:
        assert kept.get(b"k") == entry


def test_half_a_character_in_a_kept_line_costs_no_reply(tmp_path: Path) -> None:
    with closing(KeptReplies(tmp_path / "replies.db")) as kept:
        held = HeldReplies(kept=kept)
        torn = SystemMessage(text="Today's date: 2026-11-26 \ud83d")
        held.keep(placed(held, torn, FIRST), ANSWER)
        assert numbers(placed(held, torn, FIRST, AssistantMessage(text=ANSWER.text), NEXT)) == [1]


def test_D4_of_long_replies_only_the_oldest_are_dropped(tmp_path: Path) -> None:
    with closing(KeptReplies(tmp_path / "replies.db", most_bytes=100_000)) as kept:
        for number in range(20):
            entry = KeptReply(reply=reply("x" * 10_000, number), chat="c", created=0.0)
            kept.put(bytes([number]), entry)
        found = [number for number in range(20) if kept.get(bytes([number]))]
    assert len(found) >= 5 and found == list(range(found[0], 20))


def test_A2_the_same_conversation_of_another_client_is_its_own_chat(held: HeldReplies) -> None:
    sent = AssistantMessage(text=ANSWER.text)
    mine = placed(held, SYSTEM, FIRST, sent, NEXT)
    other = placed(held, SYSTEM, FIRST, sent, NEXT, client="other")
    assert numbers(other) == [1] and other.branch.created == mine.branch.created
    assert tenant_of(other.branch.chat) != tenant_of(mine.branch.chat)
    # A thought comes only from the client's own chats, or with the whole conversation.
    assert numbers(placed(held, FIRST, sent, NEXT, client="other")) == [None]


def test_the_number_of_known_chats_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.server.held._MOST_BRANCHES", 10)
    held = HeldReplies()
    for number in range(50):
        held.place(Conversation(messages=(), raw="go on"), f"client {number}")
    assert len(held._branches) == 10


TITLE = "Give a title to this chat:\nUser: How tall is it, please?\nReply: It is 300 metres tall."


@pytest.mark.parametrize(
    ("messages", "client", "side"),
    [
        ((said(TITLE),), "me", True),
        ((SystemMessage(text="You name chats."), said(TITLE)), "me", True),
        ((said("Tags for: How tall is it, please?"),), "me", True),
        # Another client's, a chat that goes on, and chats that only look like one.
        ((said(TITLE),), "other", False),
        ((SYSTEM, FIRST, AssistantMessage(text=ANSWER.text), said(TITLE)), "me", False),
        ((SYSTEM, FIRST), "me", False),
        ((SystemMessage(text="Another system message."), FIRST), "me", False),
        ((said("How tall is it, please? I mean the tower."),), "me", False),
        ((said("A new question, of nothing before."),), "me", False),
        ((said(TITLE), AssistantMessage(text="Tow")), "me", False),
    ],
)
def test_a_side_request_quotes_a_chat(
    held: HeldReplies, messages: Sequence[Message], client: str, side: bool
) -> None:
    assert placed(held, *messages, client=client).side is side


def test_the_least_recently_used_reply_goes_first() -> None:
    held = HeldReplies(most_bytes=5_000)
    questions = [said(f"Question {number}?") for number in range(5)]
    for number, question in enumerate(questions):
        held.keep(placed(held, question), reply("x" * 400, number))
        # The first one stays in use.
        assert numbers(placed(held, questions[0], AssistantMessage(text="x" * 400), NEXT)) == [0]
    found = [placed(held, each, AssistantMessage(text="x" * 400), NEXT) for each in questions]
    assert [numbers(each)[0] is not None for each in found] == [True, False, False, True, True]
