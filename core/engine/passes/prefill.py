"""The prompt pass: from cut to cut, one forward a run, each finished run into the tree.

The sequence of forwards depends on the prompt and on where it starts, never on settings, so a run
that is restored and a run that is computed leave the same bits behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from core import pulse
from core.api.prompt import Image, Prompt, Run, TextRun
from core.cache.context import ContextCache
from core.cache.restore import Restored
from core.cache.side import Branch
from core.cache.state import own
from core.engine.passes.run_memory import RunMemory
from core.models.model import Model


class Prefill:
    """Evaluates what `restored` leaves of a prompt. Afterwards `state` and `last_hidden` [hidden]
    belong to the prompt's end; `images_encoded` counts the tower's calls."""

    def __init__(
        self,
        model: Model,
        cache: ContextCache | Branch,
        restored: Restored,
        pictures: Callable[[Image], Tensor],
        check: Callable[[], None],
    ) -> None:
        self._model = model
        self._cache = cache
        self._pictures = pictures
        self._check = check
        self._fed = restored.cut.token.value
        self._node = restored.node
        self._num_runs = restored.num_runs
        self.state = restored.state
        self.last_hidden = restored.last_hidden

    def run(self, prompt: Prompt, planned: frozenset[Run]) -> Iterator[int]:
        """Prefill run after run, yielding the tokens in the cache after each.

        A pass that is cancelled or fails keeps the state at its last finished cut and raises.
        """
        self._cache.slab.reserve(prompt.num_tokens)
        try:
            for run in prompt.runs[self._num_runs :]:
                self._check()
                self._forward(run)
                if run in planned:
                    self._keep()
                yield run.end.token.value
        except Exception:
            if self._node.checkpoint is None and self._node.parent is not None:
                self._keep()
            raise

    def _forward(self, run: Run) -> None:
        memory = RunMemory(self._cache.slab, self.state, run.start.token, self._check)
        positions = torch.tensor(run.position_ids(), device=self._model.device)
        image = isinstance(run.content, Image)
        embeddings = self._embeddings(run)
        with pulse.long_step(pulse.attention_s(run.num_tokens, run.end.token.value)):
            hidden = self._model.forward(embeddings, positions, memory, image=image)
        # Whatever may fail comes first: node, state and hidden row change together or not at all.
        state, last_hidden = memory.new_state(), own(hidden[-1])
        self._fed += run.num_tokens
        assert self._fed == run.end.token.value, "a token index counts the tokens fed"
        self._node = self._cache.add(self._node, run)
        self.state, self.last_hidden = state, last_hidden

    def _embeddings(self, run: Run) -> Tensor:
        if isinstance(run.content, TextRun):
            return self._model.embed(torch.tensor(run.content.ids, device=self._model.device))
        return self._pictures(run.content)

    def _keep(self) -> None:
        assert self.last_hidden is not None
        self._cache.keep(self._node, self.state, self.last_hidden)
