"""Deleting what a chat used on disk of every model, loaded or not."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

from core.api.errors import NotDeletedError
from core.cache.disk.files import Files
from core.cache.disk.opening import OWNERS, in_words
from core.cache.disk.store import SegmentStore

_FOLDER_NAME = re.compile(r"[0-9a-f]{64}")


def forget_everywhere(
    cache_folder: Path,
    owner: str | None,
    loaded: SegmentStore | None = None,
    files: Files | None = None,
) -> None:
    """Delete what only `owner` used (None: all) of every model below `cache_folder`.

    The store in use, `loaded`, is left out: it has to forget by itself. Raises NotDeletedError, but
    only after every model has been tried.
    """
    files = files if files is not None else Files()
    failed: NotDeletedError | None = None
    try:
        names = files.folders(cache_folder)
    except OSError as error:
        raise NotDeletedError(in_words(cache_folder, error)) from error
    for name in filter(_FOLDER_NAME.fullmatch, names):
        folder = cache_folder / name
        if loaded is not None and folder.absolute() == loaded.folder.absolute():
            continue
        try:
            SegmentStore(folder, bytes.fromhex(name), sys.maxsize, files=files).forget(owner)
        except NotDeletedError as error:
            failed = error
        if owner is None:
            with suppress(OSError):  # something that isn't ours is in there
                files.delete_folder(folder / OWNERS)
                files.delete_folder(folder)
    if failed is not None:
        raise failed
