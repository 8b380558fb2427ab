"""Prompts as token ids, so that replies go back as the ids that were sampled.

A server that tokenizes a reply's text again may get other ids, and its prefix cache ends there.
vLLM reports the sampled ids and takes ids as a prompt; its own template writes the rest of the chat
around them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.api.chat import AssistantMessage, ImagePart, Message, UserMessage
from core.api.errors import RemoteAnswerError
from core.remote.connection import Connections
from core.remote.messages import Reply

# Stands in for each reply while the template is applied.
PLACE = "Waymark puts a reply here."
MOST_IDS = 2**22


@dataclass(frozen=True, slots=True)
class PromptIds:
    """`room` is the number of tokens that the context has left for the reply."""

    ids: list[int]
    room: int


def tokenizer_of(reply: Reply) -> str:
    """Names the tokenizer of a server's model in ReplyIds."""
    return f"{reply.server.address} {reply.model}"


def has_ids(reply: Reply) -> bool:
    """True for a chat of texts with a reply whose ids the server reported.

    A template may drop or begin thoughts, which only the server's own reader knows.
    """
    messages = reply.generate.conversation.messages
    pictures = any(
        isinstance(part, ImagePart)
        for message in messages
        if isinstance(message, UserMessage)
        for part in message.content
    )
    thinks = reply.generate.thinking or any(
        message.reasoning for message in messages if isinstance(message, AssistantMessage)
    )
    sampled = any(_is_sampled(message, tokenizer_of(reply)) for message in messages)
    return sampled and not pictures and not thinks


async def prompt_ids(
    connections: Connections, reply: Reply, body: Mapping[str, Any]
) -> PromptIds | None:
    """None if it can't be told where the replies belong, or their tokenizer is another one now.
    `body` is the request as messages. Raises TryAgainError, WaymarkError."""
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
        raise RemoteAnswerError("The answer is no list of tokens.")
    return tokens


def _spliced(
    ids: Sequence[int], mark: Sequence[int], replies: Sequence[Sequence[int]]
) -> list[int] | None:
    """None unless there are as many marks as replies."""
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
