"""What a template does, found out by asking it: small masked conversations, rendered at load."""

from __future__ import annotations

from collections.abc import Sequence

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    ImagePart,
    Message,
    TextPart,
    UserMessage,
)
from core.api.errors import TemplateError
from core.text.history import Traits, masked_items
from core.text.kit import TextKit
from core.text.splicing import Item
from core.text.template.masking import ContentStyle, Slot
from core.text.tokenizer.added_tokens import AddedToken

# A picture that is never opened: probing only asks what the template writes for one.
PROBE_PICTURE = ImagePart(digest="0" * 64, path="")


def probe_traits(kit: TextKit) -> Traits:
    """Ask the template. Raises TemplateError when it can't even render one question."""
    style = ContentStyle(always_lists=_wants_lists(kit))
    style = ContentStyle(style.always_lists, takes_lists=_takes_lists(kit, style))
    return Traits(
        style=style,
        takes_images=_takes_images(kit, style),
        reply_space=_reply_space(kit, style),
        closing_id=_closing_id(kit, style),
        has_thinking_switch=_has_thinking_switch(kit, style),
        takes_questions_in_a_row=_items(kit, style, [user("a"), user("b")]) is not None,
    )


def user(*parts: ContentPart | str) -> UserMessage:
    """A user message; strings are its texts."""
    content = (TextPart(text=part) if isinstance(part, str) else part for part in parts)
    return UserMessage(content=tuple(content))


def _items(
    kit: TextKit, style: ContentStyle, messages: Sequence[Message], thinking: bool | None = None
) -> list[Item] | None:
    """Glue and slots of a small conversation; None where the template fails or loses a text."""
    try:
        return masked_items(kit, style, Conversation(messages=tuple(messages)), thinking)
    except TemplateError:
        return None


def _wants_lists(kit: TextKit) -> bool:
    """Whether contents must be lists of parts even for a lone text."""
    question = Conversation(messages=(user("a"),))
    try:
        plain = masked_items(kit, ContentStyle(), question)
    except TemplateError as error:
        if masked_items_or_none(kit, question) is None:
            raise error from None
        return True
    return plain is None and masked_items_or_none(kit, question) is not None


def masked_items_or_none(kit: TextKit, question: Conversation) -> list[Item] | None:
    """The question with its content as a list."""
    return _items(kit, ContentStyle(always_lists=True), question.messages)


def _takes_lists(kit: TextKit, style: ContentStyle) -> bool:
    """Whether two texts in a list are written like one, with no trace of the list itself."""
    one, two = _items(kit, style, [user("a")]), _items(kit, style, [user("a", "b")])
    return one is not None and two is not None and (one[0], one[-1]) == (two[0], two[-1])


def _takes_images(kit: TextKit, style: ContentStyle) -> bool:
    items = _items(kit, style, [user(PROBE_PICTURE, "a")]) if style.takes_lists else None
    if items is None:
        return False
    glue = [token for item in items if isinstance(item, str) for token in kit.added.split(item)]
    found = [token for token in glue if isinstance(token, AddedToken)]
    return sum(token.id == kit.image_token_id for token in found) == 1


def _reply_space(kit: TextKit, style: ContentStyle) -> str:
    """Whitespace before a reply in history that is absent where a reply is about to begin."""
    asked = _items(kit, style, [user("a")])
    history = _items(kit, style, [user("a"), AssistantMessage(text="b"), user("c")])
    if asked is None or history is None:
        return ""
    opening, header = asked[-1], history[2]
    if not (isinstance(opening, str) and isinstance(header, str) and header.startswith(opening)):
        return ""
    space = header[len(opening) :]
    return space if space.isspace() else ""


def _closing_id(kit: TextKit, style: ContentStyle) -> int | None:
    """The added token that the template writes right after a reply."""
    items = _items(kit, style, [user("a"), AssistantMessage(text="b"), user("c")])
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
    on, off = (_items(kit, style, [user("a")], thinking) for thinking in (True, False))
    return on != off
