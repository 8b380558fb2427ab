"""Which requests there are, for the window's list: who asks, how far it is, and its counters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from core.api.stats import RequestStats
from core.server.messages import RequestSeen, RequestState

_ENTRY = "waymark.request"
_LONGEST_NAME = 80


class Entry:
    """Nothing is told of a request that is answered without ever being `begun`."""

    def __init__(self, seen: RequestSeen, tell: Callable[[RequestSeen], None]) -> None:
        self._seen, self._tell = seen, tell
        self._begun = self._ended = False

    def begin(self) -> None:
        self._begun = True
        self._tell(self._seen)

    def show(
        self,
        state: RequestState,
        stats: RequestStats | None = None,
        volatile: tuple[str, ...] = (),
    ) -> None:
        changes: dict[str, Any] = {"state": state, "volatile": volatile}
        if stats is not None:
            changes |= {
                "reused": stats.reused_tokens,
                "read": stats.evaluated_tokens,
                "written": stats.reply_tokens,
                "tokens_per_s": stats.decode_tokens_per_s,
            }
        seen = self._seen.model_copy(update=changes)
        if seen != self._seen:
            self._seen = seen
            self._tell(seen)

    def end(self, state: RequestState, status: int = 0) -> None:
        if self._ended:
            return
        self._ended = True
        if self._begun or state == "refused":
            self._seen = self._seen.model_copy(update={"state": state, "status": status})
            self._tell(self._seen)


class Activity:
    def __init__(self, tell: Callable[[RequestSeen], None] = lambda _: None) -> None:
        self._tell = tell
        self._numbers = itertools.count(1)

    def enter(self, scope: Any, headers: Mapping[str, str]) -> Entry:
        """`entry_of` finds it from then on."""
        seen = RequestSeen(
            number=next(self._numbers),
            client=headers.get("user-agent", "")[:_LONGEST_NAME],
            path=scope["path"][:_LONGEST_NAME],
            state="waiting",
        )
        entry: Entry = Entry(seen, self._tell)
        scope[_ENTRY] = entry
        return entry


def entry_of(scope: Any) -> Entry:
    entry = scope[_ENTRY]
    assert isinstance(entry, Entry)
    return entry
