"""The log beside the file: torn by a power cut, damaged, or left without its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from desktop.store.database import open_database
from desktop.store.tables import messages, turns
from desktop.store.tables.records import Reply, ReplyState
from tests.desktop.conftest import Loop
from tests.desktop.store.damage import (
    PAGE,
    SECRET,
    all_texts,
    assert_others_whole,
    damaged_files,
    opened,
    paths_of,
    write_chats,
)


def crashed(path: Path, extra: int) -> None:
    """Messages that are in the log only, as after a power cut."""
    connection = open_database(path)
    for number in range(extra):
        connection.execute("BEGIN IMMEDIATE")
        turns.append_turn(connection, 1, f"{SECRET} late {number}")
        connection.execute("COMMIT")
    kept = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal")}
    connection.close()
    for suffix, data in kept.items():
        Path(f"{path}{suffix}").write_bytes(data)


def test_H7_a_damaged_page_of_the_log_costs_its_rows(path: Path, qloop: Loop) -> None:
    crashed(path, 40)
    log = Path(f"{path}-wal")
    data = bytearray(log.read_bytes())
    data[len(data) // 3] ^= 0xFF
    log.write_bytes(data)
    before = path.read_bytes()
    with opened(path) as database:
        assert "was damaged" in database.notice
        (kept,) = damaged_files(path)
        assert kept.read_bytes() == before
        assert Path(f"{kept}-wal").read_bytes() == bytes(data)
        assert_others_whole(paths_of(database, qloop), but=1)
    late = [text for text in all_texts(path) if "late" in text]
    assert f"{SECRET} late 39" in late and len(late) >= 38


def test_H7_any_damaged_frame_of_the_log_costs_no_message_stored_before(
    tmp_path: Path, qloop: Loop
) -> None:
    """Replies that grow move others to new pages: old ones are in the file, new ones in the log."""
    path = tmp_path / "chats.db"
    write_chats(path, chat_count=2)
    before = set(filter(None, all_texts(path)))
    connection = open_database(path)
    replies = connection.execute("SELECT message FROM replies ORDER BY message").fetchall()
    for (reply,) in replies[:6]:
        (text,) = connection.execute("SELECT text FROM messages WHERE id = ?", (reply,)).fetchone()
        messages.save_reply(connection, reply, text + "and more " * 120, Reply(ReplyState.COMPLETE))
    data, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    connection.close()
    frame = PAGE + 24
    for start in range(32, len(log) - 8 * frame, frame):
        damaged = bytearray(log)
        damaged[start + 500] ^= 1
        folder = tmp_path / str(start)
        folder.mkdir()
        (folder / "chats.db").write_bytes(data)
        (folder / "chats.db-wal").write_bytes(damaged)
        with opened(folder / "chats.db") as database:
            assert "was damaged" in database.notice
        after = all_texts(folder / "chats.db")
        assert all(any(text.startswith(old) for text in after) for old in before), start
        assert len([text for text in after if text]) == len(before), start


def test_a_log_that_a_power_cut_has_torn_is_no_damage(path: Path, qloop: Loop) -> None:
    crashed(path, 40)
    log = Path(f"{path}-wal")
    log.write_bytes(log.read_bytes()[:-5000])
    with opened(path) as database:
        assert database.notice == "" and damaged_files(path) == []
        assert_others_whole(paths_of(database, qloop), but=1)
    assert f"{SECRET} late 38" in all_texts(path)


@pytest.mark.parametrize("rest", [b"", b"S"])
def test_H7_a_log_without_its_file_is_saved(path: Path, qloop: Loop, rest: bytes) -> None:
    crashed(path, 40)
    path.write_bytes(rest)
    with opened(path) as database:
        assert "was damaged" in database.notice
    assert f"{SECRET} late 39" in all_texts(path)
