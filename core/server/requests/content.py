"""Messages of all protocols as one conversation.

OpenAI's, Anthropic's and Ollama's messages differ in the names of their parts only.
"""

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
    UserMessage,
)
from core.server.requests.pictures import Pictures
from core.server.requests.refusals import Refusal

_TEXT_TYPES = ("text", "input_text", "output_text", "refusal")
# Parts without anything that a prompt needs.
_IGNORED_TYPES = ("redacted_thinking", "cache_control")
_NO_TOOLS = "Tool calls are not supported by this server yet."


@dataclass
class Said:
    """One message: its parts in order, and the thought before a reply."""

    role: str
    parts: list[ContentPart] = field(default_factory=list)
    reasoning: str = ""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


class Reader:
    """Reads the messages of one request; `pictures` of it are in `images`."""

    def __init__(self, pictures: Pictures) -> None:
        self._pictures = pictures
        self.images: list[ImagePart] = []

    def conversation(
        self, messages: object, system: object = None, name: str = "messages"
    ) -> Conversation:
        """The messages in the field `name`, and the `system` text where the protocol has it apart.
        Raises Refusal."""
        if not isinstance(messages, list) or not messages:
            raise Refusal("A list of at least one message is needed.", name)
        said = [self.message(each, f"{name}.{index}") for index, each in enumerate(messages)]
        if system:
            said.insert(0, Said("system", self.parts(system, "system", Said("system"))))
        return folded(said)

    def message(self, message: object, field: str) -> Said:
        if not isinstance(message, dict):
            raise Refusal("A message must be an object.", field)
        role = message.get("role", "user")
        if role in ("tool", "function") or message.get("tool_calls"):
            raise Refusal(_NO_TOOLS, field, code="tools_unsupported")
        if role == "developer":
            role = "system"
        if role not in ("system", "user", "assistant"):
            raise Refusal(f"{role!r} is no role; use system, user or assistant.", f"{field}.role")
        said = Said(role)
        said.parts += self.parts(message.get("content"), f"{field}.content", said)
        # Ollama's pictures.
        images = message.get("images")
        for index, image in enumerate(images if isinstance(images, list) else ()):
            said.parts.append(self._image(image, f"{field}.images.{index}"))
        for name in ("reasoning_content", "reasoning", "thinking"):
            if isinstance(thought := message.get(name), str) and not said.reasoning:
                said.reasoning = thought
        if role != "user" and any(isinstance(part, ImagePart) for part in said.parts):
            raise Refusal("Only user messages can have pictures.", f"{field}.content")
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
        if kind in ("tool_use", "tool_result", "server_tool_use"):
            raise Refusal(_NO_TOOLS, field, code="tools_unsupported")
        raise Refusal(f"Parts of type {kind!r} can't be read.", f"{field}.type")

    def _image(self, part: Any, field: str) -> ImagePart:
        """A picture as a base64 text, a data URL, or a part that has one of both."""
        source = part.get("source") if isinstance(part, dict) else None
        if isinstance(source, dict) and source.get("type") == "base64":
            image = self._pictures.put(source.get("data"), f"{field}.source.data")
        elif isinstance(part, str):
            image = self._pictures.put(part, field)
        else:
            url = source if source is not None else part.get("image_url")
            image = self._pictures.put_url(url.get("url") if isinstance(url, dict) else url, field)
        self.images.append(image)
        return image


def folded(said: list[Said]) -> Conversation:
    """Templates allow one system message, at the start: later ones become a part of the user's
    next message, or a message of the user's."""
    start = next((at for at, each in enumerate(said) if each.role != "system"), len(said))
    messages: list[Message] = []
    if system := "\n\n".join(each.text for each in said[:start] if each.text):
        messages.append(SystemMessage(text=system))
    notes: list[ContentPart] = []
    for each in said[start:]:
        if each.role == "system":
            notes.append(TextPart(text=f"{each.text}\n\n"))
            continue
        if each.role == "user":
            messages.append(UserMessage(content=(*notes, *each.parts)))
        else:
            if notes:
                messages.append(UserMessage(content=tuple(notes)))
            messages.append(AssistantMessage(text=each.text, reasoning=each.reasoning))
        notes = []
    if notes:
        messages.append(UserMessage(content=tuple(notes)))
    last = messages[-1] if messages else None
    if isinstance(last, AssistantMessage) and not (last.text or last.reasoning):
        del messages[-1]
    return Conversation(messages=tuple(messages))
