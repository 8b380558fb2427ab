"""That the proof of equal bits sees what differs, and sees nothing where nothing does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from core.api.errors import RequestCancelled
from core.cache.specs import FullAttentionSpec
from core.engine import sums
from core.engine.backend import VARIABLE
from core.engine.cancel import CancelFlag
from core.engine.loaded import LoadedModel
from core.engine.precision import PRECISIONS
from core.engine.thread_proof import context_lengths, longest_context, same_bits
from core.engine.threads import computing_with
from core.models.model import Model
from kernels.linear.reference import Form, Matrix, PlainForm

LONGEST = 700
EXACT = "int8"  # sums of integers are the same on every machine, whatever the order
PLAIN = PlainForm()
attend = F.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of torch's kernels: ours share out their work, and no threads are chosen for them."""
    monkeypatch.setenv(VARIABLE, "torch")
    with computing_with(2):
        yield


def proven(model: Model, form: Form = PLAIN) -> bool:
    return same_bits(model, form, 1, LONGEST, lambda: None)


class Nudging:
    """A model of which one output depends on the number of threads, by the least there is."""

    def __init__(self, model: Model, nudged: str, index: int = 0) -> None:
        self._model, self._nudged, self._index = model, nudged, index

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def embed(self, ids: Tensor) -> Tensor:
        return self._perhaps("embed", self._model.embed(ids))

    def logits(self, hidden: Tensor) -> Tensor:
        return self._perhaps("logits", self._model.logits(hidden))

    def forward(
        self, embeddings: Tensor, positions: Tensor, memory: Any, *, image: bool = False
    ) -> Tensor:
        extend = memory.extend_kv

        def extend_nudged(layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            rows: tuple[Tensor, Tensor] = extend(
                layer, self._perhaps("keys", keys), self._perhaps("values", values)
            )
            return rows

        memory.extend_kv = extend_nudged
        hidden = self._perhaps("hidden", self._model.forward(embeddings, positions, memory))
        for tail, state in memory._states.values():
            tail.copy_(self._perhaps("tail", tail))
            state.copy_(self._perhaps("state", state))
        return hidden

    def _perhaps(self, name: str, tensor: Tensor) -> Tensor:
        if name != self._nudged or torch.get_num_threads() == 2:
            return tensor
        tensor = tensor.clone()
        last = tensor.view(-1)[-1:]
        last.copy_(torch.nextafter(last, torch.full_like(last, torch.inf)))
        return tensor


@pytest.mark.parametrize("precision", list(PRECISIONS))
def test_one_number_of_threads_equals_itself(
    loaded_of: Callable[..., LoadedModel], precision: str
) -> None:
    model = loaded_of("hybrid", precision).model
    assert same_bits(model, PLAIN, 2, LONGEST, lambda: None)


@pytest.mark.parametrize("nudged", ["logits", "hidden", "tail", "state", "keys", "values"])
def test_a_single_last_bit_that_differs_is_seen(
    loaded_of: Callable[..., LoadedModel], nudged: str
) -> None:
    model = loaded_of("hybrid", EXACT).model
    assert proven(Nudging(model, "nothing"))
    assert not proven(Nudging(model, nudged))


@pytest.mark.parametrize("length", [1, 33, 128, 511, 513, LONGEST])
def test_attention_that_differs_at_one_number_of_keys_is_seen(
    loaded_of: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    def differing(queries: Tensor, keys: Tensor, values: Tensor, **options: Any) -> Tensor:
        attended = attend(queries, keys, values, **options)
        if keys.shape[2] == length and torch.get_num_threads() == 1:
            attended[0, 0, 0, 0] += 1
        return attended

    def noted(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return note(self, differing if func is attend else func, types, args, kwargs)

    model = loaded_of("pure", EXACT).model
    assert proven(model)
    note = sums.NotedSums.__torch_function__
    monkeypatch.setattr(sums.NotedSums, "__torch_function__", noted)
    monkeypatch.setattr(F, "scaled_dot_product_attention", differing)
    assert not proven(model)


class Halving(PlainForm):
    """Matrices that add up halves of a row where there is one thread: seldom another bfloat16."""

    def pack(self, kept: tuple[Tensor, ...], bias: Tensor | None) -> Matrix:
        return HalvingMatrix(kept[0].double())


class HalvingMatrix(Matrix):
    num_bytes = 0

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight

    def __call__(self, inputs: Tensor) -> Tensor:
        products = inputs.double() * self._weight
        num = products.shape[1] if torch.get_num_threads() == 2 else products.shape[1] // 2
        parts = [part.cumsum(1)[:, -1].float() for part in torch.split(products, num, 1)]
        total = torch.zeros(products.shape[0])
        for part in parts:
            total += part
        return total[None].to(inputs.dtype)


def test_sums_in_another_order_are_seen_in_any_form_where_random_ones_hide_them(
    loaded_of: Callable[..., LoadedModel],
) -> None:
    model = loaded_of("hybrid", "bfloat16").model
    halving = Halving()
    draw = torch.Generator().manual_seed(0)
    row, weight = (torch.randn(n, 64, generator=draw).bfloat16() for n in (1, 64))
    matrix = halving.pack((weight,), None)
    expected = matrix(row)
    with computing_with(1):
        assert torch.equal(matrix(row), expected)
    assert proven(model)
    assert not proven(model, halving)


def test_every_input_of_a_sum_is_drawn_anew() -> None:
    """The first one only lends its shape here, and products of zeros are the same in any order."""

    def nudged(lent: Tensor, rows: Tensor, state: Tensor, **options: Any) -> Tensor:
        product = torch.baddbmm(lent, rows, state, **options)
        return product if torch.get_num_threads() == 2 else product * (1 + 2**-20)

    inputs = torch.ones(2, 1, 4), torch.zeros(2, 1, 64), torch.zeros(2, 64, 4)
    draw = torch.Generator().manual_seed(0)
    noted = sums.Sum(nudged, inputs, {"beta": 0})
    assert sums.equal_on(1, lambda: noted(inputs[0]))
    assert noted.equal(2, draw, lambda: None)
    assert not noted.equal(1, draw, lambda: None)


def test_a_model_whose_attention_is_not_known_is_not_proven(
    loaded_of: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *args, **options: args[0])
    assert not proven(loaded_of("pure").model)


def test_it_can_be_cancelled_and_puts_the_threads_back(
    loaded_of: Callable[..., LoadedModel],
) -> None:
    flag = CancelFlag()
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 7:  # within the second pass of a model of four layers
            assert torch.get_num_threads() == 1
            flag.set()
        flag.check()

    with pytest.raises(RequestCancelled):
        same_bits(loaded_of("hybrid").model, PLAIN, 1, LONGEST, check)
    assert torch.get_num_threads() == 2


def test_nothing_live_is_touched(loaded_of: Callable[..., LoadedModel]) -> None:
    loaded = loaded_of("hybrid")
    before = loaded.cache.slab.capacity
    proven(loaded.model)
    assert loaded.cache.slab.capacity == before
    loaded.cache.check_integrity()


def test_lengths_reach_the_longest_and_the_places_where_kernels_change() -> None:
    lengths = context_lengths(5_000)
    assert lengths[:33] == (*range(1, 34),)
    assert {127, 128, 129, 511, 512, 513, 1023, 1025, 3072, 4095, 4097, 4999, 5_000} <= {*lengths}
    assert context_lengths(1) == (1,) and max(lengths) == 5_000


def test_a_proof_takes_a_bounded_number_of_bytes() -> None:
    spec = FullAttentionSpec(4, 256, torch.bfloat16)
    assert longest_context((spec,), 1_000) == 1_000
    assert longest_context((spec,), 10**6) * spec.bytes_per_token <= 32 * 2**20
    assert longest_context((), 1_000) == 1_000
