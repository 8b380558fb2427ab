from __future__ import annotations

import logging
import time
from datetime import datetime
from pathlib import Path

import pytest

from desktop.store.database import Database
from desktop.store.tables import chats, drafts, fields, forks, messages
from desktop.store.tables.errors import (
    StoreError,
)
from tests.desktop.conftest import Loop
from tests.desktop.store.damage import (
    CHATS,
    SECRET,
    TURNS,
    all_texts,
    assert_others_whole,
    damaged_files,
    force,
    opened,
    paths_of,
    picture,
    question,
    root_of,
    shown,
    shown_texts,
    texts_of,
    zero_page,
)


@pytest.mark.parametrize(
    "text",
    ["question 2.2", "answer 2.3", "title 2", "draft 2", "reasoning"],
)
def test_H7_a_damaged_byte_of_a_text_costs_a_character(path: Path, qloop: Loop, text: str) -> None:
    data = path.read_bytes()
    # A letter before the words becomes a byte that no UTF-8 has there.
    place = data.index(f"{SECRET} {text}".encode())
    path.write_bytes(data[:place] + b"\xff" + data[place + 1 :])
    with opened(path) as database:
        assert database.notice == "" and damaged_files(path) == []
        found = paths_of(database, qloop)
        assert len(found) == CHATS
        everything = "".join([*found, *(t for each in found.values() for t in texts_of(each))])
        everything += "".join(
            each.reply.reasoning for one in found.values() for each in one.path if each.reply
        )
        everything += "".join(each.text for each in database.run_now(drafts.stored))
        assert f"\N{REPLACEMENT CHARACTER}{SECRET[1:]} {text}" in everything
        assert everything.count("\N{REPLACEMENT CHARACTER}") == 1


@pytest.mark.parametrize("value", ["[" * 100_000, "{", "7", '["a", 7]', None, b"[1]"])
def test_what_is_no_list_of_one_kind_is_empty(value: object) -> None:
    assert (fields.numbers(value), fields.texts(value), fields.tree(value)) == ((), (), {})


# Values by column; one in five is tried by `make test`.
WRONG = {
    "messages.text": ("x'ff00'", "NULL", "7"),
    "messages.created": ("'then'", "1e300"),
    "messages.chosen": ("'this one'",),
    "messages.parent": ("'above'",),
    "chats.title": ("NULL", "x'4142'"),
    "chats.created": ("NULL",),
    "chats.used": ("x'00'",),
    "chats.system": ("4",),
    "chats.key": ("x'00ff'",),
    "chats.left_out": ("'all'",),
    "chats.format": ("5", "'{'"),
    "replies.state": ("3",),
    "replies.reasoning": ("NULL", "12"),
    "replies.ids": ("'text'", "8"),
    "replies.tokenizer": ("x'00'",),
    "replies.starts_in_reasoning": ("'yes'",),
    "replies.finish_reason": ("x'00'",),
    "replies.error": ("x'7b7d'",),
    "replies.stats": ("5",),
    "replies.format": ("x'00'",),
    "replies.model": ("x'00'",),
    "chats.forked": ("'yes'",),
    "drafts.format": ("8",),
    "pictures.width": ("'wide'",),
    "pictures.thumbnail": ("'small'",),
    "message_pictures.name": ("NULL",),
    "message_pictures.tokens": ("'many'",),
    "message_pictures.resized_width": ("x'00'",),
    "drafts.text": ("NULL",),
    "drafts.system": ("3",),
    "drafts.key": ("x'00'",),
    "forgets.key": ("x'00'",),
}


def row_of(table: str) -> str:
    third = f"2 * (SELECT count(*) > 2 FROM {table})"
    return f"rowid = (SELECT rowid FROM {table} ORDER BY rowid LIMIT 1 OFFSET {third})"


@pytest.mark.parametrize(
    ("place", "value"),
    [
        pytest.param(*each, marks=() if at % 5 == 0 else pytest.mark.slow)
        for at, each in enumerate((place, value) for place in WRONG for value in WRONG[place])
    ],
)
@pytest.mark.parametrize("when", ["before the start", "while it runs"])
def test_H7_a_value_of_another_type_costs_its_field(
    path: Path, qloop: Loop, place: str, value: str, when: str
) -> None:
    table, column = place.split(".")
    change = f"UPDATE {table} SET {column} = {value} WHERE {row_of(table)}"
    # The reply that is the third is that of the second turn.
    whole = [text for text in all_texts(path) if text]
    if when == "before the start":
        force(path, change)
    with opened(path) as database:
        if when == "while it runs":
            force(path, change)
        found = paths_of(database, qloop)
        assert len(found) == CHATS
        told = [text for each in found.values() for text in texts_of(each)]
        assert len(set(shown_texts()) - set(told)) <= (1 if column != "parent" else 2 * TURNS)
        stored = database.run_now(drafts.stored)
        assert len(stored) == CHATS
        assert all(isinstance(one.key + one.system, str) for one in found.values())
        assert all(isinstance(one.key + one.begin.system + one.text, str) for one in stored)
        assert all(0 <= one.created <= fields.LAST_MOMENT for one in found.values())
        assert all(
            0 <= message.created <= fields.LAST_MOMENT
            for one in found.values()
            for message in one.path
        )
        first = qloop.run(database.run(chats.next_to_forget))
        assert first is not None
        # SQLite refuses to change a row that holds what it may not hold.
        words = ""
        try:
            go_on_everywhere(database, qloop)
        except StoreError as refusal:
            words = refusal.message
        assert words == "" or (when == "while it runs" and "Restart Waymark" in words)
    with opened(path) as database:
        go_on_everywhere(database, qloop)
    after = all_texts(path)
    assert len(set(whole) - set(after)) <= 1


