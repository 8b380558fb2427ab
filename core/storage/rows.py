"""The rows of an index: which blob needs which, who owns them, and which is deleted first.
Functions work inside a transaction.

A blob is held only while those it needs are; a lasting one while it has an owner, another while a
blob needs it or it ends the chain that is being written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from core.storage.index import Index

# The owner of blobs that belong to no chat; they are deleted only with everything else.
NOBODY = ""
# The pool of quantised weights, and its owner: deleting all chats keeps them.
WEIGHTS = "weights"
# The pool of mapped weights, which have the same owner.
TILES = "tiles"
Place = tuple[str, str]  # pool and name
NOWHERE: Place = ("", "")

NAMED = "pool = ? AND name = ?"
_ID = f"SELECT id FROM blobs WHERE {NAMED}"
_OWN = f"INSERT OR IGNORE INTO owners SELECT ?, id FROM blobs WHERE {NAMED}"
_STRIKE = f"""DELETE FROM owners WHERE (owner = ?1 OR ?1 IS NULL AND owner != '{WEIGHTS}')
    AND blob IN (SELECT id FROM blobs WHERE pool = coalesce(?2, pool)) RETURNING blob"""
_OWNED = f"SELECT 1 FROM blobs JOIN owners ON blob = id WHERE {NAMED}"
_UNOWNED = "SELECT 1 FROM blobs WHERE id = ? AND NOT EXISTS (SELECT 1 FROM owners WHERE blob = id)"
_NEEDING = "SELECT 1 FROM needs WHERE needed = ? LIMIT 1"
_NEEDED = "SELECT needed FROM needs WHERE blob = ?"
_REMOVE = "DELETE FROM blobs WHERE id = ? RETURNING pool, name, num_bytes"
_ABOVE = """WITH RECURSIVE above(id) AS (
    SELECT value FROM json_each(?) UNION SELECT needed FROM needs JOIN above ON blob = id
) SELECT id FROM above"""
# Left by a write that failed after its eviction.
_USELESS = """SELECT id FROM blobs AS leaf WHERE NOT lasting
    AND NOT EXISTS (SELECT 1 FROM needs WHERE needed = leaf.id)
    AND NOT EXISTS (SELECT 1 FROM owners WHERE blob = leaf.id)"""
_BELOW = """WITH RECURSIVE below(id) AS (
    SELECT ? UNION SELECT blob FROM needs JOIN below ON needed = id
)"""
_NEEDED_THERE = f"{_BELOW} SELECT DISTINCT needed FROM needs JOIN below ON blob = id"
_DROP = f"DELETE FROM blobs WHERE id IN ({_BELOW} SELECT id FROM below) RETURNING pool, name"
_COLLECT = """DELETE FROM blobs WHERE id NOT IN (
    WITH RECURSIVE kept(id) AS (
        SELECT id FROM blobs JOIN owners ON blob = id WHERE lasting
        UNION SELECT needed FROM needs JOIN kept ON blob = id
    ) SELECT id FROM kept
)"""
# Blobs that nothing needs, in the order of eviction.
_LEAVES = """SELECT id, lasting FROM blobs AS leaf WHERE pool = ?
    AND NOT EXISTS (SELECT 1 FROM needs WHERE needed = leaf.id) ORDER BY lasting, used"""


@dataclass(frozen=True, slots=True)
class Blob:
    pool: str
    name: str
    num_bytes: int
    needs: tuple[str, ...] = ()
    lasting: bool = True
    owners: Collection[str] = (NOBODY,)


def insert(index: Index, blob: Blob, used: int) -> int:
    """Replaces a blob of the same name and returns its bytes; what it needs must be held."""
    needed = [index.ask(_ID, blob.pool, name) for name in blob.needs]
    old = index.ask(f"DELETE FROM blobs WHERE {NAMED} RETURNING num_bytes", blob.pool, blob.name)
    facts = blob.pool, blob.name, int(blob.lasting), blob.num_bytes, used
    ((new,),) = index.ask("INSERT INTO blobs VALUES (NULL, ?, ?, ?, ?, ?) RETURNING id", *facts)
    for ((at,),) in needed:
        index.ask("INSERT INTO needs VALUES (?, ?)", new, at)
    for owner in blob.owners:
        own(index, owner, (blob.pool, blob.name))
    return sum(num_bytes for (num_bytes,) in old)


def own(index: Index, owner: str, place: Place) -> None:
    index.ask(_OWN, owner, *place)


def above(index: Index, places: Iterable[Place]) -> set[int]:
    # One query: the chains of a checkpoint's windows are the same up to their ends.
    ids = [at for place in places for (at,) in index.ask(_ID, *place)]
    return {at for (at,) in index.ask(_ABOVE, json.dumps(ids))}


def strike(index: Index, owner: str | None, pool: str | None, newest: Place) -> list[Place]:
    """Remove an owner and blobs without any; `newest` ends the chain that is written."""
    gone: list[Place] = []
    struck = index.ask(_STRIKE, owner, pool)
    keep = above(index, [newest]) if index.ask(_OWNED, *newest) else ()
    for (at,) in struck:
        if index.ask(_UNOWNED, at):
            _release(index, [at], keep, gone)
    _release(index, [at for (at,) in index.ask(_USELESS)], keep, gone)
    return gone


def evict(
    index: Index, pool: str, num_bytes: int, keep: Collection[int]
) -> tuple[int, list[Place]]:
    """Delete blobs for so many bytes, none in `keep`: first those that no lasting blob needs, then
    the least recently used, with what only they need. Returns the freed bytes, too."""
    gone: list[Place] = []
    freed = 0
    for at, lasting in index.ask(_LEAVES, pool):
        if freed >= num_bytes and lasting:
            break
        freed += _release(index, [at], keep, gone)
    return freed, gone


def lose(index: Index, place: Place, keep: Collection[int]) -> list[Place]:
    gone: list[Place] = []
    for (at,) in index.ask(_ID, *place):
        needed = [at for (at,) in index.ask(_NEEDED_THERE, at)]
        gone += index.ask(_DROP, at)
        _release(index, needed, keep, gone)
    return gone


def keep_only(index: Index, there: Collection[Place]) -> None:
    for at, pool, name in index.ask("SELECT id, pool, name FROM blobs"):
        if (pool, name) not in there:
            index.ask(_DROP, at)
    index.ask(_COLLECT)


def _release(index: Index, ids: Iterable[int], keep: Collection[int], gone: list[Place]) -> int:
    """Delete those that nothing needs, and what only they need; returns the freed bytes."""
    freed, left = 0, list(ids)
    while left:
        at = left.pop()
        if at in keep or index.ask(_NEEDING, at):
            continue
        needed = index.ask(_NEEDED, at)
        for pool, name, num_bytes in index.ask(_REMOVE, at):
            gone.append((pool, name))
            freed += num_bytes
        left += (each for (each,) in needed)
    return freed
