"""Models of every program are found, folders and GGUF files alike."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from core.gguf.library import find_towers
from core.library.__main__ import _names_in, state_of
from core.library.places import find_models, folders_below, models_of, watched_folders
from tests.gguf.files import write


def folder(path: Path, weights: bool = True) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    if weights:
        (path / "model.safetensors").touch()
    return path


def file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write(path)


def listed(home: Path, *added: Path) -> list[tuple[str, str]]:
    found = find_models(home / "ours", home, {})
    found += [each for folder in added for each in models_of(folder)]
    return [(each.program, each.name) for each in found]


def test_every_place_is_searched(tmp_path: Path) -> None:
    folder(tmp_path / "ours" / "Org" / "One")
    file(tmp_path / "ours" / "Org" / "Two-GGUF" / "Two-Q4_K_M.gguf")
    folder(tmp_path / "ours" / "Org" / "tokenizer-alone", weights=False)
    hub = tmp_path / ".cache" / "huggingface" / "hub"
    folder(hub / "models--Org--Three" / "snapshots" / "aa")
    file(hub / "models--Org--Four-GGUF" / "snapshots" / "aa" / "Four.gguf")
    folder(tmp_path / ".lmstudio" / "models" / "org" / "Five")
    file(tmp_path / ".lmstudio" / "models" / "org" / "Six" / "Six.gguf")
    mine = tmp_path / "mine"
    folder(mine / "Seven")
    file(mine / "deep" / "down" / "Eight.gguf")
    assert sorted(listed(tmp_path, mine)) == [
        ("", "Seven"), ("", "deep/down/Eight"), ("Hugging Face", "Org/Four-GGUF/Four"),
        ("Hugging Face", "Org/Three"), ("LM Studio", "Five"), ("LM Studio", "org/Six/Six"),
        ("Waymark", "One"), ("Waymark", "Two-Q4_K_M"),
    ]  # fmt: skip


def test_a_model_of_two_programs_is_in_the_list_for_each(tmp_path: Path) -> None:
    own = file(tmp_path / ".lmstudio" / "models" / "o" / "N" / "N.gguf")
    (tmp_path / "ours" / "o").mkdir(parents=True)
    (tmp_path / "ours" / "o" / "N.gguf").symlink_to(own)
    (tmp_path / "ours" / "again").symlink_to(tmp_path / "ours" / "o")
    assert listed(tmp_path) == [("Waymark", "N"), ("LM Studio", "o/N/N")]


def test_hostile_folders_count_as_empty(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    folder(ours / "a").joinpath("loop").symlink_to(ours)
    (ours / "loop").symlink_to(ours)
    (ours / "file").write_text("x")
    (ours / "gone").symlink_to(tmp_path / "gone")
    # A link to itself can't be looked at.
    (ours / "itself").symlink_to(ours / "itself")
    file(ours / "z" / "Z.gguf")
    (ours / "z" / "A.gguf").symlink_to(ours / "z" / "A.gguf")
    names = [("Waymark", "a"), ("Waymark", "Z")]
    assert listed(tmp_path, tmp_path / "nowhere", ours / "file") == names


def test_folders_are_watched_down_to_the_models(tmp_path: Path) -> None:
    folder(tmp_path / "ours" / "Org" / "One")
    (tmp_path / "ours" / ".downloads").mkdir()
    assert folders_below([tmp_path / "gone", tmp_path / ("x" * 300)]) == []
    found = watched_folders(tmp_path / "ours", tmp_path, {})
    ours = tmp_path / "ours"
    assert found == [ours, ours / "Org", ours / "Org" / "One"]
    for number in range(1_500):
        (ours / f"{number}").mkdir()
    assert len(watched_folders(ours, tmp_path, {})) <= 1_000


def test_many_models_in_one_folder_take_a_few_reads_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of names, states and vision towers: each reading of the folder would cost them all."""
    many = tmp_path / "ours" / "many"
    many.mkdir(parents=True)
    names = [f"M{number}-Q4_K_M.gguf" for number in range(2_000)]
    for name in (*names, "mmproj-M7.gguf"):
        (many / name).touch()
    os.utime(many, ns=(0, 0))
    reads, scandir = list[str](), os.scandir

    def counted(folder: str | Path) -> object:
        reads.append(str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", counted)
    found = find_models(tmp_path / "ours", home=tmp_path, environment={})
    names_in = cache(_names_in)
    states = {state_of(each.path, names_in) for each in found}
    assert len(found) == len(states) == 2_000
    assert all(find_towers(each.path) == [many / "mmproj-M7.gguf"] for each in found)
    assert reads.count(str(many)) < 10


def test_a_state_changes_with_a_part_or_the_tower(tmp_path: Path) -> None:
    first, second = (tmp_path / f"M-0000{part}-of-00002.gguf" for part in (1, 2))
    other = tmp_path / "N.gguf"

    def states() -> tuple[str, str]:
        names_in = cache(_names_in)
        return state_of(first, names_in), state_of(other, names_in)

    for path in (first, other):
        path.touch()
    seen = [states()]
    for change in (
        second.touch,
        lambda: second.write_bytes(b"x"),
        (tmp_path / "mmproj.gguf").touch,
    ):
        change()
        seen.append(states())
    assert len({one for one, _ in seen}) == 4 and len({one for _, one in seen}) == 2
