"""The models on this computer, and what is known of each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

from core.api.errors import SlowFileError, WaymarkError
from core.api.model_info import HEADROOM_BYTES, SNAPSHOTS, ModelInfo
from core.gguf.library import SUFFIX, FoundModel
from core.library.client import LibraryClient
from core.library.messages import Described, Device, ModelFacts
from core.library.places import (
    find_models,
    folders_below,
    model_at,
    models_of,
    watched_folders,
)
from desktop.engine.engine_status import remember_names, shown_name
from desktop.engine.tasks import FILE_LIMIT_S, Tasks
from desktop.i18n import tr
from desktop.models.fits import Memory, Verdict, judge, memory
from desktop.settings.settings import SettingsController
from desktop.store.folders import Folders
from desktop.store.settings import AppSettings, kept_path

# A copy or a download makes many changes.
SETTLED_MS = 1_500
MOST_WATCHED = 1_000
# A folder that did not answer before.
STILL_SILENT_S = 1.0
# Names of reads that aren't of an added folder: the usual places, and models opened by their paths.
USUAL, OPENED = "usual", "opened"


@dataclass(frozen=True, slots=True)
class LibraryModel:
    """Load takes the first of its copies; `facts` are None until read."""

    places: tuple[FoundModel, ...]
    facts: ModelFacts | None = None

    @property
    def path(self) -> str:
        return str(self.places[0].path)

    @property
    def name(self) -> str:
        return shown_name(self.path)

    def has(self, path: str) -> bool:
        return any(str(each.path) == path for each in self.places)


@dataclass(frozen=True, slots=True)
class Place:
    """Models with their real paths, and folders to watch."""

    models: tuple[FoundModel, ...] = ()
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def sources(self) -> list[str]:
        """One for all snapshots of a repository."""
        folders = (each.path.parent for each in self.models)
        pairs = zip(folders, self.files, strict=True)
        return [str(folder) if folder.name == SNAPSHOTS else file for folder, file in pairs]

    def without(self, paths: set[Path]) -> Place:
        kept = [at for at, each in enumerate(self.models) if each.path not in paths]
        models = tuple(self.models[at] for at in kept)
        return Place(models, tuple(self.files[at] for at in kept), self.folders)


class LibraryController(QObject):
    # The list, or what is known of a model.
    changed = Signal()
    # ErrorInfo: why the list is incomplete.
    failed = Signal(object)

    def __init__(
        self,
        tasks: Tasks,
        settings: SettingsController,
        folders: Folders,
        ours: Path,
    ) -> None:
        super().__init__()
        self._tasks, self._settings, self.ours = tasks, settings, ours
        self.client = LibraryClient(self._hear, folders.data / "library.json", folders.contexts)
        self.models: list[LibraryModel] = []
        self.scanning = False
        # Models found and not yet described.
        self.left = 0
        self._groups: list[tuple[FoundModel, ...]] = []
        self._facts: dict[str, ModelFacts] = {}
        self.device = Device(name="cpu")
        self._again = self._stale = self._wholly = False
        self._watched = False
        # Reads that have not ended, by folder or name.
        self._looking: dict[str, asyncio.Future[Place]] = {}
        self._settled = QTimer(self, singleShot=True, interval=SETTLED_MS)
        self._settled.timeout.connect(self.survey)
        settings.engine.model_loaded.connect(self._on_loaded)

    @cached_property
    def _watcher(self) -> QFileSystemWatcher:
        # Each takes one of the few inotify instances that a user has: only if it is needed.
        watcher = QFileSystemWatcher(self)
        watcher.directoryChanged.connect(self._on_change)
        return watcher

    def survey(self, *, again: bool = False) -> None:
        """With `again` all facts and this machine's speed are measured once more."""
        self._stale = False
        self._wholly = self._wholly or again
        if self.scanning:
            self._again = True
        else:
            self.scanning = True
            self.changed.emit()
            self._tasks.spawn(self._survey(), tr("Looking for models"))

    def watch(self, wanted: bool) -> None:
        """True while the list is on screen."""
        self._watched = wanted
        if wanted and (self._stale or not self._watcher.directories()):
            self.survey()

    def available(self) -> Memory:
        """Free memory once the present model is ejected."""
        device = self.device
        found = memory()
        if device.total:
            found = Memory(device.free, device.total, HEADROOM_BYTES)
        loaded = self._settings.engine.model
        facts = self._facts.get(loaded.path) if loaded is not None else None
        if loaded is None or facts is None:
            return found
        held = (way.num_bytes for way in facts.ways if way.precision == loaded.precision)
        return replace(found, free=min(found.total, found.free + next(held, 0)))

    def verdict(self, model: LibraryModel, available: Memory | None = None) -> Verdict | None:
        """With the settings that it would be loaded with."""
        if model.facts is None or model.facts.trouble is not None:
            return None
        wanted = self._settings.settings.switched(model.path).model
        return judge(
            model.facts, available or self.available(), wanted.precision, wanted.context_length
        )

    def add_folder(self, folder: str) -> None:
        library = self._settings.settings.library
        if folder not in library.folders:
            added = (*library.folders, folder)
            self._settings.put(library=library.model_copy(update={"folders": added}))
            self.survey()

    def drop_folder(self, folder: str) -> None:
        library = self._settings.settings.library
        left = tuple(each for each in library.folders if each != folder)
        self._settings.put(library=library.model_copy(update={"folders": left}))
        self.survey()

    async def find(self) -> list[FoundModel]:
        """Reads names only."""
        *places, opened = await self._find()
        known = {each for place in places for each in place.sources}
        # An older snapshot that was opened by its path isn't named again.
        left = zip(opened.models, opened.sources, strict=True)
        found = [each for place in places for each in place.models]
        return [*found, *(each for each, source in left if source not in known)]

    async def _find(self) -> list[Place]:
        settings = self._settings.settings
        reads: dict[str, Callable[[], Place]] = {USUAL: partial(_usual_places, self.ours)}
        reads |= {each: partial(_added_folder, Path(each)) for each in settings.library.folders}
        reads[OPENED] = partial(_opened_models, _opened_paths(settings))
        found = await asyncio.gather(*(self._look(*each) for each in reads.items()))
        listed = {each.path for place in found[:-1] for each in place.models}
        found[-1] = found[-1].without(listed)
        remember_names({str(each.path): each.name for place in found for each in place.models})
        return found

    async def _look(self, folder: str, read: Callable[[], Place]) -> Place:
        """A place that doesn't answer is reported, and delays later calls only shortly."""
        looking = self._looking.get(folder)
        limit_s = FILE_LIMIT_S if looking is None else STILL_SILENT_S
        if looking is None:
            looking = asyncio.get_running_loop().run_in_executor(None, read)
            self._looking[folder] = looking
        await asyncio.wait({looking}, timeout=limit_s)
        if looking.done():
            self._looking.pop(folder, None)
            return looking.result()
        words = tr("{folder} does not answer. The models in it are not in the list.")
        named = tr("A folder of models") if folder in (USUAL, OPENED) else folder
        self.failed.emit(SlowFileError(words.format(folder=named)).info())
        return Place()

    async def _survey(self) -> None:
        wholly, self._wholly = self._wholly, False
        try:
            found = await self._find()
            self._groups = _same_files(found)
            self._follow([each for place in found for each in place.folders][:MOST_WATCHED])
            paths = [str(group[0].path) for group in self._groups]
            self._facts = {path: self._facts[path] for path in paths if path in self._facts}
            self._arrange()
            await self.client.describe(paths, again=wholly)
        except WaymarkError as error:
            self.failed.emit(error.info())
        finally:
            self.scanning = False
            self._arrange()
        if self._again:
            self._again = False
            self.survey()

    def _follow(self, folders: Sequence[str]) -> None:
        known = set(self._watcher.directories())
        if gone := list(known.difference(folders)):
            self._watcher.removePaths(gone)
        if new := [each for each in folders if each not in known]:
            self._watcher.addPaths(new)

    def _on_change(self) -> None:
        self._stale = True
        if self._watched:
            self._settled.start()

    def _on_loaded(self, model: ModelInfo) -> None:
        if kept_path(model.path) and not any(each.has(model.path) for each in self.models):
            self._on_change()

    def _hear(self, event: Described | Device) -> None:
        if isinstance(event, Device):
            self.device = event
            self.changed.emit()
            return
        self._facts.update({each.path: each for each in event.models})
        self._arrange()

    def _arrange(self) -> None:
        """Copies of the same files are one model."""
        copies: dict[str, LibraryModel] = {}
        for group in self._groups:
            facts = self._facts.get(str(group[0].path))
            key = facts.digest if facts is not None and facts.digest else str(group[0].path)
            found = copies.get(key)
            if found is None:
                copies[key] = LibraryModel(group, facts)
            else:
                copies[key] = replace(found, places=(*found.places, *group))
        self.left = sum(each.facts is None for each in copies.values())
        self.models = sorted(copies.values(), key=lambda each: each.name.casefold())
        self.changed.emit()


