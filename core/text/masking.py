"""A conversation as a template gets it: a mark of private-use characters in place of every text.

Templates are arbitrary code: what one does with a mark (keep, drop, repeat) shows what it does with
a text. Whitespace around a text is passed on, to be trimmed as usual.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from core.api.chat import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
)
from core.api.errors import TemplateError
from core.api.reply_format import ARGUMENTS_MARK, ID_MARK, MARKS, SHORT_ID, ToolSyntax
from core.text.reply_parts import SampledReply

_NO_ID = "0" * 9
# The texts that a template writes around a sampled reply in place of a call.
AROUND_REPLY: dict[ToolSyntax, tuple[str, str]] = {
    "gemma4": (f"{MARKS['gemma4'][0]}call:", f"{{}}{MARKS['gemma4'][1]}"),
    "mistral": (MARKS["mistral"][0], f"{ARGUMENTS_MARK}{{}}"),
    "mistral_ids": (MARKS["mistral"][0], f'{ID_MARK}{_NO_ID}{ARGUMENTS_MARK}""'),
    "mistral_list": (
        f'{MARKS["mistral"][0]}[{{"name": "',
        f'", "arguments": "", "id": "{_NO_ID}"}}]',
    ),
}

# A "part" is a text that another one of the same message follows.
SlotKind = Literal["text", "part", "thought", "answer", "call", "tool"]
TemplateMessage = dict[str, Any]

_MOST_DIGITS = 9  # of a mark's number: a context holds fewer texts


@dataclass(frozen=True, slots=True)
class Slot:
    """The text of one mark, in message number `message` (None: the tools' definitions), or with a
    `reply` its sampled ids. A "tool" slot is the spelling of an added token in a call, a result or
    a definition, which templates escape."""

    message: int | None
    kind: SlotKind
    text: str
    reply: SampledReply | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """Two characters that occur nowhere else. A mark is a number between them."""

    left: str
    right: str

    @classmethod
    def absent_from(cls, texts: Iterable[str]) -> Marks:
        used = set().union(*texts)
        free = (chr(code) for code in _private_codes() if chr(code) not in used)
        left, right = next(free, None), next(free, None)
        if left is None or right is None:
            raise TemplateError(
                "The conversation and the template use every character of Unicode's private use "
                "areas, and two of them must be free."
            )
        return cls(left, right)

    def write(self, number: int) -> str:
        return f"{self.left}{number}{self.right}"

    def split(self, text: str) -> tuple[list[str | int], bool]:
        numbers: list[int] = []
        texts: list[list[str]] = [[]]
        torn = False
        for index, part in enumerate(text.split(self.left)):
            rest = part
            if index:
                number, right, after = part.partition(self.right)
                if right and _is_number(number):
                    numbers.append(int(number))
                    texts.append([])
                    rest = after
                else:
                    torn = True
            torn = torn or self.right in rest
            texts[-1].append(rest.replace(self.right, ""))
        pieces: list[str | int] = ["".join(texts[0])]
        for mark, following in zip(numbers, texts[1:], strict=True):
            pieces += (mark, "".join(following))
        return pieces, torn


def _is_number(text: str) -> bool:
    return len(text) <= _MOST_DIGITS and text.isascii() and text.isdigit()


def _private_codes() -> Iterable[int]:
    yield from range(0xE000, 0xF900)
    yield from range(0xF0000, 0xFFFFE)


@dataclass(frozen=True, slots=True)
class ContentStyle:
    """Forms of content that a template takes. `calls_in_text`: it shows no `tool_calls`, so LFM2's
    calls stand in a reply's text. `calls_apart`: calls are messages of their own, written anew.
    `results_in_calls`: it takes results only after a message with calls, so a sampled reply with
    calls is shown as one. `joins_results`: the results, and the answer after them, must be a part
    of that message. `short_ids`: calls have ids of nine letters and digits."""

    always_lists: bool = False
    takes_lists: bool = True
    calls_in_text: bool = False
    calls_apart: bool = False
    results_in_calls: bool = False
    joins_results: bool = False
    short_ids: bool = False


TextWriter = Callable[[int | None, str, SlotKind], str]
SampledOf = Callable[[AssistantMessage], SampledReply | None]


@dataclass
class Masks:
    marks: Marks
    find: Callable[[str], list[tuple[int, int]]] = lambda _: []
    slots: list[Slot] = field(default_factory=list)

    def text(self, message: int | None, text: str, kind: SlotKind) -> str:
        if kind == "tool":
            return hidden(text, self.find, lambda found: self.mark(Slot(message, kind, found)))
        core = text.strip()
        if not core:
            return text
        start = len(text) - len(text.lstrip())
        return text[:start] + self.mark(Slot(message, kind, core)) + text[start + len(core) :]

    def reply(self, message: int, reply: SampledReply) -> tuple[str, str]:
        thought = self.mark(Slot(message, "thought", "", reply)) if reply.thinks else ""
        answer = self.mark(Slot(message, "answer", "", reply)) if reply.answer else ""
        return thought, answer

    def mark(self, slot: Slot) -> str:
        self.slots.append(slot)
        return self.marks.write(len(self.slots) - 1)


def mask(
    messages: Sequence[Message], style: ContentStyle, masks: Masks, sampled: SampledOf
) -> list[TemplateMessage]:
    masked = []
    for index, message in enumerate(messages):
        reply = sampled(message) if isinstance(message, AssistantMessage) else None
        given = message.calls if isinstance(message, AssistantMessage) else ()
        if reply is not None and reply.call and len(given) == 1 and not masks.find(given[0].name):
            masked.append(_calling(index, given[0], reply, masks))
            continue
        if reply is None or (style.calls_apart and given):
            masked.append(template_message(index, message, style, masks.text))
            continue
        thought, answer = masks.reply(index, reply)
        if style.results_in_calls and given:
            function = {"name": answer, "arguments": ""}
            no_id = _NO_ID if style.short_ids else ""
            shown = _assistant(thought, "", style)
            shown["tool_calls"] = [{"type": "function", "id": no_id, "function": function}]
            masked.append(shown)
        else:
            masked.append(_assistant(thought, answer, style))
    return joined_results(masked) if style.joins_results else masked


def joined_results(messages: Iterable[TemplateMessage]) -> list[TemplateMessage]:
    """Join results to the form that Gemma 4's first templates take."""
    joined = list[TemplateMessage]()
    for message in messages:
        calling = joined[-1] if joined and "tool_calls" in joined[-1] else {}
        if calling and message["role"] == "tool":
            response = {"name": message["name"], "response": message["content"]}
            calling.setdefault("tool_responses", []).append(response)
        elif "tool_responses" in calling and _only_answers(message) and not calling["content"]:
            calling["content"] = message["content"]
        else:
            joined.append(message)
    return joined


def _only_answers(message: TemplateMessage) -> bool:
    return message["role"] == "assistant" and "tool_calls" not in message


def _calling(index: int, call: ToolCall, reply: SampledReply, masks: Masks) -> TemplateMessage:
    thought = masks.mark(Slot(index, "thought", "", reply)) if reply.thinks else ""
    shown = _assistant(thought, "", ContentStyle())
    arguments = masks.mark(Slot(index, "call", "", reply))
    shown["tool_calls"] = [_call(call, index, masks.text, call.id)]
    shown["tool_calls"][0]["function"]["arguments"] = arguments
    return shown


def template_message(
    index: int, message: Message, style: ContentStyle, write: TextWriter
) -> TemplateMessage:
    if isinstance(message, AssistantMessage):
        thought = write(index, message.reasoning, "thought")
        answer = write(index, message.text, "answer")
        if message.calls and style.calls_in_text:
            return _assistant(thought, answer + _python_calls(message.calls, index, write), style)
        shown = _assistant(thought, answer, style)
        if message.calls and style.calls_apart and thought:
            shown["content"] = ""  # refused beside a thought
        if message.calls:
            shown["tool_calls"] = [
                _call(call, index, write, _id(call.id, style)) for call in message.calls
            ]
        return shown
    if isinstance(message, ToolMessage):
        text = write(index, message.text, "tool")
        content = _content([{"type": "text", "text": text}], style)
        return {
            "role": "tool",
            "content": content,
            "name": write(index, message.name, "tool"),
            "tool_call_id": write(index, _id(message.call, style), "tool"),
        }
    if isinstance(message, SystemMessage):
        text = write(index, message.text, "text")
        return {"role": "system", "content": _content([{"type": "text", "text": text}], style)}
    parts = [
        {
            "type": "text",
            "text": write(index, part.text, "part" if isinstance(after, TextPart) else "text"),
        }
        if isinstance(part, TextPart)
        else {"type": "image"}
        for part, after in zip(message.content, (*message.content[1:], None), strict=True)
    ]
    return {"role": "user", "content": _content(parts, style)}


def definitions(conversation: Conversation, write: TextWriter) -> list[Any] | None:
    if not conversation.tools:
        return None
    return [_rewritten(json.loads(tool.definition), None, write) for tool in conversation.tools]


def tool_texts(conversation: Conversation) -> Iterator[str]:
    yield from (tool.definition for tool in conversation.tools)
    for message in conversation.messages:
        if isinstance(message, ToolMessage):
            yield from (message.text, message.name, message.call)
        elif isinstance(message, AssistantMessage):
            for call in message.calls:
                yield from (call.name, call.arguments, call.id)


def _id(given: str, style: ContentStyle) -> str:
    if not style.short_ids or re.fullmatch(SHORT_ID, given):
        return given
    return hashlib.sha256(given.encode()).hexdigest()[: len(_NO_ID)]


def _call(call: ToolCall, index: int, write: TextWriter, call_id: str) -> TemplateMessage:
    arguments = _rewritten(json.loads(call.arguments), index, write)
    return {
        "type": "function",
        "id": write(index, call_id, "tool"),
        "function": {"name": write(index, call.name, "tool"), "arguments": arguments},
    }


def _python_calls(calls: Sequence[ToolCall], index: int, write: TextWriter) -> str:
    written = []
    for call in calls:
        arguments = _rewritten(json.loads(call.arguments), index, write)
        named = (f"{name}={_python(value)}" for name, value in arguments.items())
        written.append(f"{write(index, call.name, 'tool')}({', '.join(named)})")
    return ", ".join(written).join((f"{MARKS['lfm2'][0]}[", f"]{MARKS['lfm2'][1]}"))


def _python(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _rewritten(value: Any, index: int | None, write: TextWriter) -> Any:
    if isinstance(value, str):
        return write(index, value, "tool")
    if isinstance(value, dict):
        return {
            write(index, name, "tool"): _rewritten(each, index, write)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_rewritten(each, index, write) for each in value]
    return value


def hidden(
    text: str, find: Callable[[str], list[tuple[int, int]]], hide: Callable[[str], str]
) -> str:
    pieces, start = list[str](), 0
    for begin, end in find(text):
        pieces += (text[start:begin], hide(text[begin:end]))
        start = end
    return "".join((*pieces, text[start:]))


def _assistant(thought: str, answer: str, style: ContentStyle) -> TemplateMessage:
    content = _content([{"type": "text", "text": answer}], style)
    message: TemplateMessage = {"role": "assistant", "content": content}
    if thought:
        message |= {"reasoning_content": thought, "thinking": thought}
    return message


def _content(parts: list[dict[str, str]], style: ContentStyle) -> str | list[dict[str, str]]:
    if not all("text" in part for part in parts) or (style.takes_lists and len(parts) > 1):
        return parts
    text = "".join(part["text"] for part in parts)
    return [{"type": "text", "text": text}] if style.always_lists else text


def num_images(message: Message) -> int:
    parts = getattr(message, "content", ())
    return sum(isinstance(part, ImagePart) for part in parts)
