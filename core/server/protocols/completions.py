"""OpenAI's `/v1/chat/completions`; without a template `/v1/completions`, and `/tokenize`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from core.api.chat import Conversation, ToolCall
from core.api.events import Counted
from core.api.model_info import ModelInfo
from core.server.protocols.protocol import (
    Call,
    Count,
    Protocol,
    Writer,
    event,
    finish_reason,
    openai_problem,
)
from core.server.requests.ask import Ask, Delta, Ended
from core.server.requests.content import Reader
from core.server.requests.parameters import Body, format_of, sampling_of, thinking_of
from core.server.requests.refusals import Refusal
from core.server.requests.tools import tools_of

_DONE = b"data: [DONE]\n\n"


def _refuse_unsupported(body: Body) -> None:
    """Raises Refusal for OpenAI's fields whose absence from an answer a client can't handle."""
    if body.get("n") not in (None, 1):
        raise Refusal("Only one reply is sampled for a request.", "n")
    # In legacy completions 0 is a number of alternatives, beside the sampled token.
    if (logprobs := body.get("logprobs")) is not None and logprobs is not False:
        raise Refusal("Probabilities of tokens are not reported.", "logprobs")


def _wants_usage(body: Body) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


class _ChoiceWriter(Writer):
    """Writes bodies with one choice, or none."""

    def __init__(self, model: str, usage: bool, prefix: str) -> None:
        super().__init__(model)
        self._id, self._usage = f"{prefix}-{secrets.token_hex(12)}", usage

    def broken(self, refusal: Refusal) -> bytes:
        return event(openai_problem(refusal))

    def _body(self, kind: str, reason: str | None = None, **said: object) -> Body:
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": reason}
        return {
            "id": self._id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": [choice] if said else [],
        }

    def _whole(self, kind: str, ended: Ended, **said: object) -> Body:
        body = self._body(kind, finish_reason(ended), **said)
        return {**body, "usage": _usage(ended), "timings": ended.timings()}


def _usage(ended: Ended) -> Body:
    stats = ended.stats
    return {
        "prompt_tokens": stats.prompt_tokens,
        "completion_tokens": stats.reply_tokens,
        "total_tokens": stats.prompt_tokens + stats.reply_tokens,
        "prompt_tokens_details": {"cached_tokens": stats.reused_tokens},
    }


# ------------------------------------------------------------------ chats


def _read_chat(body: Body, reader: Reader, client: str, model: str) -> Call:
    _refuse_unsupported(body)
    tools = tools_of(body)
    ask = Ask(
        reader.conversation(body.get("messages"), tools=tools.offered),
        client,
        sampling_of(body),
        thinking_of(body),
        tools,
        format_of(body.get("response_format"), "response_format"),
    )
    return Call(ask, ChatWriter(model, _wants_usage(body)), bool(body.get("stream")))


class ChatWriter(_ChoiceWriter):
    def __init__(self, model: str, usage: bool) -> None:
        super().__init__(model, usage, "chatcmpl")
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
            last += event(
                {**self._body(_CHUNK), "usage": _usage(ended), "timings": ended.timings()}
            )
        return last + _DONE

    def whole(
        self, text: str, reasoning: str, ended: Ended, calls: Sequence[ToolCall] = ()
    ) -> Body:
        message: Body = {"role": "assistant", "content": text, "refusal": None}
        if calls:
            message["content"] = text or None
            message["tool_calls"] = list(map(_written, calls))
        if reasoning:
            message["reasoning_content"] = reasoning
        return self._whole("chat.completion", ended, message=message)

    def _chunk(self, delta: Body, reason: str | None = None, **more: object) -> bytes:
        return event({**self._body(_CHUNK, reason, delta=delta), **more})


_CHUNK = "chat.completion.chunk"


def _written(call: ToolCall) -> Body:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


CHAT_COMPLETIONS = Protocol("/v1/chat/completions", _read_chat, openai_problem)

# ------------------------------------------------------------------ plain prompts

# Of the protocol: a prompt need not have an end.
_DEFAULT_TOKENS = 16


def _read(body: Body, _reader: Reader, client: str, model: str) -> Call:
    _refuse_unsupported(body)
    for field in ("echo", "suffix"):
        if body.get(field):
            raise Refusal(f"{field} is not supported.", field)
    if body.get("best_of") not in (None, 1):
        raise Refusal("Only one reply is sampled for a request.", "best_of")
    sampling = sampling_of({"max_tokens": _DEFAULT_TOKENS, **body})
    conversation = Conversation(messages=(), raw=_prompt_of(body.get("prompt")))
    ask = Ask(conversation, client, sampling, prompt_field="prompt")
    return Call(ask, CompletionWriter(model, _wants_usage(body), "cmpl"), bool(body.get("stream")))


def _prompt_of(prompt: object) -> str:
    """One text, alone or in a list. Raises Refusal."""
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise Refusal("A prompt is one text; several, and token ids, are not supported.", "prompt")
    return prompt


class CompletionWriter(_ChoiceWriter):
    def more(self, delta: Delta) -> bytes:
        return event(self._body(_TEXT, text=_text(delta)))

    def end(self, ended: Ended) -> bytes:
        last = self._body(_TEXT, finish_reason(ended), text="")
        parts = [event({**last, "timings": ended.timings()})]
        if self._usage:
            parts.append(event({**self._body(_TEXT), "usage": _usage(ended)}))
        return b"".join((*parts, _DONE))

    def whole(
        self, text: str, reasoning: str, ended: Ended, calls: Sequence[ToolCall] = ()
    ) -> Body:
        return self._whole(_TEXT, ended, text=_text(Delta(text, reasoning)))


_TEXT = "text_completion"


def _text(delta: Delta) -> str:
    """The protocol has no place for a thought apart from the text."""
    return delta.reasoning + delta.answer


COMPLETIONS = Protocol("/v1/completions", _read, openai_problem)


def _read_tokenize(body: Body, reader: Reader, client: str) -> Ask:
    """llama.cpp's `content`, or vLLM's `prompt` or `messages`."""
    if "messages" in body:
        return Ask(reader.conversation(body["messages"]), client, thinking=thinking_of(body))
    name = "content" if "content" in body else "prompt"
    if not isinstance(text := body.get(name), str):
        raise Refusal("A text or messages are needed.", name)
    return Ask(Conversation(messages=(), raw=text), client, prompt_field=name)


def _count(counted: Counted, model: ModelInfo) -> Body:
    ids = list(counted.ids)
    return {"count": counted.tokens, "tokens": ids, "max_model_len": model.context_length}


TOKENIZE = Count("/tokenize", _read_tokenize, _count, openai_problem)
