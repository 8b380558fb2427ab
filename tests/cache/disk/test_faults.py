"""A store whose process is killed, or whose disk fails or fills up, at any single step."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import stat
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from core.api.errors import NotDeletedError
from core.cache.disk.segment import SegmentKind
from core.cache.disk.store import SegmentStore
from tests.cache.disk.worlds import (
    EMBEDDING,
    KV,
    STATE,
    WINDOW,
    check_integrity,
    content,
    get,
    key,
    open_store,
    place,
    put_chain,
    tensors,
    windows,
)
from tests.storage.disks import COMMIT_BYTES, PLENTY, DiedError, FailingFiles, RoomyFiles

NAMES = [(kind, number) for kind in SegmentKind for number in range(40)]
PARENTS = {1: 0, 2: 1, 3: 0, 4: 3, 6: 5, 8: 7, 9: 8, 11: 10, 12: 11, 13: 11, 14: 13}
Held = set[tuple[SegmentKind, int]]


class Life:
    """Plays one fixed life of a store, operation by operation.

    `before` is what was held before the operation that is under way.
    """

    def __init__(self, folder: Path, files: FailingFiles) -> None:
        self.folder = folder
        self.files = files
        self.cap = PLENTY
        self.before: Held = set()
        self.under_way = -1

    def open(self) -> None:
        self.store = open_store(self.folder, self.cap, self.files)

    def tighten(self) -> None:
        self.cap = self.store.num_bytes - 1
        self.store.cap = self.cap

    def operations(self) -> list[Callable[[], object]]:
        def put(kind: SegmentKind, number: int, *owners: str) -> Callable[[], object]:
            def do() -> bool:
                parent = PARENTS.get(number)
                above = key(parent) if parent is not None else None
                # A window has the rows of two runs, of which others have some.
                reach = {number, PARENTS.get(number, number)} if kind is STATE else ()
                parts = windows(self.store, *reach)
                rows = content(kind, number)
                return self.store.put(kind, key(number), above, rows, owners, parts)

            return do

        def put_runs(parent: int | None, *numbers: int) -> Callable[[], object]:
            above = key(parent) if parent is not None else None
            runs = [(key(number), tensors(number), {"d"}) for number in numbers]
            return lambda: self.store.put_runs(above, runs)

        return [
            self.open,
            put(KV, 0, "a"), put(KV, 1, "a"), put(KV, 2, "a"), put(STATE, 2, "a"),
            put(STATE, 0, "a", "B"), put(KV, 3, "B"), put(KV, 4, "B", "a"), put(STATE, 4, "B"),
            put(STATE, 1, "a"), put(EMBEDDING, 30, "a"), put(EMBEDDING, 31, "B", ""),
            lambda: self.store.own("a", EMBEDDING, key(31)),
            lambda: self.store.get(STATE, key(2)), lambda: self.store.get(*place(WINDOW, 1)),
            put(KV, 5, ""), put(KV, 6, ""), put(STATE, 6, ""),
            self.open,
            put(KV, 7, "c"), put(KV, 8, "c"), put(STATE, 8, "c"), put(KV, 9, "c"),
            self.open,
            lambda: self.store.own("B", STATE, key(8)),
            lambda: self.store.forget("c"),
            self.tighten,
            put_runs(None, 10, 11), put(STATE, 11, "d"), put_runs(11, 13, 14), put(STATE, 14, "d"),
            lambda: self.store.forget("a"),
            put(KV, 12, "B"), put(STATE, 12, "B"),
            self.tighten,
            self.open,
            lambda: self.store.forget("B"),
            lambda: self.store.get(STATE, key(6)),
        ]  # fmt: skip

    def held(self) -> Held:
        return {name for name in NAMES if self.store.has(*place(*name))}

    def play(self) -> list[Held]:
        """Play it all; what was held after each operation."""
        history: list[Held] = []
        for index, operation in enumerate(self.operations()):
            self.under_way, self.before = index, history[-1] if history else set()
            operation()
            history.append(self.held())
        return history


def restorable(held: Held) -> Held:
    """The part of `held` that a restart may restore: KV counts with a state at or below it, windows
    with one there or at the next run."""
    needed: Held = {name for name in held if name[0] in (STATE, EMBEDDING)}
    for kind, number in held:
        if kind is STATE:
            needed |= {(WINDOW, number), (WINDOW, PARENTS.get(number, number))}
        at: int | None = number if kind is STATE else None
        while at is not None:
            needed.add((KV, at))
            at = PARENTS.get(at)
    return held & needed


@pytest.fixture
def undisturbed(tmp_path: Path) -> tuple[list[Held], int]:
    """The segments held after each operation if nothing fails, and the number of steps."""
    life = Life(tmp_path / "undisturbed", FailingFiles())
    history = life.play()
    check_integrity(life.store)
    assert len({frozenset(held) for held in history}) > 20
    return history, life.files.num_steps


@pytest.mark.parametrize("count", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_D2_a_store_killed_at_any_of_40_steps_opens_with_all_that_was_done(
    tmp_path: Path, undisturbed: tuple[list[Held], int], count: int
) -> None:
    history, num_steps = undisturbed
    for step in random.Random(count).sample(range(1, num_steps + 1), count):
        files = FailingFiles()
        files.die_at = step
        life = Life(tmp_path / str(step), files)
        with pytest.raises(DiedError):
            life.play()
        check_after_death(life, history)


def check_after_death(life: Life, history: list[Held]) -> None:
    after = history[life.under_way] if life.under_way >= 0 else set()
    life.files = FailingFiles()
    life.open()
    check_integrity(life.store)
    held = life.held()
    assert held <= life.before | after
    assert held >= restorable(life.before & after), life.under_way
    assert all(get(life.store, kind, number) for kind, number in NAMES if (kind, number) in held)
    assert len(list(life.folder.glob("*/*"))) == len(held)
    life.store.cap = PLENTY
    assert put_chain(life.store, [20, 21], "later") and get(life.store, STATE, 21)
    life.store.forget(None)
    assert nothing_is_left(life.folder)


def test_M2_a_forget_that_was_killed_is_finished_by_the_next_start(tmp_path: Path) -> None:
    for step in range(1, 40):
        folder = tmp_path / str(step)
        store = open_store(folder)
        put_chain(store, [0, 1], "chat")
        put_chain(store, [2], "other", parent=0)
        files = FailingFiles()
        store = open_store(folder, files=files)
        files.num_steps, files.die_at = 0, step
        try:
            store.forget("chat")
        except DiedError:
            is_struck = not names_owner(folder, "chat")
            store = open_store(folder)
            assert store.has(STATE, key(1)) is not is_struck
            store.forget("chat")
            assert not store.has(KV, key(1)) and get(store, STATE, 2)
            check_integrity(store)
        else:
            assert step > 5
            return
    raise AssertionError("a forget takes fewer steps")


def names_owner(folder: Path, owner: str) -> bool:
    """True if the index lists anything of this owner."""
    with closing(sqlite3.connect(folder / "index.db")) as index:
        return bool(index.execute("SELECT 1 FROM owners WHERE owner = ?", (owner,)).fetchall())


def nothing_is_left(folder: Path) -> bool:
    """True if there are no files but an empty index."""
    with closing(sqlite3.connect(folder / "index.db")) as index:
        rows = index.execute("SELECT name FROM blobs UNION SELECT owner FROM owners").fetchall()
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    return not rows and files <= {"index.db", "index.db-wal", "index.db-shm"}


@pytest.mark.parametrize(
    ("count", "stays_broken"),
    [(10, False), *(pytest.param(40, each, marks=pytest.mark.slow) for each in (False, True))],
)
def test_D2_a_disk_that_fails_at_any_step_leaves_a_usable_store(
    tmp_path: Path, undisturbed: tuple[list[Held], int], count: int, stays_broken: bool
) -> None:
    for step in random.Random(count).sample(range(1, undisturbed[1] + 1), count):
        files = FailingFiles()
        files.fail_at, files.stays_broken = step, stays_broken
        life = Life(tmp_path / str(step), files)
        play_tolerantly(life)
        files.fail_at = None
        life.cap = PLENTY
        life.open()
        check_integrity(life.store)
        assert all(
            get(life.store, kind, number) for kind, number in NAMES if (kind, number) in life.held()
        )
        assert put_chain(life.store, [20, 21], "later") and life.store.trouble is None
        life.store.forget(None)
        assert nothing_is_left(life.folder)


def play_tolerantly(life: Life) -> None:
    """Go through the life as its user would: leave out what misses its parent, ask again to
    forget."""
    for operation in life.operations():
        for _ in range(2):
            failed_before = life.files.fail_at is None or life.files.num_steps >= life.files.fail_at
            try:
                operation()
            except NotDeletedError:
                continue  # asked again, once
            except AssertionError:
                assert failed_before  # its parent could not be written
            break
        if life.store.blobs.closed:
            life.open()


def test_D4_a_disk_that_is_full_at_any_byte_leaves_a_usable_store(tmp_path: Path) -> None:
    files = FailingFiles()
    store = open_store(tmp_path / "measured", files=files)
    files.room = PLENTY
    fill(store)
    num_bytes = PLENTY - files.room
    rooms = {0, 1, *random.Random(3).sample(range(num_bytes), 40)}
    for room in sorted(rooms):
        files = FailingFiles()
        store = open_store(tmp_path / str(room), files=files)
        files.room = room
        written = fill(store)
        assert not all(written) and "No space left" in str(store.trouble)
        check_integrity(store)
        assert get(store, STATE, 1) is written[2]
        files.room = None
        if room % 2:
            store = open_store(tmp_path / str(room))
            check_integrity(store)
            assert get(store, STATE, 1) is written[2]
        assert all(fill(store)) and store.trouble is None
        check_integrity(store)
        assert all(get(store, EMBEDDING, number) for number in (8, 9))


def fill(store: SegmentStore) -> list[bool]:
    """Put a chain of two runs and two embeddings, each under two owners, as far as it goes."""
    both = ["one", "two"]
    written = [store.put(KV, key(0), None, tensors(0), both)]
    written.append(written[-1] and store.put(KV, key(1), key(0), tensors(1), both))
    written.append(written[-1] and store.put(STATE, key(1), key(0), tensors(501), both))
    return written + [
        store.put(EMBEDDING, key(number), None, tensors(number), both) for number in (8, 9)
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows can't limit a file's size")
def test_D4_a_limit_of_the_real_system_is_met_in_the_middle_of_a_file(tmp_path: Path) -> None:
    import resource

    store = open_store(tmp_path)
    assert put_chain(store, [0], "chat")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        written = store.put(EMBEDDING, key(1), None, tensors(1, 4_000), ["chat"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not written and store.trouble is not None
    check_integrity(store)
    assert get(store, STATE, 0)
    assert store.put(EMBEDDING, key(1), None, tensors(1, 4_000), ["chat"])


def test_D2_a_file_system_that_syncs_no_folders_will_do(tmp_path: Path) -> None:
    class Network(RoomyFiles):
        def _sync(self, handle: int) -> None:
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "Invalid argument")

    store = open_store(tmp_path, files=Network())
    assert put_chain(store, [0], "chat") and store.trouble is None
    store.forget("chat")
    assert store.num_bytes == 0


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_D4_a_folder_that_can_not_be_written_closes_the_store(tmp_path: Path, code: int) -> None:
    class ReadOnly(RoomyFiles):
        def _create(self, path: Path) -> int:
            raise OSError(code, os.strerror(code))

    put_chain(open_store(tmp_path), [0], "chat")
    store = open_store(tmp_path, files=ReadOnly())
    assert store.blobs.closed and os.strerror(code) in str(store.trouble)
    assert not store.has(STATE, key(0)) and not put_chain(store, [1], "chat")
    with pytest.raises(NotDeletedError, match="still there"):
        store.forget("chat")
    assert get(open_store(tmp_path), STATE, 0)


def test_D4_a_full_disk_can_still_be_read_and_deleted_from(tmp_path: Path) -> None:
    class Full(RoomyFiles):
        def _create(self, path: Path) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    put_chain(open_store(tmp_path), [0], "chat")
    store = open_store(tmp_path, files=Full())
    assert get(store, STATE, 0)
    store.forget("chat")
    assert not list(tmp_path.rglob("*.safetensors"))


def test_M2_windows_kept_for_a_failed_write_go_with_their_chat(tmp_path: Path) -> None:
    files = FailingFiles()
    store = open_store(tmp_path, files=files)
    assert put_chain(store, [0], "chat", window=[0])
    assert store.put(KV, key(1), key(0), tensors(1), ["chat"])
    store.cap = store.num_bytes + store.size(*place(WINDOW, 0)) + 200
    files.room = COMMIT_BYTES  # of the eviction
    parts = windows(store, 0, 1)
    assert not store.put(STATE, key(1), key(0), content(STATE, 1), ["chat"], parts)
    assert not store.has(STATE, key(0)) and store.has(*place(WINDOW, 0))
    files.room = None
    store.forget("chat")
    assert not list(tmp_path.rglob("*.safetensors"))
    check_integrity(store)


def test_M2_what_can_not_be_deleted_is_said_and_asked_for_again(tmp_path: Path) -> None:
    class Stubborn(RoomyFiles):
        def delete(self, path: Path) -> None:
            if path.name.startswith("kv-"):
                raise PermissionError(13, "Permission denied")
            super().delete(path)

    store = open_store(tmp_path, files=Stubborn())
    put_chain(store, [0, 1], "chat")
    for _ in range(2):
        with pytest.raises(NotDeletedError, match="Permission denied"):
            store.forget("chat")
    assert store.num_bytes == 0 and not store.has(KV, key(0))
    store = open_store(tmp_path)
    store.forget("chat")
    assert not list(tmp_path.rglob("*.safetensors"))
