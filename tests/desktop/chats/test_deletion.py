from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path

import pytest

from core.api.errors import ErrorInfo, NotDeletedError
from desktop.chats import deletion
from desktop.chats.deletion import CLOCK_NAME, confirmed_moment
from desktop.engine.engine_status import Phase
from desktop.store import backups
from desktop.store.folders import Folders
from desktop.store.tables import chats
from desktop.window.window_parts import WindowParts
from tests.desktop.chat.test_chat import ask, ended
from tests.desktop.conftest import Loop, OpenParts, until
from tests.desktop.fake_engine import FakeEngine, png
from tests.desktop.store.damage import root_of, zero_page


async def delete_for_good(parts: WindowParts, chat: int) -> None:
    await to_trash(parts, chat)
    parts.deletion.delete_for_good(chat)


async def to_trash(parts: WindowParts, chat: int) -> None:
    parts.chats.delete(chat)
    await until(lambda: chat in [each.id for each in parts.chats.trash.chats])


async def age(parts: WindowParts, days: float) -> None:
    def shift(connection: sqlite3.Connection) -> None:
        connection.execute(
            "UPDATE chats SET created = created - ?1, deleted = deleted - ?1", (days * 86_400,)
        )

    await parts.database.run(shift)


def confirm_the_clock(folders: Folders) -> None:
    """An earlier start, a day ago, has seen this moment."""
    kept = {"seen": time.time(), "confirmed": time.time()}
    (folders.data / CLOCK_NAME).write_text(json.dumps(kept))


async def with_chat(open_parts: OpenParts, engine: FakeEngine, folder: Path) -> WindowParts:
    parts = await open_parts()
    await until(lambda: parts.engine.status.phase is Phase.READY)
    (folder / "picture.png").write_bytes(png())
    parts.pictures.add_files(parts.chat.draft, [folder / "picture.png"])
    await until(lambda: parts.chat.draft.pictures and parts.chat.draft.complete)
    (await ask(parts, engine, "a secret question")).finish("a secret answer")
    await ended(parts)
    await until(lambda: engine.settled)
    return parts


@pytest.fixture
def parts(qloop: Loop, open_parts: OpenParts, engine: FakeEngine, tmp_path: Path) -> WindowParts:
    return qloop.run(with_chat(open_parts, engine, tmp_path))


async def kill(parts: WindowParts, folders: Folders) -> None:
    """End before chats long in the trash are deleted for good."""
    await to_trash(parts, shown(parts))
    await age(parts, 31)
    confirm_the_clock(folders)
    await parts.tasks.close()
    await parts.engine.close()
    await parts.search.close()
    parts.database.close()


def shown(parts: WindowParts) -> int:
    chat = parts.chat.transcript.chat
    assert chat is not None
    return chat


def picture_files(folders: Folders) -> list[Path]:
    return [path for path in folders.pictures.glob("??/*") if path.is_file()]


async def test_a_chat_is_one_key_to_the_engine_and_another_chat_another(
    parts: WindowParts, engine: FakeEngine
) -> None:
    key = parts.chat.key
    assert len(key) == 32
    # What was read ahead on the empty page belongs to the chat that began there.
    assert [each.chat for each in (*engine.read, *engine.settled)] == [key, key]
    assert engine.asked[0].command.chat == key
    (await ask(parts, engine, "More")).finish("Yes")
    await ended(parts)
    assert engine.asked[1].command.chat == key
    parts.chat.open(None)
    (await ask(parts, engine, "Other")).finish("Yes")
    await ended(parts)
    assert engine.asked[2].command.chat not in ("", key)


async def test_the_trash_keeps_a_chat_over_restarts_for_thirty_days(
    open_parts: OpenParts, engine: FakeEngine, folders: Folders, tmp_path: Path
) -> None:
    parts = await with_chat(open_parts, engine, tmp_path)
    chat = shown(parts)
    await to_trash(parts, chat)
    await age(parts, 29.9)
    await parts.close()
    parts = await open_parts()
    await until(lambda: parts.chats.trash.chats)
    parts.chats.time_passed.emit()
    await until(lambda: not parts.tasks._running)
    assert len(picture_files(folders)) == 1 and engine.forgets == []
    await age(parts, 0.2)
    # The clock may have jumped ahead: nothing goes before a later look has confirmed it.
    parts.chats.time_passed.emit()
    await until(lambda: not parts.tasks._running)
    assert len(picture_files(folders)) == 1 and engine.forgets == []
    confirm_the_clock(folders)
    parts.chats.time_passed.emit()
    await until(lambda: engine.forgotten and not parts.chats.trash.chats)
    await until(lambda: not parts.tasks._running)
    assert picture_files(folders) == []
    assert b"secret" not in folders.database.read_bytes()


