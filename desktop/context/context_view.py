"""What the Context page shows, as one value: the last request, where its context lives, the bytes.

Where things live is known only of the engine that runs now, and only of what it worked on last;
numbers of an older reply are still those of its request. Drawing and wording are left to others.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.api.events import Prepared
from core.api.model_info import ModelInfo
from core.api.stats import CacheBytes, ContextPart, HeldCheckpoint, RequestStats


@dataclass(frozen=True, slots=True)
class Strip:
    """What is drawn to scale.

    `parts` lie where their tiers say, if `known`; `asked` are the parts of the last request, by
    what became of them. With `done`, the parts from that token on are still to be read. From the
    token `differs` on the two are not the same tokens.
    """

    parts: tuple[ContextPart, ...] = ()
    asked: tuple[ContextPart, ...] = ()
    checkpoints: tuple[HeldCheckpoint, ...] = ()
    context_length: int = 0
    done: int | None = None
    known: bool = True
    differs: int | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens the context holds."""
        return self.parts[-1].end if self.parts else 0

    @property
    def num_asked(self) -> int:
        """Tokens of the last request, its reply included."""
        return self.asked[-1].end if self.asked else 0

    @classmethod
    def of_request(cls, stats: RequestStats, done: int | None = None, known: bool = True) -> Strip:
        """The context a request left behind; live while `done` says how far reading is."""
        return cls(stats.parts, stats.parts, stats.checkpoints, stats.context_length, done, known)


@dataclass(frozen=True, slots=True)
class ContextView:
    """The last request's numbers, the strip, the engine's bytes; None is not known.

    `foreign` says that the last request was another model's, whose numbers are not shown;
    `reasoned` that its reply had reasoning; `begun` that the chat has messages. `disk_trouble` is
    why contexts can't be kept on disk.
    """

    stats: RequestStats | None = None
    done: int | None = None
    strip: Strip = Strip()
    bytes: CacheBytes | None = None
    model: ModelInfo | None = None
    foreign: bool = False
    reasoned: bool = False
    begun: bool = False
    disk_trouble: str = ""


def prepared_strip(event: Prepared, stats: RequestStats | None, context_length: int) -> Strip:
    """The context after idle work; below it, what the last request (if any) had to read."""
    asked = stats.parts if stats else ()
    differs = _reply_start(event, stats) if stats else None
    return Strip(event.parts, asked, event.checkpoints, context_length, differs=differs)


def _reply_start(event: Prepared, stats: RequestStats) -> int | None:
    """Where the last request's reply begins; from there on it is not kept as it was written.

    A request ends with a user's message, or with the beginning of the reply it goes on with: then
    the number of its messages is even.
    """
    count = len(stats.message_starts)
    place = count - 1 + count % 2
    return event.message_starts[place] if 0 < place < len(event.message_starts) else None
