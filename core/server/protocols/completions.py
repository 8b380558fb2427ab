"""Prompts that no template is applied to: OpenAI's `/v1/completions`, and `/tokenize`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from core.api.chat import Conversation, ToolCall
from core.api.events import Counted
from core.api.model_info import ModelInfo
from core.server.protocols.protocol import (
    DONE,
    Call,
    Count,
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
from core.server.requests.parameters import Body, sampling_of, thinking_of
from core.server.requests.refusals import Refusal

# Of the protocol: a prompt need not have an end.
_DEFAULT_TOKENS = 16


def read(body: Body, _reader: Reader, client: str, model: str) -> Call:
    refuse_unsupported(body)
    for field in ("echo", "suffix"):
        if body.get(field):
            raise Refusal(f"{field} is not supported.", field)
    if body.get("best_of") not in (None, 1):
        raise Refusal("Only one reply is sampled for a request.", "best_of")
    sampling = sampling_of({"max_tokens": _DEFAULT_TOKENS, **body})
    conversation = Conversation(messages=(), raw=prompt_of(body.get("prompt")))
    ask = Ask(conversation, client, sampling, prompt_field="prompt")
    return Call(ask, CompletionWriter(model, wants_usage(body)), bool(body.get("stream")))


def prompt_of(prompt: object) -> str:
    """One text, alone or in a list. Raises Refusal."""
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise Refusal("A prompt is one text; several, and token ids, are not supported.", "prompt")
    return prompt


class CompletionWriter(Writer):
    def __init__(self, model: str, usage: bool) -> None:
        super().__init__(model)
        self._id = f"cmpl-{secrets.token_hex(12)}"
        self._usage = usage

    def more(self, delta: Delta) -> bytes:
        return event(self._body(_text(delta)))

    def end(self, ended: Ended) -> bytes:
        last = self._body("", finish_reason(ended))
        parts = [event({**last, "timings": ended.timings()})]
        if self._usage:
            parts.append(event({**last, "choices": [], "usage": openai_usage(ended)}))
        return b"".join((*parts, DONE))

    def whole(
        self, text: str, reasoning: str, ended: Ended, calls: Sequence[ToolCall] = ()
    ) -> Body:
        body = self._body(_text(Delta(text, reasoning)), finish_reason(ended))
        return {**body, "usage": openai_usage(ended), "timings": ended.timings()}

    def broken(self, refusal: Refusal) -> bytes:
        return event(openai_problem(refusal))

    def _body(self, text: str, reason: str | None = None) -> Body:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
        return {
            "id": self._id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice],
        }


def _text(delta: Delta) -> str:
    """The protocol has no place for a thought apart from the text."""
    return delta.reasoning + delta.answer


COMPLETIONS = Protocol("/v1/completions", read, openai_problem)


def read_tokenize(body: Body, reader: Reader, client: str) -> Ask:
    """llama.cpp's `content`, or vLLM's `prompt` or `messages`."""
    if "messages" in body:
        return Ask(reader.conversation(body["messages"]), client, thinking=thinking_of(body))
    name = "content" if "content" in body else "prompt"
    if not isinstance(text := body.get(name), str):
        raise Refusal("A text or messages are needed.", name)
    return Ask(Conversation(messages=(), raw=text), client, prompt_field=name)


def count_body(counted: Counted, model: ModelInfo) -> Body:
    ids = list(counted.ids)
    return {"count": counted.tokens, "tokens": ids, "max_model_len": model.context_length}


TOKENIZE = Count("/tokenize", read_tokenize, count_body, openai_problem)
