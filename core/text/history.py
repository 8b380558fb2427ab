"""A conversation as pieces of a prompt: with replies spliced in as ids, or, failing that, plainly.

`Traits` is what probing a template showed. Both ways keep everything typed from becoming a control
token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

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
from core.api.errors import TemplateError
from core.text.kit import TextKit
from core.text.splicing import Item, Piece, read_marks, splice_replies, to_pieces
from core.text.template.masking import (
    ContentStyle,
    Marks,
    Masks,
    TemplateMessage,
    mask,
    template_message,
)
from core.text.tokenizer.added_tokens import AddedTokens


@dataclass(frozen=True, slots=True)
class Traits:
    """What probing showed of a template.

    `closing_id` is the added token written right after a reply; `reply_space` whitespace that only
    history has before a reply; `takes_questions_in_a_row`: two need no reply between them.
    """

    style: ContentStyle
    takes_images: bool = False
    reply_space: str = ""
    closing_id: int | None = None
    has_thinking_switch: bool = False
    takes_questions_in_a_row: bool = False


def masked_items(
    kit: TextKit,
    style: ContentStyle,
    conversation: Conversation,
    thinking: bool | None = None,
    add_generation_prompt: bool = True,
) -> list[Item] | None:
    """Render with marks; None where one that is needed was lost. Raises TemplateError."""
    masks = Masks(kit.marks)
    messages = mask(conversation.messages, style, masks, kit.sampled)
    rendered = kit.render(messages, thinking, conversation.created, add_generation_prompt)
    return read_marks(rendered, masks)


def spliced_pieces(
    kit: TextKit, traits: Traits, conversation: Conversation, thinking: bool | None
) -> list[Piece] | None:
    """The prompt with replies as sampled; None where the template loses a text."""
    items = masked_items(kit, traits.style, conversation, thinking)
    if items is None:
        return None
    spliced = splice_replies(items, traits.reply_space, kit.tokens)
    return to_pieces(spliced, kit.added, kit.image_token_id, conversation.messages)


def plain_pieces(
    kit: TextKit, traits: Traits, conversation: Conversation, thinking: bool | None
) -> list[Piece]:
    """The prompt with replies from their text. Raises TemplateError.

    The texts go through the template as they are, except that each spelling of an added token is
    replaced by a mark on the way, so it comes out as text.
    """
    marks = Marks.absent_from(
        (kit.template.source, *kit.added.by_spelling, *_texts(conversation.messages))
    )
    guard = _Guard(kit.added, marks)
    messages = plain_messages(conversation.messages, traits.style, guard.hide)
    rendered = kit.render(messages, thinking, conversation.created)
    return to_pieces(guard.read(rendered), kit.added, kit.image_token_id, conversation.messages)


def plain_messages(
    messages: Sequence[Message], style: ContentStyle, hide: Callable[[str], str]
) -> list[TemplateMessage]:
    """Messages for a template with their texts put through `hide`, replies from their text."""
    return [
        template_message(index, joined_texts(message), style, lambda index, text, kind: hide(text))
        for index, message in enumerate(messages)
    ]


def joined_texts(message: Message) -> Message:
    """The message with neighbouring texts as one: two halves could spell what neither does."""
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


def says_something(message: UserMessage) -> bool:
    """True if there is a picture or a word in it."""
    parts = message.content
    return any(not isinstance(part, TextPart) or part.text.strip() for part in parts)


def holds_something(reply: AssistantMessage) -> bool:
    """True if a reply got as far as a token."""
    return bool(reply.text or reply.reasoning or (reply.ids is not None and reply.ids.data))


class _Guard:
    """Hides spellings of added tokens behind marks, and turns the marks into text again."""

    def __init__(self, added: AddedTokens, marks: Marks) -> None:
        self.marks = marks
        self._find = added.find
        self._hidden: list[str] = []

    def hide(self, text: str) -> str:
        pieces, start = list[str](), 0
        for begin, end in self._find(text):
            self._hidden.append(text[begin:end])
            pieces += (text[start:begin], self.marks.write(len(self._hidden) - 1))
            start = end
        return "".join((*pieces, text[start:]))

    def read(self, rendered: str) -> list[Item]:
        """The template's text and the hidden spellings, in order; torn marks vanish.

        Raises TemplateError for a mark that `hide` never wrote.
        """
        pieces, _ = self.marks.split(rendered)
        if any(isinstance(piece, int) and piece >= len(self._hidden) for piece in pieces):
            raise TemplateError(
                "The template writes the characters that mark typed control tokens while it is "
                "rendered, so what it writes can't be read."
            )
        return [Piece(self._hidden[piece]) if isinstance(piece, int) else piece for piece in pieces]


def _texts(messages: Sequence[Message]) -> list[str]:
    texts: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage):
            texts.extend(part.text for part in message.content if not isinstance(part, ImagePart))
        elif isinstance(message, SystemMessage):
            texts.append(message.text)
        else:
            texts.extend((message.text, message.reasoning))
    return texts
