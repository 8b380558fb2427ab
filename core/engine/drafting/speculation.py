"""Speculative decoding: a drafted token counts only if it is sampled, so drafts change no token."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from core.api.params import DraftSettings
from core.api.prompt import Image, Prompt
from core.api.stats import DraftCounts
from core.cache.kv_buffer import KVBuffer
from core.engine.drafting.costs import Acceptance, StepCosts, best_depth
from core.engine.passes.decode import MOST_TOKENS
from core.engine.passes.mtp import HeadMemory, HeadSteps
from core.models.decoder import Decoder

MOST_DRAFTED = MOST_TOKENS - 1
# Tokens forced by a format are wrong only where the model spells the text by other tokens.
_FORCED_PRIOR = 0.9
# Places that a lookup compares, and tokens before them.
MOST_PLACES = 32
LONGEST_MATCH = 64
# Expected acceptance by the length of a match.
_PRIORS = ((8, 0.85), (4, 0.7), (0, 0.5))
# Sampled tokens that wait for a draft before they are fed to an MTP head.
MOST_WAITING = 64


@dataclass(frozen=True, slots=True)
class Offer:
    most: int
    acceptance: Acceptance
    take: Callable[[int], list[int]]
    seconds: float = 0.0


class Drafter(Protocol):
    def follow(self, ids: Sequence[int], hidden: Tensor) -> None:
        """The next step overwrites `hidden` [n or more, hidden_size]."""
        ...

    def offer(self, most: int) -> Offer: ...


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
    """A picture is one negative number of its own."""
    ids: list[int] = []
    for number, segment in enumerate(prompt.segments, start=1):
        ids += [-number] if isinstance(segment, Image) else segment.ids
    return ids


class PromptLookup:
    """A negative id isn't text. Compares the newest places of the last pair, in a third of a suffix
    automaton's time and half its memory."""

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


class HeadDrafter:
    """Drafts an MTP head's likeliest tokens; undrafted ones are fed to it in batches."""

    def __init__(
        self,
        model: Decoder,
        kv_buffer: KVBuffer,
        prompt: Prompt,
        costs: StepCosts,
        check: Callable[[], None],
        steps: HeadSteps,
    ) -> None:
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


class Speculation:
    """`noise`: the share of drafted tokens replaced by random ones, for tests."""

    def __init__(
        self,
        settings: DraftSettings,
        drafters: Sequence[Drafter],
        vocab_size: int,
        costs: StepCosts,
        noise: float = 0.0,
    ) -> None:
        self._fixed = settings.tokens
        self._on = settings.mode != "off"
        self._drafters, self._costs = drafters, costs
        self._forced = Acceptance(_FORCED_PRIOR)
        self._used: Acceptance | None = None
        self._vocab_size, self._noise, self._random = vocab_size, noise, random.Random(0)
        self._began, self._offered = 0.0, 0
        self._cycles = self._drafted = self._accepted = self._empty = self._rejected = 0

    def follow(self, ids: Sequence[int], hidden: Tensor) -> None:
        for drafter in self._drafters:
            drafter.follow(ids, hidden)

    def draft(self, most: int, forced: Sequence[int] = ()) -> list[int]:
        """`forced` ids come first. Starts the clock."""
        found = self._proposed(most, forced) if self._on else []
        self._offered = len(found)
        self._began = time.perf_counter()
        return found

    def note(self, drafted: int, accepted: int, is_usual: bool = True) -> None:
        """Offered tokens that don't fit the format count as wrong. A captured step is not
        `is_usual`."""
        if is_usual:
            self._costs.note(1 + drafted, time.perf_counter() - self._began)
        self._cycles += 1
        self._drafted += drafted
        self._accepted += accepted
        self._empty += drafted == 0
        self._rejected += drafted > 0 and accepted == 0
        if self._offered and self._used is not None:
            self._used.note(self._offered, accepted)

    def counts(self) -> DraftCounts | None:
        if not self._on:
            return None
        return DraftCounts(
            cycles=self._cycles,
            drafted=self._drafted,
            accepted=self._accepted,
            empty=self._empty,
            rejected=self._rejected,
        )

    def _proposed(self, most: int, forced: Sequence[int]) -> list[int]:
        offers = self._offers(min(most, self._fixed or MOST_DRAFTED), forced)
        best, depth, fastest = None, 0, 0.0
        for offer in offers:
            found, speed = offer.most, 0.0
            if self._fixed is None:
                found, speed = best_depth(
                    offer.most, offer.acceptance.rate, self._costs, offer.seconds
                )
            if found and (best is None or speed > fastest):
                best, depth, fastest = offer, found, speed
        for offer in offers:
            if offer is not best:
                offer.acceptance.note_untried()
                if offer.seconds:
                    self._costs.note_undrafted()
        self._used = best.acceptance if best is not None else None
        return self._noisy(best.take(depth)) if best is not None else []

    def _offers(self, most: int, forced: Sequence[int]) -> list[Offer]:
        known = list(forced[:most])
        if known:
            return [Offer(len(known), self._forced, lambda depth: known[:depth])]
        return [offer for each in self._drafters if (offer := each.offer(most)).most]

    def _noisy(self, ids: Sequence[int]) -> list[int]:
        chance, size = self._random.random, self._vocab_size
        return [
            self._random.randrange(size) if chance() < self._noise else token_id for token_id in ids
        ]
