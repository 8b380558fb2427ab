"""OpenAI's `/v1/chat/completions`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from core.api.chat import ToolCall
from core.server.protocols.protocol import (
    DONE,
    Call,
    Protocol,
    Writer,
    event,
    finish_reason,
    openai_problem,
    openai_usage,
    refuse_unsupported,
    wants_usage,
)
from core.server.requests.ask import Ask, Delta, Ended
from core.server.requests.content import Reader
from core.server.requests.parameters import Body, format_of, sampling_of, thinking_of
from core.server.requests.refusals import Refusal
from core.server.requests.tools import tools_of


def read(body: Body, reader: Reader, client: str, model: str) -> Call:
    refuse_unsupported(body)
    tools = tools_of(body)
    ask = Ask(
        reader.conversation(body.get("messages"), tools=tools.offered),
        client,
        sampling_of(body),
        thinking_of(body),
        tools,
        format_of(body.get("response_format"), "response_format"),
    )
    return Call(ask, ChatWriter(model, wants_usage(body)), bool(body.get("stream")))


class ChatWriter(Writer):
    def __init__(self, model: str, usage: bool) -> None:
        super().__init__(model)
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._usage = usage
        self._num_calls = 0

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def more(self, delta: Delta) -> bytes:
        if delta.call is not None:
            return self._call(delta.call)
        fields = {"reasoning_content": delta.reasoning, "content": delta.answer}
        return self._chunk({name: text for name, text in fields.items() if text})

    def _call(self, call: ToolCall) -> bytes:
        """The first delta of a call names it, the next ones have its arguments."""
        begins, new = self._unsent(call)
        said = b""
        if begins:
            self._num_calls += 1
            function = {"name": call.name, "arguments": ""}
            named = {"index": self._num_calls - 1, **_written(call), "function": function}
            said = self._chunk({"tool_calls": [named]})
        if new:
            more = {"index": self._num_calls - 1, "function": {"arguments": new}}
            said += self._chunk({"tool_calls": [more]})
        return said

    def end(self, ended: Ended) -> bytes:
        last = self._chunk({}, finish_reason(ended), timings=ended.timings())
        if self._usage:
            body = self._body("chat.completion.chunk", [])
            last += event({**body, "usage": openai_usage(ended), "timings": ended.timings()})
        return last + DONE

    def whole(
        self, text: str, reasoning: str, ended: Ended, calls: Sequence[ToolCall] = ()
    ) -> Body:
        message: Body = {"role": "assistant", "content": text, "refusal": None}
        if calls:
            message["content"] = text or None
            message["tool_calls"] = list(map(_written, calls))
        if reasoning:
            message["reasoning_content"] = reasoning
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": finish_reason(ended),
        }
        body = self._body("chat.completion", [choice])
        return {**body, "usage": openai_usage(ended), "timings": ended.timings()}

    def broken(self, refusal: Refusal) -> bytes:
        return event(openai_problem(refusal))

    def _chunk(self, delta: Body, reason: str | None = None, **more: object) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return event({**self._body("chat.completion.chunk", [choice]), **more})

    def _body(self, kind: str, choices: list[Body]) -> Body:
        return {
            "id": self._id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def _written(call: ToolCall) -> Body:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


CHAT_COMPLETIONS = Protocol("/v1/chat/completions", read, openai_problem)
