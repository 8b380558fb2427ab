"""The settings as a JSON file."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from core.api.errors import NotRegularFileError
from core.api.params import Settings
from core.client.blobs import read_regular
from core.system.private_files import rename, write_whole
from desktop.i18n import tr
from desktop.store import backups
from desktop.store.settings import AppSettings, Read, WindowSettings

Tree: TypeAlias = dict[str, Any]


class SettingsFile:
    """Invalid values get their default, unknown keys stay for the version that wrote them, and a
    file that isn't JSON is set aside."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Holds the values of other versions too.
        self._stored: Tree = {}

    def load(self) -> tuple[AppSettings, str]:
        """The message is '' if nothing went wrong."""
        try:
            stored = json.loads(read_regular(self._path).decode())
        except FileNotFoundError:
            return AppSettings(), ""
        except OSError as error:
            return AppSettings(), self._kept_aside(error.strerror or type(error).__name__)
        except NotRegularFileError as error:
            reason = os.strerror(errno.EISDIR) if error.folder else tr("it is not a file")
            return AppSettings(), self._kept_aside(reason)
        except (ValueError, RecursionError):
            return AppSettings(), self._kept_aside(tr("the file is damaged"))
        if not isinstance(stored, dict):
            return AppSettings(), self._kept_aside(tr("the file is damaged"))
        self._stored, lost = stored, list[str]()
        settings = read_settings(AppSettings(), stored, lost)
        said = tr("These settings could not be read and were reset to their defaults: {}.")
        return settings, said.format(", ".join(lost)) if lost else ""

    def save(self, settings: AppSettings) -> None:
        """All of it or nothing. Raises OSError."""
        values = with_missing(settings.model_dump(mode="json"), self._stored)
        text = json.dumps(values, indent=2, ensure_ascii=False)
        # A folder's name may hold half a surrogate pair.
        write_whole(self._path, f"{text}\n".encode(errors="replace"))

    def _kept_aside(self, reason: str) -> str:
        words = tr("The settings could not be read ({}); the defaults are used.").format(reason)
        kept = backups.unused(self._path, backups.DAMAGED)
        try:
            rename(self._path, kept)
        except OSError:
            return words
        return f"{words} " + tr("The old file is kept as {}.").format(kept.name)


def language_of(path: Path) -> str:
    """Returns "system" if they can't be read."""
    with contextlib.suppress(OSError, NotRegularFileError, RecursionError, ValueError):
        stored = json.loads(read_regular(path).decode())
        if isinstance(stored, dict) and isinstance(window := stored.get("window"), dict):
            return read_settings(WindowSettings(), window, []).language
    return WindowSettings().language


def read_settings(default: Read, stored: Tree, lost: list[str], place: str = "") -> Read:
    """Adds the keys of invalid values to `lost`."""
    settings = default
    for name, value in stored.items():
        if name not in type(default).model_fields:
            continue
        inner = getattr(default, name)
        if isinstance(inner, Settings) and isinstance(value, dict):
            read: object = read_settings(inner, value, lost, f"{place}{name}.")
        else:
            read = _tuples(value)
        try:
            settings = type(default).model_validate({**dict(settings), name: read})
        except ValidationError:
            lost.append(f"{place}{name}")
    return settings


def with_missing(values: Tree, others: Tree) -> Tree:
    merged = {**others, **values}
    for key, other in others.items():
        value = values.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            merged[key] = with_missing(value, other)
    return merged


def _tuples(value: object) -> object:
    """Tuples for lists, U+FFFD for half surrogate pairs."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _tuples(each) for key, each in value.items()}
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value
