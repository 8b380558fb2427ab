"""Compiling on the user's machine: once, whole or not at all, and each way to fail is named."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import psutil
import pytest

from kernels.native import build, library, shipped
from kernels.native.build import CannotCompileError, built
from kernels.native.library import Library, compiled, why_none
from tests.kernels.native.here import COMPILES


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """`compiled` asks anew, here and after the test, and nothing came along."""
    with monkeypatch.context() as patch:
        patch.setattr(library, "_FOUND", [])
        patch.setattr(shipped, "_SHIPPED", tmp_path / "nothing came along")
        yield


def fake_compiler(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `cc` that is this shell script; `$out` in it is what it is to make."""
    path = folder / "cc"
    find_target = 'while [ "$1" != -o ]; do shift; done; out="$2"\n'
    path.write_text(f"#!/bin/sh\n{find_target}{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(path))


@COMPILES
@pytest.mark.skipif(platform.system() != "Linux", reason="`ulimit -v` has no effect elsewhere")
def test_the_check_takes_little_memory(tmp_path: Path) -> None:
    """Some systems count memory that is never touched."""
    found, check = built(library.cache_folder()), tmp_path / "check"
    sources = ["-I", str(build._KERNELS), str(build._CHECK), str(found)]
    subprocess.run(["cc", "-std=gnu11", "-w", *sources, "-o", str(check)], check=True)
    limited = ["sh", "-c", f"ulimit -v {2**21}; {check}"]
    assert subprocess.run(limited, check=False).returncode == 0


@COMPILES
@pytest.mark.slow
def test_it_compiles_once_and_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_FLAGS", [each.replace("-O3", "-O1") for each in build._FLAGS])
    path = built(tmp_path / "new" / "kernels")
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert len(Library(path).digest) == 12
    monkeypatch.setenv("PATH", "")  # what is there needs no compiler any more
    assert built(path.parent) == path


def test_other_sources_are_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build._digest()
    monkeypatch.setattr(build, "_FLAGS", (*build._FLAGS, "-g"))
    flags = build._digest()
    monkeypatch.setattr(build, "processor_facts", lambda: "another processor")
    assert len({before, flags, build._digest()}) == 3


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'no such flag' >&2; exit 1", "no such flag"),
        ("exit 3", "ended with 3"),
        ("kill -9 $$", "ended with -9"),
        (": > $out", "could not be run|Permission|Exec format"),
        ("printf '#!/bin/sh\\nkill -4 $$' > $out; chmod +x $out", "ended with -4"),
    ],
    ids=["refuses", "fails silently", "dies", "makes nothing that runs", "illegal instruction"],
)
def test_a_compiler_that_is_no_good_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    fake_compiler(tmp_path, script, monkeypatch)
    folder = tmp_path / "kernels"
    with pytest.raises(CannotCompileError, match=why):
        built(folder)
    assert list(folder.iterdir()) == []


def test_without_a_compiler_the_log_says_so_once_and_torch_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    forgotten: None,
) -> None:
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path / "kernels")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert compiled() is None
    assert compiled() is None
    assert why_none() == "no C compiler was found"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "no C compiler was found" in record.getMessage()


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
def test_a_folder_that_cant_be_written_is_named(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    with pytest.raises(CannotCompileError, match="can't be written"):
        built(in_the_way / "kernels")


def copied_to(folder: Path) -> Path:
    """The library of this run in another folder."""
    folder.mkdir(exist_ok=True)
    return Path(shutil.copy(built(library.cache_folder()), folder))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20_000])


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


DAMAGE = pytest.mark.parametrize("damage", [cut_short, zeroed, flipped, emptied])


@COMPILES
@DAMAGE
def test_H4_a_damaged_library_is_made_once_more_and_never_loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    forgotten: None,
    damage: Callable[[Path], None],
) -> None:
    """One that was cut short ended every load by SIGBUS, until somebody deleted it."""
    whole = copied_to(tmp_path)
    data = whole.read_bytes()
    # What a compiler would make again, without its seconds.
    monkeypatch.setattr(build, "_make", lambda target, check: target.write_bytes(data))
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path)
    damage(whole)
    assert compiled() is not None and not caplog.records
    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == data


@COMPILES
@DAMAGE
def test_H4_a_damaged_library_is_not_used_where_none_can_be_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    forgotten: None,
    damage: Callable[[Path], None],
) -> None:
    damage(copied_to(tmp_path))
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert compiled() is None
    assert "not used" in caplog.text and not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="owners as POSIX has them")
