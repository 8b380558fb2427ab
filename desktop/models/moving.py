"""Moves a model to another disk, in a child process, with its progress and a way to stop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFrame, QProgressBar

from core.api.errors import MoveError, WaymarkError
from core.gguf.library import FoundModel, find_towers
from core.library.messages import Move
from core.library.places import OURS
from desktop.engine.engine_status import shown_name
from desktop.engine.tasks import Tasks, answered
from desktop.i18n import tr
from desktop.models.library import LibraryController
from desktop.models.removal import MOST_ENTRIES, plan_removal
from desktop.numbers import format_bytes
from desktop.settings.settings import SettingsController
from desktop.widgets.layouts import row
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
        """Remove what moves left that were killed."""
        self._tasks.spawn(self._library.client.tidy(), tr("Moving a model"))

    def cancel(self) -> None:
        """Keep the model where it is, unless it is in the new place already."""
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
    """A model keeps its name below the folder of `roots` that it is in. Raises MoveError for one
    that has to stay."""
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


class MoveRow(QFrame):
    """The move that is going on; hidden without one."""

    def __init__(self, moves: MoveController) -> None:
        super().__init__()
        self.setObjectName("moveRow")
        self.setProperty("class", "card")
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
