"""From a rendered, masked conversation to pieces: text, control tokens, sampled ids, pictures.

Puts the texts back where their marks stand, splices replies in as the ids that were sampled, splits
the template's own text (and only that) at added tokens, and notes where each message begins.
`assembly.py` turns the pieces into a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.api.chat import AssistantMessage, Message
from core.api.errors import TemplateError
from core.text.reply.parts import THINK_CLOSE, THINK_OPEN, SampledReply, trimmed
from core.text.template.masking import Masks, Slot, num_images
from core.text.tokenizer.added_tokens import AddedToken, AddedTokens
from core.text.tokenizer.detokenizer import TokenText


@dataclass(frozen=True, slots=True)
class Sampled:
    """Ids that a model sampled, to stand in the prompt as they are; `pauses` as in `ReplyIds`."""

    ids: tuple[int, ...]
    pauses: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """The place of an image, counted through the conversation."""

    index: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the prompt; `message` is whose content it is, None for the template's own."""

    content: str | AddedToken | Sampled | Picture
    message: int | None = None


Item = str | Slot | Piece


def read_marks(rendered: str, masks: Masks) -> list[Item] | None:
    """Glue and slots in turn; None where a text or an answer was lost, doubled or moved.

    A thought may be missing: templates drop those of earlier turns.
    """
    split, torn = masks.marks.split(rendered)
    if torn:
        return None
    found = [number for number in split if isinstance(number, int)]
    present = set(found)
    expected = [
        number
        for number, slot in enumerate(masks.slots)
        if slot.kind != "thought" or number in present
    ]
    if found != expected:
        return None
    return [masks.slots[item] if isinstance(item, int) else item for item in split]


def splice_replies(items: list[Item], reply_space: str, tokens: TokenText) -> list[Item]:
    """Replace the slots of sampled replies by their ids.

    `reply_space` is whitespace that the template writes before a reply in history but not before
    one that is about to be sampled; the ids then stand where they were sampled, without it.
    """
    by_message: dict[int, dict[str, int]] = {}
    for index, item in enumerate(items):
        if isinstance(item, Slot) and item.reply is not None:
            by_message.setdefault(item.message, {})[item.kind] = index
    spliced = list(items)
    for message, places in by_message.items():
        _splice(spliced, message, places, reply_space, tokens)
    return spliced


def _splice(
    items: list[Item],
    message: int,
    places: dict[str, int],
    reply_space: str,
    tokens: TokenText,
) -> None:
    """Splice one reply. Slots and glue alternate, so the neighbours of a slot are always glue."""
    thought, answer = places.get("thought"), places.get("answer")
    reply = _reply_at(items, thought if thought is not None else answer)
    whole = Piece(Sampled(reply.ids, reply.pauses), message)
    if thought is not None and _shows_whole_reply(items, thought, answer):
        _unwrite_opening(items, thought, reply)
        items[thought] = whole
        if answer is not None:
            items[thought + 1] = items[answer] = ""
        elif reply.closed:
            items[thought + 1] = _after_closing(items[thought + 1])
        return
    if thought is not None:
        ids = trimmed(reply.thought or (), tokens.is_space)
        items[thought] = Piece(Sampled(ids), message)
    if answer is not None:
        items[answer] = whole if not reply.thinks else Piece(Sampled(reply.answer), message)
        glue = items[answer - 1]
        if not reply.thinks and reply_space and isinstance(glue, str):
            items[answer - 1] = glue.removesuffix(reply_space)


def _reply_at(items: list[Item], place: int | None) -> SampledReply:
    slot = items[place] if place is not None else None
    assert isinstance(slot, Slot)
    assert slot.reply is not None
    return slot.reply


def _shows_whole_reply(items: list[Item], thought: int, answer: int | None) -> bool:
    """Whether the template writes `<think>` thought `</think>` answer, as the model does."""
    before, after = items[thought - 1], items[thought + 1]
    assert isinstance(before, str)
    assert isinstance(after, str)
    if not before.rstrip().endswith(THINK_OPEN):
        return False
    if answer is None:
        slot = items[thought]
        closed = isinstance(slot, Slot) and slot.reply is not None and slot.reply.closed
        return not closed or after.lstrip().startswith(THINK_CLOSE)
    return answer == thought + 2 and after.strip() == THINK_CLOSE


def _unwrite_opening(items: list[Item], thought: int, reply: SampledReply) -> None:
    """Drop the template's `<think>` where the model sampled its own."""
    before = items[thought - 1]
    if reply.opens_itself and isinstance(before, str):
        items[thought - 1] = before.rstrip().removesuffix(THINK_OPEN)


def _after_closing(glue: Item) -> str:
    """The template's text behind its `</think>`, which the sampled ids already hold."""
    assert isinstance(glue, str)
    return glue.lstrip().removeprefix(THINK_CLOSE).lstrip()


def to_pieces(
    items: Sequence[Item],
    added: AddedTokens,
    image_token_id: int | None,
    messages: Sequence[Message],
) -> list[Piece]:
    """Split the glue at added tokens; image placeholders in it become the pictures, in order.

    Raises TemplateError when the template shows another number of pictures than there are.
    """
    owners = [index for index, message in enumerate(messages) for _ in range(num_images(message))]
    pieces: list[Piece] = []
    pictures = 0
    for item in items:
        if isinstance(item, Piece):
            pieces.append(item)
        elif isinstance(item, Slot):
            pieces.append(Piece(item.text, item.message))
        else:
            for content in added.split(item):
                if isinstance(content, AddedToken) and content.id == image_token_id:
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


def message_places(
    pieces: Sequence[Piece], messages: Sequence[Message], end_ids: frozenset[int]
) -> list[int]:
    """For each message the place in `pieces` (0 to their number) where its part begins.

    A part begins directly after the end-of-turn token before it. Where the template writes none,
    its text between two messages belongs to the user's: it closes the message before a reply, and
    opens the one after it.
    """
    places = [0] * len(messages)
    visible = [
        (place, piece.message) for place, piece in enumerate(pieces) if piece.message is not None
    ]
    last_place, last_message = -1, -1
    for place, message in [*visible, (len(pieces), len(messages))]:
        assert message is not None
        ends = [
            index + 1
            for index in range(last_place + 1, place)
            if _ends_turn(pieces[index], end_ids)
        ]
        for hidden in range(last_message + 1, min(message + 1, len(messages))):
            places[hidden] = _place(
                hidden, message, last_message, ends, place, last_place, messages
            )
        last_place, last_message = place, max(message, last_message)
    return places


def _place(
    wanted: int,
    message: int,
    last_message: int,
    ends: list[int],
    place: int,
    last_place: int,
    messages: Sequence[Message],
) -> int:
    """Where `wanted` begins in the glue between the contents of `last_message` and `message`."""
    if last_message < 0:
        # A system prompt of the template's own may come first: count from behind.
        back = message - wanted + 1
        opens_chat = wanted == 0 and messages[0].role == "system"
        return ends[-back] if len(ends) >= back and not opens_chat else 0
    if ends:
        return ends[min(wanted - last_message, len(ends)) - 1]
    return place if isinstance(messages[wanted], AssistantMessage) else last_place + 1


def _ends_turn(piece: Piece, end_ids: frozenset[int]) -> bool:
    return isinstance(piece.content, AddedToken) and piece.content.id in end_ids
