"""Pictures kept by digest: whole or not at all, once, for the owner only."""

import stat
import sys
from pathlib import Path

import pytest

from core.client.blobs import BlobStore


def test_the_same_bytes_are_one_file(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    first = store.put(b"picture")
    source = tmp_path / "other-name.png"
    source.write_bytes(b"picture")
    assert store.put_file(source) == first
    assert first[1].read_bytes() == b"picture"
    assert len([path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]) == 1


def test_I6_a_file_overwritten_under_the_same_name_is_another_one(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    source = tmp_path / "x.png"
    source.write_bytes(b"one")
    one = store.put_file(source)
    source.write_bytes(b"two")
    two = store.put_file(source)
    assert one[0] != two[0]
    assert one[1].read_bytes() == b"one" and two[1].read_bytes() == b"two"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no owner bits to read")
def test_only_the_owner_may_read(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    _, path = store.put(b"private")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "blobs").stat().st_mode) == 0o700


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = BlobStore(tmp_path / "blobs")

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("core.system.private_files.os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        store.put(b"picture")
    assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "A" * 64, "0" * 63])
def test_what_is_no_digest_is_refused(tmp_path: Path, digest: str) -> None:
    with pytest.raises(ValueError, match="not a SHA-256"):
        BlobStore(tmp_path).path(digest)
