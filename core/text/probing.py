"""Traits of a chat template, found by rendering small conversations at load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    ImagePart,
    Message,
    ReplyIds,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from core.api.errors import TemplateError
from core.api.params import Thinking
from core.api.prompt import Image, TextRun
from core.api.reply_format import MARKS, RESULT_BEGIN, RESULT_ENDS, ToolSyntax
from core.text.added_tokens import AddedToken
from core.text.assembly import assemble
from core.text.channels import ANSWER, START, THOUGHT
from core.text.history import Item, Traits, masked_items, plain_messages, spliced_pieces
from core.text.kit import TextKit
from core.text.masking import AROUND_REPLY, Slot
from core.text.template_messages import ContentStyle, definitions, template_message

# A picture that is never opened: probing only asks what the template writes for one.
_PICTURE = ImagePart(digest="0" * 64, path="")

# Each shows a template that escapes, cuts, re-wraps or translates what it is given.
_QUESTION = "  What \"does\" this <b>say</b> & why?\n\n\\n stays. 'So' it's 1 {{ x }}\t"
_FOLLOW_UP = "And\n  then, \u00e9 \u4f60\u597d? "
_SYSTEM = '\nBe brief: answer in "one" line.\nNever two. '
_ANSWER = "It says hello, twice.\n\n- one\n- two"
_THOUGHT = "The picture shows a sign.\nSo I read it."

LOST = "its chat template changes or drops parts of the conversation"
DIFFERENT = "its chat template joins messages in a way that changes their tokens"


def probe_traits(kit: TextKit) -> Traits:
    style = ContentStyle(always_lists=_wants_lists(kit))
    style = replace(style, takes_lists=_takes_lists(kit, style))
    tools = syntax_of(kit, style)
    style = replace(
        style,
        calls_in_text=tools == "lfm2" and not writes_calls(kit, style),
        calls_apart=tools == "harmony",
        results_in_calls=tools in AROUND_REPLY,
        joins_results=tools == "gemma4" and joins_results(kit, style),
        joins_questions=not _rendered(kit, style, _chat(_user("a"), _user("b"))),
        short_ids=tools in ("mistral_ids", "mistral_list"),
    )
    return Traits(
        style=style,
        takes_images=_takes_images(kit, style),
        reply_space=_reply_space(kit, style),
        closing_id=_closing_id(kit, style),
        has_thinking_switch=_has_thinking_switch(kit, style),
        tools=tools,
    )


def _user(*parts: ContentPart | str) -> UserMessage:
    content = (TextPart(text=part) if isinstance(part, str) else part for part in parts)
    return UserMessage(content=tuple(content))


def _chat(*messages: Message) -> Conversation:
    return Conversation(messages=messages)


def _items(
    kit: TextKit, style: ContentStyle, messages: Sequence[Message], thinking: Thinking = None
) -> list[Item] | None:
    try:
        return masked_items(kit, style, _chat(*messages), thinking)
    except TemplateError:
        return None


def _wants_lists(kit: TextKit) -> bool:
    lists = ContentStyle(always_lists=True)
    try:
        plain = masked_items(kit, ContentStyle(), _chat(_user("a")))
    except TemplateError:
        if _items(kit, lists, [_user("a")]) is None:
            raise
        return True
    return plain is None and _items(kit, lists, [_user("a")]) is not None


def _takes_lists(kit: TextKit, style: ContentStyle) -> bool:
    one, two = _items(kit, style, [_user("a")]), _items(kit, style, [_user("a", "b")])
    return one is not None and two is not None and (one[0], one[-1]) == (two[0], two[-1])


def _takes_images(kit: TextKit, style: ContentStyle) -> bool:
    items = _items(kit, style, [_user(_PICTURE, "a")]) if style.takes_lists else None
    if items is None:
        return False
    glue = [token for item in items if isinstance(item, str) for token in kit.added.split(item)]
    found = [token.id for token in glue if isinstance(token, AddedToken)]
    return sum(token_id == kit.image_token_id for token_id in found) == 1


def _reply_space(kit: TextKit, style: ContentStyle) -> str:
    asked = _items(kit, style, [_user("a")])
    history = _items(kit, style, [_user("a"), AssistantMessage(text="b"), _user("c")])
    if asked is None or history is None:
        return ""
    opening, header = asked[-1], history[2]
    if not (isinstance(opening, str) and isinstance(header, str) and header.startswith(opening)):
        return ""
    space = header[len(opening) :]
    return space if space.isspace() else ""


def _closing_id(kit: TextKit, style: ContentStyle) -> int | None:
    items = _items(kit, style, [_user("a"), AssistantMessage(text="b"), _user("c")])
    if items is None:
        return None
    place = next(
        index
        for index, item in enumerate(items)
        if isinstance(item, Slot) and item.kind == "answer"
    )
    glue = items[place + 1]
    assert isinstance(glue, str)
    first = next(kit.added.split(glue.lstrip()), None)
    return first.id if isinstance(first, AddedToken) else None


def _has_thinking_switch(kit: TextKit, style: ContentStyle) -> bool:
    on, off = (_items(kit, style, [_user("a")], thinking) for thinking in (True, False))
    return on != off


def splicing_obstacle(kit: TextKit, traits: Traits) -> str:
    """Half a sentence; "" where replies can be reused token for token.

    Compares conversations with spliced ids to plain ones, as in training.
    """
    switches = (None, True, False) if traits.has_thinking_switch else (None,)
    checked = 0
    for conversation in _conversations(kit, traits):
        for thinking in switches:
            try:
                expected = _plain_ids(kit, traits, conversation, thinking)
            except TemplateError:
                continue  # the template refuses such a conversation, and will tell the user so
            spliced = _spliced_ids(kit, traits, conversation, thinking)
            if spliced != expected:
                return LOST if spliced is None else DIFFERENT
            checked += 1
    return "" if checked else LOST


def _conversations(kit: TextKit, traits: Traits) -> Iterator[Conversation]:
    first, second, system = _user(_QUESTION), _user(_FOLLOW_UP), SystemMessage(text=_SYSTEM)
    # As the model would have sampled it, directly after the generation prompt.
    ids = kit.tokenizer.ids(traits.reply_space + _ANSWER)
    packed = ReplyIds.pack(ids, kit.fingerprint, starts_in_reasoning=False)
    reply = AssistantMessage(text=_ANSWER, ids=packed)
    yield _chat(first)
    yield _chat(system, first)
    yield _chat(first, reply, second)
    yield _chat(system, first, reply, second, reply, first)
    if kit.thinking.known or kit.channels is not None:
        yield _chat(first, _thinking_reply(kit), second)
    if traits.takes_images:
        pictured = _user(_PICTURE, _QUESTION)
        yield _chat(system, pictured, reply, _user(_FOLLOW_UP, _PICTURE))


def _thinking_reply(kit: TextKit) -> AssistantMessage:
    if kit.channels is not None:
        ids = [*kit.header_of(THOUGHT), *kit.tokenizer.ids(_THOUGHT), kit.channels.end]
        ids += [*kit.tokenizer.encode_published(f"{START}assistant"), *kit.header_of(ANSWER)]
        ids += kit.tokenizer.ids(_ANSWER)
        packed = ReplyIds.pack(ids, kit.fingerprint, starts_in_reasoning=False)
        return AssistantMessage(text=_ANSWER, reasoning=_THOUGHT, ids=packed)
    assert kit.thinking.close is not None
    thought, answer = kit.tokenizer.ids(_THOUGHT + "\n"), kit.tokenizer.ids("\n\n" + _ANSWER)
    ids = [*thought, kit.thinking.close, *answer]
    packed = ReplyIds.pack(ids, kit.fingerprint, starts_in_reasoning=True)
    return AssistantMessage(text=_ANSWER, reasoning=_THOUGHT, ids=packed)


def _plain_ids(
    kit: TextKit, traits: Traits, conversation: Conversation, thinking: Thinking
) -> list[int]:
    messages = plain_messages(conversation.messages, traits.style, lambda text: text)
    rendered = kit.template.render(messages, thinking, conversation.created)
    return kit.tokenizer.encode_published(rendered)


def _spliced_ids(
    kit: TextKit, traits: Traits, conversation: Conversation, thinking: Thinking
) -> list[int] | None:
    try:
        pieces = spliced_pieces(kit, traits, conversation, thinking)
    except TemplateError:
        return None
    if pieces is None:
        return None
    picture = Image(key=bytes(16), rows=1, columns=1, num_positions=1)
    assembly, _ = assemble(pieces, (), kit.tokenizer, [picture] * 2)
    ids: list[int] = []
    for segment in assembly.segments:
        ids.extend(segment.ids if isinstance(segment, TextRun) else [kit.image_token_id or 0])
    return ids


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
_ID = "abcdefghi"
_CALL = AssistantMessage(text="", calls=(ToolCall(name=_NAME, arguments='{"town": "b"}', id=_ID),))
_RESULT = ToolMessage(text="c", call=_ID, name=_NAME)
_HISTORY = Conversation(messages=(_USER, _CALL, _RESULT), tools=(_TOOL,))

_JSON = r'\{\s*"name":\s*"%s",\s*"%s":\s*\{"town": "b"\}\s*\}'
_CALLS: dict[ToolSyntax, str] = {
    "xml": rf"<tool_call>\s*<function={_NAME}>\s*<parameter=town>\s*b\s*</parameter>\s*"
    "</function>\\s*</tool_call>",
    "harmony": rf"to=functions\.{_NAME}\b",
    "gemma4": rf"{re.escape(MARKS['gemma4'][0])}call:{_NAME}\{{",
    "mistral": rf"\[TOOL_CALLS\]{_NAME}\[ARGS\]\{{",
    "mistral_ids": rf"\[TOOL_CALLS\]{_NAME}\[CALL_ID\]{_ID}\[ARGS\]\{{",
    "mistral_list": rf'\[TOOL_CALLS\] ?\[\{{"name": "{_NAME}", "arguments": \{{"town": "b"\}}, '
    rf'"id": "{_ID}"\}}\]',
    "lfm2": rf"{re.escape(MARKS['lfm2'][0])}\[{_NAME}\(",
    "hermes": rf"<tool_call>\s*{_JSON % (_NAME, 'arguments')}\s*</tool_call>",
    "llama3": _JSON % (_NAME, "parameters"),
}


def syntax_of(kit: TextKit, style: ContentStyle) -> ToolSyntax | None:
    """None if the template leaves tools out, or writes calls in another syntax."""
    asked = _rendered(kit, style, Conversation(messages=(_USER,), tools=(_TOOL,)))
    if _NAME not in asked:
        return None
    history = _rendered(kit, style, _HISTORY)
    found = (
        syntax
        for syntax, call in _CALLS.items()
        if re.search(call, history) and (syntax != "harmony" or kit.channels is not None)
    )
    if (syntax := next(found, None)) is not None or writes_calls(kit, style):
        return syntax
    # Some templates expect calls inside a reply's text; the question may show their syntax.
    begin = MARKS["lfm2"][0]
    if begin in kit.template.source or kit.added.id_of(begin) is not None:
        return "lfm2"
    return "hermes" if re.search(r'<tool_call>\s*\{"name"', asked) else None


def writes_calls(kit: TextKit, style: ContentStyle) -> bool:
    """False if calls belong into a reply's text."""
    return _NAME in _rendered(kit, style, Conversation(messages=(_USER, _CALL, _USER)))


def joins_results(kit: TextKit, style: ContentStyle) -> bool:
    """True for Gemma 4's templates that show no messages with results."""
    return f"{RESULT_BEGIN}response:" not in _rendered(kit, style, _HISTORY)


def call_ids(kit: TextKit, syntax: ToolSyntax | None) -> frozenset[int]:
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
        return kit.template.render(messages, None, 0.0, tools)
    except TemplateError:
        return ""
