"""The places of models on this computer, found by names alone. Call in a thread: a disk may block.

A folder may be a model, a folder of models, or the Hugging Face cache.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from core.api.errors import NotRegularFileError
from core.api.model_info import SNAPSHOTS, published_name
from core.client.blobs import open_regular
from core.gguf.library import (
    SUFFIX,
    FoundModel,
    found_models,
    hub_folders,
    lm_studio_folders,
    models_below,
    ollama_folders,
    ollama_name,
)

OURS = "Waymark"
HUB_PROGRAM, LM_STUDIO, OLLAMA = "Hugging Face", "LM Studio", "Ollama"
CONFIG = "config.json"
WEIGHTS = ".safetensors"
MOST_ENTRIES = 20_000
# Folders are watched down to this depth, as repositories are `Org/Name/precision`.
_WATCHED_DEPTH = 3
_HASH_BYTES = 128


def find_models(
    ours: Path, home: Path | None = None, environment: Mapping[str, str] = os.environ
) -> list[FoundModel]:
    """Our folder's and other programs', in this order.

    A model of several programs is listed for each. Unreadable folders count as empty.
    """
    home = home or Path.home()
    found = list(_below(ours, OURS))
    for folder in lm_studio_folders(home):
        found += _below(folder, LM_STUDIO)
    for folder in hub_folders(home, environment):
        found += _below(folder, HUB_PROGRAM)
    return _once_a_program([*found, *found_models(home, environment)])


def models_of(folder: Path) -> list[FoundModel]:
    return _once_a_program([*_below(folder, ""), *models_below(folder)])


def model_at(path: Path) -> FoundModel | None:
    """The model folder or GGUF file at this path."""
    if os.path.isdir(path):
        found = next(_below(path, ""), None)
        return found if found is not None and found.path == path else None
    name = ollama_name(path) or published_name(str(path))
    return FoundModel(path, name, "") if os.path.isfile(path) else None


def watched_folders(
    ours: Path, home: Path | None = None, environment: Mapping[str, str] = os.environ
) -> list[Path]:
    """Folders in which models may appear or vanish: the nearest, 1,000 at most."""
    home = home or Path.home()
    places = [ours, *lm_studio_folders(home), *hub_folders(home, environment)]
    return folders_below(
        [*places, *(each / "manifests" for each in ollama_folders(home, environment))]
    )


def folders_below(places: Sequence[Path]) -> list[Path]:
    level = [each for each in dict.fromkeys(places) if os.path.isdir(each)]
    found: list[Path] = []
    for _ in range(_WATCHED_DEPTH):
        found += level
        level = [each for folder in level for each in _entries(folder) if _is_folder(each)]
        if len(found) + len(level) > 1_000:
            break
    return found[:1_000]


def models_in(folder: Path) -> tuple[Path, ...]:
    """Sorted: the folder itself if it is a model, the hub cache's newest snapshot, else the models
    in it and the GGUF files below it."""
    found = _model(folder)
    if found is not None:
        return (found,)
    places = [folder / "hub"] if os.path.isdir(folder / "hub") else [folder]
    below = (_model(each) for place in places for each in _entries(place))
    files = (each.path for each in models_below(folder))
    return tuple(sorted({*(each for each in below if each), *files}))


def _below(folder: Path, program: str) -> Iterator[FoundModel]:
    for path in islice(_candidates(folder), MOST_ENTRIES):
        if any(each.suffix.lower() == WEIGHTS for each in _entries(path)):
            yield FoundModel(path, published_name(str(path)), program)
    if program == OURS:
        for model in models_below(folder):
            yield replace(model, name=published_name(str(model.path)), program=program)


def _candidates(folder: Path) -> Iterator[Path]:
    found = _model(folder)
    if found is not None:
        yield found
        return
    for each in _entries(folder):
        found = _model(each)
        if found is not None:
            yield found
        elif _is_folder(each):
            yield from filter(None, map(_model, _entries(each)))


def _once_a_program(found: Sequence[FoundModel]) -> list[FoundModel]:
    once: dict[tuple[str, str], FoundModel] = {}
    for each in found:
        once.setdefault((each.program, os.path.realpath(each.path)), each)
    return list(once.values())


def _model(folder: Path) -> Path | None:
    with contextlib.suppress(OSError):
        if _has_model(folder):
            return folder
        if (folder / SNAPSHOTS).is_dir():
            return _newest(folder)
    return None


def _has_model(folder: Path) -> bool:
    """Repositories of GGUF files often have a config.json too, but no other weights."""
    if not (folder / CONFIG).is_file():
        return False
    endings = {each.suffix.lower() for each in _entries(folder)}
    return SUFFIX not in endings or WEIGHTS in endings


def _newest(folder: Path) -> Path | None:
    """The cache's "main" snapshot, or the one written last."""
    with contextlib.suppress(OSError, NotRegularFileError, ValueError):
        with open_regular(folder / "refs" / "main") as file:
            named = file.read(_HASH_BYTES).decode().strip()
        if named == Path(named).name and _has_model(folder / SNAPSHOTS / named):
            return folder / SNAPSHOTS / named
    whole = [each for each in _entries(folder / SNAPSHOTS) if _has_model(each)]
    return max(whole, key=lambda each: each.stat().st_mtime, default=None)


def _is_folder(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
    return False


def _entries(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from islice(folder.iterdir(), MOST_ENTRIES)
