"""The requests of the window's list: who asks, how far each is, its counters and, only while the
user wants it, its texts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from core.api.chat import AssistantMessage, Conversation, Message, TextPart, ToolCall, UserMessage
from core.api.stats import RequestStats
from core.server.messages import ContentSeen, RequestSeen, RequestState

_ENTRY = "waymark.request"
_LONGEST_NAME = 80
MOST_CONTENT = 2**17
Tell = Callable[[RequestSeen | ContentSeen], None]


class Entry:
    """Tells nothing of a request that is answered without ever being `begun`."""

    def __init__(self, seen: RequestSeen, activity: Activity) -> None:
        self._seen, self._activity = seen, activity
        self._begun = self._ended = False

    @property
    def tells_content(self) -> bool:
        return self._activity.tells_content

    def begin(self) -> None:
        self._begun = True
        self._activity.tell(self._seen)

    def show(
        self, state: RequestState, stats: RequestStats | None = None, volatile: tuple[str, ...] = ()
    ) -> None:
        changes: dict[str, Any] = {"state": state, "volatile": volatile}
        if stats is not None:
            changes |= {
                "reused": stats.reused_tokens,
                "read": stats.evaluated_tokens,
                "written": stats.reply_tokens,
                "tokens_per_s": stats.decode_tokens_per_s,
                "disk_trouble": stats.disk_trouble,
            }
        seen = self._seen.model_copy(update=changes)
        if seen != self._seen:
            self._seen = seen
            self._activity.tell(seen)

    def show_content(self, asked: Conversation, said: AssistantMessage) -> None:
        if self.tells_content:
            parts = [asked.raw] if asked.raw is not None else [*_texts(asked)]
            text = _cut("\n\n".join(parts)) + "\n\n" + _cut(_text(said))
            self._activity.tell(ContentSeen(number=self._seen.number, text=text))

    def end(self, state: RequestState, status: int = 0) -> None:
        if self._ended:
            return
        self._ended = True
        if self._begun or state == "refused":
            self._seen = self._seen.model_copy(update={"state": state, "status": status})
            self._activity.tell(self._seen)


class Activity:
    def __init__(self, tell: Tell = lambda _: None) -> None:
        self.tell = tell
        self.tells_content = False
        self._numbers = itertools.count(1)

    def enter(self, scope: Any, headers: Mapping[str, str]) -> Entry:
        seen = RequestSeen(
            number=next(self._numbers),
            client=headers.get("user-agent", "")[:_LONGEST_NAME],
            path=scope["path"][:_LONGEST_NAME],
            state="waiting",
        )
        scope[_ENTRY] = entry = Entry(seen, self)
        return entry


def entry_of(scope: Any) -> Entry:
    entry = scope[_ENTRY]
    assert isinstance(entry, Entry)
    return entry


def _texts(asked: Conversation) -> Iterator[str]:
    if asked.tools:
        yield "[tools] " + ", ".join(tool.name for tool in asked.tools)
    yield from map(_text, asked.messages)


def _text(message: Message) -> str:
    words = f"[{message.role}] "
    if isinstance(message, UserMessage):
        parts = (
            each.text if isinstance(each, TextPart) else "[picture]" for each in message.content
        )
        return words + "".join(parts)
    if isinstance(message, AssistantMessage):
        thought = f"[thought] {message.reasoning}\n\n" if message.reasoning else ""
        return thought + words + message.text + "".join(map(_call, message.calls))
    return words + message.text


def _call(call: ToolCall) -> str:
    return f"\n[call] {call.name} {call.arguments}"


def _cut(text: str) -> str:
    """Keep the end, which is what is new in a chat."""
    return text if len(text) <= MOST_CONTENT else f"…{text[-MOST_CONTENT:]}"
