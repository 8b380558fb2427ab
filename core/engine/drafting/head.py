"""Drafts of a model's own MTP head (core.models.decoder).

Its keys and values are made of what the model made of tokens that were drawn; those of a draft go
when it is made. While nobody asks for a draft, what is drawn is read many tokens at once, as a
prompt is: weights are read once for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from core.api.prompt import Prompt
from core.cache.slab import KVSlab
from core.engine.drafting.controller import StepCosts
from core.engine.drafting.offer import Offer
from core.engine.passes.decode import MOST_TOKENS
from core.engine.passes.head_memory import HeadMemory
from core.engine.passes.head_steps import HeadSteps
from core.models.decoder import Decoder

# Drawn tokens that wait until somebody asks for a draft.
MOST_WAITING = 64


class HeadDrafter:
    """Drafts the likeliest token, and behind it what is likeliest then."""

    def __init__(
        self,
        model: Decoder,
        slab: KVSlab,
        prompt: Prompt,
        costs: StepCosts,
        check: Callable[[], None],
        steps: HeadSteps,
    ) -> None:
        """The head's rows of `prompt` are in `slab`, over which `steps` are."""
        self._model, self._slab, self._check, self._steps = model, slab, check, steps
        self._start, self._before = prompt.end, prompt.runs[-1].last_position
        self._costs = costs
        # The next token that the head is to be fed, and those drawn from there on with their rows.
        self._next = prompt.end.token.value
        self._ids: list[int] = []
        self._hidden: list[Tensor] = []
        # What the head made of the last token that was drawn, [hidden_size].
        self._row: Tensor | None = None

    def follow(self, ids: Sequence[int], hidden: Tensor) -> None:
        self._ids += ids
        self._hidden.append(hidden[: len(ids)].clone())

    def offer(self, most: int) -> Offer:
        if len(self._ids) >= MOST_WAITING:
            self._feed_drawn(MOST_WAITING)
        seconds = self._costs.of_drafting()
        return Offer(max(0, most), self._costs.own_drafts, self._take, seconds)

    def logits(self) -> Tensor:
        """Of the token behind the last one that was drawn, [vocab_size] float32."""
        return self._model.logits(self._behind_drawn()[None])[0]

    def _take(self, depth: int) -> list[int]:
        if len(self._ids) > MOST_TOKENS:  # which says nothing of what the next draft takes
            self._feed_drawn(len(self._ids) - 1)
        began, captured = time.perf_counter(), self._steps.num_traces
        row = self._behind_drawn()
        found = [self._model.likeliest(row)]
        while len(found) < depth:
            row = self._feed(self._next + len(found) - 1, found[-1:], row[None])
            found.append(self._model.likeliest(row))
        for rows in self._slab.rows(len(self._model.layer_specs) - 1):
            rows[self._next : self._next + depth - 1].zero_()
        if self._steps.num_traces == captured:  # no other draft takes as long
            self._costs.note_drafting((time.perf_counter() - began) / depth)
        return found

    def _behind_drawn(self) -> Tensor:
        """What the head makes of the last token that was drawn, [hidden_size]."""
        if self._ids:
            self._feed_drawn(len(self._ids))
        assert self._row is not None
        return self._row

    def _feed_drawn(self, count: int) -> None:
        """The next tokens that were drawn."""
        ids, hidden = self._ids[:count], torch.cat(self._hidden)
        # The next replay overwrites it.
        self._row = self._feed(self._next, ids, hidden[:count]).clone()
        self._next += count
        self._ids, self._hidden = self._ids[count:], [hidden[count:]]

    def _feed(self, token: int, ids: Sequence[int], hidden: Tensor) -> Tensor:
        """The row of the last of `ids`, of which `token` is the first."""
        device, count = self._model.device, len(ids)
        places = range(token - 1, token - 1 + count)
        positions = torch.tensor([self._position(each) for each in places], device=device).T
        embeddings = self._model.embed(torch.tensor(ids, device=device))
        inputs = self._model.head_inputs(embeddings, hidden)
        if count <= MOST_TOKENS:
            rotations = self._model.rotations(positions, (1,) * count)
            return self._steps.forward(token, inputs, rotations, self._check)[-1]
        memory = HeadMemory(self._slab, token, (count,), self._check, is_step=False)
        rotations = self._model.rotations(positions, (count,))
        return self._model.predict(inputs, rotations, memory)[-1]

    def _position(self, token: int) -> tuple[int, int, int]:
        """On three axes, of the prompt's last token or of one behind it."""
        behind = token - self._start.token.value
        return self._before if behind < 0 else (self._start.position.value + behind,) * 3
