"""How much of a disk the contexts must leave to others."""

from __future__ import annotations

from pathlib import Path

from core.cache.disk.files import Files

# Other programs, and the chats themselves, must still be able to write: a full disk breaks far more
# than a cache can save. A twentieth is what file systems themselves like to keep in reserve.
DEFAULT_FLOOR = 2**30
FLOOR_SHARE = 20


class FreeSpaceFloor:
    """Keeps `floor` bytes, or a twentieth of the file system if that is more, free of contexts."""

    def __init__(self, folder: Path, floor: int, files: Files) -> None:
        self._folder = folder
        self._floor = floor
        self._files = files

    def excess(self, num_bytes: int) -> int:
        """By how many bytes writing `num_bytes` would pass the floor; not above 0 if it won't.

        Raises OSError.
        """
        space = self._files.free(self._folder)
        return num_bytes + self._bytes(space.total) - space.free

    def trouble(self, num_bytes: int) -> str | None:
        """Why `num_bytes` can't be written, for a person; None when they can. Raises OSError."""
        if self.excess(num_bytes) <= 0:
            return None
        space = self._files.free(self._folder)
        return (
            f"The disk of {self._folder} has {space.free / 2**30:.1f} GiB left; contexts are kept "
            f"there only while {self._bytes(space.total) / 2**30:.1f} GiB stay free."
        )

    def _bytes(self, total: int) -> int:
        return max(self._floor, total // FLOOR_SHARE)
