"""Folders and files of one user: made closed, judged where they are there, written whole."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.system import private_files
from core.system.private_files import (
    NotPrivateError,
    create,
    open_or_create,
    private_folder,
    write_whole,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="rights as POSIX has them")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_folder_is_made_with_those_above_it_for_its_owner_alone(
    tmp_path: Path, no_umask: None
) -> None:
    private_folder(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / each) for each in ("a", "a/b", "a/b/c")] == [0o700] * 3


def test_a_folder_of_ours_is_closed_and_one_that_was_given_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    private_folder(tmp_path, given=True)
    assert mode(tmp_path) == 0o755
    private_folder(tmp_path)
    assert mode(tmp_path) == 0o700


def test_a_file_system_that_keeps_no_rights_will_do_where_others_can_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    for bits in (0o755, 0o757):
        tmp_path.chmod(bits)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "chmod", refused)
            if bits == 0o755:
                private_folder(tmp_path)
                continue
            with pytest.raises(NotPrivateError, match="may write"):
                private_folder(tmp_path)


@pytest.mark.parametrize("bits", [0o777, 0o1777, 0o702])
def test_a_given_folder_that_others_may_write_into_is_refused(tmp_path: Path, bits: int) -> None:
    tmp_path.chmod(bits)
    with pytest.raises(NotPrivateError, match="other users may write"):
        private_folder(tmp_path, given=True)
    assert mode(tmp_path) == bits & 0o777 | bits & 0o1000


def test_a_link_or_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(NotPrivateError, match="is a link"):
        private_folder(tmp_path / "link")
    # The link of a folder above is the user's own.
    private_folder(tmp_path / "link" / "inside")
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    for given in (False, True):
        with pytest.raises(NotPrivateError, match="belongs to another user"):
            private_folder(folder, given)


def test_a_folder_that_others_could_replace_is_refused(tmp_path: Path) -> None:
    """Whoever may write into a folder may rename what is in it; a sticky one forbids that."""
    above = tmp_path / "above"
    above.mkdir()
    (tmp_path / "link").symlink_to("above")
    above.chmod(0o1777)
    private_folder(above / "folder")
    above.chmod(0o777)
    for folder in (above / "folder", tmp_path / "link" / "folder", above / "deep" / "folder"):
        with pytest.raises(NotPrivateError, match="could replace") as raised:
            private_folder(folder)
        assert raised.value.filename == str(above)


def test_a_way_through_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "theirs" / "folder"
    private_folder(folder)
    real = Path.lstat

    def as_another(path: Path) -> os.stat_result:
        found = real(path)
        owner = {folder: 4_000, folder.parent: 4_001}.get(path, 0)
        return os.stat_result([*found[:4], owner, *found[5:]])

    monkeypatch.setattr(os, "geteuid", lambda: 4_000)
    monkeypatch.setattr(Path, "lstat", as_another)
    with pytest.raises(NotPrivateError, match="belongs to another user") as raised:
        private_folder(folder)
    assert raised.value.filename == str(tmp_path / "theirs")


def test_the_group_of_this_user_alone_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Systems give each user such a group, and a umask that lets it write."""
    groups = {tmp_path.stat().st_gid: True}
    monkeypatch.setattr(private_files, "_is_our_own_group", lambda group: groups.get(group, False))
    tmp_path.chmod(0o770)
    private_folder(tmp_path, given=True)
    private_folder(tmp_path / "inside")
    groups.clear()
    for folder in (tmp_path, tmp_path / "inside"):
        with pytest.raises(NotPrivateError, match="other users"):
            private_folder(folder, given=True)


def test_a_group_is_ours_by_its_name_and_members(monkeypatch: pytest.MonkeyPatch) -> None:
    import grp
    import pwd

    us = pwd.struct_passwd(("ada", "x", 4_000, 4_000, "", "/", "/bin/sh"))
    found = {
        4_000: grp.struct_group(("ada", "x", 4_000, [])),
        4_001: grp.struct_group(("ada", "x", 4_001, ["ada", "eve"])),
        4_002: grp.struct_group(("users", "x", 4_002, [])),
    }
    monkeypatch.setattr(pwd, "getpwuid", lambda _: us)
    monkeypatch.setattr(grp, "getgrgid", found.__getitem__)
    ours = [private_files._is_our_own_group(group) for group in (0, 4_000, 4_001, 4_002, 4_003)]
    assert ours == [True, True, False, False, False]


def test_links_in_a_ring_are_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match=r"links|exists"):
        private_folder(tmp_path / "one" / "folder")


def test_a_new_file_takes_no_link_and_nothing_that_is_there(tmp_path: Path, no_umask: None) -> None:
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "link").symlink_to(elsewhere)
    (tmp_path / "there").write_bytes(b"theirs")
    for name in ("link", "there"):
        with pytest.raises(FileExistsError):
            create(tmp_path / name)
    with pytest.raises(OSError, match="symbolic links"):
        open_or_create(tmp_path / "link")
    os.close(create(tmp_path / "new"))
    os.close(open_or_create(tmp_path / "newer"))
    assert not elsewhere.exists() and (tmp_path / "there").read_bytes() == b"theirs"
    assert mode(tmp_path / "new") == mode(tmp_path / "newer") == 0o600


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_whole(path, b"first")
    synced: list[bool] = []
    real = os.fsync

    def noted(handle: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        real(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", noted)
        write_whole(path, b"second")
    assert synced == [False, True] and mode(path) == 0o600

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_whole(path, b"third")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"second"
