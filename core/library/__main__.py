"""`python -m core.library`: a command on standard input, events on standard output.

Facts are remembered by the sizes and times of the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from importlib import metadata
from itertools import islice, takewhile
from pathlib import Path
from typing import BinaryIO

from pydantic import Field, ValidationError

from core.api.errors import BrokenConfigError, WaymarkError
from core.api.params import Frozen, ModelSettings
from core.client.child import end_process
from core.client.codec import decode, read_frame, send
from core.client.programs import become_child
from core.gguf.library import PART_NAME, find_towers
from core.library.messages import (
    COMMAND,
    Described,
    Device,
    ModelFacts,
    Move,
    Moved,
    Moving,
    Rate,
    Reading,
)
from core.library.moving import Mover
from core.model_files import INDEX_BYTES, read_small
from core.storage.index import stored_note
from core.system.private_files import write_whole

# Events are sent and facts stored this often.
EVERY_S, STORE_EVERY_S = 0.25, 10.0
MOST_AT_ONCE = 100
# Models whose facts are kept, those asked for last.
MOST_REMEMBERED = 4_000
MOST_FILES = 1_000
# Raised when facts, or how they are found, change.
VERSION = 7
NICE = 10
# Errors that another try may not meet.
PASSING = ("SlowFolderError", "MissingFileError")


class Remembered(Frozen):
    """Facts by the files' state, rates by format, and `notes` that decide an automatic choice."""

    conditions: str = ""
    device: Device | None = None
    models: dict[str, ModelFacts] = Field(default_factory=dict)
    rates: dict[str, Rate] = Field(default_factory=dict)
    notes: dict[str, str] = Field(default_factory=dict)


class Survey:
    def __init__(self, events: BinaryIO, cache: Path, contexts: Path) -> None:
        self._events, self._cache = events, cache
        self._old = recalled(cache)
        # Facts of models that aren't asked for stay: another process may have told them.
        self._models = dict(self._old.models)
        self._rates, self._device = dict(self._old.rates), self._old.device
        self._contexts, self._notes = contexts, dict(self._old.notes)
        self._waiting: list[ModelFacts] = []
        self._sent = self._stored = time.monotonic()

    def run(self, paths: tuple[str, ...], again: bool = False) -> None:
        again = self._other_choice() or again
        names_in = cache(_names_in)
        states = {path: state_of(Path(path), names_in) for path in paths}
        missing = []
        for path, state in states.items():
            facts = self._old.models.get(state)
            if facts is None or again:
                missing.append(path)
            else:
                self._tell(state, facts)
        self._send()
        # A graphics card's free memory is out of date.
        if missing or again or self._device is None or self._device.total:
            self._read(missing, states, again)
        else:
            send(self._events, self._device)
        self._store()

    def _other_choice(self) -> bool:
        before = self._notes
        self._notes = {
            each: stored_note(self._contexts, *each.split(" ", 1)) or ours
            for each, ours in before.items()
        }
        return self._notes != before

    def _read(self, paths: list[str], states: dict[str, str], again: bool) -> None:
        # Imported late: torch takes over a second, and mostly nothing has changed.
        import torch

        from core.engine.loaded import fix_threads, resolve_device
        from core.library.facts import read_facts
        from core.library.machine import EngineNotes, Machine

        fix_threads()
        device = resolve_device(ModelSettings(path=""))
        memory = torch.cuda.mem_get_info(device) if device.type == "cuda" else (0, 0)
        notes = EngineNotes(self._contexts, self._notes)
        machine = Machine(device, self._rates, notes, again=again)
        self._device = Device(
            name=device.type, free=memory[0], total=memory[1], speeds=machine.speeds()
        )
        send(self._events, self._device)
        for path in paths:
            send(self._events, Reading(path=path))
            self._tell(states[path], read_facts(Path(path), machine))
            if time.monotonic() - self._stored > STORE_EVERY_S:
                self._store()
        self._send()

    def _tell(self, state: str, facts: ModelFacts) -> None:
        if facts.trouble is None or facts.trouble.name not in PASSING:
            self._models.pop(state, None)
            self._models[state] = facts
            while len(self._models) > MOST_REMEMBERED:
                del self._models[next(iter(self._models))]
        self._waiting.append(facts)
        due = time.monotonic() - self._sent > EVERY_S
        if due or len(self._waiting) >= MOST_AT_ONCE:
            self._send()

    def _send(self) -> None:
        if self._waiting:
            send(self._events, Described(models=tuple(self._waiting)))
        self._waiting, self._sent = [], time.monotonic()

    def _store(self) -> None:
        self._stored = time.monotonic()
        now = Remembered(
            conditions=conditions(),
            device=self._device,
            models=self._models,
            rates=self._rates,
            notes=self._notes,
        )
        if now != self._old:
            with contextlib.suppress(OSError):  # the next survey reads again
                write_whole(self._cache, now.model_dump_json().encode())


