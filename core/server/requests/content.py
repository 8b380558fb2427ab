"""Messages of all protocols as one conversation: they differ in the names of their parts only."""

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
class Said:
    """One message: its parts in order, the thought before a reply, the calls after it, and the
    results before the user's text."""

    role: str
    parts: list[ContentPart] = field(default_factory=list)
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolMessage] = field(default_factory=list)

    def take_result(self, result: Said, call: object, name: object) -> None:
        """A result's text; its pictures become the user's, since templates take texts only."""
        call, name = (each if isinstance(each, str) else "" for each in (call, name))
        self.results.append(ToolMessage(text=result.text, call=call, name=name))
        self.parts += [part for part in result.parts if isinstance(part, ImagePart)]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


class Reader:
    """Reads the messages of one request; `pictures` of it are in `images`."""

    def __init__(self, pictures: Pictures) -> None:
        self._pictures = pictures
        self.images: list[ImagePart] = []

    def conversation(
        self,
        messages: object,
        system: object = None,
        name: str = "messages",
        tools: tuple[Tool, ...] = (),
    ) -> Conversation:
        """The messages in the field `name`, and the `system` text where the protocol has it apart.
        Raises Refusal."""
        if not isinstance(messages, list) or not messages:
            raise Refusal("A list of at least one message is needed.", name)
        said = [self.message(each, f"{name}.{index}") for index, each in enumerate(messages)]
        if system:
            said.insert(0, Said("system", self.parts(system, "system", Said("system"))))
        conversation = folded(said, tools)
        if not conversation.messages:
            raise Refusal("All messages are empty.", name)
        return conversation

    def message(self, message: object, field: str) -> Said:
        if not isinstance(message, dict):
            raise Refusal("A message must be an object.", field)
        role = message.get("role", "user")
        if role in ("tool", "function"):
            return self._result_message(message, field)
        if role == "developer":
            role = "system"
        if role not in ("system", "user", "assistant"):
            raise Refusal(f"{role!r} is no role; use system, user or assistant.", f"{field}.role")
        said = Said(role)
        said.parts += self.parts(message.get("content"), f"{field}.content", said)
        calls = message.get("tool_calls")
        for index, call in enumerate(calls if isinstance(calls, list) else ()):
            said.calls.append(_call(call, f"{field}.tool_calls.{index}"))
        # Ollama's pictures.
        images = message.get("images")
        for index, image in enumerate(images if isinstance(images, list) else ()):
            said.parts.append(self._image(image, f"{field}.images.{index}"))
        for name in ("reasoning_content", "reasoning", "thinking"):
            if isinstance(thought := message.get(name), str) and not said.reasoning:
                said.reasoning = thought
        if said.calls and role != "assistant":
            raise Refusal("Only an assistant's messages can have calls.", field)
        if role != "user" and any(isinstance(part, ImagePart) for part in said.parts):
            raise Refusal("Only user messages can have pictures.", f"{field}.content")
        return said

    def _result_message(self, message: dict[str, Any], field: str) -> Said:
        said = Said("user")
        result = Said("tool")
        result.parts += self.parts(message.get("content"), f"{field}.content", result)
        name = message.get("name", message.get("tool_name"))
        said.take_result(result, message.get("tool_call_id"), name)
        return said

    def parts(self, content: object, field: str, said: Said) -> list[ContentPart]:
        if content is None:
            return []
        if isinstance(content, str):
            return [TextPart(text=content)]
        if not isinstance(content, list):
            raise Refusal("Content must be a text or a list of parts.", field)
        found = (self._part(part, f"{field}.{index}", said) for index, part in enumerate(content))
        return [part for part in found if part is not None]

    def _part(self, part: object, field: str, said: Said) -> ContentPart | None:
        if isinstance(part, str):
            return TextPart(text=part)
        if not isinstance(part, dict):
            raise Refusal("A part must be an object.", field)
        kind = part.get("type")
        if kind in _TEXT_TYPES:
            text = part.get("text", part.get("refusal"))
            if not isinstance(text, str):
                raise Refusal("The text is missing.", f"{field}.text")
            return TextPart(text=text)
        if kind == "thinking":
            said.reasoning += str(part.get("thinking", ""))
            return None
        if kind in _IGNORED_TYPES:
            return None
        if kind in ("image_url", "input_image", "image"):
            return self._image(part, field)
        if kind == "tool_use":
            arguments = arguments_of(part.get("input"), f"{field}.input")
            said.calls.append(_named_call(part.get("name"), arguments, part.get("id"), field))
            return None
        if kind == "tool_result":
            result = Said("tool")
            result.parts += self.parts(part.get("content"), f"{field}.content", result)
            said.take_result(result, part.get("tool_use_id"), None)
            return None
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


def folded(said: list[Said], tools: tuple[Tool, ...] = ()) -> Conversation:
    """Templates allow one system message, at the start: later ones become a part of the user's next
    message, or a message of the user's."""
    start = next((at for at, each in enumerate(said) if each.role != "system"), len(said))
    messages: list[Message] = []
    if system := "\n\n".join(each.text for each in said[:start] if each.text):
        messages.append(SystemMessage(text=system))
    notes: list[ContentPart] = []
    names = {call.id: call.name for each in said for call in each.calls}
    for each in said[start:]:
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
