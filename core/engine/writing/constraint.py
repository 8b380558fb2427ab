"""What keeps a reply to its format: which tokens may be drawn next.

A grammar follows the drawn tokens and nothing else. A draft is compared with it and leaves no
trace, so there is nothing to roll back.
"""

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
    """Of one reply; without a format everything may be drawn.

    A thought is free, but does not end the reply. Where the model opens one by itself it may,
    unless it was told not to think, by the user or by a thought that the template has closed: it
    was never trained to open another, and would only because the form allows little else.
    """

    def __init__(
        self,
        form: ReplyFormat | None,
        text: ChatText,
        rendered: RenderedPrompt,
        thinking: bool | None,
    ) -> None:
        """Raises ReplyFormatError where the format can't be used with this model, or the reply
        that is gone on with is not of it."""
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
        """`logits` [vocab] with -inf for what may not come next.

        Raises ReplyFormatError where the grammar has become too large to be followed.
        """
        if not self._on:
            return logits
        forbidden = self._forbidden(len(logits)).to(logits.device)
        return logits.masked_fill(forbidden, -math.inf)

    def accept(self, token_id: int) -> None:
        """This was drawn. What ends the reply is no part of it."""
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
        """What comes next whatever the model says, as the tokenizer spells it; often nothing."""
        if not self._on or self._in_thought or self._at_start or self._grammar.is_stopped():
            return []
        return self._grammar.compute_ff_tokens()

    def fitting(self, draft: Sequence[int]) -> list[int]:
        """As much of a draft as could be drawn."""
        free = self._num_free(draft)
        if free == len(draft):
            return list(draft)
        fits = self._grammar.validate_tokens(list(draft[free:]))
        return list(draft[: free + fits])

    def _begin(self) -> None:
        self._grammar = matcher(self._spelling, grammar(self._form, self._in_thought))
        self._check()

    def _num_free(self, draft: Sequence[int]) -> int:
        """How many drafted ids the grammar has nothing to say about: those of the thought."""
        if not self._on:
            return len(draft)
        if not self._in_thought:
            return 0
        return next((1 + at for at, each in enumerate(draft) if each == self._close), len(draft))

    def _forbidden(self, vocab_size: int) -> Tensor:
        """What may not come next, [vocab_size]."""
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
        """A grammar that has refused something stays in error for good."""
        if not self._grammar.is_error():
            return
        why = self._grammar.get_error()
        if REFUSED in why:
            raise ReplyFormatError("The reply that is gone on with is not of this form.")
        raise ReplyFormatError("The format has become too involved to be followed further.")
