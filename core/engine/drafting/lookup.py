"""Prompt lookup: what followed the last time that the chat's last tokens stood somewhere.

Of the places where the last two tokens stand the newest are looked at, and that with the longest
match before it is taken. An index of pairs costs a third of the time of a suffix automaton and half
its memory. It is of one chat, and gone when the reply is.
"""

from __future__ import annotations

from collections.abc import Iterable

# Places that are looked at, and tokens before them.
MOST_PLACES = 32
LONGEST_MATCH = 64


class PromptLookup:
    """Over the ids of a prompt and of its reply so far. What is no text is a number below 0."""

    def __init__(self, ids: Iterable[int]) -> None:
        self._ids: list[int] = []
        # For every pair where it ended last, and for every place where its pair ended before that.
        self._last: dict[tuple[int, int], int] = {}
        self._before: list[int] = []
        self.follow(ids)

    def follow(self, ids: Iterable[int]) -> None:
        """These come next."""
        for token_id in ids:
            self._ids.append(token_id)
            place = -1
            if len(self._ids) > 1:
                pair = (self._ids[-2], token_id)
                place = self._last.get(pair, -1)
                self._last[pair] = len(self._ids) - 1
            self._before.append(place)

    def propose(self, most: int) -> tuple[list[int], int]:
        """Tokens that may come next, as many as match at most, and how many match."""
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
        """How many tokens up to `place` are the last ones."""
        ids, length = self._ids, 0
        last = len(ids) - 1
        most = min(place + 1, LONGEST_MATCH)
        while length < most and ids[place - length] == ids[last - length] >= 0:
            length += 1
        return length
