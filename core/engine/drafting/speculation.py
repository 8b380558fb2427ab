"""The drafts of one reply: who makes them, how long they are, and what became of them.

A draft is checked, never believed: each of its tokens counts only if the sampler draws it by
itself. So a reply has the same tokens with any draft, and with none.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence

from core.api.events import DraftCounts
from core.api.params import DraftSettings
from core.api.prompt import Image, Prompt
from core.engine.drafting.controller import Acceptance, StepCosts, best_depth
from core.engine.drafting.lookup import PromptLookup
from core.engine.passes.decode import MOST_TOKENS

MOST_DRAFTED = MOST_TOKENS - 1
# Right tokens expected of matches of so many tokens or more.
_PRIORS = ((8, 0.85), (4, 0.7), (0, 0.5))
# What a format forces is wrong only where the model spells it by other tokens.
_FORCED_PRIOR = 0.9


class Speculation:
    """Drafts for a reply to `prompt`, from a vocabulary of `vocab_size`."""

    def __init__(
        self, settings: DraftSettings, prompt: Prompt, vocab_size: int, costs: StepCosts
    ) -> None:
        self._settings, self._vocab_size, self._costs = settings, vocab_size, costs
        self._on = settings.mode != "off"
        self._lookup = PromptLookup(_text_ids(prompt) if self._on else ())
        self._acceptance = [(least, Acceptance(prior)) for least, prior in _PRIORS]
        self._forced = Acceptance(_FORCED_PRIOR)
        self._used: Acceptance | None = None
        self._noise = random.Random(0)
        self._began = 0.0
        self._cycles = self._drafted = self._accepted = self._empty = self._rejected = 0

    def follow(self, ids: Iterable[int]) -> None:
        """These were drawn."""
        if self._on:
            self._lookup.follow(ids)

    def draft(self, most: int, forced: Sequence[int] = ()) -> list[int]:
        """Ids that may come next, `most` of them at most: first of all what the reply's format
        has `forced`. The step that checks them begins."""
        found = self._proposed(most, forced) if self._on else []
        self._began = time.perf_counter()
        return found

    def note(self, drafted: int, accepted: int) -> None:
        """The step has checked so many drafted tokens, of which so many were right; what was
        wrong is taken back."""
        self._costs.note(1 + drafted, time.perf_counter() - self._began)
        self._cycles += 1
        self._drafted += drafted
        self._accepted += accepted
        self._empty += drafted == 0
        self._rejected += drafted > 0 and accepted == 0
        if drafted and self._used is not None:
            self._used.note(drafted, accepted)

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
        fixed = self._settings.tokens
        limit = min(most, fixed or MOST_DRAFTED)
        found, match = self._lookup.propose(limit)
        used = next(each for least, each in self._acceptance if match >= least)
        if forced:
            found, used = list(forced[:limit]), self._forced
        self._used = used
        if found and fixed is None:
            found = found[: best_depth(len(found), used.rate, self._costs)]
            if not found:
                used.note_untried()
        return self._noisy(found)

    def _noisy(self, ids: Sequence[int]) -> list[int]:
        """Each token is replaced by any other as often as the settings ask for."""
        wrong = self._settings.noise
        return [
            self._noise.randrange(self._vocab_size) if self._noise.random() < wrong else token_id
            for token_id in ids
        ]


def _text_ids(prompt: Prompt) -> list[int]:
    """A picture is one number that no token has, and no other picture."""
    ids: list[int] = []
    for number, segment in enumerate(prompt.segments, start=1):
        ids += [-number] if isinstance(segment, Image) else segment.ids
    return ids
