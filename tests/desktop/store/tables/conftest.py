from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store.database import open_database
from desktop.store.tables import messages
from desktop.store.tables.records import ChatPath


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_database(tmp_path / "chats.db")) as opened:
        yield opened


def path_of(connection: sqlite3.Connection, chat: int) -> ChatPath:
    found = messages.read_chat(connection, chat)
    assert found is not None
    return found


def texts(connection: sqlite3.Connection, chat: int) -> list[str]:
    return [message.text for message in path_of(connection, chat).path]
