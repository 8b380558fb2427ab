"""Whether one-token steps give the same bits with another number of threads, tried out.

How an operation splits its work follows from shapes, machine and library, not from the numbers. So
whole steps over random numbers are compared bit by bit: logits, new states, and the rows for the
slab. What adds up many numbers, where the order can matter, is then compared by itself: products
with numbers that cancel out, attention over many numbers of keys. Touches neither the live slab nor
any state of a chat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from core.cache.specs import FullAttentionSpec, LayerSpec, LayerState, RecurrentSpec
from core.engine.sums import ROUNDS, NotedSums, Sum, equal, equal_on
from core.engine.threads import computing_with
from core.models.model import Model
from kernels.linear.reference import Form

# Raised whenever a proof of before would no longer be believed.
PROOF_VERSION = 1
_CONTEXTS = (600, 97)  # of the whole steps
# Random sums that are added up in another order and rounded to bfloat16 differ once in 11,000 to
# 15,000 times. Sums of numbers of such sizes that cancel out differ nearly every time.
_LARGEST_EXPONENT = 24
# Of made-up keys and values, each, for one kind of layer. Contexts beyond them are not proven.
_ROW_BYTES = 32 * 2**20
_TILE = 1021  # rows of random numbers, repeated: drawing all of them would take longest

Check = Callable[[], None]


@torch.inference_mode()
def same_bits(model: Model, form: Form, count: int, longest: int, check: Check) -> bool:
    """Whether steps on `count` threads equal those on the present number, to the bit.

    `form` is that of the text stack's matrices. Holds for contexts of up to `longest` tokens
    (`longest_context`). `check` is called meanwhile and may raise. Takes the made-up rows, two
    states, and at a time one matrix of the model's sizes in a form.
    """
    draw = torch.Generator().manual_seed(0)
    rows = _Rows(model.layer_specs, longest, draw)
    with NotedSums() as sums:
        for context in _CONTEXTS:
            states = _random_states(model.layer_specs, draw)
            token_id = torch.randint(model.vocab_size, (1,), generator=draw)
            memories = [_Memory(rows, states, min(longest, context), check) for _ in range(2)]
            expected = _step(model, token_id, memories[0])
            with computing_with(count):
                found = _step(model, token_id, memories[1])
            if not equal(expected, found):
                return False
    if rows.kinds and not sums.attentions:
        return False  # something else attends, of which no other lengths are known
    attentions = (_attends_equally(rows, each, count, check) for each in sums.attentions.values())
    others = (each.equal(count, draw, check) for each in sums.others.values())
    sizes = {each.matrix_size for each in sums.others.values() if each.matrix_size is not None}
    products = (
        _multiplies_equally(form, size, model.dtype, count, draw, check) for size in sorted(sizes)
    )
    return all(attentions) and all(others) and all(products)


def longest_context(specs: Sequence[LayerSpec], context_length: int) -> int:
    """Tokens of context that a proof for layers of these `specs` covers."""
    row_bytes = [spec.bytes_per_token for spec in specs if isinstance(spec, FullAttentionSpec)]
    return min(context_length, _ROW_BYTES // max(row_bytes, default=1))


def context_lengths(longest: int) -> tuple[int, ...]:
    """Where kernels may change over: short ones, and around blocks and powers of two."""
    blocks = {512 * number for number in range(1, 9)}
    powers = {2**exponent for exponent in range(5, longest.bit_length())}
    places = blocks | powers | {power // 2 * 3 for power in powers} | {longest - 1}
    around = {place + offset for place in places for offset in (-1, 0, 1)} | set(range(1, 33))
    return tuple(sorted(each for each in around if 1 <= each <= longest))


class _Rows:
    """Made-up keys and values [longest, num_kv_heads, head_dim] for each kind of layer."""

    def __init__(self, specs: Sequence[LayerSpec], longest: int, draw: torch.Generator) -> None:
        self.longest = longest
        self._specs = specs
        self.kinds = {
            spec: (_made_up(spec, longest, draw), _made_up(spec, longest, draw))
            for spec in specs
            if isinstance(spec, FullAttentionSpec)
        }

    def of_layer(self, layer: int) -> tuple[Tensor, Tensor]:
        spec = self._specs[layer]
        assert isinstance(spec, FullAttentionSpec)
        return self.kinds[spec]


def _made_up(spec: FullAttentionSpec, longest: int, draw: torch.Generator) -> Tensor:
    tile = torch.randn(_TILE, spec.num_kv_heads, spec.head_dim, generator=draw).to(spec.dtype)
    rows = torch.empty(longest, spec.num_kv_heads, spec.head_dim, dtype=spec.dtype)
    for start in range(0, longest, _TILE):
        rows[start : start + _TILE] = tile[: longest - start]
    return rows


def _random_states(specs: Sequence[LayerSpec], draw: torch.Generator) -> dict[int, LayerState]:
    return {
        layer: tuple(
            torch.randn(each.shape, generator=draw).to(each.dtype) for each in spec.tensors
        )
        for layer, spec in enumerate(specs)
        if isinstance(spec, RecurrentSpec)
    }


class _Memory:
    """A `LayerMemory` (core.cache.specs) of made-up numbers, with states of its own."""

    def __init__(
        self, rows: _Rows, states: dict[int, LayerState], context: int, check: Check
    ) -> None:
        self._rows, self._check = rows, check
        self._states = {
            layer: tuple(tensor.clone() for tensor in state) for layer, state in states.items()
        }
        self.context = context
        self.given: list[Tensor] = []

    def extend_kv(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.given += (keys.clone(), values.clone())
        all_keys, all_values = self._rows.of_layer(layer)
        # The next layer of this kind writes there too; by then this one has attended.
        all_keys[self.context - 1], all_values[self.context - 1] = keys[0], values[0]
        return all_keys[: self.context], all_values[: self.context]

    def state(self, layer: int) -> LayerState:
        return self._states[layer]

    def check_cancelled(self) -> None:
        self._check()

    def left(self) -> list[Tensor]:
        """The rows that it was given, and the states as they are now."""
        return self.given + [tensor for state in self._states.values() for tensor in state]


def _step(model: Model, token_id: Tensor, memory: _Memory) -> list[Tensor]:
    """Everything that a step leaves behind."""
    positions = torch.full((3, 1), memory.context - 1)
    hidden = model.forward(model.embed(token_id), positions, memory)
    return [model.logits(hidden), hidden, *memory.left()]


def _attends_equally(rows: _Rows, attend: Sum, count: int, check: Check) -> bool:
    """Queries [1, kv_heads, group, head_dim] over every number of the keys that they fit."""
    _, kv_heads, _, head_dim = attend.first.shape
    fitting = [
        pair
        for spec, pair in rows.kinds.items()
        if (spec.num_kv_heads, spec.head_dim) == (kv_heads, head_dim)
    ]
    for length in context_lengths(rows.longest):
        check()
        for pair in fitting:
            keys, values = (each[:length].transpose(0, 1)[None] for each in pair)
            if not equal_on(count, partial(attend, attend.first, keys, values)):
                return False
    return bool(fitting)


def _multiplies_equally(
    form: Form,
    size: tuple[int, int],
    dtype: torch.dtype,
    count: int,
    draw: torch.Generator,
    check: Check,
) -> bool:
    """Whether a matrix of ones gives equal sums of numbers that cancel out."""
    matrix = form.pack(form.keep(torch.ones(size, dtype=dtype)), None)
    for _ in range(ROUNDS):
        check()
        numbers = _cancelling(size[1], draw).to(dtype)
        if not equal_on(count, partial(matrix, numbers)):
            return False
    return True


def _cancelling(num: int, draw: torch.Generator) -> Tensor:
    """[1, num] of numbers of all sizes; three quarters are there with both signs."""
    pairs = num * 3 // 8
    sizes = torch.exp2(torch.rand(pairs, generator=draw) * _LARGEST_EXPONENT)
    rest = torch.randn(num - 2 * pairs, generator=draw)
    together = torch.cat((sizes, -sizes, rest))
    return together[torch.randperm(num, generator=draw)][None]
