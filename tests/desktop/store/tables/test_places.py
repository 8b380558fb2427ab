"""The engine that a chat uses is stored together with the user's consent."""

from __future__ import annotations

import sqlite3

import pytest

from core.remote.messages import Place
from desktop.store.tables import chats, forks, messages
from tests.desktop.store.tables.conftest import path_of

HERE, THERE = Place(address="http://a/v1", model="m"), Place(address="http://b/v1", model="n")


def test_a_chat_begins_at_its_place_and_remembers_what_was_agreed(
    connection: sqlite3.Connection,
) -> None:
    turn = messages.append_turn(connection, None, "one", place=HERE)
    assert path_of(connection, turn.chat).place == HERE
    for place in (None, THERE, None, HERE, THERE):
        chats.run_at(connection, turn.chat, place)
        found = path_of(connection, turn.chat)
        assert found.place == place and found.agreed[0] == HERE.address
    assert path_of(connection, turn.chat).agreed == (HERE.address, THERE.address)
    made = forks.fork(connection, turn.chat, turn.message)
    assert made is not None and path_of(connection, made.chat).place == THERE
    assert path_of(connection, messages.append_turn(connection, None, "two").chat).place is None


@pytest.mark.parametrize("agreed", [None, "[]", '["http://b/v1"]', "{", "[1]", 5, '"http://a/v1"'])
def test_A5_a_place_without_consent_is_none(agreed: object, connection: sqlite3.Connection) -> None:
    turn = messages.append_turn(connection, None, "one", place=HERE)
    connection.execute("UPDATE chats SET agreed = ?", (agreed,))
    assert path_of(connection, turn.chat).place is None


@pytest.mark.parametrize("place", ["", "{", '{"address": 5, "model": "m"}', "null", b"\xff"])
def test_A5_a_damaged_place_is_none(place: object, connection: sqlite3.Connection) -> None:
    turn = messages.append_turn(connection, None, "one", place=HERE)
    connection.execute("UPDATE chats SET place = CAST(? AS TEXT)", (place,))
    assert path_of(connection, turn.chat).place is None
