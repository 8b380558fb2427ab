from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.chat import ReplyIds
from core.api.errors import ErrorInfo
from core.api.reply_format import ReplyFormat
from core.api.stats import RequestStats
from desktop.store.tables import chats, drafts, fields, messages, replies
from desktop.store.tables.attachments import document_of
from desktop.store.tables.drafts import StoredDraft
from desktop.store.tables.messages import Node, shown_path
from desktop.store.tables.records import Begin, Picture, Reply, ReplyState
from tests.desktop.store.tables.conftest import path_of, texts

DIGEST = "a" * 64


def test_a_turn_is_a_message_and_a_running_reply(connection: sqlite3.Connection) -> None:
    turn = messages.append_turn(connection, None, "Hello there")
    user, reply = messages.read_path(connection, turn.chat)
    assert (user.id, user.text, user.reply) == (turn.message, "Hello there", None)
    assert reply.reply == Reply(state=ReplyState.RUNNING)
    assert reply.parent == user.id
    assert [chat.title for chat in chats.listed(connection)] == ["Hello there"]


def test_a_reply_comes_back_as_it_was_saved(connection: sqlite3.Connection) -> None:
    turn = messages.append_turn(connection, None, "Hello")
    reply = Reply(
        state=ReplyState.FAILED,
        reasoning="hm",
        ids=ReplyIds.pack([1, 2**31, 3], "tok", starts_in_reasoning=True),
        finish_reason="error",
        error=ErrorInfo(name="X", title="Title", message="Words"),
        stats=RequestStats(prompt_tokens=7, evaluated_tokens=7),
    )
    replies.save(connection, turn.reply, "text", reply)
    read = messages.read_path(connection, turn.chat)[-1]
    assert (read.text, read.reply) == ("text", reply)


def test_regenerate_keeps_both_and_shows_the_newest(connection: sqlite3.Connection) -> None:
    turn = messages.append_turn(connection, None, "Hello")
    replies.save(connection, turn.reply, "first", Reply(ReplyState.COMPLETE))
    second = messages.add_alternative(connection, turn.chat, turn.message)
    replies.save(connection, second.reply, "second", Reply(ReplyState.COMPLETE))
    assert texts(connection, turn.chat) == ["Hello", "second"]
    assert messages.read_path(connection, turn.chat)[1].siblings == (turn.reply, second.reply)
    messages.choose(connection, turn.reply)
    assert texts(connection, turn.chat) == ["Hello", "first"]


def test_an_edit_is_a_branch_and_the_old_one_is_a_turn_of_the_arrow_away(
    connection: sqlite3.Connection,
) -> None:
    first = messages.append_turn(connection, None, "one")
    second = messages.append_turn(connection, first.chat, "two")
    third = messages.append_turn(connection, first.chat, "three")
    assert texts(connection, first.chat) == ["one", "", "two", "", "three", ""]
    edited = messages.add_turn(connection, first.chat, first.reply, "two, edited")
    assert texts(connection, first.chat) == ["one", "", "two, edited", ""]
    assert messages.end_of_path(connection, first.chat) == edited.reply
    messages.choose(connection, second.message)
    assert messages.end_of_path(connection, first.chat) == third.reply


def test_replies_left_running_are_stopped_ones(connection: sqlite3.Connection) -> None:
    turn = messages.append_turn(connection, None, "Hello")
    half = Reply(ReplyState.RUNNING, ids=ReplyIds.pack([5], "tok", starts_in_reasoning=False))
    replies.save(connection, turn.reply, "half a", half)
    replies.stop_running(connection)
    read = messages.read_path(connection, turn.chat)[-1]
    assert read.text == "half a"
    assert read.reply is not None
    assert read.reply.state is ReplyState.STOPPED
    assert half.ids is not None and read.reply.ids == half.ids.paused()


