"""Structured output: which tokens may be sampled next. Its grammar follows sampled tokens only, so
drafts need no rollback."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from core.api.errors import ReplyFormatError
from core.api.reply_format import ReplyFormat
from core.formats.check import refusal
from core.formats.grammar import grammar
from core.helper.grammars import REFUSED, matcher
from core.text.chat_text import ChatText, RenderedPrompt


class Constraint:
    """The format of one reply; without one, every token is allowed. A thought is free, but can't
    end the reply. A model may open a thought unless told not to think."""

    def __init__(
        self,
        form: ReplyFormat | None,
        text: ChatText,
        rendered: RenderedPrompt,
        thinking: bool | None,
    ) -> None:
        """Raises ReplyFormatError if the format can't be used or a begun reply doesn't match."""
        self._on = form is not None
        if form is None:
            return
        reason = refusal(form)
        if reason:
            raise ReplyFormatError(reason)
        tokens, known = text.thinking, text.thinking.known
        thinks = known and thinking is not False and not rendered.closes_reasoning
        self._open = tokens.open if thinks else None
        self._close = tokens.close
        self._in_thought = rendered.opens_reasoning and known
        self._at_start = not self._in_thought
        self._stop_ids = text.end_of_turn_ids
        self._form, self._spelling = form, text.spelling
        self._begin()
        for token_id in rendered.begun:
            self.accept(token_id)

    def limit(self, logits: Tensor) -> Tensor:
        """`logits` [vocab] with -inf for tokens not allowed. Raises ReplyFormatError if the grammar
        grows too large."""
        if not self._on:
            return logits
        forbidden = self._forbidden(len(logits)).to(logits.device)
        return logits.masked_fill(forbidden, -math.inf)

    def accept(self, token_id: int) -> None:
        """Follow a sampled token. A stop token is no part of the reply."""
        if not self._on or token_id in self._stop_ids:
            return
        if self._in_thought:
            self._in_thought = token_id != self._close
        elif self._at_start and token_id == self._open:
            self._in_thought, self._at_start = True, False
            self._begin()
        else:
            self._at_start = False
            self._grammar.consume_token(token_id)
            self._check()

    def forced(self) -> list[int]:
        """Ids that must come next, as the tokenizer spells them; often none."""
        if not self._on or self._in_thought or self._at_start or self._grammar.is_stopped():
            return []
        return self._grammar.compute_ff_tokens()

    def fitting(self, draft: Sequence[int]) -> list[int]:
        free = self._num_free(draft)
        if free == len(draft):
            return list(draft)
        fits = self._grammar.validate_tokens(list(draft[free:]))
        return list(draft[: free + fits])

    def _begin(self) -> None:
        self._grammar = matcher(self._spelling, grammar(self._form, self._in_thought))
        self._check()

    def _num_free(self, draft: Sequence[int]) -> int:
        """How many drafted ids belong to a thought, which the grammar doesn't restrict."""
        if not self._on:
            return len(draft)
        if not self._in_thought:
            return 0
        return next((1 + at for at, each in enumerate(draft) if each == self._close), len(draft))

    def _forbidden(self, vocab_size: int) -> Tensor:
        if self._in_thought:
            forbidden = np.zeros(vocab_size, np.uint8)
            forbidden[[each for each in self._stop_ids if each < vocab_size]] = 1
            return torch.from_numpy(forbidden).view(torch.bool)
        allowed = np.frombuffer(self._grammar.compute_bitmask(), np.uint8)
        self._check()
        forbidden = np.unpackbits(~allowed, bitorder="little")[:vocab_size]
        if self._at_start and self._open is not None:
            forbidden[self._open] = 0
        if forbidden.all():
            raise ReplyFormatError("No token of this model goes on with the reply in this form.")
        # A model may have rows that are no token's.
        forbidden = np.pad(forbidden, (0, vocab_size - len(forbidden)), constant_values=1)
        return torch.from_numpy(forbidden).view(torch.bool)

    def _check(self) -> None:
        if not self._grammar.is_error():
            return
        why = self._grammar.get_error()
        if REFUSED in why:
            raise ReplyFormatError("The reply that is gone on with is not of this form.")
        raise ReplyFormatError("The format has become too involved to be followed further.")
