"""Kernels that come along: which library is taken, and that none is loaded which could do harm."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.native import build, levels, library, shipped
from kernels.native.build import CannotCompileError, built, sources_digest
from kernels.native.levels import Level
from kernels.native.library import compiled, why_none
from kernels.native.shipped import NoneShippedError, usable
from tests.kernels.native.here import COMPILES

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs here are shell scripts")

OLD = Level("old", levels.machine(), (), ())
NEW = Level("new", levels.machine(), (), ())
NEWEST = Level("newest", levels.machine(), (), ("something that no processor has",))
BOTH = (OLD, NEW)
# Fails as the library it is to try says, and counts how often it was run.
PROGRAM = b"""#!/bin/sh
echo run >> '%s'
case "$(cat kernels.*)" in
illegal) kill -4 $$;;
dies) kill -11 $$;;
refuses) exit 1;;
hangs) sleep 60;;
esac
"""


class Along:
    """A folder of libraries that came along, and the user's cache."""

    def __init__(self, folder: Path) -> None:
        self.runs, self.cache = folder / "runs", folder / "cache"
        self.folder = shipped.folder()
        self.folder.mkdir(parents=True)
        self.put("check", PROGRAM % bytes(self.runs))
        self.sources = sources_digest()

    def put(self, name: str, contents: bytes) -> None:
        (self.folder / name).write_bytes(contents)

    def library(self, level: Level, contents: bytes) -> Path:
        path = self.folder / f"{level.name}{shipped._suffix()}"
        path.write_bytes(contents)
        return path

    def describe(self) -> None:
        """Write the manifest of what is there."""
        digests = {
            each.name: hashlib.sha256(each.read_bytes()).hexdigest()
            for each in self.folder.iterdir()
        }
        manifest = {"sources": self.sources, "sha256": digests}
        (self.folder / shipped.MANIFEST).write_text(json.dumps(manifest))

    def num_runs(self) -> int:
        return len(self.runs.read_text().split()) if self.runs.exists() else 0


@pytest.fixture
def along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Along:
    monkeypatch.setattr(shipped, "_SHIPPED", tmp_path / "shipped")
    return Along(tmp_path)


def test_the_newest_level_is_taken_and_tried_once_a_machine(along: Along) -> None:
    along.library(OLD, b"old")
    newest = along.library(NEW, b"new")
    along.describe()
    for _ in range(3):
        assert usable(BOTH, along.cache) == newest
    assert along.num_runs() == 1
    (note,) = along.cache.iterdir()  # and nothing else is left
    assert note.read_text() == ""


def test_another_processor_is_another_machine(
    along: Along, monkeypatch: pytest.MonkeyPatch
) -> None:
    along.library(OLD, b"old")
    along.describe()
    usable(BOTH, along.cache)
    monkeypatch.setattr(shipped, "processor_facts", lambda: "another processor")
    usable(BOTH, along.cache)
    assert along.num_runs() == 2


@pytest.mark.parametrize(
    ("how", "runs"), [(b"illegal", 2), (b"dies", 3), (b"refuses", 3), (b"hangs", 3)]
)
def test_H4_where_a_self_test_fails_the_next_lower_level_is_tried(
    along: Along, monkeypatch: pytest.MonkeyPatch, how: bytes, runs: int
) -> None:
    """An instruction that isn't there never will be; a lack of memory, say, passes."""
    monkeypatch.setattr(shipped, "_LONGEST_S", 0.5 if how == b"hangs" else 20.0)
    lower = along.library(OLD, b"old")
    along.library(NEW, how)
    along.describe()
    assert usable(BOTH, along.cache) == lower
    assert usable(BOTH, along.cache) == lower
    assert along.num_runs() == runs


def test_H4_the_reasons_are_named_where_no_level_is_left(along: Along) -> None:
    along.library(OLD, b"dies")
    along.library(NEW, b"illegal")
    along.describe()
    for _ in range(2):
        with pytest.raises(NoneShippedError, match=r"new: this processor lacks.*old: .*failed"):
            usable(BOTH, along.cache)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut_short, flipped])
def test_H4_a_damaged_library_is_never_run(along: Along, damage: Callable[[Path], None]) -> None:
    lower, newest = along.library(OLD, b"old"), along.library(NEW, b"new")
    along.describe()
    assert usable(BOTH, along.cache) == newest
    damage(newest)  # also after it was found good
    assert usable(BOTH, along.cache) == lower
    damage(lower)
    with pytest.raises(NoneShippedError, match="is not as it was made"):
        usable(BOTH, along.cache)
    assert along.num_runs() == 2


def with_a_damaged_check(along: Along) -> None:
    along.library(NEW, b"new")
    along.describe()
    flipped(along.folder / "check")


def of_other_sources(along: Along) -> None:
    """A checkout that was changed after `make native`."""
    along.library(NEW, b"new")
    along.sources = "others"
    along.describe()


def for_another_processor(along: Along) -> None:
    along.library(NEWEST, b"newest")
    along.describe()


def with_manifest(manifest: bytes) -> Callable[[Along], None]:
    def spoil(along: Along) -> None:
        along.library(NEW, b"new")
        along.put(shipped.MANIFEST, manifest)

    return spoil


