"""A script's chats: how steps change them, and a check that all of its steps fit."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    Message,
    SystemMessage,
    UserMessage,
)
from core.api.errors import InvalidRequestError, first_fault
from core.replay.steps import (
    AnsweringStep,
    ChatStep,
    ContinueStep,
    Delete,
    Edit,
    ForgetStep,
    Fork,
    Regenerate,
    Script,
    Send,
    SettleStep,
    Side,
    Swipe,
    System,
)


class Reply:
    def __init__(self, *alternatives: AssistantMessage) -> None:
        self.alternatives = list(alternatives)
        self.selected = 0

    def replace(self, message: AssistantMessage) -> None:
        self.alternatives[self.selected] = message

    def add(self, message: AssistantMessage) -> None:
        self.alternatives.append(message)
        self.selected = len(self.alternatives) - 1


class Chat:
    """A chat's present branch. Raises InvalidRequestError for a step that doesn't fit."""

    def __init__(self) -> None:
        self.system: str | None = None
        self.messages: list[UserMessage | Reply] = []

    @property
    def begun(self) -> bool:
        return bool(self.messages) or self.system is not None

    def move(self, step: ChatStep, content: tuple[ContentPart, ...] = ()) -> None:
        match step:
            case System():
                if self.begun:
                    raise InvalidRequestError("a system message comes first and only once")
                self.system = step.content
            case Send():
                self.ask(UserMessage(content=content))
            case Edit(message=index):
                there = index < len(self.messages)
                if not (there and isinstance(self.messages[index], UserMessage)):
                    raise InvalidRequestError(f"message {index} isn't a user message of this chat")
                self.messages[index:] = [UserMessage(content=content)]
            case Delete(from_=index):
                if index >= len(self.messages):
                    raise InvalidRequestError(f"there is no message {index} to delete")
                del self.messages[index:]
            case Swipe():
                self.swipe(step.reply)
            case SettleStep() | ContinueStep():
                self.answered()
            case Regenerate() if not self.messages:
                raise InvalidRequestError("there is no message to answer")

    def ask(self, message: UserMessage) -> None:
        self.messages.append(message)

    def swipe(self, index: int) -> None:
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, Reply) or index >= len(last.alternatives):
            raise InvalidRequestError(f"the last user message has no reply {index}")
        last.selected = index

    def fork(self, index: int) -> Chat:
        if index >= len(self.messages):
            raise InvalidRequestError(f"there is no message {index} to fork at")
        fork = Chat()
        fork.system = self.system
        fork.messages = [
            Reply(message.alternatives[message.selected]) if isinstance(message, Reply) else message
            for message in self.messages[: index + 1]
        ]
        return fork

    def open_reply(self) -> Reply:
        if not self.messages:
            raise InvalidRequestError("there is no message to answer")
        last = self.messages[-1]
        if isinstance(last, Reply):
            return last
        reply = Reply()
        self.messages.append(reply)
        return reply

    def unanswered(self) -> Conversation:
        replied = isinstance(self.messages[-1], Reply)
        return self._sent(self.messages[:-1] if replied else self.messages)

    def answered(self) -> Conversation:
        if not self.messages or not isinstance(self.messages[-1], Reply):
            raise InvalidRequestError("the chat doesn't end in a reply")
        return self._sent(self.messages)

    def with_draft(self, draft: UserMessage) -> Conversation:
        return self._sent([*self.messages, draft])

    def _sent(self, messages: list[UserMessage | Reply]) -> Conversation:
        sent: list[Message] = [SystemMessage(text=self.system)] if self.system is not None else []
        for message in messages:
            if isinstance(message, UserMessage):
                sent.append(message)
            elif message.alternatives:
                sent.append(message.alternatives[message.selected])
        return Conversation(messages=tuple(sent))


class Chats:
    def __init__(self) -> None:
        self._chats: dict[str, Chat] = {}

    def of(self, name: str) -> Chat:
        return self._chats.setdefault(name, Chat())

    def move(self, step: ChatStep, content: tuple[ContentPart, ...] = ()) -> Chat:
        chat = self.of(step.chat)
        if isinstance(step, ForgetStep):
            self._chats[step.chat] = Chat()
        elif isinstance(step, Fork):
            if self.of(step.to).begun:
                raise InvalidRequestError(f"chat {step.to!r} has begun already")
            self._chats[step.to] = chat.fork(step.message)
        else:
            chat.move(step, content)
        return chat

    def restore(self, name: str, chat: Chat, messages: list[UserMessage | Reply]) -> None:
        chat.messages = messages
        self._chats[name] = chat


def read_script(path: Path) -> Script:
    """Raises InvalidRequestError with the place and the reason."""
    try:
        script = Script.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidRequestError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        words = ": ".join(filter(None, first_fault(error)))
        raise InvalidRequestError(f"{path}: {words}") from error
    _rehearse(script, path)
    return script


def _rehearse(script: Script, path: Path) -> None:
    """Apply all steps, with empty replies."""
    chats = Chats()
    for index, step in enumerate(script.steps):
        if not isinstance(step, ChatStep):
            continue
        try:
            chat = chats.move(step)
            if isinstance(step, AnsweringStep) and not isinstance(step, ContinueStep | Side):
                chat.open_reply().add(AssistantMessage(text=""))
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{path}: steps.{index}: {error.message}") from error
