"""OpenAI's `/v1/chat/completions`; without a template `/v1/completions`, and `/tokenize`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from core.api.chat import AssistantMessage, Conversation, ToolCall
from core.api.events import AnswerToken, Counted
from core.api.model_info import ModelInfo
from core.api.stats import RequestStats
from core.server.protocols.protocol import (
    Call,
    Count,
    Protocol,
    Writer,
    event,
    finish_reason,
    openai_problem,
    token_text,
    with_alternatives,
)
from core.server.requests.ask import Ask, Delta, Ended
from core.server.requests.content import Reader
from core.server.requests.parameters import Body, format_of, number_of, sampling_of, thinking_of
from core.server.requests.refusals import Refusal
from core.server.requests.tools import tools_of

_DONE = b"data: [DONE]\n\n"


def _refuse_several(body: Body, name: str) -> None:
    if body.get(name) not in (None, 1):
        raise Refusal("Only one reply is sampled for a request.", name)


def _wants_usage(body: Body) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


class _ChoiceWriter(Writer):
    def __init__(self, model: str, usage: bool, prefix: str) -> None:
        super().__init__(model)
        self._id, self._usage = f"{prefix}-{secrets.token_hex(12)}", usage

    def broken(self, refusal: Refusal) -> bytes:
        return event(openai_problem(refusal))

    def _body(
        self, kind: str, reason: str | None = None, logprobs: Body | None = None, **said: object
    ) -> Body:
        choice = {"index": 0, **said, "logprobs": logprobs, "finish_reason": reason}
        return {
            "id": self._id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": [choice] if said else [],
        }

    def _whole(self, kind: str, ended: Ended, logprobs: Body | None, **said: object) -> Body:
        body = self._body(kind, finish_reason(ended), logprobs, **said)
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
    _refuse_several(body, "n")
    tools = tools_of(body)
    ask = Ask(
        reader.conversation(body.get("messages"), tools=tools.offered),
        client,
        sampling_of(body),
        thinking_of(body),
        tools,
        format_of(body.get("response_format"), "response_format"),
        _chat_logprobs(body),
    )
    return Call(ask, ChatWriter(model, _wants_usage(body)), bool(body.get("stream")))


def _chat_logprobs(body: Body) -> int | None:
    asked, top = body.get("logprobs"), number_of(body, "top_logprobs", 20)
    if asked is not None and not isinstance(asked, bool):
        raise Refusal("logprobs must be true or false.", "logprobs")
    if top and not asked:
        raise Refusal("top_logprobs needs logprobs to be true.", "top_logprobs")
    return (top or 0) if asked else None


class ChatWriter(_ChoiceWriter):
    def __init__(self, model: str, usage: bool) -> None:
        super().__init__(model, usage, "chatcmpl")
        self._num_calls = 0

    def begin(self, stats: RequestStats | None) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def more(self, delta: Delta) -> bytes:
        if delta.call is not None:
            return self._call(delta.call)
        fields = {"reasoning_content": delta.reasoning, "content": delta.answer}
        said = {name: text for name, text in fields.items() if text}
        return self._chunk(said, logprobs=_content(delta.logprobs or None))

    def _call(self, call: ToolCall) -> bytes:
        """A call's first delta names it, the next ones have its arguments."""
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

    def whole(self, reply: AssistantMessage, ended: Ended) -> Body:
        message: Body = {"role": "assistant", "content": reply.text, "refusal": None}
        if reply.calls:
            message["content"] = reply.text or None
            message["tool_calls"] = list(map(_written, reply.calls))
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        logprobs = _content(ended.logprobs)
        return self._whole("chat.completion", ended, logprobs, message=message)

    def _chunk(
        self, delta: Body, reason: str | None = None, logprobs: Body | None = None, **more: object
    ) -> bytes:
        return event({**self._body(_CHUNK, reason, logprobs, delta=delta), **more})


def _content(tokens: Sequence[AnswerToken] | None) -> Body | None:
    return None if tokens is None else {"content": with_alternatives(tokens), "refusal": None}


_CHUNK = "chat.completion.chunk"


def _written(call: ToolCall) -> Body:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


CHAT_COMPLETIONS = Protocol("/v1/chat/completions", _read_chat)

# ------------------------------------------------------------------ plain prompts

# Of the protocol: a prompt need not have an end.
_DEFAULT_TOKENS = 16


def _read(body: Body, _reader: Reader, client: str, model: str) -> Call:
    for field in ("n", "best_of"):
        _refuse_several(body, field)
    for field in ("echo", "suffix"):
        if body.get(field):
            raise Refusal(f"{field} is not supported.", field)
    sampling = sampling_of({"max_tokens": _DEFAULT_TOKENS, **body})
    conversation = Conversation(messages=(), raw=_prompt_of(body.get("prompt")))
    # Clients that know the field from chats send false; 0 asks for the sampled tokens alone.
    logprobs = None if body.get("logprobs") is False else number_of(body, "logprobs", 5)
    ask = Ask(conversation, client, sampling, logprobs=logprobs, prompt_field="prompt")
    return Call(ask, CompletionWriter(model, _wants_usage(body), "cmpl"), bool(body.get("stream")))


def _prompt_of(prompt: object) -> str:
    """One text, alone or in a list. Raises Refusal."""
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise Refusal("A prompt is one text; several, and token ids, are not supported.", "prompt")
    return prompt


class CompletionWriter(_ChoiceWriter):
    # Characters of a thought, which comes before the answer.
    _num_thought = 0

    def more(self, delta: Delta) -> bytes:
        self._num_thought += len(delta.reasoning)
        logprobs = self._logprobs(delta.logprobs or None)
        # The protocol has no separate place for a thought.
        text = delta.reasoning + delta.answer
        return event(self._body(_TEXT, None, logprobs, text=text))

    def end(self, ended: Ended) -> bytes:
        last = self._body(_TEXT, finish_reason(ended), text="")
        parts = [event({**last, "timings": ended.timings()})]
        if self._usage:
            parts.append(event({**self._body(_TEXT), "usage": _usage(ended)}))
        return b"".join((*parts, _DONE))

    def whole(self, reply: AssistantMessage, ended: Ended) -> Body:
        self._num_thought = len(reply.reasoning)
        logprobs = self._logprobs(ended.logprobs)
        return self._whole(_TEXT, ended, logprobs, text=reply.reasoning + reply.text)

    def _logprobs(self, tokens: Sequence[AnswerToken] | None) -> Body | None:
        if tokens is None:
            return None
        return {
            "tokens": list(map(token_text, tokens)),
            "token_logprobs": [each.logprob for each in tokens],
            # The sampled token is among its alternatives, also if it isn't one of the likeliest.
            "top_logprobs": [
                {token_text(other): other.logprob for other in (*reversed(each.top), each)}
                for each in tokens
            ],
            "text_offset": [self._num_thought + each.start for each in tokens],
        }


_TEXT = "text_completion"


COMPLETIONS = Protocol("/v1/completions", _read)


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


TOKENIZE = Count("/tokenize", _read_tokenize, _count)
