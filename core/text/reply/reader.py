"""A reply as it is sampled: ids in, text by channel out, and the ids that are stored in the end.

Knows stop ids, stop strings and the two thinking tokens. Where the ids come from, and what becomes
of them in the next prompt, is left to the engine and to `splicing.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.text.reply.parts import ThinkingTokens
from core.text.reply.stop_strings import StopStrings
from core.text.tokenizer.detokenizer import TokenText


@dataclass(frozen=True, slots=True)
class Delta:
    """New text since the last id, by channel."""

    answer: str = ""
    reasoning: str = ""


class ReplyReader:
    """Reads one reply. A stop string counts within one channel; channels are split by id only.

    Whitespace around a thought and before the answer after it belongs to the template's format, not
    to the texts, unless the answer `keeps_blanks`; the ids keep it. Special ids show no text but
    are stored like any other. `begun` are the ids of a reply that is gone on with: no stop in them
    counts any more.
    """

    def __init__(
        self,
        tokens: TokenText,
        thinking: ThinkingTokens,
        stop_ids: frozenset[int],
        stops: Sequence[str],
        opens_reasoning: bool,
        begun: Sequence[int] = (),
        keeps_blanks: bool = False,
    ) -> None:
        self._thinking = thinking
        self._stop_ids: frozenset[int] = frozenset()
        self._tokens = tokens
        self._reasoning = _Channel(tokens, trims_start=True, trims_end=True)
        self._answer = _Channel(tokens, trims_start=opens_reasoning and not keeps_blanks)
        self._keeps_blanks = keeps_blanks
        self._in_thought = opens_reasoning and thinking.known
        self._blank_so_far = not self._in_thought
        self._ids: list[int] = []
        self._num_kept: int | None = None
        self.finished = False
        for token_id in begun:
            self.push(token_id)
        self._stop_ids = stop_ids
        for channel in (self._reasoning, self._answer):
            channel.watch_for(stops)

    @property
    def answer(self) -> str:
        """The answer shown so far, without a stop string."""
        return self._answer.text

    @property
    def reasoning(self) -> str:
        """The thought shown so far."""
        return self._reasoning.text

    @property
    def in_thought(self) -> bool:
        """True if the next id belongs to the thought, unless it ends it."""
        return self._in_thought

    def reply_ids(self) -> list[int]:
        """What is stored: all but the id that ended the turn, or what precedes a stop string."""
        return self._ids[: self._num_kept]

    def push(self, token_id: int) -> Delta:
        """Take the next sampled id; ignored once `finished`."""
        if self.finished:
            return Delta()
        if token_id in self._stop_ids:
            self.finished = True
            return Delta()
        self._ids.append(token_id)
        if self._in_thought and token_id == self._thinking.close:
            return self._close_thought()
        if self._blank_so_far and token_id == self._thinking.open and self._thinking.known:
            return self._open_thought()
        self._blank_so_far = self._blank_so_far and self._tokens.is_space(token_id)
        return self._delta(self._current.push(token_id, len(self._ids) - 1))

    def close(self) -> Delta:
        """Show what was held back, when no more ids will come."""
        if self._current.stopped:
            return Delta()
        return self._delta(self._current.close(len(self._ids)))

    @property
    def _current(self) -> _Channel:
        return self._reasoning if self._in_thought else self._answer

    def _open_thought(self) -> Delta:
        self._in_thought, self._blank_so_far = True, False
        if not self._keeps_blanks:
            self._answer.trim_start()
        return Delta()

    def _close_thought(self) -> Delta:
        delta = self._delta(self._reasoning.close(len(self._ids) - 1))
        self._in_thought = False
        return delta

    def _delta(self, shown: str) -> Delta:
        """Wrap new text of the current channel, and finish if a stop string was in it."""
        channel = self._current
        if channel.stopped and not self.finished:
            self.finished = True
            self._num_kept = channel.stopping_id()
        return Delta(reasoning=shown) if self._in_thought else Delta(answer=shown)


class _Channel:
    """A channel's way from ids to text: decode, trim the start, look for stops, trim the end."""

    def __init__(self, tokens: TokenText, trims_start: bool, trims_end: bool = False) -> None:
        self._decoder = tokens.detokenizer()
        self._stops = StopStrings()
        self._drops_space = trims_start
        self._trims_end = trims_end
        self._space: list[str] = []
        self._shown: list[str] = []
        self._num_decoded = 0
        self._ends: list[tuple[int, int]] = []

    @property
    def text(self) -> str:
        return "".join(self._shown)

    @property
    def stopped(self) -> bool:
        return self._stops.found_at is not None

    def watch_for(self, stops: Iterable[str]) -> None:
        """End at one of these from now on."""
        self._stops.watch_for(stops)

    def trim_start(self) -> None:
        """Drop whitespace until the next other character."""
        self._drops_space = True

    def push(self, token_id: int, index: int) -> str:
        """Decode the reply's id number `index`; returns what can be shown."""
        return self._take(self._decoder.push(token_id), index)

    def close(self, index: int) -> str:
        """Show what was held back. `index` is the number of the id after the channel's last one."""
        shown = self._take(self._decoder.close(), index)
        return shown + self._show("" if self.stopped else self._stops.close())

    def stopping_id(self) -> int:
        """The number of the id in whose text the stop string begins."""
        found = self._stops.found_at
        assert found is not None
        return next(index for index, end in self._ends if end > found)

    def _take(self, text: str, index: int) -> str:
        if self._drops_space:
            text = text.lstrip()
            self._drops_space = not text
        self._num_decoded += len(text)
        # A character that is only begun counts: the stop string begins in its first token.
        self._ends.append((index, self._num_decoded + self._decoder.holds_back))
        return self._show(self._stops.push(text))

    def _show(self, text: str) -> str:
        if self._trims_end:
            kept = text.rstrip()
            self._space.append(text[len(kept) :])
            if not kept:
                return ""
            text = "".join((*self._space[:-1], kept))
            del self._space[:-1]
        self._shown.append(text)
        return text
