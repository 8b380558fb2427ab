"""From a conversation to a prompt's pieces: text, control tokens, sampled ids, pictures.

Replies are spliced in as sampled ids where the template allows it, else as text. Only the
template's own text is split at added tokens, so nothing typed becomes a control token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from core.api.chat import (
    ContentPart,
    Conversation,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from core.api.errors import TemplateError
from core.api.params import Thinking
from core.api.reply_format import ToolSyntax
from core.text.added_tokens import AddedToken
from core.text.channels import ROLE, START
from core.text.kit import TextKit
from core.text.masking import AROUND_REPLY, Masks, Slot, hidden, mask
from core.text.reply_parts import SampledReply, ThinkingTokens, trimmed
from core.text.template_messages import (
    ContentStyle,
    TemplateMessage,
    definitions,
    joined_messages,
    num_images,
    template_message,
    tool_texts,
)


@dataclass(frozen=True, slots=True)
class Traits:
    """Traits of a template, found by probing.

    `closing_id` is the added token right after a reply; `reply_space` whitespace before one, in
    history only.
    """

    style: ContentStyle
    takes_images: bool = False
    reply_space: str = ""
    closing_id: int | None = None
    has_thinking_switch: bool = False
    tools: ToolSyntax | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    ids: tuple[int, ...]
    pauses: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    index: int


@dataclass(frozen=True, slots=True)
class Piece:
    """`message` is its owner, None for the template. With `ends_part` another text of that message
    follows."""

    content: str | AddedToken | Sampled | Picture
    message: int | None = None
    ends_part: bool = False


# Glue (the template's own text), the slot of a text, or a finished piece.
Item = str | Slot | Piece


def spliced_pieces(
    kit: TextKit, traits: Traits, conversation: Conversation, thinking: Thinking
) -> list[Piece] | None:
    items = masked_items(kit, traits.style, conversation, thinking)
    if items is None:
        return None
    _splice_replies(items, traits.reply_space, kit)
    return _to_pieces(items, kit, conversation.messages)


def masked_items(
    kit: TextKit, style: ContentStyle, conversation: Conversation, thinking: Thinking = None
) -> list[Item] | None:
    """Glue and slots in turn; None if a text was lost, doubled or moved. Thoughts may be lost."""
    texts = tuple(tool_texts(conversation))
    marks = kit.marks_absent_from(texts) if texts else kit.marks
    # Asking the helper for each text takes longer than asking for all at once.
    spelled = any(kit.added.find(text) for text in texts)
    masks = Masks(marks, kit.added.find) if spelled else Masks(marks)
    tools = definitions(conversation, masks.text)
    messages = mask(conversation.messages, style, masks, kit.sampled)
    split, torn = marks.split(kit.template.render(messages, thinking, conversation.created, tools))
    kinds = [slot.kind for slot in masks.slots]
    # Templates place, repeat and leave out tools as they like.
    found = [each for each in split if isinstance(each, int) and kinds[each : each + 1] != ["tool"]]
    present = set(found)
    expected = [
        number
        for number, kind in enumerate(kinds)
        if kind != "tool" and (kind != "thought" or number in present)
    ]
    if torn or found != expected:
        return None
    return [masks.slots[item] if isinstance(item, int) else item for item in split]


def _splice_replies(items: list[Item], reply_space: str, kit: TextKit) -> None:
    """`reply_space` is dropped, as the ids were sampled without it."""
    by_message: dict[int, dict[str, int]] = {}
    for index, item in enumerate(items):
        if isinstance(item, Slot) and item.reply is not None and item.message is not None:
            by_message.setdefault(item.message, {})[item.kind] = index
    for message, places in by_message.items():
        _splice(items, message, places, reply_space, kit)


def _splice(
    items: list[Item], message: int, places: dict[str, int], reply_space: str, kit: TextKit
) -> None:
    thought, answer, call = (places.get(kind) for kind in ("thought", "answer", "call"))
    if call is not None:
        _splice_call(items, message, thought, call)
        return
    if answer is not None:
        _drop_call(items, answer)
    reply = _reply_at(items, thought if thought is not None else answer)
    whole = Piece(Sampled(reply.ids, reply.pauses), message)
    control = kit.thinking
    known = control.known
    if thought is not None and known and _shows_whole_reply(items, thought, answer, control):
        before = items[thought - 1]
        if reply.opens_itself and isinstance(before, str):
            items[thought - 1] = before.rstrip().removesuffix(control.begin)
        items[thought] = whole
        if answer is not None:
            items[thought + 1] = items[answer] = ""
        elif reply.closed:
            # The sampled ids already hold the closing token.
            glue = items[thought + 1]
            assert isinstance(glue, str)
            items[thought + 1] = glue.lstrip().removeprefix(control.closing).lstrip()
        return
    if thought is not None:
        ids = trimmed(reply.thought or (), kit.tokens.is_space)
        items[thought] = Piece(Sampled(ids), message)
    if answer is not None:
        is_whole = reply.answer == reply.ids
        items[answer] = whole if is_whole else Piece(Sampled(reply.answer), message)
        glue = items[answer - 1]
        if not reply.thinks and reply_space and isinstance(glue, str):
            items[answer - 1] = glue.removesuffix(reply_space)


def _splice_call(items: list[Item], message: int, thought: int | None, call: int) -> None:
    """Splice a reply in messages, from the end of its role on: all of it, or only the call where
    the template leaves the thought out."""
    reply, first = _reply_at(items, call), call if thought is None else thought
    shown = reply.ids if thought is not None or not reply.thinks else reply.call
    before, after = items[first - 1], items[call + 1]
    assert isinstance(before, str) and isinstance(after, str)
    header, role, _ = before.rpartition(START + ROLE)
    items[first - 1 : call + 2] = [
        header + role,
        Piece(Sampled(shown, reply.pauses if shown == reply.ids else ()), message),
        *[""] * (call - first),
        after.removeprefix('"'),
    ]


def _drop_call(items: list[Item], answer: int) -> None:
    before, after = items[answer - 1], items[answer + 1]
    assert isinstance(before, str) and isinstance(after, str)
    for begin, end in AROUND_REPLY.values():
        if before.endswith(begin) and after.startswith(end):
            items[answer - 1 : answer + 2 : 2] = before.removesuffix(begin), after.removeprefix(end)


def _reply_at(items: list[Item], place: int | None) -> SampledReply:
    slot = items[place] if place is not None else None
    assert isinstance(slot, Slot)
    assert slot.reply is not None
    return slot.reply


def _shows_whole_reply(
    items: list[Item], thought: int, answer: int | None, control: ThinkingTokens
) -> bool:
    before, after = items[thought - 1], items[thought + 1]
    assert isinstance(before, str)
    assert isinstance(after, str)
    if not before.rstrip().endswith(control.begin):
        return False
    if answer is None:
        return not _reply_at(items, thought).closed or after.lstrip().startswith(control.closing)
    return answer == thought + 2 and after.strip() == control.closing


def _to_pieces(items: Sequence[Item], kit: TextKit, messages: Sequence[Message]) -> list[Piece]:
    owners = [index for index, message in enumerate(messages) for _ in range(num_images(message))]
    pieces: list[Piece] = []
    pictures = 0
    for item in items:
        if isinstance(item, Piece):
            pieces.append(item)
        elif isinstance(item, Slot):
            pieces.append(Piece(item.text, item.message, ends_part=item.kind == "part"))
        else:
            for content in kit.added.split(item):
                if isinstance(content, AddedToken) and content.id == kit.image_token_id:
                    owner = owners[pictures] if pictures < len(owners) else None
                    pieces.append(Piece(Picture(pictures), owner))
                    pictures += 1
                else:
                    pieces.append(Piece(content))
    if pictures != len(owners):
        raise TemplateError(
            f"The template shows {pictures} of the conversation's {len(owners)} pictures."
        )
    return pieces


def plain_pieces(
    kit: TextKit, traits: Traits, conversation: Conversation, thinking: Thinking
) -> list[Piece]:
    """The prompt with replies from their text. Raises TemplateError.

    Each added token's spelling in a text is hidden in a mark, and so comes out as text.
    """
    marks = kit.marks_absent_from((*_texts(conversation.messages), *tool_texts(conversation)))
    spellings: list[str] = []

    def mark(spelling: str) -> str:
        spellings.append(spelling)
        return marks.write(len(spellings) - 1)

    def hide(text: str) -> str:
        return hidden(text, kit.added.find, mark)

    messages = plain_messages(conversation.messages, traits.style, hide)
    tools = definitions(conversation, lambda index, text, kind: hide(text))
    split, _ = marks.split(kit.template.render(messages, thinking, conversation.created, tools))
    if any(isinstance(item, int) and item >= len(spellings) for item in split):
        raise TemplateError(
            "While it is rendered, the template writes the characters that mark typed control "
            "tokens, so its output can't be read."
        )
    items = [Piece(spellings[item]) if isinstance(item, int) else item for item in split]
    return _to_pieces(items, kit, conversation.messages)


def plain_messages(
    messages: Sequence[Message], style: ContentStyle, hide: Callable[[str], str]
) -> list[TemplateMessage]:
    shown = [
        template_message(index, joined_texts(message), style, lambda index, text, kind: hide(text))
        for index, message in enumerate(messages)
    ]
    return joined_messages(shown, style)


def joined_texts(message: Message) -> Message:
    """Two neighbouring texts could spell what neither does."""
    if not isinstance(message, UserMessage):
        return message
    content: list[ContentPart] = []
    for is_text, parts in groupby(message.content, lambda part: isinstance(part, TextPart)):
        if is_text:
            texts = (part.text for part in parts if isinstance(part, TextPart))
            content.append(TextPart(text="".join(texts)))
        else:
            content.extend(parts)
    return UserMessage(content=tuple(content))


def _texts(messages: Sequence[Message]) -> list[str]:
    texts: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage):
            texts.extend(part.text for part in message.content if not isinstance(part, ImagePart))
        elif isinstance(message, SystemMessage | ToolMessage):
            texts.append(message.text)
        else:
            texts.extend((message.text, message.reasoning))
    return texts