def go_on_everywhere(database: Database, qloop: Loop) -> None:
    for chat in qloop.run(database.run(chats.listed)):
        turn = qloop.run(database.run(messages.append_turn, chat.id, "going on"))
        assert turn.chat == chat.id


def test_H7_words_stand_where_a_text_was(path: Path, qloop: Loop) -> None:
    force(path, "UPDATE messages SET text = NULL WHERE text LIKE '%question 2.2%'")
    with opened(path) as database:
        found = paths_of(database, qloop)
        told = texts_of(found[f"{SECRET} title 2"])
        assert told[2] == fields.DAMAGED
        assert told[:2] + told[3:] == shown(2)[:2] + shown(2)[3:]
        assert_others_whole(found, but=2)


def test_H7_a_reply_with_damaged_ids_is_read_by_its_text(path: Path, qloop: Loop) -> None:
    with opened(path) as database:
        force(path, "UPDATE replies SET ids = 'eight ch' WHERE message % 2 = 0")
        for one in paths_of(database, qloop).values():
            for message in one.path:
                if message.reply is not None and message.id % 2 == 0:
                    assert message.reply.ids is None and message.text


@pytest.mark.parametrize("value", ["'../../etc/passwd'", "x'00'", "upper(digest)"])
def test_H7_a_damaged_digest_costs_its_picture_and_says_so(
    path: Path, qloop: Loop, value: str
) -> None:
    change = "UPDATE message_pictures SET digest = {} WHERE digest = '{}'"
    with opened(path) as database:
        force(path, change.format(value, picture(24).digest.replace("4", "4")))
        force(path, "UPDATE draft_pictures SET digest = 'x' WHERE draft = 2")
        found = paths_of(database, qloop)
        (message,) = [
            each for each in found[f"{SECRET} title 2"].path if "question 2.4" in each.text
        ]
        if value != "upper(digest)":
            assert message.pictures == ()
            assert message.text == f"{question(2, 4)}\n\n{fields.DAMAGED_PICTURE}"
        second = database.run_now(drafts.stored)[1]
        assert second.shown == () and second.text.endswith(fields.DAMAGED_PICTURE)


async def write_on(database: Database) -> None:
    for number in range(200):
        await database.run(messages.append_turn, 1, f"{SECRET} {number}" * 100)


async def test_H7_no_error_quotes_what_people_wrote(
    path: Path, qloop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(path)

    def ask(query: str) -> object:
        return lambda connection: connection.execute(query).fetchall()

    with caplog.at_level(logging.DEBUG):
        for query in (
            f"SELECT '{SECRET}",
            f"SELECT * FROM {SECRET}",
            "INSERT INTO chats VALUES (1)",
        ):
            with pytest.raises(StoreError) as refusal:
                await database.run(ask(query))  # type: ignore[arg-type]
            assert SECRET not in refusal.value.message
            assert refusal.value.__cause__ is None and refusal.value.__suppress_context__
        zero_page(path, root_of(path, "messages_of_chat"))
        with pytest.raises(StoreError, match="Restart Waymark"):
            await write_on(database)
    assert SECRET not in caplog.text
    database.close()


async def test_forking_a_chat_with_damaged_texts_works(path: Path, qloop: Loop) -> None:
    database = Database(path)
    force(path, "UPDATE chats SET title = x'ff41', created = 'x' WHERE id = 2")
    found = await database.run(messages.read_chat, 2)
    assert found is not None
    made = await database.run(forks.fork, 2, found.path[3].id)
    assert made is not None
    assert "b'" not in (await database.run(chats.listed))[0].title
    database.close()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone can't be set")
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_every_moment_is_in_the_calendar(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for value in (0, 1.5e9, fields.LAST_MOMENT, 253_402_300_799.0, 1e300, -1, "now"):
            assert datetime.fromtimestamp(fields.moment(value)).year <= 9999
    finally:
        monkeypatch.undo()
        time.tzset()
