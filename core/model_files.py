"""The small files of a model folder: read whole, and never more of one than its kind may measure.

Whoever publishes a model decides how long its files are. A sparse file of gigabytes, a device or a
pipe behind a link must not become this process's memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.api.errors import MissingFileError, WaymarkError
from core.api.json_text import JsonTooDeepError, parse_json

# The largest ones published are 1.2 MB (a tokenizer_config.json), 0.02, 33, and 14 MB.
CONFIG_BYTES = 4 * 2**20
TEMPLATE_BYTES = 2**20
TOKENIZER_BYTES = 64 * 2**20
INDEX_BYTES = 32 * 2**20

JsonObject = dict[str, Any]


def read_small(path: Path, most: int, broken: type[WaymarkError]) -> bytes:
    """The bytes of `path`. Raises MissingFileError for what is no file, and `broken`."""
    name = f"{path.parent.name}/{path.name}"
    try:
        if not path.is_file():
            raise MissingFileError(f"{path.parent} has no {path.name}.")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise broken(f"{name} can't be read: {error.strerror}.") from error
    if len(data) > most:
        raise broken(f"{name} has more than {most >> 20} MiB, the most such a file may have.")
    return data


def read_object(path: Path, broken: type[WaymarkError], most: int = CONFIG_BYTES) -> JsonObject:
    """The JSON object in `path`. Raises MissingFileError, and `broken`."""
    try:
        parsed = parse_json(read_small(path, most, broken))
    except JsonTooDeepError as error:
        raise broken(f"{path.parent.name}/{path.name} can't be read: {error}.") from None
    except ValueError as error:
        raise broken(f"{path.parent.name}/{path.name} is not valid JSON.") from error
    if not isinstance(parsed, dict):
        raise broken(f"{path.parent.name}/{path.name} should hold a JSON object.")
    return parsed
