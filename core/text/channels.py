"""Replies of several messages, as gpt-oss writes them: Harmony (OpenAI 2025, arXiv:2508.10925).

A header, from <|start|> or <|channel|> to <|message|>, names a message's channel, and the function
if it calls one. The prompt ends within the first header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from core.text.added_tokens import AddedTokens

START, CHANNEL, MESSAGE, END = "<|start|>", "<|channel|>", "<|message|>", "<|end|>"
# A reply ends with the first, and with the second if it waits for a function's result.
RETURN, CALL = "<|return|>", "<|call|>"
THOUGHT, ANSWER = "analysis", "final"
ROLE = "assistant"
_FUNCTION = re.compile(r"\bto=functions\.(\S+)")
_RECIPIENT = " to="
_LONGEST = 64  # ids of a header; what is longer is none

Kind = Literal["thought", "answer", "call"]


@dataclass(frozen=True, slots=True)
class Channels:
    """The ids of Harmony's tokens; `ends` end a reply."""

    start: int
    channel: int
    message: int
    end: int
    ends: frozenset[int]

    @classmethod
    def find(cls, added: AddedTokens, template: str) -> Channels | None:
        if not all(spelling in template for spelling in (START, CHANNEL, MESSAGE, END)):
            return None
        start, channel, message, end = map(added.id_of, (START, CHANNEL, MESSAGE, END))
        if start is None or channel is None or message is None or end is None:
            return None
        ends = (added.id_of(spelling) for spelling in (RETURN, CALL))
        return cls(start, channel, message, end, frozenset(each for each in ends if each))


class MessageReader:
    """`kind` is that of the current message, None in a header; `function` is the one that it
    calls."""

    def __init__(self, channels: Channels, decode: Callable[[Sequence[int]], str]) -> None:
        self._channels, self._decode = channels, decode
        self._header: list[int] = []
        self._only_text = True
        self.kind: Kind | None = None
        self.function = ""

    def push(self, token_id: int) -> tuple[int, ...]:
        """The ids now known to be a message's text: often this one, or none."""
        channels = self._channels
        if token_id in (channels.start, channels.end):
            self.kind, self._header, self._only_text = None, [], False
            return ()
        if token_id == channels.channel and self.kind is not None:
            self.kind, self._header = None, []
        if self.kind is not None:
            return (token_id,)
        if token_id == channels.message:
            self._begin()
            return ()
        self._header.append(token_id)
        self._only_text = self._only_text and token_id != channels.channel
        if not self._only_text and len(self._header) <= _LONGEST:
            return ()
        text = self._decode(self._header)
        if self._only_text and (text.startswith(_RECIPIENT) or _RECIPIENT.startswith(text)):
            return ()
        found, self._header, self.kind = tuple(self._header), [], "answer"
        return found

    def close(self) -> tuple[int, ...]:
        return tuple(self._header) if self._only_text else ()

    def _begin(self) -> None:
        channel = self._channels.channel
        at = self._header.index(channel) if channel in self._header else len(self._header)
        role, rest = self._decode(self._header[:at]), self._decode(self._header[at:])
        called = _FUNCTION.search(f"{role} {rest}")
        self._header, self._only_text = [], False
        self.function = called[1] if called else ""
        thinks = rest.split()[:1] == [THOUGHT]
        self.kind = "call" if called else "thought" if thinks else "answer"
