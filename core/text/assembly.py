"""From pieces to a prompt: text between two control tokens is encoded as one piece.

Knows that whitespace beside some tokens is swallowed, and how a place in the text is found again
among its ids. What the pieces are is decided in `splicing.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from core.api.positions import TokenIndex
from core.api.prompt import Image, Segment, TextRun
from core.text.splicing import Picture, Piece, Sampled
from core.text.tokenizer.added_tokens import AddedToken, without_swallowed
from core.text.tokenizer.plain_encoder import PlainEncoder


class Assembly:
    """Builds segments piece by piece, and the token index where each noted place lies."""

    def __init__(self, encoder: PlainEncoder, images: Sequence[Image]) -> None:
        self._encoder = encoder
        self._images = images
        self.segments: list[Segment] = []
        self.pauses: set[int] = set()
        self._num_tokens = 0
        self._texts: list[str] = []
        self._length = 0
        self._noted: list[tuple[int, int]] = []
        self._before: AddedToken | None = None
        self._places: dict[int, int] = {}

    def note(self, name: int) -> None:
        """Remember where the next piece begins, under `name`."""
        self._noted.append((name, self._length))

    def add(self, piece: Piece) -> None:
        """Append one piece."""
        content = piece.content
        if isinstance(content, str):
            self._texts.append(content)
            self._length += len(content)
            return
        self.flush(content if isinstance(content, AddedToken) else None)
        if isinstance(content, AddedToken):
            self._append(TextRun((content.id,)))
            self._before = content
        elif isinstance(content, Sampled):
            self.pauses |= pauses_of(content.pauses, self._num_tokens, len(content.ids))
            self._append(TextRun(content.ids))
        elif isinstance(content, Picture):
            self._append(self._images[content.index])

    def flush(self, after: AddedToken | None = None) -> None:
        """Encode the text gathered since the last token."""
        text, dropped = without_swallowed("".join(self._texts), self._before, after)
        self._before = None
        encoding = self._encoder.encode(text, self._num_tokens == 0) if text else None
        ends = encoding.ends if encoding is not None else ()
        # A normaliser may put characters in another order; tokens end where their last one does.
        furthest = list(accumulate(ends, max)) if self._noted else []
        for name, offset in self._noted:
            before = bisect_right(furthest, offset - dropped)
            self._places[name] = self._num_tokens + (before if offset > dropped else 0)
        self._texts, self._length, self._noted = [], 0, []
        if encoding is not None:
            self._append(TextRun(tuple(encoding.ids)))

    def token_index(self, name: int) -> TokenIndex:
        """The token index noted under `name`; known once the text around it was flushed."""
        return TokenIndex(self._places[name])

    def _append(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._num_tokens += segment.num_tokens


def pauses_of(pauses: Sequence[int], start: int, num_ids: int) -> set[int]:
    """The token indices at which a reply that begins at `start` paused, its own start included.

    Prompts ended at all of these, so what was read up to there can be resumed. A reply that never
    paused has none.
    """
    found = {start + pause for pause in pauses if 0 < pause <= num_ids}
    return found | {start} if found else found


def assemble(
    pieces: Sequence[Piece],
    places: Iterable[int],
    encoder: PlainEncoder,
    images: Sequence[Image],
) -> tuple[Assembly, tuple[TokenIndex, ...]]:
    """All `pieces`, and the token index of each of `places` (indices into `pieces`)."""
    places = list(places)
    names_at: dict[int, list[int]] = {}
    for name, place in enumerate(places):
        names_at.setdefault(place, []).append(name)
    assembly = Assembly(encoder, images)
    for place, piece in enumerate(pieces):
        for name in names_at.get(place, ()):
            assembly.note(name)
        assembly.add(piece)
    for name in names_at.get(len(pieces), ()):
        assembly.note(name)
    assembly.flush()
    return assembly, tuple(map(assembly.token_index, range(len(places))))
