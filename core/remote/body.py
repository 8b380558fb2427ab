"""A request's body, with the fields that each program knows.

A server that tokenizes a reply's text again may get other ids, which end its prefix cache. vLLM
reports sampled ids and takes ids as a prompt; its template writes the rest of the chat around them.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.api.chat import AssistantMessage, ImagePart, Message, SystemMessage, TextPart, UserMessage
from core.api.errors import RemoteAnswerError, ReplyFormatError
from core.api.params import SamplingParams, Thinking
from core.api.reply_format import ReplyFormat
from core.remote.connection import Connections
from core.remote.messages import Kind, Reply
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
    body = {name: value for name, value in chat.items() if name not in _ONLY_CHAT}
    # Without it, a completion ends after 16 tokens.
    most = min(body.get("max_tokens", prompt.room), prompt.room)
    return {**body, "prompt": prompt.ids, "max_tokens": most}


def _message(message: Message, pictures: PictureDecoder) -> JSON:
    match message:
        case SystemMessage():
            return {"role": "system", "content": message.text}
        case UserMessage(content=parts):
            texts = [part.text for part in parts if isinstance(part, TextPart)]
            if len(texts) == len(parts):
                # Not every server takes a list of texts.
                return {"role": "user", "content": "".join(texts)}
            return {"role": "user", "content": [_part(part, pictures) for part in parts]}
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
    if len(data) > MOST_PICTURE_BYTES:
        return False
    # A JPEG with EXIF may have to be turned, which some programs don't do.
    return data.startswith(b"\x89PNG") or (
        data.startswith(b"\xff\xd8\xff") and b"Exif\0" not in data[: 2**16]
    )


def _sampling(sampling: SamplingParams, kind: Kind) -> JSON:
    """The user's own values; the server's model has the others."""
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
    """Raises ReplyFormatError for kinds without a field in the protocol."""
    # LM Studio refuses `json_object`.
    if form.kind == "json" and kind != "lmstudio":
        return {"type": "json_object"}
    if form.kind not in ("json", "json_schema"):
        raise ReplyFormatError("Servers take only JSON, with or without a schema.")
    schema = json.loads(form.text) if form.kind == "json_schema" else {"type": "object"}
    named = {"name": "reply", "schema": schema, "strict": True}
    return {"type": "json_schema", "json_schema": named}


# Stands in for each reply while the template is applied.
PLACE = "Waymark puts a reply here."
MOST_IDS = 2**22


@dataclass(frozen=True, slots=True)
class PromptIds:
    """`room` is how many tokens the context has left."""

    ids: list[int]
    room: int


def tokenizer_of(reply: Reply) -> str:
    """The name of a server's tokenizer in ReplyIds."""
    return f"{reply.server.address} {reply.model}"


def has_ids(reply: Reply) -> bool:
    """True for a chat of texts with a reply whose ids the server reported."""
    conversation = reply.generate.conversation
    messages = conversation.messages
    thinks = reply.generate.thinking or any(
        message.reasoning for message in messages if isinstance(message, AssistantMessage)
    )
    sampled = any(_is_sampled(message, tokenizer_of(reply)) for message in messages)
    return sampled and not conversation.pictures and not thinks


async def prompt_ids(
    connections: Connections, reply: Reply, body: Mapping[str, Any]
) -> PromptIds | None:
    """None if it is unclear where the replies belong, or the tokenizer has changed. `body` is the
    request as messages. Raises TryAgainError, WaymarkError."""
    base, tokenizer = reply.server.address.removesuffix("/v1"), tokenizer_of(reply)
    messages = reply.generate.conversation.messages
    marked = [
        {**sent, "content": PLACE} if _is_sampled(message, tokenizer) else sent
        for message, sent in zip(messages, body["messages"], strict=True)
    ]
    replies = _sampled(messages, tokenizer)
    named = {"model": reply.model}
    chat = {name: body[name] for name in ("model", "chat_template_kwargs") if name in body}
    whole, mark, spelled = await asyncio.gather(
        *(
            connections.json(f"{base}/{path}", reply.key, named | fields)
            for path, fields in (
                ("tokenize", {**chat, "messages": marked, "add_generation_prompt": True}),
                ("tokenize", {"prompt": PLACE, "add_special_tokens": False}),
                ("detokenize", {"tokens": replies[-1][1]}),
            )
        )
    )
    ids = _spliced(_tokens(whole), _tokens(mark), [ids for _, ids in replies])
    longest = whole.get("max_model_len")
    if ids is None or type(longest) is not int or len(ids) >= longest:
        return None
    text = spelled.get("prompt") if isinstance(spelled, dict) else None
    return PromptIds(ids, longest - len(ids)) if text == replies[-1][0] else None


def _is_sampled(message: Message, tokenizer: str) -> bool:
    ids = message.ids if isinstance(message, AssistantMessage) else None
    return ids is not None and ids.tokenizer == tokenizer and ids.num_ids > 0


def _sampled(messages: Sequence[Message], tokenizer: str) -> list[tuple[str, list[int]]]:
    return [
        (message.text, message.ids.unpack())
        for message in messages
        if isinstance(message, AssistantMessage) and message.ids is not None
        if _is_sampled(message, tokenizer)
    ]


def _tokens(answer: Any) -> list[int]:
    """Raises RemoteAnswerError."""
    tokens = read_ids(answer.get("tokens") if isinstance(answer, dict) else None)
    if tokens is None:
        raise RemoteAnswerError("The answer isn't a list of tokens.")
    return tokens


def _spliced(
    ids: Sequence[int], mark: Sequence[int], replies: Sequence[Sequence[int]]
) -> list[int] | None:
    """None unless marks and replies are equally many."""
    found, rest, at, size = list[int](), deque(replies), 0, len(mark)
    while at < len(ids):
        if size and ids[at] == mark[0] and ids[at : at + size] == mark:
            if not rest:
                return None
            found += rest.popleft()
            at += size
        else:
            found.append(ids[at])
            at += 1
    return found if not rest and len(found) <= MOST_IDS else None


def read_ids(value: object) -> list[int] | None:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        return None
    return value if all(0 <= each < 2**32 for each in value) else None
