"""The chats a script moves through: messages, where a reply may have alternatives.

Knows which step fits which chat and what it does to it; nothing is run here.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    Message,
    SystemMessage,
    UserMessage,
)
from core.api.errors import InvalidRequestError
from core.replay.steps import (
    ChatStep,
    ContinueStep,
    Delete,
    Edit,
    ForgetStep,
    Fork,
    Regenerate,
    Send,
    SettleStep,
    Swipe,
    System,
)


class Reply:
    """The alternative replies to what stands before; the newest is selected until a swipe."""

    def __init__(self, *alternatives: AssistantMessage) -> None:
        self.alternatives = list(alternatives)
        self.selected = 0

    def replace(self, message: AssistantMessage) -> None:
        """The selected alternative has grown."""
        self.alternatives[self.selected] = message

    def add(self, message: AssistantMessage) -> None:
        self.alternatives.append(message)
        self.selected = len(self.alternatives) - 1


class Chat:
    """One chat's present branch. Raises InvalidRequestError for a step that doesn't fit it."""

    def __init__(self) -> None:
        self.system: str | None = None
        self.messages: list[UserMessage | Reply] = []

    @property
    def begun(self) -> bool:
        """Whether anything was ever said in it."""
        return bool(self.messages) or self.system is not None

    def fork(self, index: int) -> Chat:
        """A new chat with the messages up to and with `index`, replies as selected."""
        if index >= len(self.messages):
            raise InvalidRequestError(f"there is no message {index} to fork at")
        fork = Chat()
        fork.system = self.system
        fork.messages = [
            Reply(message.alternatives[message.selected]) if isinstance(message, Reply) else message
            for message in self.messages[: index + 1]
        ]
        return fork

    def set_system(self, step: System) -> None:
        if self.begun:
            raise InvalidRequestError("a system message comes first and only once")
        self.system = step.content

    def ask(self, message: UserMessage) -> None:
        self.messages.append(message)

    def edit(self, index: int, message: UserMessage) -> None:
        """Replace a user message; what follows on this branch goes."""
        if index >= len(self.messages) or not isinstance(self.messages[index], UserMessage):
            raise InvalidRequestError(f"message {index} is no user message of this chat")
        self.messages[index:] = [message]

    def delete(self, index: int) -> None:
        if index >= len(self.messages):
            raise InvalidRequestError(f"there is no message {index} to delete")
        del self.messages[index:]

    def swipe(self, index: int) -> None:
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, Reply) or index >= len(last.alternatives):
            raise InvalidRequestError(f"the last user message has no reply {index}")
        last.selected = index

    def open_reply(self) -> Reply:
        """The reply to the last user message, to which an answer can be added."""
        if not self.messages:
            raise InvalidRequestError("there is no message to answer")
        last = self.messages[-1]
        if isinstance(last, Reply):
            return last
        reply = Reply()
        self.messages.append(reply)
        return reply

    def unanswered(self) -> Conversation:
        """The conversation up to the last user message: what an answering step sends."""
        shown = self.messages[:-1] if isinstance(self.messages[-1], Reply) else self.messages
        return Conversation(messages=tuple(self._sent(shown)))

    def answered(self) -> Conversation:
        """The conversation with its last reply: what can be settled or gone on with."""
        if not self.messages or not isinstance(self.messages[-1], Reply):
            raise InvalidRequestError("the chat doesn't end in a reply")
        return Conversation(messages=tuple(self._sent(self.messages)))

    def with_draft(self, draft: UserMessage) -> Conversation:
        """The conversation as it would be if the draft were sent."""
        return Conversation(messages=(*self._sent(self.messages), draft))

    def _sent(self, messages: list[UserMessage | Reply]) -> Iterator[Message]:
        if self.system is not None:
            yield SystemMessage(text=self.system)
        for message in messages:
            if isinstance(message, UserMessage):
                yield message
            elif message.alternatives:
                yield message.alternatives[message.selected]


class Chats:
    """All chats of a script, by name; one is there as soon as it is named."""

    def __init__(self) -> None:
        self._chats: dict[str, Chat] = {}

    def of(self, name: str) -> Chat:
        return self._chats.setdefault(name, Chat())

    def move(self, step: ChatStep, content: tuple[ContentPart, ...] = ()) -> Chat:
        """Bring a step's chat to where the step answers, or through it when it doesn't answer."""
        chat = self.of(step.chat)
        match step:
            case System():
                chat.set_system(step)
            case Send():
                chat.ask(UserMessage(content=content))
            case Edit():
                chat.edit(step.message, UserMessage(content=content))
            case Delete():
                chat.delete(step.from_)
            case Swipe():
                chat.swipe(step.reply)
            case SettleStep() | ContinueStep():
                chat.answered()
            case Regenerate() if not chat.messages:
                raise InvalidRequestError("there is no message to answer")
            case Fork():
                self._fork(chat, step)
            case ForgetStep():
                self._chats[step.chat] = Chat()
        return chat

    def restore(self, name: str, chat: Chat, messages: list[UserMessage | Reply]) -> None:
        """Put a chat back to how it was before a step that failed."""
        chat.messages = messages
        self._chats[name] = chat

    def _fork(self, chat: Chat, step: Fork) -> None:
        if self.of(step.to).begun:
            raise InvalidRequestError(f"chat {step.to!r} has begun already")
        self._chats[step.to] = chat.fork(step.message)
