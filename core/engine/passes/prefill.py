"""Prefill from cut to cut; finished runs enter the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from core import watchdog
from core.api.prompt import Image, Prompt, Run, TextRun
from core.cache.context import ContextCache
from core.cache.restore import Restored
from core.cache.side import Branch
from core.cache.state import RecurrentState, own
from core.engine.passes.memory import RunMemory
from core.engine.passes.mtp import HeadMemory
from core.models.decoder import Decoder

# Rows of several runs in one forward; the grid cuts long text into runs of this size.
MOST_ROWS = 512
# States between these runs. No budget covers them, as with a forward's other activations.
MOST_STATE_BYTES = 128 * 2**20

End = tuple[RecurrentState, Tensor] | None
"""The state and the hidden row at a run's end."""


class Prefill:
    """`state` and `last_hidden` [hidden] are those of the prompt's end."""

    def __init__(
        self,
        model: Decoder,
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
        # Where the next run goes, and where `state` belongs.
        self._node = self._end = restored.node
        self._num_runs = restored.num_runs
        self.state = restored.state
        self.last_hidden = restored.last_hidden

    def run(
        self, prompt: Prompt, planned: frozenset[Run], stop: int | None = None
    ) -> Iterator[int]:
        """Yield the number of tokens in the cache after each forward, up to the first cut at or
        after token `stop`. A failed pass keeps the state at its last finished cut."""
        self._cache.kv_buffer.reserve(prompt.num_tokens)
        runs = prompt.runs[self._num_runs :]
        before = prompt.runs[self._num_runs - 1] if self._num_runs else None
        try:
            while runs:
                self._check()
                joined = self._joined(runs, planned, stop)
                for run, end in self._forward(joined, planned, before):
                    self._finish(run, end)
                    if run in planned:
                        self._keep()
                before = joined[-1]
                yield before.end.token.value
                runs = runs[len(joined) :]
        except Exception:
            # A pure transformer can resume from runs without a last hidden row.
            known = self._end is self._node and self.last_hidden is not None
            if known and self._node.checkpoint is None and self._node.parent:
                self._keep()
            raise

    def _joined(
        self, runs: Sequence[Run], planned: frozenset[Run], stop: int | None
    ) -> Sequence[Run]:
        num_rows, state_bytes = runs[0].num_tokens, 0
        for count, (before, run) in enumerate(pairwise(runs), start=1):
            texts = isinstance(before.content, TextRun) and isinstance(run.content, TextRun)
            num_rows += run.num_tokens
            state_bytes += self.state.num_bytes if before in planned else 0
            fits = num_rows <= MOST_ROWS and state_bytes <= MOST_STATE_BYTES
            stops = stop is not None and before.end.token.value >= stop
            if not (self._model.batch_invariant and texts and fits) or stops:
                return runs[:count]
        return runs

    def _forward(
        self, runs: Sequence[Run], planned: frozenset[Run], before: Run | None
    ) -> list[tuple[Run, End]]:
        first, last = runs[0], runs[-1]
        kept = [*(run in planned for run in runs[:-1]), True]
        sizes = tuple(run.num_tokens for run in runs)
        ends = [end - 1 for end, keep in zip(accumulate(sizes), kept, strict=True) if keep]
        memory = RunMemory(
            self._cache.kv_buffer, self.state, first.start.token, self._check, sizes, kept[:-1]
        )
        ids = [torch.tensor(run.position_ids()) for run in runs]
        positions = torch.cat(ids, dim=1).to(self._model.device)
        image = isinstance(first.content, Image)
        embeddings = torch.cat([self._embeddings(run) for run in runs])
        with watchdog.step_limit(watchdog.attention_limit_s(sum(sizes), last.end.token.value)):
            given, has_mtp = (embeddings, positions, memory), self._model.has_mtp
            wanted = None if has_mtp else ends
            hidden = self._model.forward(*given, image=image, wanted=wanted)
            if has_mtp:
                self._predict(embeddings, hidden, positions, sizes, before)
                hidden = hidden[ends]
        rows = iter(hidden)
        states = zip(runs, memory.new_states(), kept, strict=True)
        return [(run, (state, own(next(rows))) if keep else None) for run, state, keep in states]

    def _predict(
        self,
        embeddings: Tensor,
        hidden: Tensor,
        positions: Tensor,
        sizes: tuple[int, ...],
        before: Run | None,
    ) -> None:
        kv_buffer, hidden, positions = self._cache.kv_buffer, hidden[:-1], positions[:, :-1]
        if before is None:
            # Token 0 has no row; zeros, so that a kept run always has the same bytes.
            first, embeddings, sizes = 1, embeddings[1:], (sizes[0] - 1, *sizes[1:])
            for rows in kv_buffer.rows(len(self._model.layer_specs) - 1):
                rows[0].zero_()
        else:
            assert self.last_hidden is not None
            first = before.end.token.value
            hidden = torch.cat([self.last_hidden[None], hidden])
            last = torch.tensor(before.last_position, device=positions.device)
            positions = torch.cat([last[:, None], positions], dim=1)
        sizes = tuple(size for size in sizes if size)
        if sizes:
            memory = HeadMemory(kv_buffer, first, sizes, self._check, is_step=False)
            inputs = self._model.head_inputs(embeddings, hidden)
            self._model.predict(inputs, self._model.rotations(positions, sizes), memory)

    def _finish(self, run: Run, end: End) -> None:
        """Add a run to the tree, after everything that may fail."""
        self._fed += run.num_tokens
        assert self._fed == run.end.token.value, "a token index counts the tokens fed"
        self._node = self._cache.add(self._node, run)
        if end is not None:
            (self.state, self.last_hidden), self._end = end, self._node

    def _embeddings(self, run: Run) -> Tensor:
        if isinstance(run.content, TextRun):
            return self._model.embed(torch.tensor(run.content.ids, device=self._model.device))
        return self._pictures(run.content)

    def _keep(self) -> None:
        assert self.last_hidden is not None
        self._cache.keep(self._node, self.state, self.last_hidden)
