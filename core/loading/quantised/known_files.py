"""The digests of weights files that were read before, so that they need not be read again.

A file is taken for the one that was digested while its path, size, header and both of its times are
the same: the time of writing can be set by anyone, that of the last change can't (on Windows, where
that of the making stands for it, both can). What was written less than `SETTLED_NS` before it was
read should not be remembered: file systems count time in steps of up to two seconds, and a second
writing within one step would not be seen.
"""

from __future__ import annotations

import contextlib
import json

from core.api.json_text import parse_json
from core.storage.store import DiskStore
from core.weights.safetensors_file import SafetensorsFile

SETTLED_NS = 2 * 10**9
_KIND = "weights files"
Facts = list[list[str | int]]


def facts_of(files: tuple[SafetensorsFile, ...]) -> Facts:
    """What tells these files from others without reading them. Raises OSError."""
    facts: Facts = []
    for file in files:
        path = file.path.resolve()
        now = path.stat()
        times = now.st_mtime_ns, now.st_ctime_ns
        facts.append([str(path), now.st_size, *times, file.header_digest.hex()])
    return facts


def are_settled(facts: Facts, now: int) -> bool:
    """Whether a writing to files with these facts after `now`, in nanoseconds since the epoch,
    would show. False for no files."""
    return bool(facts) and now - max(int(each[2]) for each in facts) >= SETTLED_NS


class KnownFiles:
    """Digests by files, as notes in the store on disk."""

    def __init__(self, blobs: DiskStore) -> None:
        self._blobs = blobs

    def digest(self, facts: Facts) -> str | None:
        """The combined SHA-256 of files with these facts, as `stream_weights` gave it."""
        noted = self._blobs.note(_KIND, _paths(facts))
        try:
            known, digest = parse_json(noted) if noted is not None else (None, "")
            # The store does not notice a flipped bit in a note.
            return digest if known == facts and len(bytes.fromhex(digest)) == 32 else None
        except (ValueError, TypeError):
            return None

    def remember(self, facts: Facts, digest: str) -> None:
        """Note what files with these facts have, which `are_settled`; where it can't be written,
        nothing happens."""
        with contextlib.suppress(OSError):
            self._blobs.write_note(_KIND, _paths(facts), json.dumps([facts, digest]))

    def forget(self) -> None:
        """Forget all files. Raises OSError."""
        self._blobs.delete_notes(_KIND)


def _paths(facts: Facts) -> str:
    return json.dumps([each[0] for each in facts])
