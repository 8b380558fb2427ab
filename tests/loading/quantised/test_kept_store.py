"""The folder of quantised matrices: which file goes first, and that no trouble costs more than
time."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

import pytest
import torch

from core.loading.quantised.kept_layout import KeptLayout
from core.loading.quantised.kept_store import KeptStore
from core.weights.plan import TensorSpec, Use
from kernels.linear.int8 import Int8Form
from kernels.linear.reference import Forms, PlainForm
from tests.cache.disk.worlds import PLENTY, DiedError, FailingFiles, RoomyFiles
from tests.loading.quantised.keeping import store_in

FORM = Int8Form(None)
KEYS = [f"{number:02x}" * 32 for number in range(8)]


def layout(rows: int = 64) -> KeptLayout:
    spec = TensorSpec((rows, 32), torch.float32, Use.MATRIX)
    return KeptLayout({"weight": spec}, Forms(FORM, PlainForm()), {})


SIZE = layout().num_bytes


def put(store: KeptStore, key: str, rows: int = 64) -> bool:
    """Keep a matrix; whether it was started."""
    writer = store.begin(layout(rows))
    if writer is None:
        return False
    writer.keep("weight", FORM.keep(torch.ones(rows, 32)))
    store.finish(writer, key)
    return True


def has(store: KeptStore, key: str) -> bool:
    """Whether there is a whole file; counts as a use."""
    found = store.find(key, layout())
    if found is not None:
        found.close()
    return found is not None


def names(folder: Path) -> list[str]:
    return sorted(path.name[:2] for path in folder.iterdir())


def test_what_was_kept_is_found_by_a_new_store(tmp_path: Path) -> None:
    assert put(store_in(tmp_path), KEYS[0])
    again = store_in(tmp_path)
    assert has(again, KEYS[0]) and not has(again, KEYS[1])
    assert again.num_bytes == SIZE


def test_nothing_is_kept_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    store = store_in(tmp_path / "none")
    assert store.num_bytes == 0 and not has(store, KEYS[0])
    store.trim()
    store.delete_all()
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_only_the_owner_may_look(tmp_path: Path) -> None:
    put(store_in(tmp_path / "a" / "b"), KEYS[0])
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    (file,) = (tmp_path / "a" / "b").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_longest_unused_goes_first(tmp_path: Path) -> None:
    store = store_in(tmp_path, cap=3 * SIZE)
    for key in KEYS[:3]:
        put(store, key)
    assert has(store, KEYS[0])
    put(store, KEYS[3])
    assert names(tmp_path) == ["00", "02", "03"]
    assert store.num_bytes <= 3 * SIZE


def test_a_smaller_cap_makes_files_go(tmp_path: Path) -> None:
    for key in KEYS[:4]:
        put(store_in(tmp_path), key)
    store_in(tmp_path, cap=2 * SIZE + 1).trim()
    assert names(tmp_path) == ["02", "03"]
    store_in(tmp_path, cap=0).trim()
    assert names(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="links take rights there")
def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    folder, theirs = tmp_path / "weights", tmp_path / "theirs"
    folder.mkdir()
    theirs.write_bytes(b"theirs")
    (folder / ".new-matrices.safetensors").symlink_to(theirs)
    assert put(store_in(folder), KEYS[0]) and has(store_in(folder), KEYS[0])
    assert theirs.read_bytes() == b"theirs" and names(folder) == ["00"]


def test_what_is_larger_than_the_cap_makes_nothing_go_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(store_in(tmp_path), KEYS[0])
    assert not put(store_in(tmp_path, cap=SIZE), KEYS[1], rows=128)
    assert names(tmp_path) == ["00"] and "are not kept: they take" in caplog.text


def test_a_full_disk_keeps_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = KeptStore(tmp_path, PLENTY, lambda num_bytes: num_bytes - SIZE + 1, RoomyFiles())
    assert not put(store, KEYS[0])
    assert "too full" in caplog.text and not names(tmp_path)


def test_a_damaged_file_is_deleted_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_in(tmp_path)
    put(store, KEYS[0])
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert not has(store, KEYS[0])
    assert "bytes, not" in caplog.text and not names(tmp_path)


def test_a_load_killed_at_any_step_leaves_nothing_that_counts(tmp_path: Path) -> None:
    for step in range(1, 40):
        files = FailingFiles()
        files.die_at = step
        try:
            put(store_in(tmp_path, files=files), KEYS[0])
        except DiedError:
            found = has(store_in(tmp_path), KEYS[0])
            assert found == any(path.name.startswith("00") for path in tmp_path.iterdir())
            continue
        assert step > 5
        break
    else:
        pytest.fail("it always dies")
    assert put(store_in(tmp_path), KEYS[1])
    assert names(tmp_path) == ["00", "01"]


def killed(folder: Path) -> None:
    """Leave what a load that was killed amid its writing leaves."""
    writer = store_in(folder).begin(layout())
    assert writer is not None
    writer.keep("weight", FORM.keep(torch.ones(64, 32)))


def test_what_a_killed_load_left_counts_and_goes_with_the_next_look(tmp_path: Path) -> None:
    put(store_in(tmp_path), KEYS[0])
    killed(tmp_path)
    assert store_in(tmp_path).num_bytes > SIZE
    store_in(tmp_path).trim()
    assert names(tmp_path) == ["00"]
    killed(tmp_path)
    store_in(tmp_path).delete_all()
    assert not names(tmp_path)


def test_what_a_killed_load_left_takes_no_other_files_room(tmp_path: Path) -> None:
    put(store_in(tmp_path), KEYS[0])
    killed(tmp_path)
    put(store_in(tmp_path, cap=2 * SIZE), KEYS[1])
    assert names(tmp_path) == ["00", "01"]


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "model-00001-of-00002.safetensors"
    mine.write_bytes(bytes(5 * SIZE))
    put(store_in(tmp_path), KEYS[0])
    store = store_in(tmp_path, cap=1)
    assert store.num_bytes == SIZE
    store.trim()
    store.delete_all()
    assert list(tmp_path.iterdir()) == [mine]


def test_a_disk_that_fails_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = FailingFiles()
    files.fail_at, files.stays_broken = 1, True
    store = store_in(tmp_path, files=files)
    put(store, KEYS[0])
    store.trim()
    assert not has(store, KEYS[0])
    assert "not kept: Input/output error" in caplog.text and not names(tmp_path)


def test_all_files_are_deleted_also_those_in_use(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for key in KEYS[:3]:
        put(store, key)
    found = store.find(KEYS[1], layout())
    assert found is not None
    if sys.platform != "win32":
        store.delete_all()
        assert not names(tmp_path)
        assert len(found.matrix("weight")) == 1
    found.close()


def test_what_cannot_be_deleted_is_told_after_all_were_tried(tmp_path: Path) -> None:
    files = FailingFiles()
    store = store_in(tmp_path, files=files)
    for key in KEYS[:3]:
        put(store, key)
    files.fail_at = files.num_steps + 2
    with pytest.raises(OSError, match="Input") as caught:
        store.delete_all()
    assert caught.value.errno == errno.EIO
    assert len(os.listdir(tmp_path)) == 1
