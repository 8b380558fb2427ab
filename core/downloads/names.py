"""Names of repositories and files, checked before any becomes a path or an address."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from core.api.errors import HubAnswerError, NoSuchModelError, shown

LONGEST_NAME_BYTES = 200
DEEPEST = 8
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_-])?"
_REPOSITORY = re.compile(rf"({_NAME})/({_NAME})")
# Devices of Windows, with any ending.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
# Browsers and chats shorten addresses.
_WITHOUT_SCHEME = ("huggingface.co/", "www.huggingface.co/", "hf.co/")
_FORBIDDEN = frozenset('<>:"\\|?*')


def repository_name(text: str) -> str:
    """Org/Name of a name or a repository's address, '' for any other text."""
    text = text.strip()
    if text.lower().startswith(_WITHOUT_SCHEME):
        text = f"https://{text}"
    if "://" in text:
        try:
            text = urlsplit(text).path
        except ValueError:
            return ""
    name = "/".join(text.strip("/").split("/")[:2]) if "/" in text else ""
    return name if is_repository(name) else ""


def is_repository(name: str) -> bool:
    match = _REPOSITORY.fullmatch(name)
    parts = match.groups() if match else ()
    return bool(parts) and not any(".." in part or _DEVICE.fullmatch(part) for part in parts)


def checked_repository(name: str) -> str:
    """Raises NoSuchModelError."""
    if not is_repository(name):
        raise NoSuchModelError(
            f"“{shown(name)}” is not the name of a model: it has to be Org/Name."
        )
    return name


def checked_path(path: str) -> PurePosixPath:
    """Raises HubAnswerError for a path that is unsafe on any system."""
    parts = path.split("/")
    if len(parts) > DEEPEST or not all(map(_is_safe, parts)):
        raise HubAnswerError(
            f"The model server names a file “{shown(path)}”, which is not allowed."
        )
    return PurePosixPath(*parts)


def _is_safe(part: str) -> bool:
    # Windows drops dots and spaces at the end of a name; a leading dot hides a file.
    plain = part.isprintable() and not _FORBIDDEN & set(part) and part.strip(" ") == part
    dots = part.startswith(".") or part.endswith(".")
    short = 0 < len(part.encode(errors="replace")) <= LONGEST_NAME_BYTES
    return plain and short and not dots and not _DEVICE.fullmatch(part)
