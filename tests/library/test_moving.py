"""A model is moved whole or not at all, whatever ends the process or fills the disk."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.api.errors import DiskFullError, MoveError, WaymarkError
from core.library import moving
from core.library.client import LibraryClient
from core.library.messages import MOVES, Move
from core.library.moving import Mover

FILES = {
    "Org/Name/a.safetensors": b"a" * 9_000,
    "Org/Name/sub/tokenizer.json": b"{}",
    "Org/Name/config.json": b'{"model_type": "llama"}',
}
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Move:
    """To another disk, as far as the code can see."""
    monkeypatch.setattr(Mover, "_is_near", lambda _: False)
    return placed(tmp_path)


def placed(folder: Path) -> Move:
    for name, data in FILES.items():
        path = folder / "here" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "there").mkdir(exist_ok=True)
    return Move(files=tuple(FILES), base=str(folder / "here"), target=str(folder / "there"))


def run(move: Move, stopped: Callable[[], bool] = lambda: False) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []
    Mover(move, lambda *progress: told.append(progress), stopped).run()
    return told


def found(folder: str) -> dict[str, bytes]:
    """All files, hidden ones too."""
    paths = (each for each in Path(folder).rglob("*") if each.is_file())
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in paths}


@pytest.mark.parametrize("near", [True, False])
def test_a_model_is_moved_with_its_folders(
    move: Move, monkeypatch: pytest.MonkeyPatch, near: bool
) -> None:
    monkeypatch.setattr(Mover, "_is_near", lambda _: near)
    other = Path(move.base, "Org", "Other")
    other.mkdir()
    told = run(move)
    assert found(move.target) == FILES and found(move.base) == {}
    assert list(Path(move.base).rglob("*")) == [other.parent, other]
    assert told[-1] == (2 * sum(map(len, FILES.values())),) * 2
    assert not list(Path(move.target).glob(".*"))


class _KilledError(BaseException):
    """The process is gone: nothing of it runs any more."""


def is_complete(folder: str) -> bool:
    """True for what a list of models would show."""
    return Path(folder, "Org/Name/config.json").exists()


def test_L1_a_kill_at_any_point_leaves_one_complete_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mover, "_is_near", lambda _: False)
    steps, last = 0, 10**9

    def counted(act: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps >= last:
                raise _KilledError
            return act(*arguments, **named)

        return step

    for owner, name in (
        (os, "fsync"), (os, "link"), (os, "utime"), (Path, "unlink"), (Path, "rmdir"),
        (Path, "mkdir"), (moving, "create"), (moving, "sync_folder"), (shutil, "rmtree"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    monkeypatch.setattr(moving, "_BLOCK", 1_000)
    points = 0
    for kill in range(1, 200):
        last = 10**9
        move = placed(tmp_path / str(kill))
        steps, last = 0, kill
        try:
            run(move)
        except _KilledError:
            points += 1
        finally:
            last = 10**9
        whole = [each for each in (move.base, move.target) if is_complete(each)]
        assert whole
        for each in whole:
            assert found(each).items() >= FILES.items()
        if steps < kill:
            break
        tidy(move)
        assert not list(Path(move.target).glob(".moving-*"))
        if is_complete(move.base):
            run(move)
        assert found(move.target) == FILES and found(move.base) == {}
    assert points > 25


def tidy(move: Move) -> None:
    Mover(move, lambda *progress: None, lambda: False).tidy()


def test_L3_only_what_a_killed_move_made_is_removed(move: Move) -> None:
    mover = Mover(move, lambda *progress: None, lambda: False)
    work = mover._work
    work.mkdir()
    for name in ("0", "1", "notes.txt"):
        (work / name).write_bytes(b"x")
    (work / "2").mkdir()
    mover.tidy()
    assert sorted(each.name for each in work.iterdir()) == ["2", "notes.txt"]
    assert found(move.base) == FILES
    # Another file in the other place: what is left of the model stays.
    shutil.copytree(move.base, move.target, dirs_exist_ok=True)
    Path(move.base, "Org/Name/config.json").unlink()
    Path(move.target, "Org/Name/a.safetensors").write_bytes(b"another")
    mover.tidy()
    assert len(found(move.base)) == 2


def test_what_a_killed_move_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    move, away = placed(tmp_path / "a"), placed(tmp_path / "b")
    shutil.rmtree(away.target)
    journal = tmp_path / "moves.json"
    journal.write_bytes(MOVES.dump_json((move, away)))
    work = Mover(move, lambda *progress: None, lambda: False)._work
    work.mkdir()
    (work / "0").write_bytes(b"x")
    client = LibraryClient(lambda event: None, tmp_path / "cache", tmp_path / "contexts")
    asyncio.run(client.tidy())
    assert not work.exists() and found(move.base) == FILES
    # The disk of the other one isn't there.
    assert MOVES.validate_json(journal.read_bytes()) == (away,)
    without_files = json.dumps([{"base": move.base, "target": move.target, "files": []}])
    for damaged in ("{", "[1]", without_files):
        journal.write_text(damaged)
        asyncio.run(client.tidy())
        assert client._unended() == ()


def test_a_move_is_noted_until_it_ends(tmp_path: Path) -> None:
    move, stop = placed(tmp_path), asyncio.Event()
    client = LibraryClient(lambda event: None, tmp_path / "cache", tmp_path / "contexts")
    journal, noted = tmp_path / "moves.json", list[bytes]()
    asyncio.run(client.move(move, lambda *_: noted.append(journal.read_bytes()), stop))
    assert MOVES.validate_json(noted[0]) == (move,)
    assert MOVES.validate_json(journal.read_bytes()) == ()


def test_what_goes_wrong_leaves_the_model_where_it_was(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(kind: type[WaymarkError], match: str, **changed: Any) -> None:
        with pytest.raises(kind, match=match):
            run(move, **changed)
        assert found(move.base) == FILES and found(move.target) == {}

    asked = iter(range(100))
    refused(WaymarkError, "stays", stopped=lambda: next(asked) > 1)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 1_000))
        refused(DiskFullError, "GB are free")
    with monkeypatch.context() as patch:
        # A disk that damages what is written.
        patch.setattr(Mover, "_digest", lambda self, path: b"another")
        refused(MoveError, "without a fault")
    with monkeypatch.context() as patch:

        def full(handle: int) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(os, "fsync", full)
        refused(DiskFullError, "stays")
    with monkeypatch.context() as patch:
        changed = Path(move.base, "Org/Name/a.safetensors")
        patch.setattr(
            os, "utime", lambda path, ns: changed.write_bytes(FILES["Org/Name/a.safetensors"])
        )
        refused(MoveError, "changed")


def test_L3_no_other_file_is_replaced_or_deleted(move: Move, tmp_path: Path) -> None:
    others = Path(move.target, "Org", "Name", "config.json")
    others.parent.mkdir(parents=True)
    others.write_bytes(b"another")
    with pytest.raises(MoveError, match="another file"):
        run(move)
    assert found(move.base) == FILES and found(move.target) == {"Org/Name/config.json": b"another"}
    others.unlink()
    (tmp_path / "outside").write_bytes(b"x")
    linked = Path(move.base, "Org/Name/link.json")
    linked.symlink_to(tmp_path / "outside")
    with pytest.raises(MoveError):
        run(move.model_copy(update={"files": ("Org/Name/link.json", *move.files)}))
    assert found(move.target) == {} and (tmp_path / "outside").exists()


def test_L3_a_folder_that_leads_back_is_refused(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link or a second mount: the files in both places are the same ones."""
    Path(move.target, "Org").symlink_to(Path(move.base, "Org"))
    with pytest.raises(MoveError, match="there already"):
        run(move)
    assert found(move.base) == FILES
    again = Path(move.base).with_name("again")
    again.symlink_to(move.base)
    monkeypatch.setattr(Path, "samefile", lambda *_: False)
    with pytest.raises(MoveError, match="there already"):
        run(move.model_copy(update={"target": str(again)}))
    assert found(move.base) == FILES


def test_a_file_that_another_model_needs_is_copied(move: Move) -> None:
    name = "Org/Name/sub/tokenizer.json"
    run(move.model_copy(update={"kept": (name,)}))
    assert found(move.target) == FILES and found(move.base) == {name: FILES[name]}


def test_a_move_that_was_ended_goes_on_without_free_space(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(move.base, move.target, dirs_exist_ok=True)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 0))
    run(move)
    assert found(move.target) == FILES and found(move.base) == {}


def test_the_process_moves_and_can_be_stopped(tmp_path: Path) -> None:
    move, told = placed(tmp_path), list[int]()
    client = LibraryClient(lambda event: None, tmp_path / "cache", tmp_path / "contexts")
    stop = asyncio.Event()
    asyncio.run(client.move(move, lambda done, total: told.append(done), stop))
    assert found(move.target) == FILES and found(move.base) == {} and told
    with pytest.raises(WaymarkError):
        asyncio.run(client.move(move, lambda done, total: None, stop))