@pytest.mark.parametrize("pauses", ["NULL", "'[1'", "'[0]'", "'[true]'", "'{}'", "7"])
def test_pauses_are_kept_and_cost_only_themselves(
    connection: sqlite3.Connection, pauses: str
) -> None:
    turn = messages.append_turn(connection, None, "Hello")
    ids = ReplyIds.pack([5, 6, 7], "tok", starts_in_reasoning=False, pauses=(1, 3))
    replies.save(connection, turn.reply, "whole", Reply(ReplyState.COMPLETE, ids=ids))
    read = messages.read_path(connection, turn.chat)[-1].reply
    assert read is not None and read.ids == ids
    connection.execute(f"UPDATE replies SET pauses = {pauses}")
    read = messages.read_path(connection, turn.chat)[-1].reply
    assert read is not None and read.ids is not None
    assert read.ids.unpack() == [5, 6, 7] and read.ids.pauses == ()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE replies SET stats = '{broken'",
        'UPDATE replies SET stats = \'{"prompt_tokens": "many"}\'',
        "UPDATE replies SET error = '[]'",
        "UPDATE replies SET state = 'something newer'",
        "UPDATE replies SET finish_reason = 'something newer'",
        "UPDATE replies SET ids = x'010203', tokenizer = 't'",
        "DELETE FROM message_pictures",
        "UPDATE messages SET chosen = 0",
    ],
)
def test_one_bad_field_never_costs_the_chat(connection: sqlite3.Connection, damage: str) -> None:
    turn = messages.append_turn(connection, None, "Hello", (Picture(DIGEST, "a.png", (3, 2)),))
    replies.save(connection, turn.reply, "text", Reply(ReplyState.COMPLETE))
    connection.execute(damage)
    assert texts(connection, turn.chat) == ["Hello", "text"]


def test_half_a_surrogate_pair_and_zeros_are_read_as_stored(connection: sqlite3.Connection) -> None:
    text = "odd \ud800 paste\0\0"
    turn = messages.append_turn(connection, None, text)
    assert texts(connection, turn.chat)[0] == fields.storable(text) == "odd ? paste\ufffd"


def test_names_instructions_and_drafts_may_hold_what_sqlite_can_not(
    connection: sqlite3.Connection,
) -> None:
    """A name of a file under Linux may be no UTF-8."""
    odd, stored = "odd \udcff\0", "odd ?\ufffd"
    shown = (document_of(odd, False, "text"), Picture(DIGEST, odd, (3, 2)))
    turn = messages.append_turn(connection, None, "", shown, begin=Begin(odd))
    path = path_of(connection, turn.chat)
    assert path.system == stored
    assert [each.name for each in path.path[0].attachments] == [stored, stored]
    chats.rename(connection, turn.chat, odd)
    assert chats.listed(connection)[0].title == stored
    drafts.save(connection, StoredDraft(turn.chat, odd, "k", shown, Begin(odd)))
    (draft,) = drafts.stored(connection)
    assert (draft.text, draft.begin.system) == (stored, stored)
    assert [each.name for each in draft.shown] == [stored, stored]


def test_pictures_keep_their_order_and_captions(connection: sqlite3.Connection) -> None:
    shown = (
        Picture("b" * 64, "b.png", (4000, 3000), (1184, 864), 999, b"png"),
        Picture(DIGEST, "a.png", (3, 2)),
        Picture("b" * 64, "again.png", (4000, 3000), None, None, b"png"),
    )
    turn = messages.append_turn(connection, None, "Look", shown)
    assert messages.read_path(connection, turn.chat)[0].pictures == shown


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("  Hello\n there ", "Hello there"),
        ("", chats.UNTITLED),
        ("word " * 40, "word word word word word word word word word\N{HORIZONTAL ELLIPSIS}"),
        ("x" * 100, "x" * 48 + "\N{HORIZONTAL ELLIPSIS}"),
    ],
)
def test_titles_are_the_first_words(text: str, title: str) -> None:
    assert chats.title_from(text) == title


