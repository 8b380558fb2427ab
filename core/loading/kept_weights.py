"""Where quantised matrices are kept for the next load, how much of the disk they may take, and how
they are deleted.

They lie beside the contexts, in a folder of their own. What is in its files is core.weights'.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from core.api.errors import NotDeletedError
from core.api.params import ModelSettings
from core.cache.disk.files import Files
from core.cache.disk.room import DEFAULT_FLOOR, FreeSpaceFloor
from core.loading.fingerprint import quantising_conditions
from core.loading.precision import Precision
from core.loading.quantised.keeping import Keeping
from core.loading.quantised.kept_store import KeptStore
from core.loading.quantised.known_files import KnownFiles

# By default they may take this share of what is free on disk, up to a limit.
WEIGHTS_SHARE = 0.1
WEIGHTS_LIMIT = 16 * 2**30
_FOLDER = "weights"
_KNOWN = "files.json"


def open_keeping(
    settings: ModelSettings, precision: Precision, files: Files | None = None
) -> Keeping | None:
    """What a load in this precision may keep, and find; None where nothing is kept.

    What the cap has no room for any more is deleted.
    """
    if settings.cache_folder is None:
        return None
    files = files if files is not None else Files()
    store = _store(Path(settings.cache_folder), weights_budget(settings), files)
    store.trim()
    # Floats would be a plain copy of the weights.
    if precision.integers is None or settings.weights_bytes == 0:
        return None
    known = KnownFiles(store.folder / _KNOWN, files)
    return Keeping(store, known, quantising_conditions())


def weights_budget(settings: ModelSettings) -> int:
    """Bytes that quantised matrices may take on disk; 0 without a folder."""
    if settings.cache_folder is None:
        return 0
    if settings.weights_bytes is not None:
        return settings.weights_bytes
    folder = Path(settings.cache_folder).absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    # What is kept counts as free, or the cap would shrink as it fills.
    free = shutil.disk_usage(there).free + kept_bytes(settings)
    return min(WEIGHTS_LIMIT, int(free * WEIGHTS_SHARE))


def kept_bytes(settings: ModelSettings) -> int:
    """Bytes that quantised matrices take on disk now, of all models."""
    if settings.cache_folder is None:
        return 0
    try:
        return _store(Path(settings.cache_folder), 0, Files()).num_bytes
    except OSError:
        return 0


def delete_kept(cache_folder: Path, files: Files | None = None) -> None:
    """Delete all quantised matrices below `cache_folder`; loaded models don't need them.

    Raises NotDeletedError.
    """
    files = files if files is not None else Files()
    store = _store(cache_folder, 0, files)
    try:
        try:
            KnownFiles(store.folder / _KNOWN, files).forget()
        finally:
            store.delete_all()
    except OSError as error:
        words = f"Quantised weights in {store.folder} can't be deleted"
        raise NotDeletedError(f"{words}: {error.strerror or error}.") from error


def _store(cache_folder: Path, cap: int, files: Files) -> KeptStore:
    folder = cache_folder / _FOLDER
    return KeptStore(folder, cap, FreeSpaceFloor(folder, DEFAULT_FLOOR, files).excess, files)
