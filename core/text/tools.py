"""How a model writes tool calls, found by what its template writes for one."""

from __future__ import annotations

from core.api.chat import (
    AssistantMessage,
    Conversation,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from core.api.errors import TemplateError
from core.api.tools import MARKS, RESULT_BEGIN, RESULT_ENDS, ToolSyntax
from core.text.kit import TextKit
from core.text.masking import ContentStyle, definitions, template_message

_NAME = "look_up_weather"
_TOOL = Tool(
    name=_NAME,
    definition=(
        f'{{"type": "function", "function": {{"name": "{_NAME}", "description": "d", '
        '"parameters": {"type": "object", "properties": {"town": {"type": "string", '
        '"description": "d"}}, "required": ["town"]}}}'
    ),
)
_USER = UserMessage(content=(TextPart(text="a"),))
_CALL = AssistantMessage(
    text="", calls=(ToolCall(name=_NAME, arguments='{"town": "b"}', id="abcdefghi"),)
)
_RESULT = ToolMessage(text="c", call="abcdefghi", name=_NAME)
_HISTORY = Conversation(messages=(_USER, _CALL, _RESULT), tools=(_TOOL,))


def syntax_of(kit: TextKit, style: ContentStyle) -> ToolSyntax | None:
    """None where the template leaves tools out."""
    asked = _rendered(kit, style, Conversation(messages=(_USER,), tools=(_TOOL,)))
    if _NAME not in asked:
        return None
    history = _rendered(kit, style, _HISTORY)
    if f"<function={_NAME}>" in history:
        return "xml"
    if f"to=functions.{_NAME}" in history and kit.channels is not None:
        return "harmony"
    if f"{MARKS['gemma4'][0]}call:{_NAME}" in history:
        return "gemma4"
    if MARKS["lfm2"][0] in kit.template.source or kit.added.id_of(MARKS["lfm2"][0]) is not None:
        return "lfm2"
    if MARKS["hermes"][0] in history or MARKS["hermes"][0] in asked:
        return "hermes"
    return "llama3" if '"parameters"' in history else None


def writes_calls(kit: TextKit, style: ContentStyle) -> bool:
    """False for templates that expect calls inside a reply's text."""
    return _NAME in _rendered(kit, style, Conversation(messages=(_USER, _CALL, _USER)))


def joins_results(kit: TextKit, style: ContentStyle) -> bool:
    """True for templates of Gemma 4 that show no messages with results."""
    return f"{RESULT_BEGIN}response:" not in _rendered(kit, style, _HISTORY)


def call_ids(kit: TextKit, syntax: ToolSyntax | None) -> frozenset[int]:
    """The ids after which a prompt is split: a call begins, or a result ends."""
    if syntax is None:
        return frozenset()
    found = (kit.added.id_of(spelling) for spelling in (MARKS[syntax][0], *RESULT_ENDS))
    return frozenset(token_id for token_id in found if token_id is not None)


def _rendered(kit: TextKit, style: ContentStyle, conversation: Conversation) -> str:
    messages = [
        template_message(index, message, style, lambda _index, text, _kind: text)
        for index, message in enumerate(conversation.messages)
    ]
    tools = definitions(conversation, lambda _index, text, _kind: text)
    try:
        return kit.render(messages, None, 0.0, tools)
    except TemplateError:
        return ""
