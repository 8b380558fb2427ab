"""Limits on the size of a model folder's small files and on the time for all: a sparse file of
gigabytes, or a device behind a link, must not fill the memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.api.errors import MissingFileError, SlowFolderError, WaymarkError
from core.api.json_text import JsonTooDeepError, parse_json

# The largest published ones are 1.2 MB (a tokenizer_config.json), 0.02, 33, and 14 MB.
CONFIG_BYTES = 4 * 2**20
TEMPLATE_BYTES = 2**20
TOKENIZER_BYTES = 64 * 2**20
INDEX_BYTES = 32 * 2**20
# Published folders take a few seconds, mostly for the tokenizer.
FOLDER_S = 60.0

JsonObject = dict[str, Any]


def read_small(path: Path, most: int, broken: type[WaymarkError]) -> bytes:
    """Raises MissingFileError, and `broken` for a file that can't be read or has more than `most`
    bytes."""
    name = f"{path.parent.name}/{path.name}"
    try:
        if not path.is_file():
            title = "This folder holds no model" if path.name == "config.json" else ""
            raise MissingFileError(f"{path.parent} has no {path.name}.", title)
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise broken(f"{name} can't be read: {error.strerror}.") from error
    if len(data) > most:
        raise broken(f"{name} has more than {most >> 20} MiB, the most such a file may have.")
    return data


def read_object(path: Path, broken: type[WaymarkError], most: int = CONFIG_BYTES) -> JsonObject:
    """Raises MissingFileError, and `broken`."""
    try:
        parsed = parse_json(read_small(path, most, broken))
    except JsonTooDeepError as error:
        raise broken(f"{path.parent.name}/{path.name} can't be read: {error}.") from None
    except ValueError as error:
        raise broken(f"{path.parent.name}/{path.name} is not valid JSON.") from error
    if not isinstance(parsed, dict):
        raise broken(f"{path.parent.name}/{path.name} should hold a JSON object.")
    return parsed


class LookingTime:
    """Limits the total time inside its `with` blocks."""

    def __init__(self, check: Callable[[], None] = lambda: None, seconds: float = FOLDER_S) -> None:
        self._check, self._left = check, seconds
        self._entered = 0.0

    def __enter__(self) -> LookingTime:
        self._entered = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._left -= time.monotonic() - self._entered

    def __call__(self) -> None:
        """Call often inside `with`. Raises SlowFolderError, and what `check` raises."""
        self._check()
        if time.monotonic() - self._entered > self._left:
            raise SlowFolderError(
                "The files of this model folder take longer to look at than any model's should. "
                "If the computer is busy or the disk is slow, try again."
            )
