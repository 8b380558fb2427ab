"""Sampling, thinking and format of a request, under all protocols' names."""

from __future__ import annotations

import json
from typing import Any, get_args

from pydantic import ValidationError

from core.api.params import Effort, SamplingParams, Thinking
from core.api.reply_format import ReplyFormat
from core.server.requests.refusals import Refusal

Body = dict[str, Any]

# Our names of fields, and clients' names for them, the one that counts first.
_NAMES = {
    "temperature": ("temperature",),
    "top_k": ("top_k",),
    "top_p": ("top_p",),
    "min_p": ("min_p",),
    "repetition_penalty": ("repetition_penalty", "repeat_penalty"),
    "presence_penalty": ("presence_penalty",),
    "frequency_penalty": ("frequency_penalty",),
    "seed": ("seed",),
    "max_tokens": ("max_completion_tokens", "max_output_tokens", "max_tokens", "num_predict"),
    "stop": ("stop", "stop_sequences"),
}
# These values mean "no limit" or "at random" in llama.cpp and Ollama.
_UNSET = {"max_tokens": (-1, -2), "seed": (-1,), "top_k": (-1,)}
_EFFORTLESS = ("none",)
_EFFORTS: tuple[Effort, ...] = get_args(Effort)


def sampling_of(body: Body, prefix: str = "") -> SamplingParams:
    """`prefix` is the place of `body` in the request. Raises Refusal."""
    values, names = dict[str, Any](), dict[str, str]()
    for ours, theirs in _NAMES.items():
        name = next((name for name in theirs if body.get(name) is not None), None)
        if name is None or body[name] in _UNSET.get(ours, ()):
            continue
        values[ours], names[ours] = _whole(body[name]), prefix + name
    if isinstance(seed := values.get("seed"), int) and seed < 0:
        values["seed"] = seed % 2**63
    if "stop" in values:
        stop = values["stop"]
        stops = [stop] if isinstance(stop, str) else stop
        if not isinstance(stops, list):
            raise Refusal("Stop strings must be a text or a list of texts.", names["stop"])
        values["stop"] = tuple(each for each in stops if each != "")
    try:
        return SamplingParams.model_validate(values)
    except ValidationError as error:
        raise Refusal.of_value(error, names) from None


def number_of(body: Body, name: str, most: int) -> int | None:
    """A whole number up to `most`, or None. Raises Refusal."""
    value = _whole(body.get(name))
    if value is not None and (type(value) is not int or not 0 <= value <= most):
        raise Refusal(f"{name} must be a whole number from 0 to {most}.", name)
    return value


def _whole(value: Any) -> Any:
    """In JSON 1.0 is whole, too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def thinking_of(body: Body) -> Thinking:
    """The template's own switch first, then an effort."""
    options, reasoning = body.get("chat_template_kwargs"), body.get("reasoning")
    options = options if isinstance(options, dict) else {}
    if isinstance(options.get("enable_thinking"), bool):
        return bool(options["enable_thinking"])
    effort = body.get("reasoning_effort") or options.get("reasoning_effort")
    if not effort and isinstance(reasoning, dict):
        effort = reasoning.get("effort")
    return effort_of(effort)


def effort_of(value: object) -> Thinking:
    """None for what is neither a switch nor an effort."""
    for effort in _EFFORTS:
        if value == effort:
            return effort
    if isinstance(value, bool):
        return value
    return value not in _EFFORTLESS if isinstance(value, str) and value else None


def format_of(asked: object, field: str) -> ReplyFormat | None:
    """Raises Refusal."""
    if asked is None:
        return None
    if not isinstance(asked, dict):
        raise Refusal("A format must be an object.", field)
    kind = asked.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return ReplyFormat(kind="json")
    if kind != "json_schema":
        raise Refusal(
            f"{kind!r} is not a format; use text, json_object or json_schema.", f"{field}.type"
        )
    # Chat completions have the schema one level deeper.
    inner = asked.get("json_schema")
    schema, place = asked.get("schema"), f"{field}.schema"
    if isinstance(inner, dict):
        schema, place = inner.get("schema"), f"{field}.json_schema.schema"
    if schema is None:
        raise Refusal("The schema is missing.", place)
    return schema_format(schema, place)


def schema_format(schema: object, field: str) -> ReplyFormat:
    try:
        return ReplyFormat(kind="json_schema", text=json.dumps(schema))
    except ValidationError:
        raise Refusal("The schema is too long.", field) from None
