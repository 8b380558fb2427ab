"""Messages and tools as chat templates take them, with each text written by a `TextWriter`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
from core.api.reply_format import MARKS, SHORT_ID

# A "part" is a text that another one of the same message follows.
SlotKind = Literal["text", "part", "thought", "answer", "call", "tool"]
TextWriter = Callable[[int | None, str, SlotKind], str]
TemplateMessage = dict[str, Any]

NO_ID = "0" * 9
_BETWEEN = {"type": "text", "text": "\n\n"}


@dataclass(frozen=True, slots=True)
class ContentStyle:
    """Forms of content that a template takes. `calls_in_text`: it shows no `tool_calls`, so LFM2's
    calls are in a reply's text. `calls_apart`: calls are messages, written anew.
    `results_in_calls`: results need a message with calls before them, so a sampled reply with calls
    is shown as one. `joins_results`: results, and the answer after them, are a part of that
    message. `joins_questions`: no question follows another or a result.
    `short_ids`: calls have ids of nine letters and digits."""

    always_lists: bool = False
    takes_lists: bool = True
    calls_in_text: bool = False
    calls_apart: bool = False
    results_in_calls: bool = False
    joins_results: bool = False
    joins_questions: bool = False
    short_ids: bool = False


def template_message(
    index: int, message: Message, style: ContentStyle, write: TextWriter
) -> TemplateMessage:
    if isinstance(message, AssistantMessage):
        thought = write(index, message.reasoning, "thought")
        answer = write(index, message.text, "answer")
        if message.calls and style.calls_in_text:
            answer += _python_calls(message.calls, index, write)
        shown = assistant_fields(thought, answer, style)
        if message.calls and not style.calls_in_text:
            if style.calls_apart and thought:
                shown["content"] = ""  # refused beside a thought
            shown["tool_calls"] = [
                call_fields(call, index, write, _id(call.id, style)) for call in message.calls
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


def joined_messages(messages: list[TemplateMessage], style: ContentStyle) -> list[TemplateMessage]:
    if style.joins_results:
        messages = _joined_results(messages)
    return _joined_questions(messages, style) if style.joins_questions else messages


def _joined_questions(
    messages: Iterable[TemplateMessage], style: ContentStyle
) -> list[TemplateMessage]:
    joined = list[TemplateMessage]()
    for message in messages:
        before = joined[-1] if joined and message["role"] == "user" else {}
        parts = [*_parts(before.get("content", [])), _BETWEEN, *_parts(message["content"])]
        texts_only = all("text" in part for part in parts)
        if before.get("role") == "user" or (before.get("role") == "tool" and texts_only):
            # Not a list of texts, since templates take results as one.
            joined[-1] = {**before, "content": _content(parts, replace(style, takes_lists=False))}
        else:
            joined.append(message)
    return joined


def _parts(content: str | list[dict[str, str]]) -> list[dict[str, str]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _joined_results(messages: Iterable[TemplateMessage]) -> list[TemplateMessage]:
    """For Gemma 4's first templates."""
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
    return hashlib.sha256(given.encode()).hexdigest()[: len(NO_ID)]


def call_fields(call: ToolCall, index: int, write: TextWriter, call_id: str) -> TemplateMessage:
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


def assistant_fields(thought: str, answer: str, style: ContentStyle) -> TemplateMessage:
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