@st.composite
def trees(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(0, 12))
    parents = [draw(st.sampled_from([None, *range(1, number)])) for number in range(1, count + 1)]
    chosen = draw(st.lists(st.tuples(st.integers(0, 20)), min_size=count, max_size=count))
    return [Node(at + 1, parents[at], chosen[at]) for at in range(count)]


@given(trees())
def test_the_shown_path_runs_from_a_root_to_a_leaf(nodes: list[Node]) -> None:
    path = shown_path(nodes)
    by_id = {node.id: node for node in nodes}
    assert bool(path) == bool(nodes)
    parent = None
    for message, siblings in path:
        assert by_id[message].parent == parent
        assert siblings == tuple(sorted(node.id for node in nodes if node.parent == parent))
        assert by_id[message].chosen == max(by_id[each].chosen for each in siblings)
        parent = message
    assert all(node.parent != parent for node in nodes if parent is not None)


JSON = ReplyFormat(kind="json")
SCHEMA = ReplyFormat(kind="json_schema", text='{"type": "array"}')


def formats(connection: sqlite3.Connection, chat: int) -> list[ReplyFormat | None]:
    path = path_of(connection, chat)
    return [path.format, *(each.reply.format for each in path.path if each.reply)]


def test_a_reply_has_the_format_in_force_when_it_began(connection: sqlite3.Connection) -> None:
    first = messages.append_turn(connection, None, "one", begin=Begin(format=SCHEMA))
    replies.save(connection, first.reply, "[]", Reply(ReplyState.COMPLETE))
    chats.ask_for(connection, first.chat, JSON)
    second = messages.append_turn(connection, first.chat, "two")
    chats.ask_for(connection, first.chat, None)
    messages.append_turn(connection, first.chat, "three")
    assert formats(connection, first.chat) == [None, SCHEMA, JSON, None]
    messages.add_alternative(connection, first.chat, second.message)
    assert formats(connection, first.chat) == [None, SCHEMA, None]
    drafts.save(connection, StoredDraft(None, "", "k", begin=Begin(format=SCHEMA)))
    assert [draft.begin.format for draft in drafts.stored(connection)] == [SCHEMA]
    # Formats that only a newer version knows leave the chat readable.
    for table in ("chats", "replies"):
        connection.execute(f"""UPDATE {table} SET format = '{{"kind": "poem"}}'""")
    assert formats(connection, first.chat) == [None, None, None]


def test_a_ring_of_parents_ends() -> None:
    assert shown_path([Node(1, 2, (0,)), Node(2, 1, (0,))]) == []


def gained(reasoning: str, ids: list[int]) -> Reply:
    packed = ReplyIds.pack(ids, "tok", starts_in_reasoning=True)
    stats = RequestStats(reply_tokens=len(ids))
    return Reply(ReplyState.RUNNING, reasoning, packed, stats=stats)


@pytest.fixture
def growing(connection: sqlite3.Connection) -> messages.Turn:
    """A reply that was stored once as a whole and has gained two parts since."""
    turn = messages.append_turn(connection, None, "Hello")
    replies.save(connection, turn.reply, "one", gained("a", [1]))
    replies.append(connection, turn.reply, " two", gained("b", [2, 3]))
    replies.append(connection, turn.reply, " three", gained("c", [4]))
    return turn


def test_a_killed_reply_has_all_the_parts_that_were_stored(
    connection: sqlite3.Connection, growing: messages.Turn
) -> None:
    other = messages.append_turn(connection, None, "Hi")
    replies.append(connection, other.reply, "x", Reply(ReplyState.RUNNING))
    replies.stop_running(connection)
    message = messages.read_path(connection, growing.chat)[-1]
    assert message.text == "one two three"
    assert message.reply is not None
    assert (message.reply.state, message.reply.reasoning) == (ReplyState.STOPPED, "abc")
    ids = ReplyIds.pack([1, 2, 3, 4], "tok", starts_in_reasoning=True)
    assert message.reply.ids == ids.paused()
    assert message.reply.stats == RequestStats(reply_tokens=1)
    assert texts(connection, other.chat) == ["Hi", "x"]
    assert connection.execute("SELECT count(*) FROM reply_parts").fetchone() == (0,)


