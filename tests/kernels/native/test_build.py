"""Compiling on the user's machine: once, whole or not at all, and each way to fail is named."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kernels.native import build, library
from kernels.native.build import CannotCompileError, built
from kernels.native.library import Library, compiled, why_none
from tests.kernels.native.here import NEEDS_COMPILER


@pytest.fixture
def forgotten() -> Iterator[None]:
    """`compiled` asks anew, here and after the test."""
    library._found.cache_clear()
    yield
    library._found.cache_clear()


def fake_compiler(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `cc` that is this shell script; `$out` in it is what it is to make."""
    path = folder / "cc"
    find_target = 'while [ "$1" != -o ]; do shift; done; out="$2"\n'
    path.write_text(f"#!/bin/sh\n{find_target}{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(path))


@NEEDS_COMPILER
def test_it_compiles_once_and_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


DAMAGED = pytest.mark.parametrize("content", [b"", b"\x7fELF and no more", b"text"])


def damaged(folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(library, "cache_folder", lambda: folder)
    path = folder / f"kernels-{build._digest()}.so"
    path.write_bytes(content)
    return path


@DAMAGED
def test_a_damaged_library_is_not_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    forgotten: None,
    content: bytes,
) -> None:
    path = damaged(tmp_path, content, monkeypatch)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert compiled() is None
    assert "not used" in caplog.text and not path.exists()


@NEEDS_COMPILER
@DAMAGED
def test_a_damaged_library_is_made_anew(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    forgotten: None,
    content: bytes,
) -> None:
    path = damaged(tmp_path, content, monkeypatch)
    assert compiled() is not None
    assert path.stat().st_size > len(content) and not caplog.records


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


def test_a_compiler_that_does_not_end_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_LONGEST_S", 0.3)
    # Elsewhere than in the scratch folder, which goes.
    script = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    fake_compiler(tmp_path, script, monkeypatch)
    with pytest.raises(CannotCompileError, match="timed out"):
        built(tmp_path / "kernels")
    started = int((tmp_path / "pid").read_text())
    for _ in range(1000):  # ten seconds at most
        if is_over(started):
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
