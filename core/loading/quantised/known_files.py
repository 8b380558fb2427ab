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
from pathlib import Path

from core.loading.quantised.kept_file import Disk
from core.weights.safetensors_file import SafetensorsFile

SETTLED_NS = 2 * 10**9
_MODELS = 64  # remembered; the longest unused is forgotten first
_MAX_BYTES = 2**24
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
    """Digests by files, in one small JSON file."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path, self._disk = path, disk
        self._part = path.with_suffix(".part")

    def digest(self, facts: Facts) -> str | None:
        """The combined SHA-256 of files with these facts, as `stream_weights` gave it."""
        for known, digest in self._read():
            if known == facts:
                return digest
        return None

    def remember(self, facts: Facts, digest: str) -> None:
        """Note what files with these facts have, which `are_settled`; where it can't be written,
        nothing happens."""
        paths = [each[0] for each in facts]
        others = [one for one in self._read() if [each[0] for each in one[0]] != paths]
        text = json.dumps([(facts, digest), *others[: _MODELS - 1]], indent=1).encode()
        with contextlib.suppress(OSError):
            self._disk.make_folder(self._path.parent)
            self._disk.delete(self._part)
            self._disk.append(self._part, 0, text, sync=False)
            self._disk.put_in_place(self._part, self._path)

    def forget(self) -> None:
        """Forget all files. Raises OSError."""
        self._disk.delete(self._part)  # where a writer died, it names the files too
        self._disk.delete(self._path)

    def _read(self) -> list[tuple[Facts, str]]:
        """What is remembered; nothing where there is nothing, or what can't be understood."""
        try:
            if self._path.stat().st_size > _MAX_BYTES:
                return []
            found = json.loads(self._path.read_bytes())
            return [(_checked_facts(facts), _checked_digest(digest)) for facts, digest in found]
        except (OSError, ValueError, TypeError, RecursionError):
            return []


def _checked_facts(found: object) -> Facts:
    """Raises ValueError for what no `facts_of` gives."""
    if not isinstance(found, list) or not found:
        raise ValueError("no files")
    for each in found:
        kinds = [type(value) for value in each] if isinstance(each, list) else []
        if kinds != [str, int, int, int, str]:
            raise ValueError("not the facts of a file")
    return found


def _checked_digest(found: object) -> str:
    if not isinstance(found, str) or len(bytes.fromhex(found)) != 32:
        raise ValueError("no digest")
    return found
