"""The shown path as the engine gets it: pictures before their message's text, replies with ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    ImagePart,
    TextPart,
    UserMessage,
)
from core.api.chat import Message as ApiMessage
from desktop.store.records import Message

PathOf = Callable[[str], Path]


def conversation_of(path: Sequence[Message], created: float, picture_path: PathOf) -> Conversation:
    """What to answer: `path` ends with the user's message; `created` is the chat's own clock."""
    messages = tuple(_message(message, picture_path) for message in path)
    return Conversation(messages=messages, created=created)


def _message(message: Message, picture_path: PathOf) -> ApiMessage:
    if message.reply is not None:
        return AssistantMessage(
            text=message.text, reasoning=message.reply.reasoning, ids=message.reply.ids
        )
    content: list[ContentPart] = [
        ImagePart(digest=picture.digest, path=str(picture_path(picture.digest)))
        for picture in message.pictures
    ]
    if message.text or not content:
        content.append(TextPart(text=message.text))
    return UserMessage(content=tuple(content))
