"""Opening a store's folder: what is there, what of it can be held, and what is cleared away.

What a killed process left unfinished goes, and so does whatever nobody owns or can't be restored.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from core.cache.disk.files import UNFINISHED, Files
from core.cache.disk.index import SegmentIndex
from core.cache.disk.owners import Log, OwnerLogs, Record
from core.cache.disk.segment import SegmentId, SegmentKind

OWNERS = "owners"


def open_folder(folder: Path, cap: int, logs: OwnerLogs, files: Files) -> SegmentIndex:
    """What `folder` holds, made if it is missing and cleared of the rest. Files above `cap` bytes
    are not held. Raises OSError where the folder can't be used."""
    files.make_folder(folder / OWNERS)
    _probe(folder, files)
    entries = files.list(folder)
    found = logs.read_all()
    sizes = {
        name: entry.num_bytes
        for entry in sorted(entries, key=lambda entry: entry.used)
        if (name := SegmentId.of_file(entry.name)) is not None and entry.num_bytes <= cap
    }
    index = _load({owner: log.records for owner, log in found.items()}, sizes)
    with suppress(OSError):
        sweep(folder, index, logs, files)
    _tidy(found, index, logs)
    return index


def sweep(folder: Path, index: SegmentIndex, logs: OwnerLogs, files: Files) -> None:
    """Delete our files that are not held, and what was never finished. Raises OSError."""
    logs.sweep()
    for entry in files.list(folder):
        name = SegmentId.of_file(entry.name)
        if entry.name.startswith(UNFINISHED) or (name is not None and name not in index):
            files.delete(folder / entry.name)


def in_words(folder: Path, error: OSError) -> str:
    """Why a folder can't be used, for a person."""
    return f"Contexts can't be kept in {folder}: {error.strerror or error}."


def _probe(folder: Path, files: Files) -> None:
    """Raise where nothing can be written; a full disk can still be read and deleted from."""
    try:
        files.probe(folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def _tidy(found: Mapping[str, Log], index: SegmentIndex, logs: OwnerLogs) -> None:
    """Rewrite the logs that hold anything but the records that still mean something."""
    for owner, log in found.items():
        records = index.records(owner)
        if not log.clean or len(records) != len(log.records):
            with suppress(OSError):
                logs.rewrite(owner, records)


def _load(logs: Mapping[str, Sequence[Record]], sizes: Mapping[SegmentId, int]) -> SegmentIndex:
    """What is worth holding of the files found; `sizes` in bytes, least recently used first.

    Left out is what no record names, what misses something it needs, and KV without a state.
    """
    parents = _sound_runs(logs, sizes)
    named = {record.name for records in logs.values() for record in records}
    states = [
        name
        for name in sizes
        if name in named
        and name.kind is not SegmentKind.KV
        and (name.kind is SegmentKind.EMBEDDING or name.key in parents)
    ]
    useful = _with_ancestors((n.key for n in states if n.kind is SegmentKind.STATE), parents)
    index = SegmentIndex()
    for name in [SegmentId(SegmentKind.KV, key) for key in parents if key in useful] + states:
        index.introduce(name, parents.get(name.key))
        index.hold(name, sizes[name])
    for owner, records in logs.items():
        for record in records:
            if record.name in index:
                index.record(owner, index.unrecorded(owner, record.name))
    return index


def _sound_runs(
    logs: Mapping[str, Sequence[Record]], sizes: Mapping[SegmentId, int]
) -> dict[bytes, bytes | None]:
    """The runs held from a first run on without a gap, each with its parent, parents first."""
    claimed: dict[bytes, bytes | None] = {}
    for records in logs.values():
        for record in records:
            if record.name.kind is SegmentKind.KV and record.name in sizes:
                claimed.setdefault(record.name.key, record.parent)
    children: dict[bytes | None, list[bytes]] = {}
    for key, parent in claimed.items():
        children.setdefault(parent, []).append(key)
    order = list(children.get(None, ()))
    for key in order:
        order.extend(children.get(key, ()))
    return {key: claimed[key] for key in order}


def _with_ancestors(keys: Iterable[bytes], parents: Mapping[bytes, bytes | None]) -> set[bytes]:
    found: set[bytes] = set()
    for key in keys:
        at: bytes | None = key
        while at is not None and at not in found:
            found.add(at)
            at = parents[at]
    return found
