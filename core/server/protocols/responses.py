"""OpenAI's `/v1/responses`, without responses that the server would have to remember."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from core.api.chat import AssistantMessage, ToolCall
from core.api.stats import RequestStats
from core.server.protocols.protocol import (
    Call,
    Protocol,
    Writer,
    event,
    with_alternatives,
)
from core.server.requests.ask import Ask, Delta, Ended
from core.server.requests.content import Reader
from core.server.requests.parameters import Body, format_of, number_of, sampling_of, thinking_of
from core.server.requests.refusals import Refusal
from core.server.requests.tools import tools_of


def read(body: Body, reader: Reader, client: str, model: str) -> Call:
    tools = tools_of(body)
    for field in ("previous_response_id", "conversation"):
        if body.get(field):
            raise Refusal("Responses are not stored; send the whole conversation.", field)
    if body.get("background"):
        raise Refusal("Responses are answered while the client waits.", "background")
    text = body.get("text")
    asked = text.get("format") if isinstance(text, dict) else None
    ask = Ask(
        reader.conversation(
            _messages(body.get("input")),
            "input",
            tools.offered,
            body.get("instructions"),
            "instructions",
        ),
        client,
        sampling_of(body),
        thinking_of(body),
        tools,
        format_of(asked, "text.format"),
        _logprobs_of(body),
        prompt_field="input",
        format_field="text.format",
    )
    return Call(ask, ResponseWriter(model), bool(body.get("stream")))


def _logprobs_of(body: Body) -> int | None:
    include, top = body.get("include"), number_of(body, "top_logprobs", 20)
    asked = isinstance(include, list) and "message.output_text.logprobs" in include
    return (top or 0) if asked else None


def _messages(items: object) -> object:
    """An input's items as messages; a thought comes before its reply."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    if not isinstance(items, list):
        return items
    messages, thought = list[Any](), ""
    for index, item in enumerate(items):
        kind = (item.get("type") or "message") if isinstance(item, dict) else "message"
        if kind == "function_call":
            calls = [{"id": item.get("call_id"), "function": item}]
            if messages and _is_reply(messages[-1]):
                messages[-1]["tool_calls"] += calls
            else:
                messages.append(_reply_item({"role": "assistant"}, thought, calls))
            thought = ""
            continue
        if kind == "function_call_output":
            called, output = item.get("call_id"), item.get("output")
            messages.append({"role": "tool", "tool_call_id": called, "content": output})
            continue
        if kind == "reasoning":
            parts = item.get("content")
            parts = parts if isinstance(parts, list) else ()
            texts = (part.get("text") for part in parts if isinstance(part, dict))
            thought = "".join(text for text in texts if isinstance(text, str))
            continue
        if kind != "message":
            raise Refusal(f"Items of type {kind!r} can't be read.", f"input.{index}.type")
        if isinstance(item, dict) and item.get("role") == "assistant":
            item = _reply_item(item, thought, [])
        messages.append(item)
        thought = ""
    return messages


def _reply_item(item: Body, thought: str, calls: list[Body]) -> Body:
    return {**({"reasoning_content": thought} if thought else {}), **item, "tool_calls": calls}


def _is_reply(message: object) -> bool:
    return isinstance(message, dict) and isinstance(message.get("tool_calls"), list)


