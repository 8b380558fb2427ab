"""A chat's messages as the engine's `Conversation`."""

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
from desktop.documents.parts import prompt_text
from desktop.store.tables.records import (
    Attachment,
    ChatPath,
    Document,
    Message,
    Picture,
    alternating,
)

PathOf = Callable[[str], Path]

# In place of deleted messages, where two of one role would follow each other. The engine leaves out
# an empty reply if the template allows that.
EMPTY: tuple[UserMessage, AssistantMessage] = (
    UserMessage(content=(TextPart(text=""),)),
    AssistantMessage(text=""),
)


def conversation_of(
    chat_path: ChatPath, picture_path: PathOf, asked: UserMessage | None = None
) -> Conversation:
    told = alternating(chat_path.in_prompt)
    messages = [
        EMPTY[place % 2] if message is None else api_message(message, picture_path)
        for place, message in enumerate(told)
    ]
    if asked is not None:
        messages += [*EMPTY[1:], asked] if len(told) % 2 else [asked]
    if chat_path.system:
        messages.insert(0, SystemMessage(text=chat_path.system))
    return Conversation(messages=tuple(messages), created=chat_path.created)


def before_reply(chat_path: ChatPath, picture_path: PathOf) -> Conversation:
    """For a deleted question an empty one, which the engine refuses: otherwise it would continue a
    reply."""
    told = chat_path.in_prompt
    answered = not told or told[-1].is_reply
    return conversation_of(chat_path, picture_path, EMPTY[0] if answered else None)


def api_message(message: Message, picture_path: PathOf) -> ApiMessage:
    if message.reply is not None:
        return AssistantMessage(
            text=message.text, reasoning=message.reply.reasoning, ids=message.reply.ids
        )
    return draft_message(message.text, message.attachments, picture_path)


def draft_message(text: str, shown: Sequence[Attachment], picture_path: PathOf) -> UserMessage:
    """Documents first, then pictures: another question leaves them as they were. After a document
    alone comes an empty question, so that it ends where it always does."""
    documents = [
        TextPart(text=f"{prompt_text(each)}\n\n") for each in shown if isinstance(each, Document)
    ]
    pictures = [
        ImagePart(digest=each.digest, path=str(picture_path(each.digest)), name=each.name)
        for each in shown
        if isinstance(each, Picture)
    ]
    content: list[ContentPart] = [*documents, *pictures]
    if text or not pictures:
        content.append(TextPart(text=text))
    return UserMessage(content=tuple(content))


def has_pictures(conversation: Conversation) -> bool:
    return any(
        part.type == "image"
        for message in conversation.messages
        if message.role == "user"
        for part in message.content
    )