MANIFESTS = (b"", b"{", b"[]", b'{"sources": 1}', b'{"sources": 1, "sha256": 2}', b"\xff")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (with_a_damaged_check, "check is not as it was made"),
        (of_other_sources, "other sources"),
        (for_another_processor, "no kernels are there for this processor"),
        *((with_manifest(each), "manifest") for each in MANIFESTS),
    ],
)
def test_H4_a_library_that_is_not_for_us_is_never_run(
    along: Along, spoil: Callable[[Along], None], why: str
) -> None:
    spoil(along)
    with pytest.raises(NoneShippedError, match=why):
        usable(BOTH, along.cache)
    assert along.num_runs() == 0


def test_where_nothing_came_along_there_is_nothing_to_say(tmp_path: Path, along: Along) -> None:
    with pytest.raises(NoneShippedError, match=r"^$"):
        usable(BOTH, along.cache)


def test_trying_can_be_cancelled(along: Along) -> None:
    class CancelledError(Exception):
        pass

    def cancel() -> None:
        if along.num_runs():
            raise CancelledError

    along.library(NEW, b"hangs")
    along.describe()
    with pytest.raises(CancelledError):
        usable(BOTH, along.cache, cancel)
    assert list(along.cache.iterdir()) == []


def test_H4_what_was_found_is_not_kept_where_others_could_change_it(
    along: Along, monkeypatch: pytest.MonkeyPatch
) -> None:
    along.library(NEW, b"new")
    along.describe()
    along.cache.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: along.cache.stat().st_uid + 1)
    with pytest.raises(CannotCompileError, match="belongs to another user"):
        usable(BOTH, along.cache)


def test_a_cache_that_cant_be_written_is_named(along: Along) -> None:
    along.library(NEW, b"new")
    along.describe()
    along.cache.write_text("not a folder")
    with pytest.raises(NoneShippedError, match="could not be tried"):
        usable(BOTH, along.cache)


# ---------------------------------------------------------------- compiled, or what came along


@pytest.fixture
def chooses(along: Along, monkeypatch: pytest.MonkeyPatch) -> Along:
    """`compiled` asks anew, of this cache; libraries that came along are whole."""
    real = built(library.cache_folder()).read_bytes()
    monkeypatch.setattr(library, "_FOUND", [])
    monkeypatch.setattr(library, "cache_folder", lambda: along.cache)
    monkeypatch.setattr(levels, "LEVELS", (*BOTH, NEWEST))
    monkeypatch.delenv(levels.VARIABLE, raising=False)
    for level in BOTH:
        along.library(level, real)
    along.describe()
    return along


def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "nothing")


@COMPILES
def test_a_compiler_comes_before_what_came_along(
    chooses: Along, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a compiler would make again, without its seconds.
    data = (chooses.folder / f"{NEW.name}{shipped._suffix()}").read_bytes()
    monkeypatch.setattr(build, "_make", lambda target, check: target.write_bytes(data))
    assert compiled() is not None and why_none() == ""
    assert chooses.num_runs() == 0 and len(list(chooses.cache.iterdir())) == 1


@COMPILES
@pytest.mark.parametrize("level", ["new", "old"])
@pytest.mark.parametrize("compiler", ["nothing", "false"])
def test_without_a_compiler_that_works_the_wished_or_newest_level_is_used(
    chooses: Along,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    compiler: str,
    level: str,
) -> None:
    monkeypatch.setenv("CC", compiler)
    if level == "old":
        monkeypatch.setenv(levels.VARIABLE, "old")
    caplog.set_level(logging.INFO)
    assert compiled() is not None and why_none() == ""
    (record,) = caplog.records
    assert record.levelno == logging.INFO and f", {level}, " in record.getMessage()
    assert chooses.num_runs() == 1


@COMPILES
def test_where_both_fail_both_are_named(
    chooses: Along, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    no_compiler(monkeypatch)
    chooses.sources = "others"
    (chooses.folder / shipped.MANIFEST).unlink()
    chooses.describe()
    assert compiled() is None
    assert why_none().startswith("no C compiler was found; ")
    assert "other sources" in caplog.text


@COMPILES
@pytest.mark.parametrize("compiles", [False, True])
@pytest.mark.parametrize("name", ["newest", "unheard of"])
def test_a_level_that_is_not_here_is_named_and_no_other_is_used(
    chooses: Along,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    compiles: bool,
) -> None:
    """Above the processor's, or none at all: in a test that names a level another one would lie."""
    chooses.library(NEWEST, b"newest")
    if not compiles:
        no_compiler(monkeypatch)
    monkeypatch.setenv(levels.VARIABLE, name)
    assert compiled() is None
    assert why_none() == (f"{levels.VARIABLE} names {name!r}. This processor has: old, new.")
    assert chooses.num_runs() == 0 and "not used" in caplog.text


@COMPILES
def test_in_place_of_the_level_that_is_named_no_lower_one_is_used(
    chooses: Along, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_compiler(monkeypatch)
    chooses.library(NEW, b"damaged")
    monkeypatch.setenv(levels.VARIABLE, "new")
    assert compiled() is None
    assert "new" in why_none() and "is not as it was made" in why_none()


@COMPILES
def test_the_level_that_is_named_is_compiled_where_there_is_a_compiler(
    along: Along, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernels.native import build

    oldest, *_ = levels.executable()
    monkeypatch.setenv(levels.VARIABLE, oldest.name)
    assert set(oldest.flags) <= set(build._flags())
