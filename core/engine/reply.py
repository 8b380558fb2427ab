"""One reply as it is written: held to a format, decoded and streamed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np
from torch import Tensor

from core.api.chat import AssistantMessage, ReplyIds
from core.api.commands import Generate
from core.api.events import AnswerToken, FinishReason, TokenLogprob
from core.api.limits import (
    FORMAT_TOKENS,
    LONGEST_REPLY_BYTES,
    LOOP_PERIOD,
    LOOP_TIMES,
    LOOP_TOKENS,
    THOUGHT_TOKENS,
)
from core.engine.sampling import Constraint, Sampler, log_probabilities, resolve
from core.text.chat_text import ChatText, RenderedPrompt
from core.text.reply_reader import ReplyReader

# Sends new text of the answer and of the reasoning, with the ids that it came from, and the log
# probabilities of the answer's.
Send = Callable[[str, str, tuple[int, ...], tuple[AnswerToken, ...]], None]
# Text is sent in bursts, at most thirty a second.
FLUSH_S = 1 / 30
_PERIODS = np.arange(1, LOOP_PERIOD + 1)
# The first period of a loop has nothing before it to equal.
_ENOUGH = np.maximum(LOOP_TOKENS, LOOP_TIMES * _PERIODS) - _PERIODS


class Reply:
    """Sees sampled tokens only, never drafts."""

    def __init__(
        self, command: Generate, rendered: RenderedPrompt, text: ChatText, vocab_size: int
    ) -> None:
        self.ids: list[int] = []
        self._rendered, self._command = rendered, command
        self._stop_after = command.probe.stop_after_tokens if command.probe is not None else None
        self._fingerprint = text.tokenizer_fingerprint
        self._sampling = resolve(command.sampling, text.sampling_defaults)
        seed = self._sampling.seed
        self.seed = secrets.randbits(63) if seed is None else seed
        prompt = rendered.prompt
        self._start = prompt.num_tokens
        ids = [token for part in prompt.segments for token in getattr(part, "ids", ())]
        self._sampler = Sampler(self._sampling, ids, vocab_size, self.seed)
        for token_id in rendered.begun:
            self._sampler.accept(token_id)
        form = command.format
        # For these formats, blanks after a thought belong to the answer.
        exact = form is not None and form.kind not in ("json", "json_schema", "calls")
        calls = bool(command.conversation.tools)
        self._reader = text.reply_reader(rendered, self._sampling.stop, exact, calls)
        self.constraint = Constraint(form, text, rendered, command.thinking)
        self._logprobs = None
        if command.logprobs is not None:
            self._logprobs = _Logprobs(command.logprobs, self._reader, text, len(rendered.begun))
        self._loops = LoopDetector()
        # Sampled tokens of a thought, and bytes of the whole reply.
        self._num_thought = 0
        self._num_bytes = _num_bytes(self._reader.answer) + _num_bytes(self._reader.reasoning)
        self._stream: ReplyStream | None = None

    def begin(self, count: Callable[[], None], send: Send) -> None:
        self._stream = ReplyStream(count, send)

    def end(self) -> None:
        assert self._stream is not None
        last = self._reader.close()
        self._stream.push(last.answer, last.reasoning, logprobs=self._new_logprobs())
        self._stream.flush()

    def most(self, room: int) -> int:
        ends = room, self._sampling.max_tokens, self._stop_after
        return min(filter(None, ends), default=0)

    def sample(self, logits: Tensor, draft: Sequence[int]) -> FinishReason | None:
        """Sample from rows of `logits` [n, vocab] until a token differs from the draft."""
        for row, drafted in zip_longest(logits, draft):
            reason = self._sample(row)
            if reason is not None or self.ids[-1] != drafted:
                return reason
        return None

    def message(self, complete: bool) -> AssistantMessage:
        """A reply that isn't `complete` pauses there."""
        reader, ids = self._reader, self.packed()
        if not complete:
            ids = ids.paused()
        return AssistantMessage(text=reader.answer, reasoning=reader.reasoning, ids=ids)

    @property
    def stop_string(self) -> str:
        return self._reader.stop_string

    def packed(self) -> ReplyIds:
        rendered = self._rendered
        ids = self._reader.reply_ids()
        return ReplyIds.pack(ids, self._fingerprint, rendered.opens_reasoning, rendered.pauses)

    def _sample(self, logits: Tensor) -> FinishReason | None:
        assert self._stream is not None
        index = self._start + len(self.ids)
        token_id = self._sampler.sample(self.constraint.limit(logits), index)
        self._sampler.accept(token_id)
        self.constraint.accept(token_id)
        if self._logprobs is not None:
            self._logprobs.note(logits, token_id, len(self.ids))
        self.ids.append(token_id)
        in_thought = self._reader.in_thought
        delta = self._reader.push(token_id)
        self._stream.push(delta.answer, delta.reasoning, token_id, self._new_logprobs())
        self._num_thought += in_thought
        self._num_bytes += _num_bytes(delta.answer) + _num_bytes(delta.reasoning)
        if self._reader.finished:
            return "stop"
        if len(self.ids) == self._stop_after:
            return "cancelled"
        if len(self.ids) == self._sampling.max_tokens:
            return "length"
        return self._beyond_limits(token_id, in_thought)

    def _new_logprobs(self) -> list[AnswerToken]:
        return self._logprobs.take_shown() if self._logprobs is not None else []

    def _beyond_limits(self, token_id: int, in_thought: bool) -> FinishReason | None:
        if self._num_bytes >= LONGEST_REPLY_BYTES:
            return "size"
        if not in_thought and self._command.format is None:
            return None
        if self._loops.push(token_id):
            return "repetition"
        if self._sampling.max_tokens is not None:
            return None
        if in_thought:
            return "thought_length" if self._num_thought == THOUGHT_TOKENS else None
        return "format_length" if len(self.ids) - self._num_thought == FORMAT_TOKENS else None


