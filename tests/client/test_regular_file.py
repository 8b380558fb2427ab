"""What is no file is refused by name, and never waited for."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from core.api.errors import NotRegularFileError
from core.client.blobs import BlobStore, read_regular


def test_a_file_is_read_and_a_missing_one_is_the_systems_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"bytes")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_regular(tmp_path / "file") == read_regular(tmp_path / "link") == b"bytes"
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "gone")


def test_a_folder_is_named(tmp_path: Path) -> None:
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
