"""The prompt pass: from cut to cut, each finished run into the tree.

A forward takes a run, or several short ones where the kernels promise that the bits of a row depend
on no row beside it: what layers compute across rows keeps to the runs in any case. So a run that is
restored and a run that is computed leave the same bits behind, whatever else a forward took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from core import pulse
from core.api.prompt import Image, Prompt, Run, TextRun
from core.cache.context import ContextCache
from core.cache.restore import Restored
from core.cache.side import Branch
from core.cache.state import RecurrentState, own
from core.engine.passes.run_memory import RunMemory
from core.models.model import Model

# Of several runs in one forward; the grid cuts long text into runs of as many.
MOST_ROWS = 512


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
        runs = prompt.runs[self._num_runs :]
        try:
            while runs:
                self._check()
                joined = self._joined(runs, planned)
                for run, state, last_hidden in self._forward(joined, planned):
                    self._finish(run, state, last_hidden)
                    if run in planned:
                        self._keep()
                    yield run.end.token.value
                runs = runs[len(joined) :]
        except Exception:
            if self._node.checkpoint is None and self._node.parent is not None:
                self._keep()
            raise

    def _joined(self, runs: Sequence[Run], planned: frozenset[Run]) -> Sequence[Run]:
        """How many of the next runs one forward takes. It holds a state of its own for each
        checkpoint in between, for which there must be room."""
        num_rows, states = runs[0].num_tokens, self._spare_states()
        count = 1
        for before, run in pairwise(runs):
            texts = isinstance(before.content, TextRun) and isinstance(run.content, TextRun)
            num_rows, states = num_rows + run.num_tokens, states - (before in planned)
            if not (self._model.joins_runs and texts) or num_rows > MOST_ROWS or states < 0:
                break
            count += 1
        return runs[:count]

    def _spare_states(self) -> int:
        return self._cache.spare_bytes // max(1, self.state.num_bytes)

    def _forward(
        self, runs: Sequence[Run], planned: frozenset[Run]
    ) -> Iterator[tuple[Run, RecurrentState, Tensor]]:
        """Each run with what belongs to its end."""
        first, last = runs[0], runs[-1]
        kept = [run in planned for run in runs[:-1]]
        sizes = tuple(run.num_tokens for run in runs)
        memory = RunMemory(
            self._cache.slab, self.state, first.start.token, self._check, sizes, kept
        )
        ids = [torch.tensor(run.position_ids()) for run in runs]
        positions = torch.cat(ids, dim=1).to(self._model.device)
        image = isinstance(first.content, Image)
        embeddings = torch.cat([self._embeddings(run) for run in runs])
        long_step = pulse.long_step(pulse.attention_s(sum(sizes), last.end.token.value))
        with long_step, self._cache.in_flight(sum(kept) * self.state.num_bytes):
            hidden = self._model.forward(embeddings, positions, memory, image=image)
        ends = (rows[-1] for rows in hidden.split(sizes))
        yield from zip(runs, memory.new_states(), map(own, ends), strict=True)

    def _finish(self, run: Run, state: RecurrentState, last_hidden: Tensor) -> None:
        """Whatever may fail came first: node, state and hidden row change together."""
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
