"""The drafts of one reply: who makes them, how long they are, and what became of them.

A draft is checked, never believed: each of its tokens counts only if the sampler draws it by
itself. So a reply has the same tokens with any draft, and with none.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from torch import Tensor

from core.api.params import DraftSettings
from core.api.stats import DraftCounts
from core.engine.drafting.controller import Acceptance, StepCosts, best_depth
from core.engine.drafting.offer import Drafter, Offer
from core.engine.passes.decode import MOST_TOKENS

MOST_DRAFTED = MOST_TOKENS - 1
# What a format forces is wrong only where the model spells it by other tokens.
_FORCED_PRIOR = 0.9


class Speculation:
    """Drafts for a reply, from a vocabulary of `vocab_size`; `drafters` come in order of choice."""

    def __init__(
        self,
        settings: DraftSettings,
        drafters: Sequence[Drafter],
        vocab_size: int,
        costs: StepCosts,
        noise: float = 0.0,
    ) -> None:
        self._settings, self._vocab_size, self._costs = settings, vocab_size, costs
        self._on = settings.mode != "off"
        self._drafters = drafters
        self._forced = Acceptance(_FORCED_PRIOR)
        self._used: Acceptance | None = None
        self._noise, self._random = noise, random.Random(0)
        self._began, self._offered = 0.0, 0
        self._cycles = self._drafted = self._accepted = self._empty = self._rejected = 0

    def follow(self, ids: Sequence[int], hidden: Tensor) -> None:
        """As `Drafter`."""
        for drafter in self._drafters:
            drafter.follow(ids, hidden)

    def draft(self, most: int, forced: Sequence[int] = ()) -> list[int]:
        """Ids that may come next, `most` of them at most: first of all what the reply's format
        has `forced`. The step that checks them begins."""
        found = self._proposed(most, forced) if self._on else []
        self._offered = len(found)
        self._began = time.perf_counter()
        return found

    def note(self, drafted: int, accepted: int, is_usual: bool = True) -> None:
        """The step has checked so many drafted tokens, of which so many were right; what was
        wrong is taken back. Those left out of the draft could not be drawn, so the first was
        wrong. One that was captured is not `is_usual`: no other takes as long."""
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
        """What became of the drafts; None where there are none by wish."""
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
        """The draft that is expected to gain the most, or the first one of a fixed length."""
        fixed = self._settings.tokens
        wanted = min(most, fixed or MOST_DRAFTED)
        offers = self._offers(wanted, forced)
        best, depth, fastest = None, 0, 0.0
        for offer in offers:
            found, speed = offer.most, 0.0
            if fixed is None:
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
        """Those of some token: what a format forces is more certain than any guess."""
        known = list(forced[:most])
        if known:
            return [Offer(len(known), self._forced, lambda depth: known[:depth])]
        return [offer for each in self._drafters if (offer := each.offer(most)).most]

    def _noisy(self, ids: Sequence[int]) -> list[int]:
        """Replace the probed share of tokens by random ones."""
        return [
            self._random.randrange(self._vocab_size)
            if self._random.random() < self._noise
            else token_id
            for token_id in ids
        ]