class _Logprobs:
    """Keeps log probabilities of sampled tokens until the answer shows their text."""

    def __init__(self, num_top: int, reader: ReplyReader, text: ChatText, num_begun: int) -> None:
        self._num_top, self._reader, self._text = num_top, reader, text
        self._num_begun, self._num_said = num_begun, len(reader.answer)
        self._waiting: dict[int, tuple[int, float, list[tuple[int, float]]]] = {}
        reader.new_tokens()

    def note(self, logits: Tensor, token_id: int, index: int) -> None:
        """Call before the reader gets the token, which is at `index` of the sampled ones."""
        if self._reader.may_answer:
            found = log_probabilities(logits, token_id, self._num_top)
            self._waiting[self._num_begun + index] = token_id, *found

    def take_shown(self) -> list[AnswerToken]:
        shown = []
        for place, start, end in self._reader.new_tokens():
            # Ids before it that are not shown never will be.
            while (first := next(iter(self._waiting), place)) < place:
                del self._waiting[first]
            if (noted := self._waiting.pop(place, None)) is None:
                continue
            token_id, logprob, top = noted
            shown.append(
                AnswerToken(
                    bytes=self._text.token_bytes(token_id),
                    logprob=logprob,
                    start=start - self._num_said,
                    end=end - self._num_said,
                    top=tuple(
                        TokenLogprob(bytes=self._text.token_bytes(each), logprob=value)
                        for each, value in top
                    ),
                )
            )
        return shown


class ReplyStream:
    def __init__(self, count: Callable[[], None], send: Send) -> None:
        self._count, self._send = count, send
        self._answer = self._reasoning = ""
        self._ids: list[int] = []
        self._logprobs: list[AnswerToken] = []
        self._flushed = 0.0

    def push(
        self,
        answer: str,
        reasoning: str,
        token_id: int | None = None,
        logprobs: Sequence[AnswerToken] = (),
    ) -> None:
        self._answer += answer
        self._logprobs += logprobs
        self._reasoning += reasoning
        if token_id is not None:
            self._count()
            self._ids.append(token_id)
        if time.monotonic() - self._flushed >= FLUSH_S:
            self.flush()

    def flush(self) -> None:
        if self._answer or self._reasoning or self._ids:
            self._send(self._answer, self._reasoning, tuple(self._ids), tuple(self._logprobs))
        self._answer = self._reasoning = ""
        self._ids, self._logprobs = [], []
        self._flushed = time.monotonic()


class LoopDetector:
    """Counts for every period how many of the last ids equal the one a period before, in constant
    time per id."""

    def __init__(self) -> None:
        # The newest first; no id is -1.
        self._last = np.full(LOOP_PERIOD, -1, np.int64)
        self._equal = np.zeros(LOOP_PERIOD, np.int64)

    def push(self, token_id: int) -> bool:
        self._equal = np.where(self._last == token_id, self._equal + 1, 0)
        self._last = np.concatenate(([token_id], self._last[:-1]))
        return bool((self._equal >= _ENOUGH).any())


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