def conditions() -> str:
    facts = (VERSION, version("waymark"), version("torch"), os.cpu_count(), platform.machine())
    return f"{facts} {os.environ.get('WAYMARK_KERNELS', '')}"


def version(package: str) -> str:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return ""


def recalled(cache: Path) -> Remembered:
    with contextlib.suppress(ValidationError, WaymarkError):
        data = read_small(cache, INDEX_BYTES, BrokenConfigError)
        found = Remembered.model_validate_json(data)
        if found.conditions == conditions():
            return found
    return Remembered()


def state_of(path: Path, names_in: Callable[[Path], list[str]]) -> str:
    """Changes with any file that facts come from; `names_in` gives a folder's sorted names."""
    found = hashlib.sha256(str(path).encode(errors="surrogateescape"))
    for each in _files_of(path, names_in):
        with contextlib.suppress(OSError):
            now = each.stat()
            found.update(f"{each.name} {now.st_size} {now.st_mtime_ns}\n".encode(errors="replace"))
    return found.hexdigest()


def _names_in(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(each.name for each in os.scandir(folder))
    return []


def _files_of(path: Path, names_in: Callable[[Path], list[str]]) -> list[Path]:
    if path.is_dir():
        return [path / name for name in names_in(path)[:MOST_FILES]]
    part = PART_NAME.fullmatch(path.name)
    stem = part[1] if part else path.name
    names = names_in(path.parent)
    near = islice(names, bisect_left(names, stem), None)
    own = islice(takewhile(lambda name: name.startswith(stem), near), MOST_FILES)
    return [*(path.parent / name for name in own), *find_towers(path)[:1]]


def _when_closed(commands: BinaryIO, act: Callable[[], object]) -> None:
    """Call `act` in a thread when the window closes the pipe."""

    def wait() -> None:
        commands.read(1)
        act()

    threading.Thread(target=wait, daemon=True).start()


def move(asked: Move, commands: BinaryIO, events: BinaryIO) -> None:
    """The window cancels it by closing the pipe."""
    ended, told = threading.Event(), [0.0]
    _when_closed(commands, ended.set)

    def emit(event: Moving | Moved) -> None:
        with contextlib.suppress(BrokenPipeError):  # what was begun is carried through
            send(events, event)

    def tell(done: int, total: int) -> None:
        if time.monotonic() - told[0] > EVERY_S:
            told[0] = time.monotonic()
            emit(Moving(done=done, total=total))

    try:
        mover = Mover(asked, tell, ended.is_set)
        if asked.tidy:
            mover.tidy()
        else:
            mover.run()
    except WaymarkError as error:
        emit(Moved(error=error.info()))
    else:
        emit(Moved())


def main() -> None:
    commands, events = become_child()
    if hasattr(os, "nice"):
        os.nice(NICE)
    body = read_frame(commands)
    if body is None:
        return
    asked = decode(COMMAND, body)
    with contextlib.suppress(BrokenPipeError):
        if isinstance(asked, Move):
            move(asked, commands, events)
        else:
            _when_closed(commands, end_process)
            Survey(events, Path(asked.cache), Path(asked.contexts)).run(asked.paths, asked.again)
    end_process()


if __name__ == "__main__":
    main()
