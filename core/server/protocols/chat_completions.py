"""OpenAI's `/v1/chat/completions`."""

from __future__ import annotations

import secrets

from core.api.model_info import ModelInfo
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
from core.server.requests.parameters import Body, format_of, refuse_tools, sampling_of, thinking_of
from core.server.requests.refusals import Refusal


def read(body: Body, reader: Reader, client: str, model: ModelInfo) -> Call:
    refuse_tools(body)
    refuse_unsupported(body)
    ask = Ask(
        reader.conversation(body.get("messages")),
        client,
        sampling_of(body),
        thinking_of(body),
        format_of(body.get("response_format"), "response_format"),
    )
    return Call(ask, ChatWriter(model, wants_usage(body)), bool(body.get("stream")))


class ChatWriter(Writer):
    def __init__(self, model: ModelInfo, usage: bool) -> None:
        super().__init__(model)
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._usage = usage

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def more(self, delta: Delta) -> bytes:
        fields = {"reasoning_content": delta.reasoning, "content": delta.answer}
        return self._chunk({name: text for name, text in fields.items() if text})

    def end(self, ended: Ended) -> bytes:
        last = self._chunk({}, finish_reason(ended), timings=ended.timings())
        if self._usage:
            body = self._body("chat.completion.chunk", [])
            last += event({**body, "usage": openai_usage(ended), "timings": ended.timings()})
        return last + DONE

    def whole(self, text: str, reasoning: str, ended: Ended) -> Body:
        message = {"role": "assistant", "content": text, "refusal": None}
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


CHAT_COMPLETIONS = Protocol("/v1/chat/completions", read, openai_problem)
