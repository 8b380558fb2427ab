"""Anthropic's `/v1/messages` and `/v1/messages/count_tokens`."""

from __future__ import annotations

import json
import secrets

from core.api.chat import AssistantMessage, ToolCall
from core.api.params import Thinking
from core.api.stats import RequestStats
from core.server.protocols.protocol import Call, Count, Protocol, Writer, event
from core.server.requests.ask import Ask, Delta, Ended
from core.server.requests.content import Reader
from core.server.requests.parameters import Body, effort_of, format_of, sampling_of
from core.server.requests.refusals import Refusal
from core.server.requests.tools import tools_of

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def problem(refusal: Refusal) -> Body:
    words = f"{refusal.field}: {refusal.message}" if refusal.field else refusal.message
    kind = _KINDS.get(refusal.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": words}}


def read(body: Body, reader: Reader, client: str, model: str) -> Call:
    return Call(read_ask(body, reader, client), MessageWriter(model), bool(body.get("stream")))


def read_ask(body: Body, reader: Reader, client: str) -> Ask:
    tools = tools_of(body)
    # The newer of two places for a format.
    config = body.get("output_config")
    asked, field = body.get("output_format"), "output_format"
    if isinstance(config, dict) and config.get("format") is not None:
        asked, field = config["format"], "output_config.format"
    return Ask(
        reader.conversation(body.get("messages"), tools=tools.offered, system=body.get("system")),
        client,
        sampling_of(body),
        _thinking(body),
        tools,
        format_of(asked, field),
        format_field=field,
    )


def _thinking(body: Body) -> Thinking:
    thinking, config = body.get("thinking"), body.get("output_config")
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in ("enabled", "adaptive"):
        return False if kind == "disabled" else None
    return effort_of(config.get("effort")) or True if isinstance(config, dict) else True


def _usage(stats: RequestStats) -> Body:
    """The input is only what was not cached."""
    return {
        "input_tokens": stats.prompt_tokens - stats.reused_tokens,
        "cache_read_input_tokens": stats.reused_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": stats.reply_tokens,
    }


def _stop_reason(ended: Ended) -> str:
    if ended.complete and ended.calls:
        return "tool_use"
    if ended.stop:
        return "stop_sequence"
    return "end_turn" if ended.complete else "max_tokens"


class MessageWriter(Writer):
    """Writes content blocks: a thought, then the answer."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._id = f"msg_{secrets.token_hex(12)}"
        self._open = ""
        self._index = -1

    def begin(self, stats: RequestStats | None) -> bytes:
        message = self._message([], None, _usage(stats or RequestStats()))
        return self._event("message_start", message=message) + self.waiting()

    def waiting(self) -> bytes:
        return event({"type": "ping"}, "ping")

    def more(self, delta: Delta) -> bytes:
        parts = list[bytes]()
        for kind, field, text in (
            ("thinking", "thinking", delta.reasoning),
            ("text", "text", delta.answer),
        ):
            if not text:
                continue
            if self._open != kind:
                parts.append(self._close() + self._begin_block(kind))
            piece = {"type": f"{kind}_delta", field: text}
            parts.append(self._event("content_block_delta", index=self._index, delta=piece))
        if delta.call is not None:
            parts.append(self._call(delta.call, delta.whole))
        return b"".join(parts)

    def _call(self, call: ToolCall, whole: bool) -> bytes:
        begins, new = self._unsent(call)
        said = b""
        if begins:
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            said = self._close() + self._begin_block("tool_use", block)
        if new:
            piece = {"type": "input_json_delta", "partial_json": new}
            said += self._event("content_block_delta", index=self._index, delta=piece)
        return said + self._close() if whole else said

    def end(self, ended: Ended) -> bytes:
        # A message has at least one block.
        opened = b"" if self._index >= 0 else self._begin_block("text")
        last = self._event(
            "message_delta",
            delta={"stop_reason": _stop_reason(ended), "stop_sequence": ended.stop or None},
            usage=_usage(ended.stats),
            timings=ended.timings(),
        )
        return opened + self._close() + last + self._event("message_stop")

    def whole(self, reply: AssistantMessage, ended: Ended) -> Body:
        blocks = list[Body]()
        if reply.reasoning:
            blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": ""})
        if reply.text or not reply.calls:
            blocks.append({"type": "text", "text": reply.text})
        for call in reply.calls:
            given = json.loads(call.arguments)
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
        message = self._message(blocks, _stop_reason(ended), _usage(ended.stats))
        message["stop_sequence"] = ended.stop or None
        return {**message, "timings": ended.timings()}

    def broken(self, refusal: Refusal) -> bytes:
        return event(problem(refusal), "error")

    def _begin_block(self, kind: str, block: Body | None = None) -> bytes:
        self._open = kind
        self._index += 1
        block = block or {"type": kind, kind: ""}
        if kind == "thinking":
            block["signature"] = ""
        return self._event("content_block_start", index=self._index, content_block=block)

    def _close(self) -> bytes:
        if not self._open:
            return b""
        self._open = ""
        return self._event("content_block_stop", index=self._index)

    def _message(self, blocks: list[Body], reason: str | None, usage: Body) -> Body:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": blocks,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": usage,
        }

    def _event(self, kind: str, **fields: object) -> bytes:
        return event({"type": kind, **fields}, kind)


MESSAGES = Protocol("/v1/messages", read)
COUNT_TOKENS = Count(
    "/v1/messages/count_tokens",
    read_ask,
    lambda counted, _: {"input_tokens": counted.tokens},
)
