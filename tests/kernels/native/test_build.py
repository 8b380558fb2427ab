"""Compiling on the user's machine: once, whole or not at all, and each way to fail is named."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

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


@pytest.mark.parametrize("content", [b"", b"\x7fELF and no more", b"text"])
def test_a_damaged_library_is_not_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    forgotten: None,
    content: bytes,
) -> None:
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path / "kernels")
    path = tmp_path / "kernels" / f"kernels-{build._digest()}.so"
    path.parent.mkdir()
    path.write_bytes(content)
    assert compiled() is None
    assert "not used" in caplog.text