def is_file(path: Path) -> bool:
    """By its name, as a disk may block."""
    return path.suffix.lower() == SUFFIX or path.parent.name == "blobs"


def _usual_places(ours: Path) -> Place:
    return _place(find_models(ours), watched_folders(ours))


def _added_folder(folder: Path) -> Place:
    return _place(models_of(folder), folders_below([folder]))


def _opened_paths(settings: AppSettings) -> list[str]:
    run = (each.path for each in settings.library.models if each.chosen)
    return [path for path in (settings.model.path, *settings.recent_models, *run) if path]


def _opened_models(paths: Sequence[str]) -> Place:
    found = (model_at(Path(path)) for path in dict.fromkeys(paths))
    models = [each for each in found if each is not None]
    return _place(models, list(dict.fromkeys(each.path.parent for each in models)))


def _place(models: Sequence[FoundModel], folders: Sequence[Path]) -> Place:
    files = tuple(os.path.realpath(each.path) for each in models)
    return Place(tuple(models), files, tuple(str(each) for each in folders))


def _same_files(found: Sequence[Place]) -> list[tuple[FoundModel, ...]]:
    same: dict[str, list[FoundModel]] = {}
    for place in found:
        for each, file in zip(place.models, place.files, strict=True):
            same.setdefault(file, []).append(each)
    return [tuple(group) for group in same.values()]