def test_a_running_reply_is_read_with_its_parts_and_goes_on(
    connection: sqlite3.Connection, growing: messages.Turn
) -> None:
    assert texts(connection, growing.chat) == ["Hello", "one two three"]
    replies.append(connection, growing.reply, " four", gained("d", [5]))
    message = messages.read_path(connection, growing.chat)[-1]
    assert message.text == "one two three four" and message.reply is not None
    assert message.reply.state is ReplyState.RUNNING
    assert message.reply.ids is not None and message.reply.ids.unpack() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("stored_whole", [True, False])
def test_parts_go_when_the_reply_is_stored_whole_and_with_their_chat(
    connection: sqlite3.Connection, growing: messages.Turn, stored_whole: bool
) -> None:
    if stored_whole:
        replies.save(connection, growing.reply, "whole", Reply(ReplyState.COMPLETE))
        assert texts(connection, growing.chat) == ["Hello", "whole"]
        assert connection.execute("SELECT count(*) FROM reply_parts").fetchone() == (0,)
        return
    chats.delete(connection, growing.chat)
    chats.purge(connection)
    assert connection.execute("SELECT count(*) FROM reply_parts").fetchone() == (0,)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE reply_parts SET stats = '{broken'",
        "UPDATE replies SET ids = NULL",
        "DELETE FROM replies",
    ],
)
def test_a_damaged_part_costs_its_field(
    connection: sqlite3.Connection, growing: messages.Turn, damage: str
) -> None:
    connection.execute(damage)
    replies.stop_running(connection)
    message = messages.read_path(connection, growing.chat)[-1]
    assert message.text == "one two three"
    assert message.reply is None or damage.endswith("broken'") or message.reply.ids is None


def test_a_long_path_is_chosen_in_one_look_at_all_messages(
    connection: sqlite3.Connection,
) -> None:
    chat = chats.create(connection, "Long")
    ids: list[int | None] = [None]
    for number in range(1_000):
        ids.append(messages.add_message(connection, chat, ids[-1], str(number)))
    messages.add_message(connection, chat, ids[500], "another branch")
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, 1_000)
    last = ids[-1]
    assert last is not None
    messages.choose_path(connection, last)
    connection.set_progress_handler(None, 0)
    assert texts(connection, chat) == [str(number) for number in range(1_000)]
    # Thousands of instructions of SQLite; a look for each message would take millions.
    assert steps < 200


def test_speeds_are_those_that_each_model_was_measured_at(connection: sqlite3.Connection) -> None:
    chat = chats.create(connection, "")
    for name, tokens, seconds in (("a", 100, 1.0), ("a", 300, 3.0), ("b", 50, 5.0), ("c", 0, 0.0)):
        turn = messages.add_turn(connection, chat, None, "Hello")
        stats = RequestStats(prompt_tokens=tokens, evaluated_tokens=tokens, prefill_s=seconds)
        reply = Reply(ReplyState.COMPLETE, stats=stats, model=name)
        replies.save(connection, turn.reply, "", reply)
    assert replies.prefill_speeds(connection) == {"a": 0.01, "b": 0.1}


def test_another_version_is_read_without_choosing_it(connection: sqlite3.Connection) -> None:
    turn = messages.append_turn(connection, None, "one")
    messages.append_turn(connection, turn.chat, "below")
    other = messages.add_turn(connection, turn.chat, None, "other")
    shown = path_of(connection, turn.chat)
    first = messages.read_chat(connection, turn.chat, turn.message)
    assert first is not None and [each.text for each in first.path] == ["one", "", "below", ""]
    assert path_of(connection, turn.chat) == shown and shown.path[0].id == other.message