class ResponseWriter(Writer):
    """Writes output items: a thought, then a message."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._id = f"resp_{secrets.token_hex(12)}"
        self._number = -1
        # Finished items, and the kind, id and text of the one that is open.
        self._items: list[Body] = []
        self._kind = self._item_id = self._text = ""
        self._logprobs: list[Body] = []
        self._called: ToolCall | None = None

    def begin(self, stats: RequestStats | None) -> bytes:
        created = self._event("response.created", response=self._response("in_progress"))
        return created + self.waiting()

    def waiting(self) -> bytes:
        # Codex skips comments, and gives up after five minutes without an event.
        return self._event("response.in_progress", response=self._response("in_progress"))

    def more(self, delta: Delta) -> bytes:
        said = self._add("reasoning", delta.reasoning)
        said += self._add("message", delta.answer, with_alternatives(delta.logprobs))
        return said if delta.call is None else said + self._call(delta.call, delta.whole)

    def _call(self, call: ToolCall, whole: bool) -> bytes:
        begins, new = self._unsent(call)
        told = b""
        if begins:
            told = self._close()
            self._kind, self._item_id = "call", _new_id("call")
            item = _call_item(call, self._item_id, "in_progress", "")
            told += self._event(
                "response.output_item.added", output_index=len(self._items), item=item
            )
        place = {"item_id": self._item_id, "output_index": len(self._items)}
        self._called = call
        if new:
            told += self._event(f"{_ARGUMENTS}.delta", **place, delta=new)
        if not whole:
            return told
        done = {"name": call.name, "arguments": call.arguments}
        return told + self._event(f"{_ARGUMENTS}.done", **place, **done) + self._close("completed")

    def end(self, ended: Ended) -> bytes:
        opened = b"" if self._items or self._kind else self._open("message")
        closed = self._close()
        response = self._response("completed", ended)
        return opened + closed + self._event(f"response.{response['status']}", response=response)

    def whole(self, reply: AssistantMessage, ended: Ended) -> Body:
        thought, text = reply.reasoning, reply.text
        if thought:
            self._items.append(_item("reasoning", _new_id("reasoning"), "completed", thought))
        if text or not reply.calls:
            tokens = with_alternatives(ended.logprobs or ())
            self._items.append(_item("message", _new_id("message"), "completed", text, tokens))
        self._items += [
            _call_item(call, _new_id("call"), "completed", call.arguments) for call in reply.calls
        ]
        return self._response("completed", ended)

    def broken(self, refusal: Refusal) -> bytes:
        error = {"code": refusal.code or "server_error", "message": refusal.message}
        response = {**self._response("failed"), "error": error}
        return self._event("response.failed", response=response)

    def _add(self, kind: str, text: str, logprobs: Sequence[Body] = ()) -> bytes:
        if not text:
            return b""
        begun = b"" if self._kind == kind else self._close() + self._open(kind)
        self._text += text
        self._logprobs += logprobs
        return begun + self._part_event(f"{_PARTS[kind]}.delta", logprobs, delta=text)

    def _open(self, kind: str) -> bytes:
        self._kind, self._item_id, self._text, self._logprobs = kind, _new_id(kind), "", []
        item = {**_item(kind, self._item_id, "in_progress", ""), "content": []}
        added = self._event("response.output_item.added", output_index=len(self._items), item=item)
        return added + self._part_event("content_part.added", part=_part(kind, ""))

    def _close(self, status: str = "incomplete") -> bytes:
        """`status` is that of a call."""
        if not self._kind:
            return b""
        if self._kind == "call":
            assert self._called is not None
            arguments = self._called.arguments
            return self._done(_call_item(self._called, self._item_id, status, arguments))
        tokens = self._logprobs
        part = _part(self._kind, self._text, tokens)
        done = self._part_event(f"{_PARTS[self._kind]}.done", tokens, text=self._text)
        done += self._part_event("content_part.done", part=part)
        return done + self._done(_item(self._kind, self._item_id, "completed", self._text, tokens))

    def _done(self, item: Body) -> bytes:
        index, self._kind = len(self._items), ""
        self._items.append(item)
        return self._event("response.output_item.done", output_index=index, item=item)

    def _part_event(self, kind: str, tokens: Sequence[Body] = (), **fields: object) -> bytes:
        place = {"item_id": self._item_id, "output_index": len(self._items), "content_index": 0}
        logprobs: Body = {"logprobs": tokens} if kind.startswith("output_text") else {}
        return self._event(f"response.{kind}", **place, **logprobs, **fields)

    def _event(self, kind: str, **fields: object) -> bytes:
        self._number += 1
        return event({"type": kind, "sequence_number": self._number, **fields}, kind)

    def _response(self, status: str, ended: Ended | None = None) -> Body:
        response: Body = {
            "id": self._id,
            "object": "response",
            "created_at": self.created,
            "model": self.model,
            "status": status,
            "output": self._items,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": False,
            "tool_choice": "none",
            "tools": [],
        }
        if ended is not None:
            response |= {"usage": _usage(ended), "timings": ended.timings()}
            if not ended.complete:
                reason = {"reason": "max_output_tokens"}
                response |= {"status": "incomplete", "incomplete_details": reason}
        return response


_ARGUMENTS = "response.function_call_arguments"
_PARTS = {"message": "output_text", "reasoning": "reasoning_text"}


def _new_id(kind: str) -> str:
    prefix = {"message": "msg", "call": "fc"}.get(kind, "rs")
    return f"{prefix}_{secrets.token_hex(12)}"


def _part(kind: str, text: str, logprobs: Sequence[Body] = ()) -> Body:
    part: dict[str, Any] = {"type": _PARTS[kind], "text": text}
    return {**part, "annotations": [], "logprobs": logprobs} if kind == "message" else part


def _item(kind: str, item_id: str, status: str, text: str, logprobs: Sequence[Body] = ()) -> Body:
    part = _part(kind, text, logprobs)
    item = {"type": kind, "id": item_id, "status": status, "content": [part]}
    return {**item, "role": "assistant"} if kind == "message" else {**item, "summary": []}


def _call_item(call: ToolCall, item_id: str, status: str, arguments: str) -> Body:
    return {
        "type": "function_call",
        "id": item_id,
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
        "status": status,
    }


def _usage(ended: Ended) -> Body:
    stats = ended.stats
    return {
        "input_tokens": stats.prompt_tokens,
        "input_tokens_details": {"cached_tokens": stats.reused_tokens, "cache_write_tokens": 0},
        "output_tokens": stats.reply_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": stats.prompt_tokens + stats.reply_tokens,
    }


RESPONSES = Protocol("/v1/responses", read)
