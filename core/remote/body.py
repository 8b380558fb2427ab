"""The body of a request, with the fields that each program knows."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from core.api.chat import AssistantMessage, ImagePart, Message, SystemMessage, TextPart, UserMessage
from core.api.errors import ReplyFormatError
from core.api.params import SamplingParams, Thinking
from core.api.reply_format import ReplyFormat
from core.remote.messages import Kind, Reply
from core.remote.prompt_ids import PromptIds
from core.vision.decode import PictureDecoder, read_picture

JSON = dict[str, Any]
_ONLY_CHAT = ("messages", "chat_template_kwargs")
# A larger picture is sent smaller: no published vision tower sees more of it.
LONGEST_EDGE = 2_048
MOST_PICTURE_BYTES = 4 * 2**20
# Larger seeds are refused by some.
_SEEDS = 2**31
_LOCAL: tuple[Kind, ...] = ("vllm", "sglang", "llamacpp", "waymark")
_REPETITION: dict[Kind, str] = {
    "vllm": "repetition_penalty",
    "sglang": "repetition_penalty",
    "waymark": "repetition_penalty",
    "llamacpp": "repeat_penalty",
    "lmstudio": "repeat_penalty",
}


def chat_body(reply: Reply, pictures: PictureDecoder) -> JSON:
    """Reads pictures, so call it in a thread. Raises WaymarkError."""
    generate, kind = reply.generate, reply.server.kind
    body: JSON = {
        "model": reply.model,
        "messages": [_message(each, pictures) for each in generate.conversation.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        **_sampling(generate.sampling, kind),
        **_thinking(generate.thinking, kind),
    }
    if generate.format is not None:
        body["response_format"] = _format(generate.format, kind)
    if kind == "llamacpp":
        body["return_progress"] = True
    if kind == "vllm":
        body["return_token_ids"] = True
    return body


def completion_body(chat: JSON, prompt: PromptIds) -> JSON:
    """The prompt is ids."""
    body = {name: value for name, value in chat.items() if name not in _ONLY_CHAT}
    # Without it, a completion ends after 16 tokens.
    most = min(body.get("max_tokens", prompt.room), prompt.room)
    return {**body, "prompt": prompt.ids, "max_tokens": most}


def _message(message: Message, pictures: PictureDecoder) -> JSON:
    match message:
        case SystemMessage():
            return {"role": "system", "content": message.text}
        case UserMessage(content=(TextPart() as only,)):
            return {"role": "user", "content": only.text}
        case UserMessage():
            return {"role": "user", "content": [_part(part, pictures) for part in message.content]}
        case AssistantMessage():
            return {"role": "assistant", "content": message.text}
        case _:
            return {"role": "tool", "content": message.text, "tool_call_id": message.call}


def _part(part: TextPart | ImagePart, pictures: PictureDecoder) -> JSON:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    data = read_picture(Path(part.path), part.digest, part.called)
    kind = "png" if data.startswith(b"\x89PNG") else "jpeg"
    if not _is_plain(data):
        with pictures.open(data, part.called) as picture:
            kind, data = "png", picture.thumbnail(LONGEST_EDGE)
    address = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": address}}


def _is_plain(data: bytes) -> bool:
    """True for a file that every program opens, the right way up."""
    if len(data) > MOST_PICTURE_BYTES:
        return False
    # A JPEG with EXIF may have to be turned, which some programs don't do.
    return data.startswith(b"\x89PNG") or (
        data.startswith(b"\xff\xd8\xff") and b"Exif\0" not in data[: 2**16]
    )


def _sampling(sampling: SamplingParams, kind: Kind) -> JSON:
    """The user's own values; those of the server's model hold for the others."""
    body: JSON = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "max_tokens": sampling.max_tokens,
        "seed": None if sampling.seed is None else sampling.seed % _SEEDS,
        "stop": list(sampling.stop) or None,
    }
    if sampling.top_p == 0:
        # The likeliest token only; vLLM refuses the number.
        body |= {"temperature": 0, "top_p": None}
    # Programs outside this list may refuse a field that they don't know.
    if name := _REPETITION.get(kind):
        no_limit = -1 if kind in ("vllm", "sglang") else 0
        body["top_k"] = no_limit if sampling.top_k == 0 else sampling.top_k
        body["min_p"] = sampling.min_p
        body[name] = sampling.repetition_penalty
    return {field: value for field, value in body.items() if value is not None}


def _thinking(thinking: Thinking, kind: Kind) -> JSON:
    if thinking is not None and kind in _LOCAL:
        return {"chat_template_kwargs": {"enable_thinking": thinking is not False}}
    if thinking is False and kind == "ollama":
        return {"reasoning_effort": "none"}
    return {}


def _format(form: ReplyFormat, kind: Kind) -> JSON:
    """Raises ReplyFormatError for kinds that the protocol has no field for."""
    # LM Studio refuses `json_object`.
    if form.kind == "json" and kind != "lmstudio":
        return {"type": "json_object"}
    if form.kind not in ("json", "json_schema"):
        raise ReplyFormatError("Servers take only JSON, with or without a schema.")
    schema = json.loads(form.text) if form.kind == "json_schema" else {"type": "object"}
    named = {"name": "reply", "schema": schema, "strict": True}
    return {"type": "json_schema", "json_schema": named}
