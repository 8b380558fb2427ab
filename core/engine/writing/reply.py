"""One reply as it is written: its tokens drawn, held to a format, read as text and streamed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from itertools import zip_longest

from torch import Tensor

from core.api.chat import AssistantMessage, ReplyIds
from core.api.commands import Generate
from core.api.events import Event, FinishReason
from core.api.limits import FORMAT_TOKENS, LONGEST_REPLY_BYTES, THOUGHT_TOKENS
from core.engine.writing.constraint import Constraint
from core.engine.writing.loops import LoopDetector
from core.engine.writing.sampler import Sampler, resolve
from core.engine.writing.stream import Counts, ReplyStream
from core.text.chat_text import ChatText, RenderedPrompt


class Reply:
    """Of one request. It knows drawn tokens alone: drafts leave no trace in it."""

    def __init__(
        self,
        command: Generate,
        rendered: RenderedPrompt,
        text: ChatText,
        vocab_size: int,
    ) -> None:
        """Raises ReplyFormatError."""
        self.ids: list[int] = []
        self._rendered, self._command = rendered, command
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
        # Where blanks count, those behind a thought are the answer's.
        exact = form is not None and form.kind not in ("json", "json_schema")
        self._reader = text.reply_reader(rendered, self._sampling.stop, exact)
        self._constraint = Constraint(form, text, rendered, command.thinking)
        self._loops = LoopDetector()
        # Of the tokens drawn here, those of a thought; and the bytes of all of the reply.
        self._num_thought = 0
        self._num_bytes = _num_bytes(self._reader.answer) + _num_bytes(self._reader.reasoning)
        self._stream: ReplyStream | None = None
        self._counts: Counts | None = None

    def begin(self, counts: Counts, emit: Callable[[Event], None]) -> None:
        """Tokens follow."""
        self._counts = counts
        self._stream = ReplyStream(self._command.request, counts, emit)

    def end(self) -> None:
        """No token follows."""
        assert self._stream is not None
        last = self._reader.close()
        self._stream.push(last.answer, last.reasoning, [])
        self._stream.flush()

    def most(self, room: int) -> int:
        """Tokens that the reply has at most, where the context has `room` for so many."""
        ends = room, self._sampling.max_tokens, self._command.stop_after_tokens
        return min(filter(None, ends), default=0)

    def draw(self, logits: Tensor, draft: Sequence[int]) -> FinishReason | None:
        """Draw from each row of `logits` [n, vocab], as long as what is drawn is what was drafted;
        says why the reply ends there, if it does."""
        for row, drafted in zip_longest(logits, draft):
            reason = self._draw(row)
            if reason is not None or self.ids[-1] != drafted:
                return reason
        return None

    def forced(self) -> list[int]:
        """What comes next whatever the model says."""
        return self._constraint.forced()

    def fitting(self, draft: Sequence[int]) -> list[int]:
        """As much of a draft as could be drawn."""
        return self._constraint.fitting(draft)

    def message(self, complete: bool) -> AssistantMessage:
        """The reply so far; one that is not `complete` pauses there."""
        reader, ids = self._reader, self.packed()
        if not complete:
            ids = ids.paused()
        return AssistantMessage(text=reader.answer, reasoning=reader.reasoning, ids=ids)

    def packed(self) -> ReplyIds:
        """The reply's ids as they are stored: at first those of a reply that is continued."""
        rendered = self._rendered
        ids = self._reader.reply_ids()
        return ReplyIds.pack(ids, self._fingerprint, rendered.opens_reasoning, rendered.pauses)

    def _draw(self, logits: Tensor) -> FinishReason | None:
        assert self._stream is not None and self._counts is not None
        index = self._start + len(self.ids)
        token_id = self._sampler.sample(self._constraint.limit(logits), index)
        self._sampler.accept(token_id)
        self._constraint.accept(token_id)
        self.ids.append(token_id)
        self._counts.count_token()
        in_thought = self._reader.in_thought
        delta = self._reader.push(token_id)
        self._stream.push(delta.answer, delta.reasoning, [token_id])
        self._num_thought += in_thought
        self._num_bytes += _num_bytes(delta.answer) + _num_bytes(delta.reasoning)
        if self._reader.finished:
            return "stop"
        if len(self.ids) == self._command.stop_after_tokens:
            return "cancelled"
        if len(self.ids) == self._sampling.max_tokens:
            return "length"
        return self._beyond_limits(token_id, in_thought)

    def _beyond_limits(self, token_id: int, in_thought: bool) -> FinishReason | None:
        """The default limit at which the reply ends, or None."""
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


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