async def test_M2_a_chat_deleted_for_good_is_in_no_backup(
    parts: WindowParts, engine: FakeEngine, folders: Folders
) -> None:
    # The start has made an empty one already.
    for backup in backups.backups(folders.database):
        os.utime(backup, (0, 0))
    await parts.database.back_up_daily()
    before = backups.backups(folders.database)
    assert b"secret" in before[0].read_bytes()
    chat = shown(parts)
    await delete_for_good(parts, chat)
    await until(lambda: engine.forgotten and backups.backups(folders.database))
    await until(lambda: not before[0].exists())
    kept = [path for path in folders.data.rglob("*") if path.is_file()]
    assert len(backups.backups(folders.database)) == 1
    assert not any(b"secret" in path.read_bytes() for path in kept)


async def test_M2_deleting_all_data_leaves_no_backup_even_if_it_is_cut_off(
    parts: WindowParts, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    for backup in backups.backups(folders.database):
        os.utime(backup, (0, 0))
    await parts.database.back_up_daily()

    async def cut_off(*_: object, **__: object) -> None:
        raise NotDeletedError("cut off")

    monkeypatch.setattr(deletion, "deleted", cut_off)
    with pytest.raises(NotDeletedError):
        await parts.deletion._delete_everything()
    assert not any(b"secret" in path.read_bytes() for path in backups.backups(folders.database))


async def test_M2_half_written_pictures_go_at_a_start_and_with_every_deletion(
    open_parts: OpenParts, engine: FakeEngine, folders: Folders, tmp_path: Path
) -> None:
    """A process that is killed while it stores a picture leaves all of it under another name."""

    def leave() -> Path:
        left = folders.pictures / "ab" / ".new-0123456789abcdef"
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(png())
        return left

    left = leave()
    parts = await with_chat(open_parts, engine, tmp_path)
    assert not left.exists() and len(picture_files(folders)) == 1
    chat = shown(parts)
    left = leave()
    await delete_for_good(parts, chat)
    await until(lambda: not left.exists())
    left = leave()
    parts.deletion.delete_everything()
    await until(lambda: not left.exists())


async def test_a_chat_deleted_for_good_is_gone_with_its_draft(
    parts: WindowParts, engine: FakeEngine, folders: Folders, tmp_path: Path
) -> None:
    chat, key = shown(parts), parts.chat.key
    (tmp_path / "other.png").write_bytes(png(20, 20))
    parts.pictures.add_files(parts.chat.draft, [tmp_path / "other.png"])
    await until(lambda: parts.chat.draft.pictures and parts.chat.draft.complete)
    parts.chat.open(None)
    assert len(picture_files(folders)) == 2
    told: list[int] = []
    parts.chats.deleted.connect(lambda gone, _title: told.append(gone))
    # Deleting twice is deleting once.
    parts.chats.delete(chat)
    await delete_for_good(parts, chat)
    await until(lambda: engine.forgotten)
    await until(lambda: picture_files(folders) == [])
    assert engine.forgotten == [(key, str(folders.contexts))]
    # What was to be read in idle time must not come after it was forgotten.
    assert engine.unsettled == [0] and told == [chat]
    files = [folders.database, Path(f"{folders.database}-wal")]
    left = b"".join(path.read_bytes() for path in files)
    assert b"secret" not in left and b"PNG" not in left
    parts.deletion.send_pending()
    await until(lambda: not parts.deletion._sending)
    assert await parts.database.run(chats.next_to_forget) is None
    assert len(engine.forgotten) == 1


async def test_a_chat_that_is_gone_is_not_waited_for(
    parts: WindowParts, engine: FakeEngine
) -> None:
    chat = shown(parts)
    await delete_for_good(parts, chat)
    await until(lambda: engine.forgotten)
    # Undo that comes too late finds nothing; what is sent next begins a new chat.
    parts.chats.restore(chat)
    parts.chat.open(chat)
    await until(lambda: parts.transcript.rows == [])
    parts.chat.draft.text = "Hello again"
    parts.chat.send()
    await until(lambda: [row.text for row in parts.transcript.rows] == ["Hello again", ""])
    assert parts.transcript.chat != chat


async def test_a_chat_brought_back_and_a_picture_in_another_draft_stay(
    parts: WindowParts, engine: FakeEngine, folders: Folders, tmp_path: Path
) -> None:
    chat = shown(parts)
    await to_trash(parts, chat)
    parts.chats.restore(chat, opened=False)
    await until(lambda: parts.chat_list.chats)
    await parts.deletion.purge()
    assert len(parts.chat_list.chats) == 1 and parts.chats.trash.chats == []
    assert engine.forgets == [] and len(picture_files(folders)) == 1
    parts.chat.open(None)
    parts.pictures.add_files(parts.chat.draft, [tmp_path / "picture.png"])
    await until(lambda: parts.chat.draft.pictures and parts.chat.draft.complete)
    await delete_for_good(parts, chat)
    await until(lambda: engine.forgotten)
    assert len(picture_files(folders)) == 1


async def test_what_a_dead_worker_did_not_confirm_is_sent_again_in_order(
    parts: WindowParts, engine: FakeEngine
) -> None:
    first = parts.chat.key
    parts.chat.open(None)
    (await ask(parts, engine, "Other")).finish("Yes")
    await ended(parts)
    second = parts.chat.key
    engine.may_forget.clear()
    for chat in [each.id for each in reversed(parts.chat_list.chats)]:
        await delete_for_good(parts, chat)
    await until(lambda: not parts.chat_list.chats and engine.forgets)
    dying = engine.die()
    assert engine.forgotten == []
    engine.may_forget.set()
    await dying
    await until(lambda: len(engine.forgotten) == 2)
    assert [key for key, _ in engine.forgotten] == [first, second]


async def test_a_queue_left_by_the_last_start_is_sent_without_a_model(
    open_parts: OpenParts, engine: FakeEngine, tmp_path: Path, folders: Folders
) -> None:
    parts = await with_chat(open_parts, engine, tmp_path)
    key = parts.chat.key
    await kill(parts, folders)
    engine.model_to_load = None
    await open_parts()
    await until(lambda: engine.forgotten)
    assert engine.forgotten == [(key, str(folders.contexts))]
    assert picture_files(folders) == []


async def test_all_data_goes_at_once(
    parts: WindowParts, engine: FakeEngine, folders: Folders
) -> None:
    parts.chat.draft.text = "a secret draft"
    parts.chat.keep_draft(parts.chat.draft)
    (folders.data / "chats.damaged-1.db").write_bytes(b"an old secret")
    asked = await ask(parts, engine, "One more")
    asked.say("Hm", ids=(1,))
    gone: list[bool] = []
    parts.deletion.everything_gone.connect(lambda: gone.append(True))
    parts.deletion.delete_everything()
    await until(lambda: gone and engine.forgotten)
    assert engine.forgotten == [(None, str(folders.contexts))]
    assert asked.cancelled and engine.unsettled == [0]
    assert parts.chat_list.chats == [] and parts.transcript.rows == []
    assert parts.chat.draft.empty and picture_files(folders) == []
    assert not list(folders.data.glob("*.damaged-*"))
    with sqlite3.connect(folders.database) as other:
        assert other.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    other.close()
    assert b"secret" not in folders.database.read_bytes()


def beside(folders: Folders, kind: str, words: bytes = b"an old secret") -> Path:
    path = folders.data / f"chats.{kind}-20250101-101500-000000.db"
    path.write_bytes(words)
    return path


async def test_a_chat_deleted_for_good_is_in_no_older_file_either(
    parts: WindowParts, engine: FakeEngine, folders: Folders
) -> None:
    chat = shown(parts)
    older = [beside(folders, "copy"), beside(folders, "damaged")]
    log = folders.data / f"{older[1].name}-wal"
    log.write_bytes(b"an old secret")
    aside = beside(folders, "aside", b"chats of another file")
    await delete_for_good(parts, chat)
    await until(lambda: engine.forgotten)
    assert not any(path.exists() for path in (*older, log))
    # The user put that one aside; it is no copy. Its pictures stay, those of the chat do not.
    assert aside.exists() and picture_files(folders) == []


async def test_what_is_kept_stays_until_a_chat_is_deleted(
    open_parts: OpenParts, engine: FakeEngine, folders: Folders, tmp_path: Path
) -> None:
    damaged = beside(folders, "damaged")
    stray = folders.pictures / "ab" / ("ab" * 32)
    stray.parent.mkdir()
    stray.write_bytes(b"a picture that only the damaged file shows")
    parts = await with_chat(open_parts, engine, tmp_path)
    await parts.deletion.purge()
    assert damaged.exists() and stray.exists() and len(picture_files(folders)) == 2
    aside = beside(folders, "aside")
    await to_trash(parts, shown(parts))
    await parts.deletion.purge()
    assert not damaged.exists() and picture_files(folders) == [stray]
    aside.unlink()
    await parts.deletion.purge()
    assert picture_files(folders) == []


async def test_what_this_start_has_kept_outlives_what_the_last_one_left_to_delete(
    open_parts: OpenParts, engine: FakeEngine, folders: Folders, tmp_path: Path
) -> None:
    parts = await with_chat(open_parts, engine, tmp_path)
    await kill(parts, folders)
    older = beside(folders, "copy")
    zero_page(folders.database, root_of(folders.database, "messages_of_chat"))
    parts = await open_parts()
    await until(lambda: not older.exists())
    await parts.deletion.purge()
    (damaged,) = folders.data.glob("chats.damaged-*.db")
    assert damaged.name in parts.database.notice
    assert await parts.database.run(chats.listed) == []
    assert sorted(parts.database.made) == [damaged]


async def test_what_can_not_be_deleted_is_said_and_the_rest_is_done(
    parts: WindowParts, engine: FakeEngine, folders: Folders
) -> None:
    said: list[ErrorInfo] = []
    parts.failed.connect(said.append)
    chat = shown(parts)
    # Nobody can unlink a folder.
    stuck = folders.data / "chats.damaged-1.db"
    stuck.mkdir()
    older = beside(folders, "copy")
    await delete_for_good(parts, chat)
    await until(lambda: engine.forgotten and said)
    assert said[0].title == "Not everything could be deleted" and stuck.name in said[0].message
    assert not older.exists()
    assert picture_files(folders) == []
    files = [folders.database, Path(f"{folders.database}-wal")]
    assert b"secret" not in b"".join(path.read_bytes() for path in files)
    stuck.rmdir()


# The trash's clock: a moment counts once a look a day later has confirmed it.

DAY = 86_400.0
YEAR = 365 * DAY
NOW = 1_800_000_000.0


def test_a_moment_counts_when_a_later_look_confirms_it(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    assert confirmed_moment(path, NOW) is None
    assert confirmed_moment(path, NOW + DAY - 1) is None
    assert confirmed_moment(path, NOW + DAY) == NOW
    assert confirmed_moment(path, NOW + DAY + 1) == NOW
    assert confirmed_moment(path, NOW + 2 * DAY) == NOW + DAY
    assert path.stat().st_mode & 0o077 == 0


def test_a_clock_that_jumps_ahead_and_is_put_right_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    confirmed_moment(path, NOW)
    for hour in range(20):
        assert confirmed_moment(path, NOW + YEAR + hour * 3_600) == NOW
    assert confirmed_moment(path, NOW + 2 * DAY) == NOW
    assert confirmed_moment(path, NOW + 3 * DAY) == NOW + 2 * DAY


def test_a_clock_that_was_ahead_for_days_is_no_longer_believed_when_it_is_right(
    tmp_path: Path,
) -> None:
    path = tmp_path / "clock"
    for day in range(4):
        confirmed_moment(path, NOW + YEAR + day * DAY)
    assert confirmed_moment(path, NOW) is None


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"seen": "x", "confirmed": []}', b"[" * 9_999]
)
def test_a_file_that_says_nothing_begins_again(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "clock"
    path.write_bytes(content)
    assert confirmed_moment(path, NOW) is None
    assert confirmed_moment(path, NOW + DAY) == NOW
