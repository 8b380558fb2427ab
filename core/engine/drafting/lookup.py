"""Prompt lookup: drafts what followed the last time that the last tokens occurred. The newest
places of the last pair are compared; an index of pairs costs a third of the time of a suffix
automaton and half its memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from core.api.prompt import Image, Prompt
from core.engine.drafting.costs import Acceptance
from core.engine.drafting.speculation import Offer

# Places that are compared, and tokens before them.
MOST_PLACES = 32
LONGEST_MATCH = 64
# Expected acceptance by the length of a match.
_PRIORS = ((8, 0.85), (4, 0.7), (0, 0.5))


class LookupDrafter:
    def __init__(self, prompt: Prompt) -> None:
        self._lookup = PromptLookup(_text_ids(prompt))
        self._acceptance = [(least, Acceptance(prior)) for least, prior in _PRIORS]

    def follow(self, ids: Sequence[int], hidden: Tensor) -> None:
        self._lookup.follow(ids)

    def offer(self, most: int) -> Offer:
        found, match = self._lookup.propose(most)
        acceptance = next(each for least, each in self._acceptance if match >= least)
        return Offer(len(found), acceptance, lambda depth: found[:depth])


def _text_ids(prompt: Prompt) -> list[int]:
    """A picture becomes one negative number of its own."""
    ids: list[int] = []
    for number, segment in enumerate(prompt.segments, start=1):
        ids += [-number] if isinstance(segment, Image) else segment.ids
    return ids


class PromptLookup:
    """An index over the ids of a prompt and of its reply so far; a negative id is no text."""

    def __init__(self, ids: Iterable[int]) -> None:
        self._ids: list[int] = []
        # For each pair its last place, and for each place the one before with the same pair.
        self._last: dict[tuple[int, int], int] = {}
        self._before: list[int] = []
        self.follow(ids)

    def follow(self, ids: Iterable[int]) -> None:
        for token_id in ids:
            self._ids.append(token_id)
            place = -1
            if len(self._ids) > 1:
                pair = (self._ids[-2], token_id)
                place = self._last.get(pair, -1)
                self._last[pair] = len(self._ids) - 1
            self._before.append(place)

    def propose(self, most: int) -> tuple[list[int], int]:
        """Tokens that may come next, at most as many as match, and how many match."""
        best, longest = -1, 0
        place = self._before[-1] if self._before else -1
        for _ in range(MOST_PLACES):
            if place < 0:
                break
            length = self._match(place)
            if length > longest:
                best, longest = place, length
            place = self._before[place]
        found = self._ids[best + 1 : best + 1 + min(most, longest)] if best >= 0 else []
        ends = next((index for index, token_id in enumerate(found) if token_id < 0), len(found))
        return found[:ends], longest

    def _match(self, place: int) -> int:
        ids, length = self._ids, 0
        last = len(ids) - 1
        most = min(place + 1, LONGEST_MATCH)
        while length < most and ids[place - length] == ids[last - length] >= 0:
            length += 1
        return length
