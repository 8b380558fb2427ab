"""The user's files: only regular ones are opened; kept by digest, whole and for the owner only."""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from core.api.errors import NotRegularFileError
from core.client.blobs import BlobStore, read_regular


def test_the_same_bytes_are_one_file_of_the_owners(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    first = store.put(b"picture")
    source = tmp_path / "other-name.png"
    source.write_bytes(b"picture")
    assert store.put_file(source) == first
    assert first[1].read_bytes() == b"picture"
    assert len([path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]) == 1
    if sys.platform != "win32":
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (first[1], tmp_path / "blobs")]
        assert modes == [0o600, 0o700]


def test_I6_a_file_overwritten_under_the_same_name_is_another_one(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    source = tmp_path / "x.png"
    source.write_bytes(b"one")
    one = store.put_file(source)
    source.write_bytes(b"two")
    two = store.put_file(source)
    assert one[0] != two[0]
    assert one[1].read_bytes() == b"one" and two[1].read_bytes() == b"two"


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "A" * 64, "0" * 63])
def test_what_is_no_digest_is_refused(tmp_path: Path, digest: str) -> None:
    with pytest.raises(ValueError, match="not a SHA-256"):
        BlobStore(tmp_path).path(digest)


def test_a_file_is_read_and_a_missing_one_is_the_systems_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"bytes")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_regular(tmp_path / "file") == read_regular(tmp_path / "link") == b"bytes"
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "gone")
    with pytest.raises(NotRegularFileError, match="It is a folder"):
        read_regular(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_devices_and_sockets_are_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    # The path of a socket is short, so it is bound by its name alone.
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        for path in (tmp_path / "pipe", tmp_path / "socket", Path("/dev/zero")):
            with pytest.raises(NotRegularFileError, match="a pipe, a device or a socket"):
                read_regular(path)
    with pytest.raises(NotRegularFileError):
        BlobStore(tmp_path / "blobs").put_file(tmp_path / "pipe")
