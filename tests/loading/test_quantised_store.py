"""The folder of quantised matrices: which file goes first, and that no trouble costs more than
time."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest
import torch

from core.loading.quantised_file import QuantisedLayout
from core.loading.quantised_store import QuantisedStore
from core.storage.rows import WEIGHTS
from core.storage.store import FLOOR_SHARE
from core.weights.spec import TensorSpec, Use
from kernels.linear.int8 import Int8Format
from kernels.linear.reference import PlainFormat, WeightFormats
from tests.loading.keeping import store_in
from tests.storage.disks import PLENTY, DiedError, FailingFiles, RoomyFiles, check_whole

FORMAT = Int8Format(None)
KEYS = [f"{number:02x}" * 32 for number in range(8)]


def layout(rows: int = 64) -> QuantisedLayout:
    spec = TensorSpec((rows, 32), torch.float32, Use.MATRIX)
    return QuantisedLayout({"weight": spec}, WeightFormats(FORMAT, PlainFormat()), {})


SIZE = layout().num_bytes
# A disk with so many bytes free is taken for full.
FULL = PLENTY // FLOOR_SHARE


def put(store: QuantisedStore, key: str, rows: int = 64) -> bool:
    """Keep a matrix; whether it was started."""
    writer = store.begin(layout(rows))
    if writer is None:
        return False
    writer.keep("weight", FORMAT.quantise(torch.ones(rows, 32)))
    store.finish(writer, key)
    return True


def has(store: QuantisedStore, key: str) -> bool:
    """Whether there is a whole file; counts as a use."""
    found = store.find(key, layout())
    if found is not None:
        found.close()
    return found is not None


def bytes_in(store: QuantisedStore) -> int:
    return store.blobs.num_bytes(WEIGHTS)


def delete(store: QuantisedStore) -> None:
    store.blobs.forget(WEIGHTS)


def names(folder: Path) -> list[str]:
    """The beginnings of the names of what is kept."""
    return sorted(path.name[:2] for path in (folder / WEIGHTS).glob("*"))


def test_nothing_is_kept_in_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    store = store_in(tmp_path / "file")
    assert bytes_in(store) == 0 and not has(store, KEYS[0]) and not put(store, KEYS[0])
    store.trim()
    delete(store)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_the_longest_unused_goes_first(tmp_path: Path) -> None:
    store = store_in(tmp_path, cap=3 * SIZE)
    for key in KEYS[:3]:
        put(store, key)
    assert has(store, KEYS[0])
    put(store, KEYS[3])
    assert names(tmp_path) == ["00", "02", "03"]
    assert bytes_in(store) <= 3 * SIZE


def test_a_smaller_cap_makes_files_go(tmp_path: Path) -> None:
    for key in KEYS[:4]:
        put(store_in(tmp_path), key)
    store_in(tmp_path, cap=2 * SIZE + 1).trim()
    assert names(tmp_path) == ["02", "03"]
    store_in(tmp_path, cap=0).trim()
    assert names(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="links take rights there")
def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    store = store_in(tmp_path)
    (tmp_path / WEIGHTS).mkdir()
    (tmp_path / WEIGHTS / ".new-blob").symlink_to(theirs)
    assert put(store, KEYS[0]) and has(store_in(tmp_path), KEYS[0])
    assert theirs.read_bytes() == b"theirs" and names(tmp_path) == ["00"]


def test_what_is_larger_than_the_cap_makes_nothing_go_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(store_in(tmp_path), KEYS[0])
    assert not put(store_in(tmp_path, cap=SIZE), KEYS[1], rows=128)
    assert names(tmp_path) == ["00"] and "are not kept: they take" in caplog.text


def test_a_full_disk_keeps_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = store_in(tmp_path, files=RoomyFiles(FULL + SIZE - 1))
    assert not put(store, KEYS[0])
    assert "GiB left" in caplog.text and not names(tmp_path)


def test_a_damaged_file_is_deleted_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_in(tmp_path)
    put(store, KEYS[0])
    (path,) = (tmp_path / WEIGHTS).iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert not has(store, KEYS[0])
    assert "bytes, not" in caplog.text and not names(tmp_path)


def test_a_load_killed_at_any_step_leaves_nothing_that_counts(tmp_path: Path) -> None:
    for step in range(1, 40):
        folder, files = tmp_path / str(step), FailingFiles()
        files.die_at = step
        try:
            put(store_in(folder, files=files), KEYS[0])
        except DiedError:
            store = store_in(folder)
            assert has(store, KEYS[0]) == (names(folder) == ["00"]) == (bytes_in(store) > 0)
            check_whole(store.blobs)
            assert put(store, KEYS[1]) and "01" in names(folder)
            continue
        assert step > 5 and names(folder) == ["00"]
        return
    pytest.fail("it always dies")


def killed(folder: Path) -> None:
    """Leave what a load that was killed amid its writing leaves."""
    writer = store_in(folder).begin(layout())
    assert writer is not None
    writer.keep("weight", FORMAT.quantise(torch.ones(64, 32)))
    assert len(names(folder)) > 0


def test_what_a_killed_load_left_goes_with_the_next_look(tmp_path: Path) -> None:
    put(store_in(tmp_path), KEYS[0])
    killed(tmp_path)
    assert bytes_in(store_in(tmp_path)) == SIZE and names(tmp_path) == ["00"]
    killed(tmp_path)
    delete(store_in(tmp_path))
    assert not names(tmp_path)


def test_a_disk_that_fails_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = FailingFiles()
    store = store_in(tmp_path, files=files)
    files.fail_at, files.stays_broken = files.num_steps + 1, True
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
        delete(store)
        assert not names(tmp_path)
        assert len(found.matrix("weight")) == 1
    found.close()


def test_what_cannot_be_deleted_is_told_and_of_no_use(tmp_path: Path) -> None:
    files = FailingFiles()
    store = store_in(tmp_path, files=files)
    for key in KEYS[:3]:
        put(store, key)
    files.fail_at = files.num_steps + 4
    with pytest.raises(OSError, match="Input") as caught:
        delete(store)
    assert caught.value.errno == errno.EIO
    # All else is gone.
    assert bytes_in(store) == 0 and len(names(tmp_path)) == 1
    delete(store)
    assert not names(tmp_path)
