"""Whether one-token steps give the same bits with another number of threads, tried out.

How an operation splits its work follows from shapes, machine and library, not from the numbers. So
whole steps over random numbers are compared bit by bit: logits, new states, and the rows for the
slab. What adds up many numbers, where the order can matter, is then compared by itself: matrix
products over many rows, attention over many numbers of keys. Touches neither the live slab nor any
state of a chat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from core.cache.specs import FullAttentionSpec, LayerSpec, LayerState, RecurrentSpec
from core.engine.threads import computing_with
from core.models.model import Model
from kernels.linear.reference import Form, Forms

# Raised whenever a proof of before would no longer be believed.
PROOF_VERSION = 1
_CONTEXTS = (600, 97)  # of the whole steps
_ROUNDS = 4
# Random sums that are added up in another order and rounded to bfloat16 differ once in 11,000 to
# 15,000 times. Sums of numbers of such sizes that cancel out differ nearly every time.
_LARGEST_EXPONENT = 24
_SUMMANDS = 16  # numbers taken for each given, from which on an operation counts as adding up many
# Of made-up keys and values for one kind of layer. Contexts beyond them are not proven.
_ROW_BYTES = 32 * 2**20
_TILE = 1021  # rows of random numbers, repeated: drawing all of them would take longest

Check = Callable[[], None]


@torch.inference_mode()
def same_bits(model: Model, forms: Forms, count: int, longest: int, check: Check) -> bool:
    """Whether steps on `count` threads equal those on the present number, to the bit.

    `forms` are those of the model's matrices. Holds for contexts of up to `longest` tokens
    (`longest_context`). `check` is called meanwhile and may raise. Takes the made-up rows, two
    states, and at a time one matrix of the model's sizes in a form.
    """
    draw = torch.Generator().manual_seed(0)
    rows = _Rows(model.layer_specs, longest, draw)
    with _Sums() as sums:
        for context in _CONTEXTS:
            states = _random_states(model.layer_specs, draw)
            token_id = torch.randint(model.vocab_size, (1,), generator=draw)
            memories = [_Memory(rows, states, min(longest, context), check) for _ in range(2)]
            expected = _step(model, token_id, memories[0])
            with computing_with(count):
                found = _step(model, token_id, memories[1])
            if not _equal(expected, found):
                return False
    if rows.kinds and not sums.attentions:
        return False  # something else attends, of which no other lengths are known
    attentions = (_attends_equally(rows, each, count, check) for each in sums.attentions.values())
    others = (each.equal(count, draw, check) for each in sums.others.values())
    sizes = {each.matrix_size for each in sums.others.values() if each.matrix_size is not None}
    kinds = {id(form): form for form in (forms.usual, forms.exact)}.values()
    products = (
        _multiplies_equally(form, size, model.dtype, count, draw, check)
        for form in kinds
        for size in sorted(sizes)
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
    """A `LayerMemory` (core.cache.specs) of made-up numbers that keeps what it is given."""

    def __init__(
        self, rows: _Rows, states: dict[int, LayerState], context: int, check: Check
    ) -> None:
        self._rows, self._states, self._check = rows, states, check
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

    def store_state(self, layer: int, state: LayerState) -> None:
        self.given += state

    def check_cancelled(self) -> None:
        self._check()


def _step(model: Model, token_id: Tensor, memory: _Memory) -> list[Tensor]:
    """Everything that a step leaves behind."""
    positions = torch.full((3, 1), memory.context - 1)
    hidden = model.forward(model.embed(token_id), positions, memory)
    return [model.logits(hidden), hidden, *memory.given]


class _Sum:
    """An operation that adds up many numbers, as it was called once."""

    def __init__(self, operation: Any, inputs: tuple[Any, ...], options: Any) -> None:
        self.first, self._others = inputs[0], inputs[1:]
        self._operation, self._options = operation, options
        self.matrix_size: tuple[int, int] | None = None

    def __call__(self, first: Tensor, *others: Tensor) -> Tensor:
        """With other inputs; those left out are as they were."""
        inputs = (first, *others, *self._others[len(others) :])
        outputs: Tensor = self._operation(*inputs, **self._options)
        return outputs

    def equal(self, count: int, draw: torch.Generator, check: Check) -> bool:
        """Whether random numbers in place of the first input give equal bits, time after time."""
        first = self.first
        if not first.is_floating_point():
            return True  # sums of integers are exact
        for _ in range(_ROUNDS):
            check()
            numbers = torch.randn(first.shape, generator=draw).to(first.dtype)
            if not _equal_on(count, partial(self, numbers)):
                return False
        return True


class _Sums(TorchFunctionMode):
    """Notes every kind of operation inside that adds up many numbers; attention apart."""

    def __init__(self) -> None:
        super().__init__()
        self.attentions: dict[object, _Sum] = {}
        self.others: dict[object, _Sum] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = func(*args, **kwargs)
        taken = [each for each in args if isinstance(each, Tensor)]
        if func is F.scaled_dot_product_attention:
            kind: object = (args[0].shape, args[0].dtype, str(kwargs))
            self.attentions.setdefault(kind, _Sum(func, args, kwargs))
        elif isinstance(given, Tensor) and _adds_up(taken, given):
            kind = (func, str(kwargs), tuple((each.shape, each.dtype) for each in taken))
            noted = self.others.setdefault(kind, _Sum(func, args, kwargs))
            noted.matrix_size = _matrix_size(taken, given)
        return given


def _adds_up(taken: list[Tensor], given: Tensor) -> bool:
    """Whether far more numbers are taken than given, and what is given is no view."""
    few = sum(each.numel() for each in taken) > _SUMMANDS * given.numel() > 0
    return few and given.untyped_storage().data_ptr() != taken[0].untyped_storage().data_ptr()


def _matrix_size(taken: list[Tensor], given: Tensor) -> tuple[int, int] | None:
    """Outputs and inputs, where one row goes through a matrix."""
    rows = [each.shape[0] for each in (taken[0], given) if each.ndim == 2]
    return (given.shape[1], taken[0].shape[1]) if rows == [1, 1] and len(taken) > 1 else None


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
    for _ in range(_ROUNDS):
        check()
        numbers = _cancelling(size[1], draw).to(dtype)
        if not _equal_on(count, partial(matrix, numbers)):
            return False
    return True


def _cancelling(num: int, draw: torch.Generator) -> Tensor:
    """[1, num] of numbers of all sizes; three quarters are there with both signs."""
    pairs = num * 3 // 8
    sizes = torch.exp2(torch.rand(pairs, generator=draw) * _LARGEST_EXPONENT)
    rest = torch.randn(num - 2 * pairs, generator=draw)
    together = torch.cat((sizes, -sizes, rest))
    return together[torch.randperm(num, generator=draw)][None]


def _attends_equally(rows: _Rows, attend: _Sum, count: int, check: Check) -> bool:
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
            if not _equal_on(count, partial(attend, attend.first, keys, values)):
                return False
    return bool(fitting)


def _equal_on(count: int, compute: Callable[[], Tensor]) -> bool:
    expected = compute()
    with computing_with(count):
        found = compute()
    return _equal([expected], [found])


def _equal(expected: list[Tensor], found: list[Tensor]) -> bool:
    """To the bit: NaN equals itself, and the two zeros differ."""
    return len(expected) == len(found) and all(
        torch.equal(_bits(one), _bits(other)) for one, other in zip(expected, found, strict=True)
    )


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32}[tensor.dtype.itemsize])
