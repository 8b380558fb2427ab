"""Moves a model to the system's trash: only files that are the model's.

A folder with other files is left alone, and so are Ollama's, which several of its models share.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from PySide6.QtCore import QFile

from core.api.errors import WaymarkError
from core.api.model_info import HUB_PREFIX, SNAPSHOTS
from core.gguf.library import PART_NAME, SUFFIX, FoundModel, find_towers, is_model, models_below
from core.library.places import OLLAMA, OURS, WEIGHTS
from desktop.i18n import tr
from desktop.numbers import format_bytes

MOST_ENTRIES = 10_000
# What downloads of models hold; anything else may be the user's.
_OF_A_MODEL = re.compile(
    r".*\.(safetensors|json|jinja)|(merges|vocab)\.txt|tokenizer\.model|README\.md|LICEN[CS]E.*"
    r"|NOTICE.*|\.gitattributes"
)


class TrashError(WaymarkError, title="The model was not deleted"): ...


@dataclass(frozen=True, slots=True)
class Removal:
    """Files and folders to delete, their bytes, and the program that they belong to; '' for a
    folder of the user. With `refused` nothing can be deleted, and it says why."""

    paths: tuple[Path, ...] = ()
    size: int = 0
    program: str = ""
    refused: str = ""

    def words(self, name: str) -> str:
        size = format_bytes(self.size)
        if self.program in ("", OURS):
            words = tr("Move {name} to the trash? It frees {size}.")
        else:
            words = tr(
                "Move {name} to the trash? It frees {size}. It belongs to {program}, which will "
                "no longer find it."
            )
        return words.format(name=name, size=size, program=self.program)


def plan_removal(place: FoundModel) -> Removal:
    path = place.path
    if place.program == OLLAMA or path.parent.name == "blobs":
        words = tr("Ollama shares files between its models. Delete it there: ollama rm {name}")
        return Removal(program=OLLAMA, refused=words.format(name=place.name))
    try:
        paths = _repository(path) or (_files(path) if path.is_file() else _folder(path))
        if not paths:
            words = tr(
                "{folder} holds other files too. Delete the model's files in your file manager."
            )
            return Removal(program=place.program, refused=words.format(folder=path))
        size = sum(map(_size, paths))
    except OSError as error:
        return Removal(program=place.program, refused=f"{path}: {error.strerror}.")
    return Removal(paths, size, place.program)


def trash(removal: Removal, move: Callable[[str], bool] | None = None) -> None:
    """Raises TrashError for the first that the system refuses."""
    for path in removal.paths:
        if not (move or _to_trash)(str(path)):
            words = tr("The system could not move {path} to the trash.")
            raise TrashError(words.format(path=path))


def _to_trash(path: str) -> bool:
    return QFile(path).moveToTrash()


def _repository(path: Path) -> tuple[Path, ...]:
    """For a model in the Hugging Face cache: its repository's folder, or only links and blobs of
    this model if the folder has others."""
    for folder in path.parents:
        if folder.name == SNAPSHOTS and folder.parent.name.startswith(HUB_PREFIX):
            others = {os.path.realpath(each.path) for each in models_below(folder)}
            others -= {os.path.realpath(path)}
            if path.is_dir():
                return () if others else (folder.parent,)
            if not others and not any(folder.glob(f"*/*{WEIGHTS}")):
                return (folder.parent,)
            links = _files(path)
            blobs = (each.resolve() for each in links if each.is_symlink())
            # A link may lead out of the cache.
            own = (folder.parent / "blobs").resolve()
            return (*links, *(each for each in blobs if each.parent == own))
    return ()


def _files(path: Path) -> tuple[Path, ...]:
    """All parts of a GGUF model, and its vision tower if no other model is next to it."""
    near = list(islice(path.parent.iterdir(), MOST_ENTRIES))
    part = PART_NAME.fullmatch(path.name)
    own = [path]
    if part is not None:
        ends = (part[3] + part[4] + part[5]).lower()
        own = [each for each in near if _is_part(each.name, part[1], ends)]
    others = [
        each
        for each in near
        if each.suffix.lower() == SUFFIX and is_model(each.name) and each not in own
    ]
    towers = [] if others else [each for each in find_towers(path) if each.parent == path.parent]
    return (*sorted(own), *towers)


def _is_part(name: str, start: str, ends: str) -> bool:
    middle = name[len(start) : len(name) - len(ends)]
    return name.startswith(start) and name.lower().endswith(ends) and middle.isdigit()


def _folder(path: Path) -> tuple[Path, ...]:
    """Nothing if it holds anything else."""
    entries = list(islice(path.iterdir(), MOST_ENTRIES))
    known = all(
        _is_download_state(each) if each.is_dir() else _OF_A_MODEL.fullmatch(each.name)
        for each in entries
    )
    return (path,) if known and len(entries) < MOST_ENTRIES else ()


def _is_download_state(folder: Path) -> bool:
    inside = {each.name for each in islice(folder.iterdir(), MOST_ENTRIES)}
    return folder.name == ".huggingface" or (folder.name == ".cache" and inside <= {"huggingface"})


def _size(path: Path) -> int:
    """Without what links lead to."""
    if not path.is_dir():
        return path.lstat().st_size
    found = 0
    for folder, _, names in os.walk(path):
        found += sum(Path(folder, name).lstat().st_size for name in names)
    return found
