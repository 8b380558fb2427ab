"""What drafters have in common: each offers tokens that may come next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from core.engine.drafting.controller import Acceptance


@dataclass(frozen=True, slots=True)
class Offer:
    """A draft of `most` tokens at most, which are right as often as `acceptance` says; `take` makes
    it, as long as it is told to, at `seconds` a token."""

    most: int
    acceptance: Acceptance
    take: Callable[[int], list[int]]
    seconds: float = 0.0


class Drafter(Protocol):
    """Drafts for one reply."""

    def follow(self, ids: Sequence[int], hidden: Tensor) -> None:
        """These were drawn, each from a row of `hidden` [n or more, hidden_size], which the next
        step writes over."""
        ...

    def offer(self, most: int) -> Offer:
        """What comes next, `most` tokens at most."""
        ...
