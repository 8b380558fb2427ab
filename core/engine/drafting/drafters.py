"""Who drafts, by the settings and by what the model has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from core.api.params import DraftSettings
from core.api.prompt import Image, Prompt
from core.cache.slab import KVSlab
from core.engine.drafting.controller import Acceptance, StepCosts
from core.engine.drafting.head import HeadDrafter
from core.engine.drafting.lookup import PromptLookup
from core.engine.drafting.offer import Drafter, Offer
from core.engine.passes.captured import StepCapture
from core.models.decoder import Decoder

# Right tokens expected of matches of so many tokens or more.
_PRIORS = ((8, 0.85), (4, 0.7), (0, 0.5))


class LookupDrafter:
    """Drafts what followed the same words before."""

    def __init__(self, prompt: Prompt) -> None:
        self._lookup = PromptLookup(_text_ids(prompt))
        self._acceptance = [(least, Acceptance(prior)) for least, prior in _PRIORS]

    def follow(self, ids: Sequence[int], hidden: Tensor) -> None:
        self._lookup.follow(ids)

    def offer(self, most: int) -> Offer:
        found, match = self._lookup.propose(most)
        acceptance = next(each for least, each in self._acceptance if match >= least)
        return Offer(len(found), acceptance, lambda depth: found[:depth])


def drafters_of(
    settings: DraftSettings,
    model: Decoder,
    slab: KVSlab,
    prompt: Prompt,
    costs: StepCosts,
    check: Callable[[], None],
    steps: StepCapture,
) -> tuple[list[Drafter], HeadDrafter | None]:
    """Those that the settings ask for and the model has, for a reply to `prompt`; and that of the
    MTP head, if it is one of them. `check` may raise."""
    drafters: list[Drafter] = []
    if settings.mode in {"auto", "lookup", "both"}:
        drafters.append(LookupDrafter(prompt))
    if settings.mode not in {"auto", "mtp", "both"} or not model.has_mtp:
        return drafters, None
    head = HeadDrafter(model, slab, prompt, costs, check, steps.head(model, slab))
    return [*drafters, head], head


def _text_ids(prompt: Prompt) -> list[int]:
    """A picture is one number that no token has, and no other picture."""
    ids: list[int] = []
    for number, segment in enumerate(prompt.segments, start=1):
        ids += [-number] if isinstance(segment, Image) else segment.ids
    return ids
