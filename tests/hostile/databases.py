"""A small file of chats with its log, and what a disk, a power cut or a stranger may do to it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from desktop.store.database import open_database
from desktop.store.tables import messages, replies
from desktop.store.tables.records import Reply, ReplyState
from tests.desktop.store.damage import PAGE, SECRET, write_chats

# No error, notice or log line may hold a word of the chats.
WORDS = (SECRET, "because", "why")
LATE_TURNS = 12


@dataclass(frozen=True)
class Files:
    """A file of chats and the log beside it; None for one that is not there."""

    data: bytes | None
    log: bytes | None

    def write(self, path: Path) -> None:
        for suffix, content in (("", self.data), ("-wal", self.log)):
            if content is not None:
                Path(f"{path}{suffix}").write_bytes(content)

    @classmethod
    def read(cls, path: Path) -> Files:
        found = [Path(f"{path}{suffix}") for suffix in ("", "-wal")]
        data, log = (each.read_bytes() if each.exists() else None for each in found)
        return cls(data, log)


def whole_files(folder: Path) -> tuple[Files, Files]:
    """The same chats closed, and as a power cut leaves them: with the newest turns in the log."""
    path = folder / "chats.db"
    write_chats(path, chat_count=3, turn_count=4)
    closed = Files(path.read_bytes(), None)
    connection = open_database(path)
    for number in range(LATE_TURNS):
        connection.execute("BEGIN IMMEDIATE")
        made = messages.append_turn(connection, 1 + number % 3, f"{SECRET} late {number}")
        connection.execute("COMMIT")
        text = f"{SECRET} late answer {number} " + "because " * (50 * number)
        replies.save(connection, made.reply, text, Reply(ReplyState.COMPLETE))
    crashed = Files.read(path)
    connection.close()
    return closed, crashed


# What may happen to bytes.


def flip_bits(random: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 8, 64))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def flip_headers(random: random.Random, data: bytes) -> bytes:
    """Change bytes where pages say what they are, and where the file does."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 2, 4))):
        page = random.randrange(max(1, len(data) // PAGE))
        place = page * PAGE + random.randrange(min(PAGE, random.choice((16, 100, 400))))
        changed[min(place, len(data) - 1)] = random.randrange(256)
    return bytes(changed)


def lose_pages(random: random.Random, data: bytes) -> bytes:
    """Pages or sectors that hold zeros, noise, or what belongs elsewhere."""
    changed = bytearray(data)
    size = random.choice((512, PAGE, PAGE, 4 * PAGE))
    for _ in range(random.choice((1, 1, 2, 5))):
        start = random.randrange(max(1, len(data) // size)) * size
        other = random.randrange(max(1, len(data) // size)) * size
        content = random.choice(
            (bytes(size), random.randbytes(size), b"\xff" * size, data[other : other + size])
        )
        room = len(data) - start
        changed[start : start + size] = content[:room].ljust(min(size, room), b"\0")
    return bytes(changed)


def cut_short(random: random.Random, data: bytes) -> bytes:
    return data[: random.choice((0, 1, 99, 100, PAGE, random.randrange(len(data) + 1)))]


def grow(random: random.Random, data: bytes) -> bytes:
    more = random.choice((1, 511, PAGE, 3 * PAGE))
    return data + random.choice((bytes(more), random.randbytes(more)))


def shift(random: random.Random, data: bytes) -> bytes:
    """Bytes that are missing or too many in the middle move all that follow."""
    place, count = random.randrange(len(data) + 1), random.choice((1, 16, 512))
    if random.random() < 0.5:
        return data[:place] + data[place + count :]
    return data[:place] + random.randbytes(count) + data[place:]


def put_foreign(random: random.Random, _data: bytes) -> bytes:
    """A file of somebody else."""
    text = f"{SECRET} because this is no database, why would it be one? ".encode()
    noise = random.randbytes(random.choice((16, 4096, 20_000)))
    return random.choice((b"", text, text * 400, b"PK\x03\x04" + noise, noise, other_database()))


def other_database() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, a, b TEXT, c TEXT, d TEXT)")
        connection.execute("INSERT INTO notes VALUES (1, 2, ?, 'b', 'c')", (SECRET,))
        connection.commit()
        return connection.serialize()


Change = Callable[[random.Random, bytes], bytes]
CHANGES: tuple[Change, ...] = (
    flip_bits,
    flip_bits,
    flip_headers,
    flip_headers,
    lose_pages,
    lose_pages,
    cut_short,
    grow,
    shift,
    put_foreign,
)


def mutant(number: int, closed: Files, crashed: Files) -> Files:
    """Mutant `number`: the same in every run."""
    random_ = random.Random(f"database {number}")
    files = random_.choice((closed, crashed))
    for _ in range(random_.choice((1, 1, 1, 2, 3))):
        change = random_.choice(CHANGES)
        hits_log = files.log is not None and random_.random() < 0.5
        if hits_log and random_.random() < 0.1:
            files = replace(files, log=None)
        elif hits_log and files.log:
            files = replace(files, log=change(random_, files.log))
        elif files.log is not None and random_.random() < 0.05:
            files = replace(files, data=None)
        elif files.data:
            files = replace(files, data=change(random_, files.data))
    return files


# What has to survive.


def readable_by_sqlite(files: Files, folder: Path, whole: dict[int, str]) -> set[str]:
    """The texts that SQLite itself still reads as they were, message by message."""
    path = folder / "looked at.db"
    files.write(path)
    found: set[str] = set()
    try:
        with closing(sqlite3.connect(path)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            for number, text in whole.items():
                try:
                    row = connection.execute(
                        "SELECT text FROM messages WHERE id = ?", (number,)
                    ).fetchone()
                except (sqlite3.Error, UnicodeDecodeError):
                    continue
                if row == (text,):
                    found.add(text)
    finally:
        for left in folder.glob("looked at.db*"):
            left.unlink()
    return found


def texts_by_id(path: Path) -> dict[int, str]:
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        rows = connection.execute("SELECT id, text FROM messages WHERE text != ''").fetchall()
    return dict(rows)
