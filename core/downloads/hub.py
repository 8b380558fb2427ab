"""The hub's metadata, of which only what is needed and valid is kept.

Repositories that Waymark can't run are left out of searches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from core.api.errors import HubAnswerError
from core.downloads.choices import runs
from core.downloads.connection import Hub
from core.downloads.messages import RemoteFile, Repository
from core.downloads.names import checked_repository, is_repository

FOUND_AT_ONCE = 100
MOST_FILES = 20_000
LONGEST_SEARCH = 200

_OTHERS = frozenset({"mlx", "bitsandbytes", "openvino", "onnx", "peft", "exl2", "exl3"})
_EXPANDED = ["config", "downloads", "gated", "gguf", "safetensors", "tags"]
_SHA256, _SHA1 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")


async def search(hub: Hub, text: str) -> tuple[Repository, ...]:
    """Repositories that Waymark runs, the most downloaded first. Raises as `Hub.json`."""
    query: dict[str, str | list[str]] = {
        "search": text.strip()[:LONGEST_SEARCH],
        "sort": "downloads",
        "direction": "-1",
        "limit": str(FOUND_AT_ONCE),
        "expand[]": _EXPANDED,
    }
    answer = await hub.json("/api/models", query)
    if not isinstance(answer, list):
        raise HubAnswerError("The answer should be a list of models.")
    readable = (each for each in answer[:FOUND_AT_ONCE] if not _is_for_others(each))
    found = (_repository(each) for each in readable)
    return tuple(each for each in found if each is not None and runs(each.family))


async def look(hub: Hub, name: str) -> Repository:
    """A repository with the files of its newest commit. Raises as `Hub.json`."""
    address = f"/api/models/{checked_repository(name)}/revision/main"
    answer = await hub.json(address, {"blobs": "true"})
    fields = _object(answer)
    found, commit = _repository({**fields, "id": name}), fields.get("sha")
    if found is None or not isinstance(commit, str) or not _SHA1.fullmatch(commit):
        raise HubAnswerError("The answer doesn't describe a model.")
    files = _objects(fields.get("siblings"))[:MOST_FILES]
    listed = tuple(each for each in map(_file, files) if each is not None)
    return found.model_copy(update={"commit": commit, "files": listed})


def _is_for_others(answer: object) -> bool:
    """True for weights in a format of another program, by the tags of the repository."""
    tags = answer.get("tags") if isinstance(answer, dict) else None
    return isinstance(tags, list) and any(tag in _OTHERS for tag in tags if isinstance(tag, str))


def _repository(answer: object) -> Repository | None:
    if not isinstance(answer, dict):
        return None
    name = answer.get("id")
    if not isinstance(name, str) or not is_repository(name):
        return None
    config, gguf = _object(answer.get("config")), _object(answer.get("gguf"))
    parameters = gguf.get("total") or _object(answer.get("safetensors")).get("total")
    try:
        return Repository(
            name=name,
            family=_text(gguf.get("architecture")) or _text(config.get("model_type")),
            parameters=_count(parameters),
            downloads=_count(answer.get("downloads")),
            gated=bool(answer.get("gated")),
            licence=_licence(answer),
        )
    except ValidationError:
        return None


def _file(entry: Mapping[str, Any]) -> RemoteFile | None:
    """A file with size and digest; None for an entry that lacks either."""
    path, lfs = entry.get("rfilename"), _object(entry.get("lfs"))
    size = lfs.get("size", entry.get("size"))
    sha256, blob = _text(lfs.get("sha256")), _text(entry.get("blobId"))
    if not isinstance(path, str) or not isinstance(size, int) or not 0 <= size < 2**63:
        return None
    if _SHA256.fullmatch(sha256):
        return RemoteFile(path=path, size=size, sha256=sha256)
    # The blob of a large file is its pointer.
    if _SHA1.fullmatch(blob) and not lfs:
        return RemoteFile(path=path, size=size, git_blob=blob)
    return None


def _licence(answer: Mapping[str, Any]) -> str:
    tags = answer.get("tags")
    named = (tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
    found = (tag.removeprefix("license:") for tag in named if tag.startswith("license:"))
    return next(found, "") or _text(_object(answer.get("cardData")).get("license"))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    entries: Iterable[object] = value if isinstance(value, list) else ()
    return [each for each in entries if isinstance(each, dict)]


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**63 else 0
