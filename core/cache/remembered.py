"""What was read, also after it had to make room: the keys of runs, with the chats that read them.

So "read again" can be told from "read". A key is a digest, but whoever has the text can ask whether
it was read here: a key is forgotten with the last chat that read it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

# 65,536 runs of 512 tokens are far more conversation than anyone reads in a sitting; about 10 MB.
REMEMBERED_KEYS = 65_536


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of a run: who read it, and whether a checkpoint was ever held at its end."""

    owners: frozenset[str] = frozenset()
    had_checkpoint: bool = False


class Remembered:
    """The newest REMEMBERED_KEYS keys."""

    def __init__(self) -> None:
        self._runs: OrderedDict[bytes, Past] = OrderedDict()
        self._shared: dict[Past, Past] = {}  # a chat's runs have one past in common

    def __contains__(self, key: bytes) -> bool:
        return key in self._runs

    def past(self, key: bytes) -> Past:
        return self._runs.get(key, Past())

    def knows(self, owner: str) -> bool:
        """Whether a chat has read anything here."""
        return any(owner in past.owners for past in self._shared)

    def note(self, key: bytes, owner: str | None = None, had_checkpoint: bool = False) -> None:
        """A run was read or restored, perhaps by `owner`, and is the newest of all."""
        past = self.past(key)
        if owner is not None and owner not in past.owners:
            past = replace(past, owners=past.owners | {owner})
        if had_checkpoint and not past.had_checkpoint:
            past = replace(past, had_checkpoint=True)
        self._runs[key] = self._shared.setdefault(past, past)
        self._runs.move_to_end(key)
        if len(self._runs) > REMEMBERED_KEYS:
            self._runs.popitem(last=False)

    def forget(self, owner: str) -> None:
        """Strike a chat from everything, and drop the keys that no other has read."""
        self._shared.clear()
        for key, past in list(self._runs.items()):
            left = replace(past, owners=past.owners - {owner})
            if left.owners:
                self._runs[key] = self._shared.setdefault(left, left)
            else:
                del self._runs[key]

    def clear(self) -> None:
        self._runs.clear()
        self._shared.clear()
