"""Prompts from pieces: text between two control tokens is encoded as one piece."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, takewhile

from core.api.chat import AssistantMessage, Message
from core.api.positions import TokenIndex
from core.api.prompt import Image, Segment, TextRun
from core.text.added_tokens import AddedToken, without_swallowed
from core.text.history import Picture, Piece, Sampled
from core.text.tokenizer import Tokenizer


def message_places(
    pieces: Sequence[Piece], messages: Sequence[Message], end_ids: frozenset[int]
) -> list[int]:
    """For each message the place in `pieces` after the end-of-turn token before it.

    Without one, the template's text between two messages belongs to the user's.
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
    if last_message < 0:
        # The template may write a system prompt of its own first, so count from the end.
        back = message - wanted + 1
        opens_chat = wanted == 0 and messages[0].role == "system"
        return ends[-back] if len(ends) >= back and not opens_chat else 0
    if ends:
        return ends[min(wanted - last_message, len(ends)) - 1]
    return place if isinstance(messages[wanted], AssistantMessage) else last_place + 1


def _ends_turn(piece: Piece, end_ids: frozenset[int]) -> bool:
    return isinstance(piece.content, AddedToken) and piece.content.id in end_ids


def assemble(
    pieces: Sequence[Piece], places: Iterable[int], tokenizer: Tokenizer, images: Sequence[Image]
) -> tuple[Assembly, tuple[TokenIndex, ...]]:
    places = list(places)
    names_at: dict[int, list[int]] = {}
    for name, place in enumerate(places):
        names_at.setdefault(place, []).append(name)
    assembly = Assembly(tokenizer, images)
    for place, piece in enumerate(pieces):
        for name in names_at.get(place, ()):
            assembly.note(name)
        assembly.add(piece)
    for name in names_at.get(len(pieces), ()):
        assembly.note(name)
    assembly.flush()
    return assembly, tuple(map(assembly.token_index, range(len(places))))


class Assembly:
    def __init__(self, tokenizer: Tokenizer, images: Sequence[Image]) -> None:
        self._tokenizer = tokenizer
        self._images = images
        self.segments: list[Segment] = []
        self.pauses: set[int] = set()
        self.part_ends: set[int] = set()
        self._num_tokens = 0
        self._texts: list[str] = []
        self._length = 0
        self._noted: list[tuple[int, int]] = []
        self._parted: list[int] = []
        self._before: AddedToken | None = None
        # The picture that keeps the next tokens at its start, if it keeps them at all.
        self._keeper: Image | None = None
        self._places: dict[int, int] = {}

    def note(self, name: int) -> None:
        self._noted.append((name, self._length))

    def add(self, piece: Piece) -> None:
        content = piece.content
        if isinstance(content, str):
            self._texts.append(content)
            self._length += len(content)
            if piece.ends_part:
                self._parted.append(self._length)
            return
        self.flush(content if isinstance(content, AddedToken) else None)
        if isinstance(content, AddedToken):
            self._append_text((content.id,))
            self._before = content
        elif isinstance(content, Sampled):
            self._keeper = None
            self.pauses |= pauses_of(content.pauses, self._num_tokens, len(content.ids))
            self._append(TextRun(content.ids))
        elif isinstance(content, Picture):
            self._keeper = self._images[content.index]
            self._append(self._keeper)

    def flush(self, after: AddedToken | None = None) -> None:
        text, dropped = without_swallowed("".join(self._texts), self._before, after)
        self._before = None
        encoding = self._tokenizer.encode(text, self._num_tokens == 0) if text else None
        ends = encoding.ends if encoding is not None else ()
        # A normaliser may reorder characters; a token ends where its last one does.
        furthest = list(accumulate(ends, max)) if self._noted or self._parted else []
        for name, offset in self._noted:
            before = bisect_right(furthest, offset - dropped)
            self._places[name] = self._num_tokens + (before if offset > dropped else 0)
        for offset in self._parted:
            # Before the token of the last character: other text after it may change that token.
            self.part_ends.add(self._num_tokens + bisect_left(furthest, offset - dropped))
        self._texts, self._length, self._noted, self._parted = [], 0, [], []
        if encoding is not None:
            self._append_text(encoding.ids)

    def token_index(self, name: int) -> TokenIndex:
        return TokenIndex(self._places[name])

    def _append_text(self, ids: Sequence[int]) -> None:
        image, self._keeper = self._keeper, None
        kept = list(takewhile(image.kept_ids.__contains__, ids)) if image is not None else []
        for token_id in kept:
            assert image is not None
            self._append(TextRun((token_id,), image.num_positions))
        if len(kept) == len(ids):
            self._keeper = image
        else:
            self._append(TextRun(tuple(ids[len(kept) :])))

    def _append(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._num_tokens += segment.num_tokens


def pauses_of(pauses: Sequence[int], start: int, num_ids: int) -> set[int]:
    """The token indices where a reply paused, and its `start`, where an earlier prompt ended."""
    found = {start + pause for pause in pauses if 0 < pause <= num_ids}
    return found | {start} if found else found
