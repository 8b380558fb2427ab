"""Finds the models in a chosen folder: a model, a folder of models, or the Hugging Face cache.

Reads names and the cache's `refs/main`. May block on a disk, so it is called in a thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from core.api.errors import NotRegularFileError
from core.api.model_info import SNAPSHOTS, hub_name
from core.client.blobs import open_regular

CONFIG = "config.json"
MOST_ENTRIES = 2_000
HASH_BYTES = 128


def models_in(folder: Path) -> tuple[Path, ...]:
    """The models in a chosen folder, sorted: itself if it is one or contains none, the newest
    snapshot if it is of the hub cache, else the models directly in it."""
    found = _model(folder)
    if found is not None:
        return (found,)
    places = [folder / "hub"] if (folder / "hub").is_dir() else [folder]
    below = (_model(each) for place in places for each in _entries(place))
    models = sorted({each for each in below if each is not None})
    return tuple(models) or (folder,)


def first_folder(chosen: str, recent: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """Where a dialog starts: beside the last model, or in the hub cache; '' without both."""
    for path in (chosen, *recent):
        if path and (parent := _beside(Path(path))).is_dir():
            return str(parent)
    cache = hub_cache(environment)
    return str(cache) if cache.is_dir() else ""


def hub_cache(environment: Mapping[str, str]) -> Path:
    """The Hugging Face libraries' download cache."""
    if named := environment.get("HF_HUB_CACHE"):
        return Path(named)
    home = environment.get("HF_HOME")
    caches = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home or Path(caches) / "huggingface") / "hub"


def _beside(model: Path) -> Path:
    if model.parent.name == SNAPSHOTS and hub_name(model.parent.parent.name):
        return model.parents[2]
    return model.parent


def _model(folder: Path) -> Path | None:
    with contextlib.suppress(OSError):
        if (folder / CONFIG).is_file():
            return folder
        if (folder / SNAPSHOTS).is_dir():
            return _newest(folder)
    return None


def _newest(folder: Path) -> Path | None:
    """The snapshot that the cache calls main, or the one written last."""
    with contextlib.suppress(OSError, NotRegularFileError, ValueError):
        with open_regular(folder / "refs" / "main") as file:
            named = file.read(HASH_BYTES).decode().strip()
        if named == Path(named).name and (folder / SNAPSHOTS / named / CONFIG).is_file():
            return folder / SNAPSHOTS / named
    whole = [each for each in _entries(folder / SNAPSHOTS) if (each / CONFIG).is_file()]
    return max(whole, key=lambda each: each.stat().st_mtime, default=None)


def _entries(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from islice(folder.iterdir(), MOST_ENTRIES)
