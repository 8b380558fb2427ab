"""Moves a model to another disk, in a child process, or to the system's trash.

A folder with other files is left alone, and so are Ollama's files, which its models share.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from PySide6.QtCore import QFile, QObject, Signal
from PySide6.QtWidgets import QProgressBar

from core.api.errors import MoveError, WaymarkError
from core.api.model_info import HUB_PREFIX, SNAPSHOTS
from core.gguf.library import PART_NAME, SUFFIX, FoundModel, find_towers, is_model, models_below
from core.library.messages import Move
from core.library.places import OLLAMA, OURS, WEIGHTS
from desktop.engine.engine_status import shown_name
from desktop.engine.tasks import Tasks, answered
from desktop.i18n import tr
from desktop.models.library import LibraryController
from desktop.numbers import format_bytes
from desktop.settings.settings import SettingsController
from desktop.widgets.layouts import Frame, row
from desktop.widgets.plain import Button, ElidedLabel, named

STEPS = 1_000


class MoveController(QObject):
    changed = Signal()
    # ErrorInfo: why a model was not moved.
    failed = Signal(object)

    def __init__(
        self,
        tasks: Tasks,
        settings: SettingsController,
        library: LibraryController,
    ) -> None:
        super().__init__()
        self._tasks, self._settings = tasks, settings
        self._library = library
        # The path of the model that is being moved.
        self.path = ""
        self.done = self.total = 0
        self._stop = asyncio.Event()

    def begin(self, place: FoundModel, target: Path) -> None:
        if not self.path:
            self.path, self.done, self.total = str(place.path), 0, 0
            self._stop.clear()
            self.changed.emit()
            self._tasks.spawn(self._move(place, target), tr("Moving a model"))

    def tidy(self) -> None:
        """Remove what killed moves left."""
        self._tasks.spawn(self._library.client.tidy(), tr("Moving a model"))

    def cancel(self) -> None:
        """Keep the model where it is, unless it has arrived."""
        self._stop.set()

    async def _move(self, place: FoundModel, target: Path) -> None:
        try:
            added = map(Path, self._settings.settings.library.folders)
            roots = (self._library.ours, *added)
            move = await answered(partial(plan_move, place, roots, target))
            await self._library.client.move(move, self._tell, self._stop)
            moved = target / place.path.relative_to(move.base)
            self._settings.follow(str(place.path), str(moved))
            if target != self._library.ours:
                self._library.add_folder(str(target))
        except WaymarkError as error:
            self.failed.emit(error.info())
        finally:
            self.path = ""
            self.changed.emit()
            self._library.survey()

    def _tell(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        self.changed.emit()


def plan_move(place: FoundModel, roots: Sequence[Path], target: Path) -> Move:
    """A model keeps its name below the folder of `roots` that it is in. Raises MoveError."""
    path = place.path
    if place.program not in ("", OURS):
        words = tr("It belongs to {program}. Move it there, or download it here again.")
        raise MoveError(words.format(program=place.program))
    removal = plan_removal(place)
    if removal.refused:
        raise MoveError(tr("Other files are in its folder. Move it in your file manager."))
    base = next((each for each in roots if each in path.parents), path.parent)
    if target.resolve() == base.resolve() or path in (target, *target.parents):
        raise MoveError(tr("It is there already."))
    main = path if path.is_file() else path / "config.json"
    files = [each for start in removal.paths for each in _files_below(start)]
    # A vision tower stays for the other models next to it.
    towers = find_towers(path)[:1] if path.is_file() else []
    kept = [each for each in towers if each not in files and base in each.parents]
    ordered = sorted([*files, *kept], key=lambda each: (each == main, str(each)))

    def named(paths: Sequence[Path]) -> tuple[str, ...]:
        return tuple(each.relative_to(base).as_posix() for each in paths)

    return Move(files=named(ordered), kept=named(kept), base=str(base), target=str(target))


def _files_below(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    return list(islice(found, MOST_ENTRIES))


class MoveRow(Frame):
    def __init__(self, moves: MoveController) -> None:
        super().__init__("moveRow")
        self._moves = moves
        self._words = ElidedLabel(name="moveWords", style="small")
        self._bar = named(QProgressBar(), "moveProgress", tr("Progress of the move"))
        self._bar.setRange(0, STEPS)
        self._bar.setTextVisible(False)
        stop = Button(tr("Stop moving"), name="moveStop")
        stop.setAutoDefault(False)
        stop.clicked.connect(moves.cancel)
        row((self._words, 1), (self._bar, 1), stop, of=self, margins=(12, 8, 12, 8), spacing=10)
        moves.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        moves = self._moves
        self.setVisible(bool(moves.path))
        words = tr("Moving {name}: {done} of {total}")
        # Each byte is counted twice.
        done, total = format_bytes(moves.done // 2), format_bytes(moves.total // 2)
        name = shown_name(moves.path) if moves.path else ""
        self._words.set_words(words.format(name=name, done=done, total=total))
        self._bar.setValue(STEPS * moves.done // max(1, moves.total))


MOST_ENTRIES = 10_000
# What downloads of models hold; anything else may be the user's.
_OF_A_MODEL = re.compile(
    r".*\.(safetensors|json|jinja)|(merges|vocab)\.txt|tokenizer\.model|README\.md|LICEN[CS]E.*"
    r"|NOTICE.*|\.gitattributes"
)


class TrashError(WaymarkError, title="The model was not deleted"): ...


@dataclass(frozen=True, slots=True)
class Removal:
    """`program` is '' for a folder of the user; `refused` says why nothing can be deleted."""

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
    """In the Hugging Face cache: the repository, or only this model's links and blobs if others are
    in it."""
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
