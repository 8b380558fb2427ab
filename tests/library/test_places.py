"""Models of every program are found, folders and GGUF files alike."""

from __future__ import annotations

from pathlib import Path

from core.library.places import find_models, watched_folders
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
    found = find_models(home / "ours", added, home, {})
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
    found = watched_folders(tmp_path / "ours", [tmp_path / "gone"], tmp_path, {})
    ours = tmp_path / "ours"
    assert found == [ours, ours / "Org", ours / "Org" / "One"]
    for number in range(1_500):
        (ours / f"{number}").mkdir()
    assert len(watched_folders(ours, [], tmp_path, {})) <= 1_000
