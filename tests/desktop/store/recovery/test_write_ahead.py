"""The log beside the file: torn by a power cut, damaged, or left without its file."""

from __future__ import annotations

from pathlib import Path

from desktop.store import turns
from desktop.store.database import open_database
from tests.desktop.conftest import Loop
from tests.desktop.store.damage import (
    SECRET,
    all_texts,
    assert_others_whole,
    damaged_files,
    opened,
    paths_of,
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


def test_a_log_that_a_power_cut_has_torn_is_no_damage(path: Path, qloop: Loop) -> None:
    crashed(path, 40)
    log = Path(f"{path}-wal")
    log.write_bytes(log.read_bytes()[:-5000])
    with opened(path) as database:
        assert database.notice == "" and damaged_files(path) == []
        assert_others_whole(paths_of(database, qloop), but=1)
    assert f"{SECRET} late 38" in all_texts(path)


def test_H7_a_log_without_its_file_is_saved(path: Path, qloop: Loop) -> None:
    crashed(path, 40)
    path.write_bytes(b"")
    with opened(path) as database:
        assert "was damaged" in database.notice
    assert f"{SECRET} late 39" in all_texts(path)
