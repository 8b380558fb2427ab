"""Messages of all protocols as one conversation: only the names of their parts differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from core.server.requests.pictures import Pictures
from core.server.requests.refusals import Refusal
from core.server.requests.tools import arguments_of

_TEXT_TYPES = ("text", "input_text", "output_text", "refusal")
# Parts without anything that a prompt needs.
_IGNORED_TYPES = ("redacted_thinking", "cache_control")


@dataclass
class SentMessage:
    """The thought precedes the `parts`, the calls follow them; results precede a user's parts."""

    role: str
    parts: list[ContentPart] = field(default_factory=list)
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolMessage] = field(default_factory=list)

    def take_result(self, result: SentMessage, call: object, name: object) -> None:
        """A result's pictures become the user's, since templates take only its text."""
        call, name = (each if isinstance(each, str) else "" for each in (call, name))
        self.results.append(ToolMessage(text=result.text, call=call, name=name))
        self.parts += [part for part in result.parts if isinstance(part, ImagePart)]

    def refuse_pictures(self, field: str) -> None:
        """Raises Refusal."""
        if any(isinstance(part, ImagePart) for part in self.parts):
            raise Refusal("Only user messages can have pictures.", field)

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


class Reader:
    """Collects a request's pictures in `images`."""

    def __init__(self, pictures: Pictures) -> None:
        self._pictures = pictures
        self.images: list[ImagePart] = []

    def conversation(
        self,
        messages: object,
        name: str = "messages",
        tools: tuple[Tool, ...] = (),
        system: object = None,
        system_name: str = "system",
    ) -> Conversation:
        """The names are those of the fields; some protocols have the `system` text apart. Raises
        Refusal."""
        if not isinstance(messages, list) or not messages:
            raise Refusal("A list of at least one message is needed.", name)
        sent = [self._message(each, f"{name}.{index}") for index, each in enumerate(messages)]
        if system:
            sent.insert(0, self._sent("system", system, system_name))
            sent[0].refuse_pictures(system_name)
        conversation = folded(sent, tools)
        if not conversation.messages:
            raise Refusal("All messages are empty.", name)
        return conversation

    def _message(self, message: object, field: str) -> SentMessage:
        if not isinstance(message, dict):
            raise Refusal("A message must be an object.", field)
        role, content = message.get("role", "user"), message.get("content")
        if role in ("tool", "function"):
            result = self._sent("tool", content, f"{field}.content")
            name = message.get("name", message.get("tool_name"))
            sent = SentMessage("user")
            sent.take_result(result, message.get("tool_call_id"), name)
            return sent
        if role == "developer":
            role = "system"
        if role not in ("system", "user", "assistant"):
            words = f"{role!r} is not a role; use system, user or assistant."
            raise Refusal(words, f"{field}.role")
        sent = self._sent(role, content, f"{field}.content")
        calls = message.get("tool_calls")
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            sent.calls.append(_call(call, f"{field}.tool_calls.{index}"))
        # Ollama's pictures.
        images = message.get("images")
        for index, image in enumerate(images if isinstance(images, list) else ()):
            sent.parts.append(self._image(image, f"{field}.images.{index}"))
        for name in ("reasoning_content", "reasoning", "thinking"):
            if isinstance(thought := message.get(name), str) and not sent.reasoning:
                sent.reasoning = thought
        if sent.calls and role != "assistant":
            raise Refusal("Only an assistant's messages can have calls.", field)
        if role != "user":
            sent.refuse_pictures(f"{field}.content")
        return sent

    def _sent(self, role: str, content: object, field: str) -> SentMessage:
        sent = SentMessage(role)
        if isinstance(content, str):
            sent.parts.append(TextPart(text=content))
        elif isinstance(content, list):
            for index, part in enumerate(content):
                self._add(part, f"{field}.{index}", sent)
        elif content is not None:
            raise Refusal("Content must be a text or a list of parts.", field)
        return sent

    def _add(self, part: object, field: str, sent: SentMessage) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            sent.parts.append(TextPart(text=part))
        elif not isinstance(part, dict):
            raise Refusal("A part must be an object.", field)
        elif kind in _TEXT_TYPES:
            text = part.get("text", part.get("refusal"))
            if not isinstance(text, str):
                raise Refusal("The text is missing.", f"{field}.text")
            sent.parts.append(TextPart(text=text))
        elif kind == "thinking":
            sent.reasoning += str(part.get("thinking", ""))
        elif kind in ("image_url", "input_image", "image"):
            sent.parts.append(self._image(part, field))
        elif kind == "tool_use":
            arguments = arguments_of(part.get("input"), f"{field}.input")
            sent.calls.append(_named_call(part.get("name"), arguments, part.get("id"), field))
        elif kind == "tool_result":
            result = self._sent("tool", part.get("content"), f"{field}.content")
            sent.take_result(result, part.get("tool_use_id"), None)
        elif kind not in _IGNORED_TYPES:
            raise Refusal(f"Parts of type {kind!r} can't be read.", f"{field}.type")

    def _image(self, part: Any, field: str) -> ImagePart:
        source = part.get("source") if isinstance(part, dict) else None
        if isinstance(source, dict) and source.get("type") == "base64":
            image = self._pictures.put(source.get("data"), f"{field}.source.data")
        elif not isinstance(part, dict):
            image = self._pictures.put(part, field)
        else:
            url = source if source is not None else part.get("image_url")
            image = self._pictures.put_url(url.get("url") if isinstance(url, dict) else url, field)
        self.images.append(image)
        return image


def _call(call: object, field: str) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise Refusal("A call must be an object with a function.", field)
    arguments = arguments_of(function.get("arguments"), f"{field}.function.arguments")
    return _named_call(function.get("name"), arguments, call.get("id"), field)


def _named_call(name: object, arguments: str, call: object, field: str) -> ToolCall:
    if not isinstance(name, str) or not name:
        raise Refusal("The name of the function is missing.", field)
    return ToolCall(name=name, arguments=arguments, id=call if isinstance(call, str) else "")


def folded(sent: list[SentMessage], tools: tuple[Tool, ...]) -> Conversation:
    """Templates allow one system message, at the start: later ones go into the user's next message,
    or become one."""
    start = next((at for at, each in enumerate(sent) if each.role != "system"), len(sent))
    messages: list[Message] = []
    if system := "\n\n".join(each.text for each in sent[:start] if each.text):
        messages.append(SystemMessage(text=system))
    notes: list[ContentPart] = []
    names = {call.id: call.name for each in sent for call in each.calls}
    for each in sent[start:]:
        if each.role == "system":
            notes.append(TextPart(text=f"{each.text}\n\n"))
            continue
        if each.role == "user":
            messages += (
                result.model_copy(update={"name": result.name or names.get(result.call, "")})
                for result in each.results
            )
            if each.results and not each.parts:
                continue
            messages.append(UserMessage(content=(*notes, *each.parts)))
        else:
            if notes:
                messages.append(UserMessage(content=tuple(notes)))
            calls = tuple(each.calls)
            reply = AssistantMessage(text=each.text, reasoning=each.reasoning, calls=calls)
            messages.append(reply)
        notes = []
    if notes:
        messages.append(UserMessage(content=tuple(notes)))
    last = messages[-1] if messages else None
    if isinstance(last, AssistantMessage) and not (last.text or last.reasoning or last.calls):
        del messages[-1]
    return Conversation(messages=tuple(messages), tools=tools)
