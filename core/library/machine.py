"""This machine's kernels by precision, and what a model's weights cost with them.

A generated token takes the weights' bytes over the bytes a second of one row, a prompt its
multiplications over those a second of many. Recurrent layers come on top.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import cast

import torch

from core.api.params import Precision
from core.layers.memory import checkpoint_bytes, kv_size
from core.library.messages import Rate, Speed, Way
from core.loading.plan import HeldPlan, ModelPlan
from core.loading.precision import BFLOAT16, FLOAT32, PUBLISHED, SMALLER, Chooser, automatic
from core.loading.precision import Precision as Loaded
from core.storage.index import stored_note
from core.weights.spec import TensorSpec
from kernels.dispatch import Backend
from kernels.linear.blocks import BlockFormat
from kernels.linear.reference import Matrix, StoredFormat, WeightFormat

PROMPT_TOKENS = 1_000
BILLION = 10**9
# Time of recurrent layers for each byte of their states, over that of reading a byte: measured with
# Qwen3.5 0.8B in bfloat16, int8 and int4 on two cores.
STATE_STEP, STATE_PROMPT = 16.0, 0.9


class EngineNotes:
    """The engine's measurements in its `folder`; ones that it lacks are kept in `known`."""

    def __init__(self, folder: Path, known: dict[str, str]) -> None:
        self._folder, self.known = folder, known

    def note(self, kind: str, key: str) -> str | None:
        found = stored_note(self._folder, kind, key)
        return self.known.get(f"{kind} {key}") if found is None else found

    def write_note(self, kind: str, key: str, value: str) -> None:
        self.known[f"{kind} {key}"] = value


class Machine:
    """`rates` are measurements by format; `again` repeats them, and the faster counts: another
    program may have slowed the first."""

    def __init__(
        self,
        device: torch.device,
        rates: dict[str, Rate],
        notes: EngineNotes,
        *,
        again: bool = False,
    ) -> None:
        self.device, self.rates, self._notes = device, rates, notes
        self._doubted = set(rates) if again else set[str]()
        self._backends: dict[str, Backend] = {}

    def ways(self, plan: ModelPlan) -> tuple[tuple[Way, ...], int]:
        every = [BFLOAT16, FLOAT32]
        if plan.block_types():
            every.insert(0, PUBLISHED)
        if PUBLISHED in every and self._kernels(PUBLISHED).shares_out:
            tried: tuple[Loaded, ...] = (PUBLISHED, *SMALLER)
        else:
            tried = automatic(self._faster)
        others = (each for each in every if each not in tried)
        return tuple(self._way(plan, each) for each in (*tried, *others)), len(tried)

    @cached_property
    def _faster(self) -> torch.dtype | None:
        if self.device.type != "cpu":
            return None
        return Chooser(measures=True, notes=self._notes).faster_type()

    def speeds(self) -> tuple[Speed, ...]:
        """Speeds of plain weights, in the order of an automatic choice."""
        found = []
        for precision in automatic(self._faster):
            usual = self._kernels(precision).formats.usual
            rate = self._measured(usual, precision.dtype)
            each = usual.num_bytes((OUTPUTS, INPUTS), precision.dtype) / (OUTPUTS * INPUTS)
            found.append(
                Speed(
                    precision=cast(Precision, precision.name),
                    step_s=BILLION * each * rate.byte_s,
                    prompt_s=BILLION * PROMPT_TOKENS * rate.product_s,
                )
            )
        return tuple(found)

    def _way(self, plan: ModelPlan, precision: Loaded) -> Way:
        held = plan.held(precision.dtype, self._kernels(precision))
        step_s, prompt_s = self._seconds(held)
        if self.device.type == "cpu":
            usual = self._kernels(BFLOAT16).formats.usual
            byte_s = self._measured(usual, BFLOAT16.dtype).byte_s
            states = checkpoint_bytes(held.outline.layers)
            step_s += STATE_STEP * states * byte_s
            prompt_s += STATE_PROMPT * states * byte_s * PROMPT_TOKENS
        return Way(
            precision=cast(Precision, precision.name),
            num_bytes=held.num_bytes,
            mapped_bytes=held.mapped_bytes,
            token_bytes=held.token_bytes,
            step_s=step_s,
            prompt_s=prompt_s,
            **kv_size(held.outline.layers).model_dump(),
        )

    def _seconds(self, held: HeldPlan) -> tuple[float, float]:
        step_s = prompt_s = 0.0
        for spec, used in held.used_matrices():
            rate = self._rate(held, spec)
            step_s += used * spec.held_bytes(held.formats) * rate.byte_s
            if spec.shape[0] != held.vocab_size:
                prompt_s += used * spec.num_elements * PROMPT_TOKENS * rate.product_s
        return step_s, prompt_s

    def _rate(self, held: HeldPlan, spec: TensorSpec) -> Rate:
        found = spec.format(held.formats)
        if isinstance(found, BlockFormat) and held.formats.published is not None:
            found = held.formats.published(found.type, INPUTS, None)
        return self._measured(found, held.dtype)

    def _measured(self, found: StoredFormat, dtype: torch.dtype) -> Rate:
        kind = found.type.name if isinstance(found, BlockFormat) else ""
        key = f"{type(found).__name__} {kind} {dtype} {self.device.type}"
        known = self.rates.get(key)
        if known is None or key in self._doubted:
            self._doubted.discard(key)
            make = partial(_made, found, dtype, self.device)
            num_bytes = found.num_bytes((OUTPUTS, INPUTS), dtype)
            rate = measure(make, num_bytes, dtype, self.device)
            self.rates[key] = rate if known is None else rate.faster(known)
        return self.rates[key]

    def _kernels(self, precision: Loaded) -> Backend:
        if precision.name not in self._backends:
            self._backends[precision.name] = Chooser().backend(
                self.device, precision.dtype, precision.integers, published=precision.published
            )
        return self._backends[precision.name]


def _made(held: StoredFormat, dtype: torch.dtype, device: torch.device) -> Matrix:
    if isinstance(held, BlockFormat):
        blocks = torch.zeros(OUTPUTS, held.row_bytes, dtype=torch.uint8, device=device)
        return held.prepack((blocks,), None)
    weight = torch.ones(OUTPUTS, INPUTS, dtype=dtype, device=device)
    return held.prepack(cast(WeightFormat, held).quantise(weight), None)


# Several matrices of 16 million weights, which together don't fit into a processor's caches.
OUTPUTS = INPUTS = 4096
_BYTES = 96 * 2**20
_MOST_MATRICES = 16
_ROWS = 256
_ROUNDS = 3


def measure(
    make: Callable[[], Matrix], num_bytes: int, dtype: torch.dtype, device: torch.device
) -> Rate:
    count = min(_MOST_MATRICES, max(1, -(-_BYTES // num_bytes)))
    matrices = [make() for _ in range(count)]
    one, many = (torch.ones(rows, INPUTS, dtype=dtype, device=device) for rows in (1, _ROWS))

    def steps() -> None:
        for matrix in matrices:
            matrix.step(one)

    return Rate(
        byte_s=_best(steps, device) / (count * num_bytes),
        product_s=_best(lambda: matrices[0](many), device) / (OUTPUTS * INPUTS * _ROWS),
    )


def _best(work: Callable[[], object], device: torch.device) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return best
