"""The shown path as the engine gets it: pictures before their message's text, replies with ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    ImagePart,
    SystemMessage,
    TextPart,
    UserMessage,
)
from core.api.chat import Message as ApiMessage
from desktop.store.tables.records import ChatPath, Message, Picture

PathOf = Callable[[str], Path]


def conversation_of(chat_path: ChatPath, picture_path: PathOf) -> Conversation:
    """What stands in the prompt of a chat: its instructions, and the messages not left out."""
    messages = [_message(message, picture_path) for message in chat_path.in_prompt]
    if chat_path.system:
        messages.insert(0, SystemMessage(text=chat_path.system))
    return Conversation(messages=tuple(messages), created=chat_path.created)


def _message(message: Message, picture_path: PathOf) -> ApiMessage:
    if message.reply is not None:
        return AssistantMessage(
            text=message.text, reasoning=message.reply.reasoning, ids=message.reply.ids
        )
    return draft_message(message.text, message.pictures, picture_path)


def draft_message(text: str, pictures: Sequence[Picture], picture_path: PathOf) -> UserMessage:
    """A user's message, sent or not: its pictures come first."""
    content: list[ContentPart] = [
        ImagePart(digest=picture.digest, path=str(picture_path(picture.digest)), name=picture.name)
        for picture in pictures
    ]
    if text or not content:
        content.append(TextPart(text=text))
    return UserMessage(content=tuple(content))
