"""Drafts of a model's own MTP head. Without drafts, sampled tokens are prefilled in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from core.api.prompt import Prompt
from core.cache.kv_buffer import KVBuffer
from core.engine.drafting.costs import StepCosts
from core.engine.drafting.speculation import Offer
from core.engine.passes.decode import MOST_TOKENS
from core.engine.passes.mtp import HeadMemory, HeadSteps
from core.models.decoder import Decoder

# Sampled tokens that wait for a draft before they are fed to the head.
MOST_WAITING = 64


class HeadDrafter:
    """The `Drafter` of an MTP head: drafts the likeliest token each time."""

    def __init__(
        self,
        model: Decoder,
        kv_buffer: KVBuffer,
        prompt: Prompt,
        costs: StepCosts,
        check: Callable[[], None],
        steps: HeadSteps,
    ) -> None:
        """`kv_buffer` holds the head's rows of `prompt`; `steps` run over it."""
        self._model, self._kv_buffer, self._check, self._steps = model, kv_buffer, check, steps
        self._start, self._before = prompt.end, prompt.runs[-1].last_position
        self._costs = costs
        # The next token to feed to the head, and the sampled ones from there on with their rows.
        self._next = prompt.end.token.value
        self._ids: list[int] = []
        self._hidden: list[Tensor] = []
        # The head's row of the last sampled token, [hidden_size].
        self._row: Tensor | None = None

    def follow(self, ids: Sequence[int], hidden: Tensor) -> None:
        self._ids += ids
        self._hidden.append(hidden[: len(ids)].clone())

    def offer(self, most: int) -> Offer:
        if len(self._ids) >= MOST_WAITING:
            self._feed_sampled(MOST_WAITING)
        seconds = self._costs.of_drafting()
        return Offer(max(0, most), self._costs.own_drafts, self._take, seconds)

    def logits(self) -> Tensor:
        """Float32 logits [vocab_size] of the token after the next."""
        return self._model.logits(self._last_row()[None])[0]

    def _take(self, depth: int) -> list[int]:
        if len(self._ids) > MOST_TOKENS:  # before the clock starts: other drafts have no backlog
            self._feed_sampled(len(self._ids) - 1)
        began, captured = time.perf_counter(), self._steps.num_traces
        row = self._last_row()
        found = [self._model.likeliest(row)]
        while len(found) < depth:
            row = self._feed(self._next + len(found) - 1, found[-1:], row[None])
            found.append(self._model.likeliest(row))
        for rows in self._kv_buffer.rows(len(self._model.layer_specs) - 1):
            rows[self._next : self._next + depth - 1].zero_()
        if self._steps.num_traces == captured:  # a capture takes longer than other drafts
            self._costs.note_drafting((time.perf_counter() - began) / depth)
        return found

    def _last_row(self) -> Tensor:
        if self._ids:
            self._feed_sampled(len(self._ids))
        assert self._row is not None
        return self._row

    def _feed_sampled(self, count: int) -> None:
        ids, hidden = self._ids[:count], torch.cat(self._hidden)
        # Cloned, since the next replay overwrites it.
        self._row = self._feed(self._next, ids, hidden[:count]).clone()
        self._next += count
        self._ids, self._hidden = self._ids[count:], [hidden[count:]]

    def _feed(self, token: int, ids: Sequence[int], hidden: Tensor) -> Tensor:
        device, count = self._model.device, len(ids)
        places = range(token - 1, token - 1 + count)
        positions = torch.tensor([self._position(each) for each in places], device=device).T
        embeddings = self._model.embed(torch.tensor(ids, device=device))
        inputs = self._model.head_inputs(embeddings, hidden)
        if count <= MOST_TOKENS:
            rotations = self._model.rotations(positions, (1,) * count)
            return self._steps.forward(token, inputs, rotations, self._check)[-1]
        memory = HeadMemory(self._kv_buffer, token, (count,), self._check, is_step=False)
        rotations = self._model.rotations(positions, (count,))
        return self._model.predict(inputs, rotations, memory)[-1]

    def _position(self, token: int) -> tuple[int, int, int]:
        offset = token - self._start.token.value
        return self._before if offset < 0 else (self._start.position.value + offset,) * 3
