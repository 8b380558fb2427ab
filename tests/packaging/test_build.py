"""The steps before and after PyInstaller, on each system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kernels.native.build import sources_digest
from tests.packaging.scripts import script

Commands = list[list[str]]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    found = script("build")
    monkeypatch.setattr(found, "BUILD", tmp_path)
    return found


@pytest.fixture
def commands(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Commands:
    found: Commands = []
    monkeypatch.setattr(build, "run", lambda *words: found.append([str(word) for word in words]))
    return found


@pytest.mark.parametrize(
    ("system", "name"), [("win32", "waymark.ico"), ("darwin", "waymark.icns"), ("linux", None)]
)
def test_an_icon_is_drawn_where_executables_bear_one(
    build: ModuleType,
    commands: Commands,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    system: str,
    name: str | None,
) -> None:
    monkeypatch.setattr(build.sys, "platform", system)
    build.draw_icon()
    assert [command[-1] for command in commands] == ([str(tmp_path / name)] if name else [])


def test_kernels_are_made_anew_when_their_sources_or_their_compiler_changed(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "NATIVE", tmp_path / "native")
    compiler, manifest = tmp_path / "native" / "compiler.txt", tmp_path / "manifest.json"
    assert not build.is_current(manifest)
    compiler.parent.mkdir()
    compiler.touch()
    for sources, age, current in (
        (sources_digest(), 60, True),
        (sources_digest(), -60, False),
        ("others", 60, False),
    ):
        manifest.write_text(json.dumps({"sources": sources}), "utf-8")
        os.utime(compiler, (0, manifest.stat().st_mtime - age))
        assert build.is_current(manifest) is current


@pytest.mark.parametrize(("identity", "programs"), [("", []), ("Somebody", ["sign_kernels.py"])])
def test_kernels_that_were_there_are_signed_too(
    build: ModuleType,
    commands: Commands,
    monkeypatch: pytest.MonkeyPatch,
    identity: str,
    programs: list[str],
) -> None:
    monkeypatch.setattr(build, "is_current", lambda manifest: True)
    monkeypatch.setattr(build.sys, "platform", "darwin")
    monkeypatch.setenv("WAYMARK_SIGN_IDENTITY", identity)
    build.compile_kernels()
    assert [Path(command[1]).name for command in commands] == programs


@pytest.mark.skipif(sys.platform != "linux", reason="the engine's stand-in is a shell script")
@pytest.mark.parametrize("right", [True, False])
def test_an_engine_that_sees_nothing_in_a_picture_ends_the_build(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, right: bool
) -> None:
    monkeypatch.setattr(build, "BUNDLE", tmp_path)
    (tmp_path / "work").mkdir()
    reply = json.dumps({"reply": "A circle, a star and a triangle." if right else "Nothing."})
    engine = tmp_path / "waymark-engine"
    engine.write_text(f"#!/bin/sh\necho '{reply}'\n", "utf-8")
    engine.chmod(0o700)
    if right:
        build.ask()
    else:
        with pytest.raises(SystemExit, match=r"for this: Nothing\."):
            build.ask()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a shell")
@pytest.mark.parametrize("program", ["exit 1", None], ids=["fails", "is missing"])
def test_without_what_tells_the_libraries_of_a_program_none_is_left_out(
    program: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if program is not None:
        (tmp_path / "objdump").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "objdump").chmod(0o755)
    (tmp_path / "program").write_bytes(b"\x7fELF")
    (tmp_path / "words").write_bytes(b"words")
    linked = script("trimming").linked
    library = ("libfound.so", str(tmp_path / "libfound.so"), "BINARY")
    # Nothing is asked about what is no program.
    assert linked([library, ("words", str(tmp_path / "words"), "DATA")]) == {"words"}
    with pytest.raises((OSError, subprocess.CalledProcessError)):
        linked([library, ("program", str(tmp_path / "program"), "BINARY")])
