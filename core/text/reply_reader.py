"""A reply's ids, read as text while they are sampled."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.api.reply_format import MARKS
from core.text.channels import MESSAGE, Channels, MessageReader
from core.text.reply_parts import ThinkingTokens
from core.text.token_text import TokenText


@dataclass(frozen=True, slots=True)
class Delta:
    answer: str = ""
    reasoning: str = ""


class ReplyReader:
    """A stop string counts within one channel; channels are split by id only.

    The texts, not the ids, lack the whitespace around a thought and, unless it `keeps_blanks`,
    before the answer. Stops in `begun`, the ids of a continued reply, don't count. `marks` are ids
    that show a text in the answer. With `channels` the reply is messages, without their headers; a
    call is part of the answer, between marks.
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
        marks: Mapping[int, str] | None = None,
        channels: Channels | None = None,
    ) -> None:
        self._messages = MessageReader(channels, tokens.text) if channels is not None else None
        self._shows_calls, self._in_call = marks is not None, False
        self._thinking = thinking
        self._stop_ids: frozenset[int] = frozenset()
        self._tokens = tokens
        self._reasoning = _Channel(tokens, trims_start=True, trims_end=True, drops=thinking.label)
        self._answer = _Channel(
            tokens, trims_start=opens_reasoning and not keeps_blanks, marks=marks
        )
        self._keeps_blanks = keeps_blanks
        self.in_thought = (opens_reasoning and thinking.known) or channels is not None
        self._blank_so_far = not self.in_thought
        self._ids: list[int] = []
        self._num_kept: int | None = None
        self.finished = False
        for token_id in begun:
            self.push(token_id)
        self._stop_ids = stop_ids
        for channel in (self._reasoning, self._answer):
            channel.stops.watch_for(stops)

    @property
    def answer(self) -> str:
        return "".join(self._answer.shown)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning.shown)

    @property
    def stop_string(self) -> str:
        return self._answer.stops.found or self._reasoning.stops.found

    @property
    def holds_back(self) -> bool:
        """True if the last id began a character that isn't complete."""
        return self._current.holds_back

    @property
    def may_answer(self) -> bool:
        """False while ids are a thought's. A header's may turn out to be the answer's."""
        if self._messages is not None:
            return self._messages.kind != "thought"
        return not self.in_thought

    def new_tokens(self) -> list[tuple[int, int, int]]:
        """Ids of the answer shown since the last call: place in the reply, start and end of their
        text in the answer."""
        return self._answer.new_tokens()

    def reply_ids(self) -> list[int]:
        return self._ids[: self._num_kept]

    def push(self, token_id: int) -> Delta:
        if self.finished:
            return Delta()
        if token_id in self._stop_ids:
            delta = self._end_call(len(self._ids))
            self.finished = True
            return delta
        self._ids.append(token_id)
        if self._messages is not None:
            return self._in_messages(self._messages, token_id)
        if self.in_thought and token_id == self._thinking.close:
            delta = self._delta(self._reasoning.close(len(self._ids) - 1))
            self.in_thought = False
            return delta
        if self._blank_so_far and token_id == self._thinking.open and self._thinking.known:
            self.in_thought, self._blank_so_far = True, False
            if not self._keeps_blanks:
                self._answer.drops_space = True
            return Delta()
        self._blank_so_far = self._blank_so_far and self._tokens.is_space(token_id)
        return self._delta(self._current.push(token_id, len(self._ids) - 1))

    def close(self) -> Delta:
        if self._current.stopped:
            return Delta()
        last = ""
        if self._messages is not None and (rest := self._messages.close()):
            self.in_thought = False
            last = self._push(self._answer, rest)
        return self._delta(last + self._current.close(len(self._ids)))

    def _in_messages(self, messages: MessageReader, token_id: int) -> Delta:
        index, before = len(self._ids) - 1, messages.kind
        found = messages.push(token_id)
        if messages.kind == before:
            return self._delta(self._push(self._current, found))
        if before is not None:  # a message has ended
            in_call = self._in_call
            delta = self._end_call(index) if in_call else self._delta(self._current.close(index))
            self.in_thought = True
            return delta
        self.in_thought = messages.kind == "thought"
        channel = self._current
        shown = channel.say("\n\n", index) if any(channel.shown) else ""
        self._in_call = self._shows_calls and messages.kind == "call"
        if self._in_call:
            shown += channel.say(f"{MARKS['harmony'][0]}{messages.function}{MESSAGE}", index)
        return self._delta(shown + self._push(channel, found))

    def _push(self, channel: _Channel, last: Sequence[int]) -> str:
        first = len(self._ids) - len(last)
        return "".join(channel.push(each, first + at) for at, each in enumerate(last))

    def _end_call(self, index: int) -> Delta:
        if not self._in_call:
            return Delta()
        self._in_call = False
        return self._delta(self._answer.say(MARKS["harmony"][1], index))

    @property
    def _current(self) -> _Channel:
        return self._reasoning if self.in_thought else self._answer

    def _delta(self, shown: str) -> Delta:
        channel = self._current
        if channel.stopped and not self.finished:
            self.finished = True
            self._num_kept = channel.stopping_id()
        return Delta(reasoning=shown) if self.in_thought else Delta(answer=shown)


