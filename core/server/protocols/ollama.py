"""Ollama's `/api/chat`, `/api/tags`, `/api/show` and `/api/version`."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import Any

from core.api.chat import AssistantMessage, ToolCall
from core.api.model_info import ModelInfo
from core.api.reply_format import ReplyFormat
from core.server.protocols.protocol import (
    Call,
    Protocol,
    Writer,
    capabilities,
    finish_reason,
    to_json,
)
from core.server.requests.ask import LATEST, Ask, Delta, Ended
from core.server.requests.content import Reader
from core.server.requests.parameters import Body, effort_of, sampling_of, schema_format
from core.server.requests.refusals import Refusal
from core.server.requests.tools import tools_of

# The version of Ollama whose interface this is: some programs refuse older ones.
VERSION = "0.13.0"


def problem(refusal: Refusal) -> Body:
    words = f"{refusal.field}: {refusal.message}" if refusal.field else refusal.message
    return {"error": words}


def read(body: Body, reader: Reader, client: str, model: str) -> Call:
    options = body.get("options")
    tools = tools_of(body)
    ask = Ask(
        reader.conversation(body.get("messages"), tools=tools.offered),
        client,
        sampling_of(options if isinstance(options, dict) else {}, "options."),
        effort_of(body.get("think")),
        tools,
        _format(body.get("format")),
        format_field="format",
    )
    return Call(ask, OllamaWriter(model), body.get("stream") is not False)


def _format(asked: object) -> ReplyFormat | None:
    if not asked:
        return None
    if asked == "json":
        return ReplyFormat(kind="json")
    if not isinstance(asked, dict):
        raise Refusal('A format is "json" or a JSON schema.', "format")
    return schema_format(asked, "format")


class OllamaWriter(Writer):
    media_type = "application/x-ndjson"

    def waiting(self) -> bytes:
        # Readers expect an object in every line.
        return self._line("")

    def more(self, delta: Delta) -> bytes:
        fields: Body = {"thinking": delta.reasoning} if delta.reasoning else {}
        if not delta.whole:
            # The protocol has whole calls only.
            return b""
        if delta.call is not None:
            fields["tool_calls"] = [_written(delta.call)]
        return self._line(delta.answer, **fields)

    def end(self, ended: Ended) -> bytes:
        return to_json({**self._body(""), **_last(ended)}) + b"\n"

    def whole(self, reply: AssistantMessage, ended: Ended) -> Body:
        fields: Body = {"thinking": reply.reasoning} if reply.reasoning else {}
        if reply.calls:
            fields["tool_calls"] = list(map(_written, reply.calls))
        return {**self._body(reply.text, **fields), **_last(ended)}

    def broken(self, refusal: Refusal) -> bytes:
        return to_json(problem(refusal)) + b"\n"

    def _line(self, text: str, **fields: Any) -> bytes:
        return to_json(self._body(text, **fields)) + b"\n"

    def _body(self, text: str, **fields: Any) -> Body:
        message = {"role": "assistant", "content": text, **fields}
        return {"model": self.model, "created_at": _now(), "message": message, "done": False}


def _written(call: ToolCall) -> Body:
    given = json.loads(call.arguments)
    return {"id": call.id, "function": {"name": call.name, "arguments": given}}


def _last(ended: Ended) -> Body:
    stats = ended.stats
    reading, speed = round((stats.ttft_s or 0.0) * 1e9), stats.decode_tokens_per_s
    writing = round(stats.reply_tokens / speed * 1e9) if speed else 0
    return {
        "done": True,
        "done_reason": "length" if finish_reason(ended) == "length" else "stop",
        "total_duration": reading + writing,
        "load_duration": 0,
        "prompt_eval_count": stats.prompt_tokens,
        "prompt_eval_cached_count": stats.reused_tokens,
        "prompt_eval_duration": reading,
        "eval_count": stats.reply_tokens,
        "eval_duration": writing,
        "timings": ended.timings(),
    }


def tags(model: ModelInfo, others: Sequence[str]) -> Body:
    entries = [
        {"name": name, "model": name, "modified_at": _now(), "size": 0, "digest": "", "details": {}}
        for name in (model.name, *others)
    ]
    entries[0] |= {"digest": model.fingerprint, "details": _details(model)}
    return {"models": entries}


def show(body: Body, model: ModelInfo, others: Sequence[str]) -> Body:
    """Raises Refusal for an unknown model; of one that isn't loaded little is known."""
    name = body.get("model", body.get("name"))
    name = name.removesuffix(LATEST) if isinstance(name, str) else ""
    if name != model.name and name in others:
        known: Body = {"details": {}, "model_info": {}, "capabilities": ["completion"]}
        return {"modified_at": _now(), "parameters": "", "template": "", **known}
    if name != model.name:
        raise Refusal("There is no model of this name.", "model", 404, "model_not_found")
    family = model.family
    return {
        "modified_at": _now(),
        "parameters": "",
        "template": "",
        "details": _details(model),
        "model_info": {
            "general.architecture": family,
            "general.parameter_count": model.num_parameters,
            f"{family}.context_length": model.context_length,
        },
        "capabilities": capabilities(model),
    }


def _details(model: ModelInfo) -> Body:
    return {
        "parent_model": "",
        "format": "gguf" if model.path.endswith(".gguf") else "safetensors",
        "family": model.family,
        "families": [model.family],
        "parameter_size": _parameter_size(model.num_parameters),
        "quantization_level": model.precision,
    }


def _parameter_size(count: int) -> str:
    return f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.1f}M"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")


CHAT = Protocol("/api/chat", read)
