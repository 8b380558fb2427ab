"""A small file of chats whose every text is a word of its own, and ways to damage it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from core.api.chat import ReplyIds
from core.api.reply_format import ReplyFormat
from desktop.store.database import Database, open_database
from desktop.store.tables import chats, drafts, messages, replies
from desktop.store.tables.drafts import StoredDraft
from desktop.store.tables.records import Begin, ChatPath, Picture, Reply, ReplyState
from tests.desktop.conftest import Loop

PAGE = 4096
CHATS, TURNS = 4, 6
# No text, error, notice or log line may hold this but the chats themselves.
SECRET = "zanzibar"
LONG = 30_000


def picture(number: int) -> Picture:
    digest = f"{number:064x}"
    return Picture(digest, f"{SECRET}-{number}.png", (40, 30), (32, 32), 4, b"png" * 50)


def question(chat: int, turn: int) -> str:
    return f"{SECRET} question {chat}.{turn} " + "why " * 30


def answer(chat: int, turn: int) -> str:
    # Some are so long that they go over several pages.
    return f"{SECRET} answer {chat}.{turn} " + "because " * (LONG // 8 if turn == 3 else 60)


def write_chats(path: Path, chat_count: int = CHATS, turn_count: int = TURNS) -> None:
    """Chats with pictures, a fork in the road in each, drafts, and a deleted chat's key."""
    with closing(open_database(path)) as connection:
        connection.execute("BEGIN")
        for chat in range(1, chat_count + 1):
            number = chats.create(
                connection, f"{SECRET} title {chat}", begin=Begin(f"{SECRET} {chat}")
            )
            chats.ask_for(connection, number, ReplyFormat(kind="json") if chat % 2 else None)
            for turn in range(1, turn_count + 1):
                shown = [picture(10 * chat + turn)] if turn % 3 == 1 else []
                made = messages.append_turn(connection, number, question(chat, turn), shown)
                _answer(connection, made.reply, answer(chat, turn))
                if turn == turn_count:
                    made = messages.add_alternative(connection, number, made.message)
                    _answer(connection, made.reply, f"{SECRET} otherwise {chat}")
            text = f"{SECRET} draft {chat}"
            drafts.save(connection, StoredDraft(number, text, "", (picture(10 * chat + 9),)))
        gone = chats.create(connection, "gone", key="gone")
        chats.delete(connection, gone)
        chats.purge(connection)
        connection.execute("COMMIT")


def _answer(connection: sqlite3.Connection, reply: int, text: str) -> None:
    ids = ReplyIds.pack(range(len(text) // 8), "t" * 64, starts_in_reasoning=True)
    kept = Reply(ReplyState.COMPLETE, f"{SECRET} reasoning", ids, "stop")
    replies.save(connection, reply, text, kept)


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    database = Database(path)
    try:
        yield database
    finally:
        database.close()


def paths_of(database: Database, qloop: Loop) -> dict[str, ChatPath]:
    found: dict[str, ChatPath] = {}
    for chat in qloop.run(database.run(chats.listed)):
        path = qloop.run(database.run(messages.read_chat, chat.id))
        assert path is not None
        found[chat.title] = path
    return found


def texts_of(path: ChatPath) -> list[str]:
    return [message.text for message in path.path]


def all_texts(path: Path) -> list[str]:
    """Shown or not."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        rows = connection.execute("SELECT text FROM messages ORDER BY id").fetchall()
    return [(text or b"").decode("utf-8", "replace") for (text,) in rows]


def damaged_files(path: Path) -> list[Path]:
    return sorted(path.parent.glob("chats.damaged-*.db"))


def shown(chat: int) -> list[str]:
    texts = [
        text for turn in range(1, TURNS + 1) for text in (question(chat, turn), answer(chat, turn))
    ]
    return [*texts[:-1], f"{SECRET} otherwise {chat}"]


def assert_others_whole(found: dict[str, ChatPath], but: int) -> None:
    for chat in range(1, CHATS + 1):
        if chat != but:
            assert texts_of(found[f"{SECRET} title {chat}"]) == shown(chat)


def shown_texts() -> list[str]:
    return [text for chat in range(1, CHATS + 1) for text in shown(chat)]


def replace_bytes(path: Path, old: bytes, new: bytes) -> None:
    """They occur once; nothing else moves."""
    data = path.read_bytes()
    assert data.count(old) == 1 and len(old) == len(new), data.count(old)
    path.write_bytes(data.replace(old, new))


def zero_page(path: Path, number: int) -> None:
    data = bytearray(path.read_bytes())
    data[(number - 1) * PAGE : number * PAGE] = bytes(PAGE)
    path.write_bytes(data)


def root_of(path: Path, name: str) -> int:
    """The page where the tree of a table or an index begins."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        (page,) = connection.execute(query, (name,)).fetchone()
    return int(page)


def kind_of(path: Path, page: int) -> int:
    return path.read_bytes()[(page - 1) * PAGE + (100 if page == 1 else 0)]


def force(path: Path, change: str) -> None:
    """Change what SQLite would refuse: any column takes a value of any type, or none."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        tables = connection.execute(
            "SELECT sql, name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%STRICT%'"
        ).fetchall()
        _declare(connection, [(_relaxed(sql), name) for sql, name in tables])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(change).rowcount > 0
        _declare(connection, tables)


def _relaxed(sql: str) -> str:
    for word, instead in {"STRICT": "", "NOT NULL": "", "TEXT": "BLOB", "REAL": "BLOB"}.items():
        sql = sql.replace(word, instead)
    return sql


def _declare(connection: sqlite3.Connection, tables: list[tuple[str, str]]) -> None:
    connection.execute("PRAGMA writable_schema = ON")
    connection.executemany("UPDATE sqlite_schema SET sql = ? WHERE name = ?", tables)
    connection.execute("PRAGMA writable_schema = OFF")