class _Channel:
    """Decodes, trims the start, looks for stops, trims the end, and leaves out `drops` at the
    beginning."""

    def __init__(
        self,
        tokens: TokenText,
        trims_start: bool,
        trims_end: bool = False,
        drops: str = "",
        marks: Mapping[int, str] | None = None,
    ) -> None:
        self._marks = marks or {}
        self.stops = StopStrings()
        self.drops_space = trims_start
        self.shown: list[str] = []
        self._tokens, self._decoder = tokens, tokens.detokenizer()
        self._trims_end = trims_end
        self._drops, self._begun = drops, ""
        self._space: list[str] = []
        self._num_decoded = 0
        # Of each push: the id's place, where its text begins, and its end.
        self._ends: list[tuple[int, int, int]] = []
        self._num_told = 0

    @property
    def stopped(self) -> bool:
        return self.stops.found_at is not None

    @property
    def holds_back(self) -> bool:
        return self._decoder.holds_back

    def push(self, token_id: int, index: int) -> str:
        mark = self._marks.get(token_id)
        if mark is not None:
            return self._take(self._decoder.close() + mark, index, is_shown=True)
        is_shown = not self._tokens.hides(token_id)
        return self._take(self._decoder.push(token_id), index, is_shown)

    def say(self, text: str, index: int) -> str:
        return self._take(self._decoder.close() + text, index)

    def close(self, index: int) -> str:
        shown = self._take(self._decoder.close(), index)
        return shown + self._show("" if self.stopped else self.stops.close())

    def stopping_id(self) -> int:
        found = self.stops.found_at
        assert found is not None
        return next(index for index, _, end in self._ends if end > found)

    def new_tokens(self) -> list[tuple[int, int, int]]:
        told = self._num_told
        while self._num_told < len(self._ends):
            if self._ends[self._num_told][1] >= self.stops.num_shown:
                break
            self._num_told += 1
        return [each for each in self._ends[told : self._num_told] if each[1] < each[2]]

    def _take(self, text: str, index: int, is_shown: bool = False) -> str:
        """`is_shown`: `text` is that of the id at `index`."""
        text = self._without_label(text)
        if self.drops_space:
            text = text.lstrip()
            self.drops_space = not text
        start = self._num_decoded
        self._num_decoded += len(text)
        # A character that has only begun counts: the stop string begins in its first token.
        end = self._num_decoded + (is_shown and self._decoder.holds_back)
        self._ends.append((index, start if is_shown else end, end))
        return self._show(self.stops.push(text))

    def _without_label(self, text: str) -> str:
        """Holds text back while it may still be the label."""
        if not self._drops:
            return text
        text = self._begun + text
        if len(text) < len(self._drops) and self._drops.startswith(text):
            self._begun = text
            return ""
        label, self._drops = self._drops, ""
        return text.removeprefix(label)

    def _show(self, text: str) -> str:
        if self._trims_end:
            kept = text.rstrip()
            self._space.append(text[len(kept) :])
            if not kept:
                return ""
            text = "".join((*self._space[:-1], kept))
            del self._space[:-1]
        self.shown.append(text)
        return text


class StopStrings:
    """Holds back what could still become a stop string.

    The first complete one is `found`, of several the longest; it begins at `found_at` in the
    characters of all text pushed.
    """

    def __init__(self) -> None:
        self._stops: list[str] = []
        self._longest = 0
        self._held = ""
        self.num_shown = 0
        self.found_at: int | None = None
        self.found = ""

    def watch_for(self, stops: Sequence[str]) -> None:
        self._stops = sorted(set(stops))
        self._longest = max(map(len, self._stops), default=0)

    def push(self, text: str) -> str:
        if self.found_at is not None or not text:
            return ""
        self._held += text
        found = [
            (place + len(stop), place, stop)
            for stop in self._stops
            if (place := self._held.find(stop)) >= 0
        ]
        if found:
            _, place, self.found = min(found)
            self.found_at = self.num_shown + place
            return self._show(place, drop_rest=True)
        return self._show(len(self._held) - self._possible_start())

    def close(self) -> str:
        return self._show(len(self._held))

    def _possible_start(self) -> int:
        for size in range(min(self._longest - 1, len(self._held)), 0, -1):
            tail = self._held[-size:]
            # In sorted order, stops that begin with the tail come first from there on.
            at = bisect_left(self._stops, tail)
            if at < len(self._stops) and self._stops[at].startswith(tail):
                return size
        return 0

    def _show(self, length: int, drop_rest: bool = False) -> str:
        shown, self._held = self._held[:length], "" if drop_rest else self._held[length:]
        self.num_shown += len(shown)
        return shown
