"""Files kept by the SHA-256 of their bytes: a picture overwritten elsewhere is a new picture here.

Knows nothing of what the bytes mean. A file appears whole or not at all, readable by its owner
only.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from core.client.regular_file import read_regular
from core.system.private_files import private_folder, sweep, sync_folder, write_whole


class BlobStore:
    """A folder of files named by digest. Putting the same bytes twice keeps one file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        private_folder(folder)

    def put(self, data: bytes) -> tuple[str, Path]:
        """Store bytes; returns (digest in hex, path). Raises OSError when the disk refuses."""
        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest)
        if not path.exists():
            private_folder(path.parent)
            write_whole(path, data)
        return digest, path

    def put_file(self, source: Path) -> tuple[str, Path]:
        """Store a file's bytes as they are now. Raises OSError or NotRegularFileError when it can't
        be read."""
        return self.put(read_regular(source))

    def path(self, digest: str) -> Path:
        """Where a digest's bytes are kept, stored or not. Raises ValueError for what is no
        digest."""
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ValueError("not a SHA-256 digest")
        return self._folder / digest[:2] / digest

    def sweep(self) -> None:
        """Delete what a killed process left half written, while nobody stores. Raises OSError."""
        for folder in self._folder.glob("??"):
            sweep(folder)

    def remove(self, digest: str) -> None:
        """Delete a file, also where the power is cut afterwards. Raises OSError."""
        path = self.path(digest)
        if path.exists():
            path.unlink(missing_ok=True)
            sync_folder(path.parent)
