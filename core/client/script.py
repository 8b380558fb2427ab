"""A conversation script: what a replay does, step by step, and the chats it moves through.

Knows the format and which step fits which chat; it runs nothing. A chat is a list of messages,
where a reply may have alternatives of which one is selected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    Message,
    SystemMessage,
    UserMessage,
)
from core.api.errors import InvalidRequestError
from core.api.params import SamplingParams


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ScriptText(_Part):
    """Text of a user message."""

    text: str


class ScriptImage(_Part):
    """A picture of a user message; the path is relative to the script."""

    image: Annotated[str, Field(min_length=1)]


Content = str | tuple[ScriptText | ScriptImage, ...]


class _Step(_Part):
    model_config = ConfigDict(frozen=True, extra="forbid")

    chat: Annotated[str, Field(min_length=1)]


class _Answering(_Step):
    sampling: SamplingParams | None = None
    thinking: bool | None = None
    stop_after_tokens: Annotated[int, Field(ge=1)] | None = None


class System(_Step):
    """Set a chat's system message, before anything else."""

    op: Literal["system"]
    content: str


class Send(_Answering):
    """Add a user message and answer it."""

    op: Literal["send"]
    content: Content


class Regenerate(_Answering):
    """Answer the last user message once more."""

    op: Literal["regenerate"]


class ContinueStep(_Answering):
    """Go on with the chat's last reply, one that was stopped or cut off."""

    op: Literal["continue"]


class Edit(_Answering):
    """Replace a user message, drop what follows and answer again."""

    op: Literal["edit"]
    message: Annotated[int, Field(ge=0)]
    content: Content


class Delete(_Step):
    """Drop a message and all after it."""

    op: Literal["delete"]
    from_: Annotated[int, Field(ge=0, alias="from")]


class Swipe(_Step):
    """Select one of the alternative replies to the last user message."""

    op: Literal["swipe"]
    reply: Annotated[int, Field(ge=0)]


class SettleStep(_Step):
    """Have the chat's last reply read as the template shows it in history."""

    op: Literal["settle"]
    thinking: bool | None = None


class DraftStep(_Step):
    """Have a draft read ahead. With `discard` it is taken back, and the chat goes on without it."""

    op: Literal["draft"]
    content: Content
    thinking: bool | None = None
    discard: bool = False


Step = Annotated[
    System | Send | Regenerate | ContinueStep | Edit | Delete | Swipe | SettleStep | DraftStep,
    Field(discriminator="op"),
]
AnsweringStep = Send | Regenerate | ContinueStep | Edit


class Script(_Part):
    """The whole script. A step's own `sampling` replaces the script's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sampling: SamplingParams = SamplingParams()
    steps: tuple[Step, ...]


class Reply:
    """The alternative replies to what stands before; the newest is selected until a swipe."""

    def __init__(self) -> None:
        self.alternatives: list[AssistantMessage] = []
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

    def set_system(self, step: System) -> None:
        if self.messages or self.system is not None:
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


def read_script(path: Path) -> Script:
    """Parse and check a script. Raises InvalidRequestError with the place and the reason."""
    try:
        script = Script.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidRequestError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidRequestError(f"{path}: {place}: {first['msg']}") from error
    _rehearse(script, path)
    return script


def _rehearse(script: Script, path: Path) -> None:
    """Go through the chats without answers: which messages exist depends on the steps alone."""
    chats: dict[str, Chat] = {}
    for index, step in enumerate(script.steps):
        chat = chats.setdefault(step.chat, Chat())
        try:
            move(chat, step, ())
            if isinstance(step, AnsweringStep) and not isinstance(step, ContinueStep):
                chat.open_reply().add(AssistantMessage(text=""))
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{path}: steps.{index}: {error.message}") from error


def move(chat: Chat, step: Step, content: tuple[ContentPart, ...]) -> None:
    """Bring a chat to where `step` answers, or through it when it doesn't answer."""
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
        case Regenerate():
            if not chat.messages:
                raise InvalidRequestError("there is no message to answer")
