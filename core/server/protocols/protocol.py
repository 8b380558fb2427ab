"""The interface of a protocol: it reads a body as an `Ask` and writes the answer's events."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from core.api.chat import AssistantMessage, ToolCall
from core.api.events import AnswerToken, Counted, TokenLogprob
from core.api.model_info import ModelInfo
from core.api.stats import RequestStats
from core.server.requests.ask import Ask, Delta, Ended
from core.server.requests.content import Reader
from core.server.requests.parameters import Body
from core.server.requests.refusals import Refusal


class Writer(ABC):
    media_type = "text/event-stream"

    def __init__(self, model: str) -> None:
        self.model = model
        self.created = int(time.time())
        # The call that is being written, and how much of its arguments was sent.
        self._call_id, self._sent = "", 0

    def begin(self, stats: RequestStats | None) -> bytes:
        return b""

    def waiting(self) -> bytes:
        # A comment, which every reader of event streams skips.
        return b": waiting\n\n"

    def _unsent(self, call: ToolCall) -> tuple[bool, str]:
        """True if a call begins, and arguments not sent yet."""
        begins = call.id != self._call_id
        if begins:
            self._call_id, self._sent = call.id, 0
        new = call.arguments[self._sent :]
        self._sent += len(new)
        return begins, new

    @abstractmethod
    def more(self, delta: Delta) -> bytes: ...

    @abstractmethod
    def end(self, ended: Ended) -> bytes: ...

    @abstractmethod
    def whole(self, reply: AssistantMessage, ended: Ended) -> Body: ...

    @abstractmethod
    def broken(self, refusal: Refusal) -> bytes:
        """An error after the stream has begun."""


@dataclass(frozen=True, slots=True)
class Call:
    ask: Ask
    writer: Writer
    stream: bool


@dataclass(frozen=True, slots=True)
class Protocol:
    """`read` gets the names of client and model, and raises Refusal."""

    path: str
    read: Callable[[Body, Reader, str, str], Call]


@dataclass(frozen=True, slots=True)
class Count:
    """Counts a prompt's tokens; `tell` makes the answer's body."""

    path: str
    read: Callable[[Body, Reader, str], Ask]
    tell: Callable[[Counted, ModelInfo], Body]


def capabilities(model: ModelInfo) -> list[str]:
    asked = {
        "vision": model.vision,
        "tools": model.tools is not None,
        "thinking": model.thinking_switch,
    }
    return ["completion", *(name for name, can in asked.items() if can)]


# Some clients take these for ends of lines, and so of events.
_SEPARATORS = {ord(each): f"\\u{ord(each):04x}" for each in "\x85\u2028\u2029"}


def to_json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_SEPARATORS).encode(errors="replace")


def event(data: Any, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return b"".join((head, b"data: ", to_json(data), b"\n\n"))


def with_alternatives(tokens: Sequence[AnswerToken]) -> list[Body]:
    """Tokens and log probabilities as OpenAI's newer protocols write them."""
    return [{**_token(each), "top_logprobs": list(map(_token, each.top))} for each in tokens]


def _token(token: TokenLogprob) -> Body:
    return {"token": token_text(token), "bytes": list(token.bytes), "logprob": token.logprob}


def token_text(token: TokenLogprob) -> str:
    return token.bytes.decode(errors="replace")


def finish_reason(ended: Ended) -> str:
    if ended.complete and ended.calls:
        return "tool_calls"
    return "stop" if ended.complete else "length"


def openai_problem(refusal: Refusal) -> Body:
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    error = {
        "message": refusal.message,
        "type": kinds.get(refusal.status, kind),
        "param": refusal.field or None,
        "code": refusal.code or None,
    }
    return {"error": error}
