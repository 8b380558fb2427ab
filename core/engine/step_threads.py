"""The threads of one-token steps: as many as are fastest now, of those that give the same bits.

Brings together what decides (`thread_choice`), what may be chosen at all (`thread_proof`) and the
switching (`threads`). Prompts are always read with the full number, which it puts back each time.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from core.api.errors import WaymarkError
from core.api.params import ModelSettings
from core.engine.backend import remembered
from core.engine.fingerprint import NUMERICS_VERSION
from core.engine.thread_choice import ThreadChoice, counts_to_choose_from
from core.engine.thread_proof import PROOF_VERSION, longest_context, same_bits
from core.engine.threads import computing_with
from core.models.model import Model
from core.weights.memory import hand_back
from kernels.dispatch import Backend

_LOG = logging.getLogger(__name__)
# What a proof may have found, as it is remembered.
_EQUAL, _DIFFERENT = "equal", "different"

Prove = Callable[[int, Callable[[], None]], bool]
"""Whether steps with so many threads give the same bits; calls the second argument meanwhile."""


class StepThreads:
    """Wraps every one-token step of one model. With a single count to choose from it does nothing.

    A count is proven when it is first to be used. `longest` is the context that proofs cover, in
    tokens; a step behind more runs with the full number.
    """

    def __init__(
        self,
        choice: ThreadChoice,
        longest: int,
        prove: Prove,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._choice = choice
        self._longest = longest
        self._prove = prove
        self._clock = clock
        self._proven = {choice.full}

    def restart(self) -> None:
        """Another reply begins."""
        self._choice.restart()

    @contextmanager
    def step(self, context: int, check: Callable[[], None]) -> Iterator[None]:
        """Compute one step that sees `context` tokens, itself included; `check` may raise."""
        if context > self._longest or self._choice.settled:
            yield
            return
        count = self._next(check)
        with computing_with(count):
            began = self._clock()
            yield
            ended = self._clock()
        self._choice.took(count, ended - began, ended)

    def _next(self, check: Callable[[], None]) -> int:
        """The count that is wished for, once it is proven; else another one."""
        while (count := self._choice.next(self._clock())) not in self._proven:
            if self._holds(count, check):
                self._proven.add(count)
            else:
                self._choice.refuse(count)
        return count

    def _holds(self, count: int, check: Callable[[], None]) -> bool:
        """A proof that breaks down is none; the reply goes on."""
        try:
            if self._prove(count, check):
                return True
        except WaymarkError:
            raise
        except Exception:
            _LOG.exception("Whether %d threads give the same bits could not be tried", count)
            return False
        _LOG.warning(
            "Generating never uses %d threads: they give other bits than %d here",
            count,
            self._choice.full,
        )
        return False


def fixed_threads() -> StepThreads:
    """Steps with the number of threads that is set when they run."""
    return StepThreads(ThreadChoice((1,)), 0, lambda count, check: False)


def open_step_threads(
    settings: ModelSettings,
    model: Model,
    kernels: Backend,
    context_length: int,
    conditions: tuple[str, ...],
) -> StepThreads:
    """For a model just loaded on `kernels`. `conditions` are what its steps compute, and how.

    Without `measure_kernels`, on a GPU, and where kernels share out their work themselves, steps
    keep the present number of threads.
    """
    full = torch.get_num_threads()
    counts = counts_to_choose_from(full)
    adapts = settings.measure_kernels and not kernels.shares_out and len(counts) > 1
    if not adapts or model.device.type != "cpu":
        return fixed_threads()
    form, longest = kernels.forms.usual, longest_context(model.layer_specs, context_length)
    versions = (kernels.name, str(NUMERICS_VERSION), str(PROOF_VERSION), str(longest))
    digest = hashlib.blake2b("\0".join((*conditions, *versions)).encode(), digest_size=16)

    def tried(count: int, check: Callable[[], None]) -> str:
        try:
            return _EQUAL if same_bits(model, form, count, longest, check) else _DIFFERENT
        finally:
            hand_back()  # 80 MB of made-up numbers in int8 at the 0.8B's shape

    def prove(count: int, check: Callable[[], None]) -> bool:
        key = f"steps on {count} threads of {digest.hexdigest()}"
        choices = (_EQUAL, _DIFFERENT)
        return remembered(settings, key, choices, lambda: tried(count, check)) == _EQUAL

    return StepThreads(ThreadChoice(counts), longest, prove)
