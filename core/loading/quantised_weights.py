"""How much of the disk quantised matrices may take, and how they are deleted.

They lie beside the contexts, in a pool of their own. What is in a file is core.loading.quantised's.
"""

from __future__ import annotations

import shutil

from core.api.errors import NotDeletedError
from core.api.params import ModelSettings
from core.loading.fingerprint import quantising_conditions
from core.loading.precision import Precision
from core.loading.quantised.keeping import Keeping
from core.loading.quantised.known_files import KnownFiles
from core.loading.quantised.store import QuantisedStore
from core.storage.rows import WEIGHTS
from core.storage.store import DiskStore

# By default they may take this share of what is free on disk, up to a limit.
WEIGHTS_SHARE = 0.1
WEIGHTS_LIMIT = 16 * 2**30


def open_keeping(
    settings: ModelSettings, precision: Precision, blobs: DiskStore | None
) -> Keeping | None:
    """What a load in this precision may keep, and find; None where nothing is kept.

    What the cap has no room for any more is deleted.
    """
    if blobs is None:
        return None
    store = QuantisedStore(blobs, weights_budget(settings, blobs))
    store.trim()
    # Floats would be a plain copy of the weights.
    if precision.integers is None or settings.weights_bytes == 0:
        return None
    return Keeping(store, KnownFiles(blobs), quantising_conditions())


def weights_budget(settings: ModelSettings, blobs: DiskStore | None) -> int:
    """Bytes that quantised matrices may take on disk; 0 without a folder."""
    if blobs is None:
        return 0
    if settings.weights_bytes is not None:
        return settings.weights_bytes
    folder = blobs.folder.absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    # What is kept counts as free, or the cap would shrink as it fills.
    free = shutil.disk_usage(there).free + kept_bytes(blobs)
    return min(WEIGHTS_LIMIT, int(free * WEIGHTS_SHARE))


def kept_bytes(blobs: DiskStore | None) -> int:
    """Bytes that quantised matrices take on disk now, of all models."""
    return blobs.num_bytes(WEIGHTS) if blobs is not None else 0


def delete_quantised(blobs: DiskStore) -> None:
    """Delete all quantised matrices; loaded models don't need them. Raises NotDeletedError."""
    try:
        try:
            KnownFiles(blobs).forget()
        finally:
            QuantisedStore(blobs, 0).delete_all()
    except OSError as error:
        words = f"Quantised weights in {blobs.folder} can't be deleted"
        raise NotDeletedError(f"{words}: {error.strerror or error}.") from error
