"""The gated delta rule on a GPU: a step, and runs that go on from a state, beside others' kernels.

Waymark's own gets float32, as the convolution before it gives; flash-linear-attention's gets
bfloat16, as a model in bfloat16 hands it over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from kernels.common.scans import DeltaInputs, DeltaRule
from kernels.gated_delta.gpu import chunked_gated_delta_, recurrent_gated_delta_step
from kernels.gated_delta.reference import CHUNK
from kernels.gated_delta.reference import chunked_gated_delta_ as plain_chunked
from kernels.gated_delta.reference import recurrent_gated_delta_step as plain_step
from tests.bench.folders import Shape
from tests.bench.gpu import fla
from tests.bench.gpu.case import FLA, PLAIN, Call, Case, Numbers, copied, rows

# Plain torch takes some forty launches for each chunk of 64: longer runs say nothing new of it.
LONGEST_PLAIN = 2_048
Arguments = tuple[Tensor, ...]


def delta_cases(numbers: Numbers) -> Iterator[Case]:
    """One token, then runs of every length asked for."""
    yield step(numbers)
    for count in numbers.sizes.delta_runs:
        yield run(numbers, count)


def step(numbers: Numbers) -> Case:
    """One token: the state is read and written."""
    return _case(
        numbers, 1, "gated delta, a step", recurrent_gated_delta_step, plain_step, fla.RECURRENT
    )


def run(numbers: Numbers, count: int) -> Case:
    """Tokens in chunks behind a state: inputs and outputs once, the state twice."""
    plain = plain_chunked if count <= LONGEST_PLAIN else None
    name = f"gated delta, {rows(count)}"
    return _case(numbers, count, name, chunked_gated_delta_, plain, fla.CHUNKED)


def products(shape: Shape, count: int) -> int:
    """Operations of the chunks' products; the inverse of each is left out.

    Per token: K K^T, Q K^T, the inverse times errors, attention times delta; and K S, Q S, S + ..
    """
    width = shape.linear_dim
    return 2 * count * shape.value_heads * (4 * CHUNK * width + 3 * width * width)


def _case(
    numbers: Numbers, count: int, name: str, own: DeltaRule, plain: DeltaRule | None, others: str
) -> Case:
    columns, gates, state = _random(numbers, count)
    outputs = 4 * count * numbers.sizes.shape.value_heads * numbers.sizes.shape.linear_dim
    least = columns.nbytes + 2 * gates[0].nbytes + outputs + 2 * state.nbytes
    copies = numbers.copies_of(least)
    every = [(*_by_head(numbers, each), *gates) for each in copied(columns, copies)]
    beside: dict[str, Call | str] = {FLA: _fla(every, copied(state.clone(), copies), others)}
    if plain is not None:
        beside = {PLAIN: _on(plain, every, copied(state.clone(), copies)), **beside}
    return Case(
        name=name,
        run=_on(own, every, copied(state, copies)),
        copies=copies,
        least_bytes=least,
        operations=products(numbers.sizes.shape, count) if count > 1 else 0,
        others=beside,
    )


def _on(rule: DeltaRule, every: list[Arguments], states: list[Tensor]) -> Call:
    """The rule with states of its own, which it moves on in place."""
    return lambda number: rule(DeltaInputs(*every[number]), states[number])


def _fla(every: list[Arguments], states: list[Tensor], name: str) -> Call | str:
    """flash-linear-attention's rule of this name, or why there is none."""
    found: Any = fla.rule(name)
    if isinstance(found, str):
        return found
    given = [fla.inputs(arguments) for arguments in every]
    return lambda number: fla.call(found, given[number], states[number])


def _random(numbers: Numbers, count: int) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
    """Convolved columns of so many tokens, their decay and beta, and a state to go on from.

    Rates are a trained model's: what is forgotten at once would hide what a kernel does wrong
    further back.
    """
    shape = numbers.sizes.shape
    decay = -0.1 * numbers.uniform(count, shape.value_heads)
    beta = numbers.normal(count, shape.value_heads).sigmoid()
    state = numbers.normal(shape.value_heads, shape.linear_dim, shape.linear_dim)
    return numbers.normal(count, shape.delta_columns), (decay, beta), state


def _by_head(numbers: Numbers, columns: Tensor) -> Iterator[Tensor]:
    """Queries, keys and values as the layer cuts them out of a row: with gaps between tokens."""
    shape = numbers.sizes.shape
    heads = shape.linear_heads, shape.linear_heads, shape.value_heads
    parts = columns.split([each * shape.linear_dim for each in heads], dim=1)
    for part, each in zip(parts, heads, strict=True):
        yield part.unflatten(1, (each, shape.linear_dim))
