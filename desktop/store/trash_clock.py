"""The time by which the trash counts its days: a moment that was seen a day of the clock ago.

A clock may jump ahead, by an empty battery or by hand, and would empty the trash at once. So a
moment counts only when a later look, at least a day after it, has confirmed it. Chats stay up to
two days longer than they would, and longer still where Waymark was not started for a while.
"""

from __future__ import annotations

import json
from pathlib import Path

from core.system.private_files import write_whole

CONFIRMED_AFTER_S = 86_400.0
NAME = "trash-clock.json"


def confirmed(path: Path, now: float) -> float | None:
    """The latest moment that a later look has confirmed, if there is one (seconds since the epoch).

    `now` is the clock's time, which is kept in the file for later looks. Raises OSError.
    """
    seen, trusted = _read(path)
    if trusted is not None and trusted > now:
        trusted = None  # the clock was ahead then
    if seen is None or seen > now:
        seen = now
    elif now - seen >= CONFIRMED_AFTER_S:
        seen, trusted = now, seen
    if (seen, trusted) != _read(path):
        write_whole(path, json.dumps({"seen": seen, "confirmed": trusted}).encode())
    return trusted


def _read(path: Path) -> tuple[float | None, float | None]:
    """The stored moments; none if the file is missing or damaged."""
    try:
        kept = json.loads(path.read_bytes())
        seen, trusted = kept["seen"], kept["confirmed"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None, None
    return (
        seen if isinstance(seen, int | float) else None,
        trusted if isinstance(trusted, int | float) else None,
    )