def test_H4_a_folder_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o777)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(CannotCompileError, match="belongs to another user"):
        built(folder)
    link = tmp_path / "link"
    link.symlink_to(folder)
    monkeypatch.undo()
    with pytest.raises(CannotCompileError, match="is a link"):
        built(link)


@COMPILES
def test_H4_only_the_user_can_write_to_the_folder(tmp_path: Path) -> None:
    """One that an earlier version made is mended."""
    folder = copied_to(tmp_path / "kernels").parent
    folder.chmod(0o777)
    built(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@COMPILES
def test_H4_a_link_in_place_of_the_library_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copied_to(tmp_path / "kernels")
    data = path.read_bytes()
    monkeypatch.setattr(build, "_make", lambda target, check: target.write_bytes(data))
    elsewhere = tmp_path / "elsewhere.so"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert not built(tmp_path / "kernels").is_symlink()


def test_a_build_can_be_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class CancelledError(Exception):
        pass

    def cancel() -> None:
        if (tmp_path / "pid").exists():
            raise CancelledError

    fake_compiler(tmp_path, f"echo $$ > {tmp_path}/pid; sleep 60", monkeypatch)
    with pytest.raises(CancelledError):
        built(tmp_path / "kernels", cancel)
    assert is_over(int((tmp_path / "pid").read_text()))
    assert list((tmp_path / "kernels").iterdir()) == []


def test_what_a_build_left_that_was_killed_is_cleared_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_compiler(tmp_path, "exit 1", monkeypatch)
    folder = tmp_path / "kernels"
    old, new = folder / "building-old", folder / "building-new"
    for each in (old, new):
        each.mkdir(parents=True)
    os.utime(old, (0, 0))
    with pytest.raises(CannotCompileError):
        built(folder)
    assert list(folder.iterdir()) == [new]


def test_what_a_compiler_says_need_not_be_text_we_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Latin-1, and so many warnings before it that they alone would fill the reason."""
    script = "for n in $(seq 99); do echo warning >&2; done; printf 'no f\\374r' >&2; exit 1"
    fake_compiler(tmp_path, script, monkeypatch)
    with pytest.raises(CannotCompileError, match=r"no f\ufffdr$"):
        built(tmp_path / "kernels")


def test_a_wish_that_is_no_command_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", 'gcc "')
    with pytest.raises(CannotCompileError, match="CC is no command"):
        built(tmp_path / "kernels")


def test_a_compiler_reads_nothing_that_is_meant_for_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's own input is what the window sends."""
    fake_compiler(tmp_path, "cat > read; exit 1", monkeypatch)
    seen: list[object] = []
    popen = subprocess.Popen

    def opened(*args: object, **options: object) -> object:
        seen.append(options["stdin"])
        return popen(*args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", opened)
    with pytest.raises(CannotCompileError):
        built(tmp_path / "kernels")
    assert set(seen) == {subprocess.DEVNULL}


@pytest.mark.parametrize("how", ["", "setsid "])
def test_a_compiler_that_does_not_end_is_ended_once_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(build, "_LONGEST_S", 0.5)
    # Elsewhere than in the scratch folder, which goes.
    started = f"{how}sh -c 'echo $$ >> {tmp_path}/pids; sleep 60' & touch $TMPDIR/temporary; wait"
    fake_compiler(tmp_path, started, monkeypatch)
    with pytest.raises(CannotCompileError, match="did not end"):
        built(tmp_path / "kernels")
    (pid,) = (tmp_path / "pids").read_text().split()
    assert list((tmp_path / "kernels").iterdir()) == []
    for _ in range(1000):  # ten seconds at most
        if is_over(int(pid)):
            return
        time.sleep(0.01)
    pytest.fail("what the compiler started goes on")


def is_over(process: int) -> bool:
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_mac_without_its_tools_has_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its compilers are there all the same, and open a dialog."""
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    asks = tmp_path / "xcode-select"
    asks.write_text("#!/bin/sh\nexit 2\n")
    asks.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CannotCompileError, match="no C compiler"):
        build._compiler()
    asks.write_text("#!/bin/sh\nexit 0\n")
    assert build._compiler() == ["/usr/bin/cc"]
    late = subprocess.TimeoutExpired("xcode-select", 10)
    monkeypatch.setattr(subprocess, "run", mock.Mock(side_effect=late))
    with pytest.raises(CannotCompileError, match="no C compiler"):
        build._compiler()
