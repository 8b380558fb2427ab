"""Experts in C: right in every format, a token's bits its own, and steps that can be replayed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from core.engine.passes.decode import MOST_TOKENS
from kernels.common.shapes import Routing
from kernels.dispatch import Backend, backend
from kernels.experts.native import NativeExperts
from kernels.experts.reference import ExpertBank, LoopedExperts, gated
from kernels.linear.native import Product
from kernels.linear.reference import Integers, Matrix
from kernels.native.library import capture_step
from kernels.ops import PLAIN_OPS
from tests.kernels.native.here import NEEDS_COMPILER, library
from tests.kernels.poison import poisoned_memory

pytestmark = NEEDS_COMPILER
KINDS: dict[str, tuple[torch.dtype, Integers | None, Product]] = {
    "bfloat16": (torch.bfloat16, None, "pairs"),
    "bfloat16-floats": (torch.bfloat16, None, "floats"),
    "int8": (torch.bfloat16, "int8", "pairs"),
    "int4": (torch.bfloat16, "int4", "pairs"),
    "int8-float32": (torch.float32, "int8", "pairs"),
    "int4-float32": (torch.float32, "int4", "pairs"),
}
ALL = pytest.mark.parametrize("kind", KINDS)
# Experts, of which how many, rows' width, numbers inside: odd ones, and what threads share out.
SIZES = [(5, 2, 33, 7), (8, 3, 160, 72), (3, 3, 70, 33), (20, 17, 64, 40), (4, 2, 512, 1500)]


class Bank:
    """Experts in one format, and the same ones in a loop over plain products of what is held."""

    def __init__(
        self, kind: str, size: tuple[int, int, int, int], seed: int = 0, *, biased: bool = False
    ) -> None:
        self.dtype, integers, product = KINDS[kind]
        self.kernels: Backend = backend(
            "cpu", self.dtype, integers=integers, library=library(), product=product
        )
        self.count, self.k, self.width, self.inner = size
        self._draw = torch.Generator().manual_seed(seed)
        up = [self.rows(2 * self.inner, self.width) / self.width**0.5 for _ in range(self.count)]
        down = [self.rows(self.width, self.inner) / self.inner**0.5 for _ in range(self.count)]
        widths = (2 * self.inner, self.width)
        self.biases = [[self.rows(each) if biased else None for _ in up] for each in widths]
        self.bank = self._made(self.kernels, up, down)
        exact = backend("torch", torch.float32, integers=integers)
        if integers is None:
            exact = backend("reference", torch.float32)
        floats = ([each.float() for each in weights] for weights in (up, down))
        self.reference = self._made(Backend("plain", exact.formats), *floats)

    def rows(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._draw).to(self.dtype)

    def _made(self, kernels: Backend, up: Sequence[Tensor], down: Sequence[Tensor]) -> ExpertBank:
        def packed(weights: Sequence[Tensor], biases: list[Tensor | None]) -> list[Matrix]:
            usual = kernels.formats.usual
            return [
                usual.prepack(usual.quantise(each), None if bias is None else bias.to(each.dtype))
                for each, bias in zip(weights, biases, strict=True)
            ]

        both, last = packed(up, self.biases[0]), packed(down, self.biases[1])
        return kernels.ops.experts(both, last, gated(kernels.ops.swiglu))

    def through(self, hidden: Tensor, is_step: bool = False) -> Tensor:
        """By what the rows themselves decide, so that equal rows take equal ways."""
        ids, weights = self.kernels.ops.route(hidden[:, : self.count], Routing(self.k))
        with poisoned_memory():
            places, rows = self.bank(hidden, ids, is_step)
            return self.kernels.ops.weighted_sum(places, rows, weights, None, None)

    def expected(self, hidden: Tensor) -> Tensor:
        ids, weights = PLAIN_OPS.route(hidden[:, : self.count], Routing(self.k))
        return PLAIN_OPS.weighted_sum(*self.reference(hidden.float(), ids), weights, None, None)


@ALL
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_results_are_right(kind: str, size: tuple[int, int, int, int], biased: bool) -> None:
    """But for rounding to the model's type, and of rows to integers."""
    made = Bank(kind, size, biased=biased)
    assert isinstance(made.bank, NativeExperts)
    hidden = made.rows(45, made.width)
    expected = made.expected(hidden)
    allowed = 2e-2 if kind.startswith("bfloat16") else 4e-2
    steps = torch.cat([made.through(row[None], True) for row in hidden[:9]])
    for found in (made.through(hidden), steps):
        error = (found.float() - expected[: len(found)]).square().mean().sqrt()
        assert error <= allowed * expected.square().mean().sqrt()


@ALL
def test_a_tokens_bits_are_its_own(kind: str) -> None:
    made = Bank(kind, (6, 2, 96, 48))
    hidden = made.rows(70, made.width)
    together = made.through(hidden)
    for count in (1, 2, 7, 33):
        assert torch.equal(made.through(hidden[-count:]), together[-count:])
    shuffled = torch.randperm(70, generator=torch.Generator().manual_seed(1))
    assert torch.equal(made.through(hidden[shuffled]), together[shuffled])
    # All others through one expert, beside each of the tokens.
    crowd = hidden.clone()
    crowd[1:] = crowd[1]
    assert torch.equal(made.through(crowd)[0], together[0])


@ALL
@pytest.mark.parametrize("is_step", [True, False])
@pytest.mark.parametrize("size", [(4, 2, 512, 1500), (20, 3, 160, 520)], ids=["few", "many"])
def test_bits_depend_on_no_number_of_threads(
    kind: str, is_step: bool, size: tuple[int, int, int, int]
) -> None:
    """Threads share an expert, or take whole ones if there are enough."""
    made = Bank(kind, size)
    hidden = made.rows(1 if is_step else 40, made.width)
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(made.through(hidden, is_step))
    torch.set_num_threads(before)
    assert all(torch.equal(each, found[0]) for each in found)


@ALL
@pytest.mark.parametrize("tokens", [1, MOST_TOKENS])
def test_a_captured_step_goes_through_the_experts_of_later_tokens(kind: str, tokens: int) -> None:
    made = Bank(kind, (12, 10, 96, 48), biased=True)
    hidden = made.rows(12, made.width)
    place = hidden[:tokens].clone()

    def step(_: object) -> Tensor:
        ids, weights = made.kernels.ops.route(place[:, : made.count], Routing(made.k))
        places, rows = made.bank(place, ids, True)
        return made.kernels.ops.weighted_sum(places, rows, weights, None, None)

    with torch.inference_mode():
        trace, result = capture_step(library(), 0, step)
        for rows in hidden.unfold(0, tokens, 1).mT:
            place.copy_(rows)
            trace.replay(0, lambda: None)
            assert torch.equal(result, made.through(rows.contiguous(), True))


@ALL
def test_many_tokens_in_one_step_are_each_ones_own(kind: str) -> None:
    """Also if all their experts are more than the kernels of steps take."""
    made = Bank(kind, (12, 10, 96, 48))
    hidden = made.rows(MOST_TOKENS, made.width)
    for count in (2, 6, 7, MOST_TOKENS):
        alone = torch.cat([made.through(row[None], True) for row in hidden[:count]])
        assert torch.equal(made.through(hidden[:count], True), alone)


def test_where_products_of_many_rows_are_torchs_experts_go_one_by_one() -> None:
    kernels = backend("cpu", torch.bfloat16, library=library(), product="torch")
    made = Bank("bfloat16", (5, 2, 33, 7))
    usual = kernels.formats.usual
    hidden = made.rows(9, 33)
    ids, _ = PLAIN_OPS.route(hidden[:, :5], Routing(2))
    up = [usual.prepack((made.rows(14, 33),), None) for _ in range(5)]
    down = [usual.prepack((made.rows(33, 7),), None) for _ in range(5)]
    bank = kernels.ops.experts(up, down, gated(kernels.ops.swiglu))
    looped = LoopedExperts(up, down, gated(kernels.ops.swiglu))
    found, expected = bank(hidden, ids), looped(hidden, ids)
    assert found[0] is not None and expected[0] is not None
    assert torch.equal(found[1][found[0]], expected[1][expected[0]])


def test_matrices_of_different_sizes_are_looped_over() -> None:
    usual = backend("cpu", torch.bfloat16, integers="int8", library=library())
    up = [
        usual.formats.usual.prepack(usual.formats.usual.quantise(torch.ones(14, width)), None)
        for width in (33, 32)
    ]
    assert isinstance(usual.ops.experts(up, up, gated(usual.ops.swiglu)), LoopedExperts)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_tokens_choice_among_groups_is_its_own(dtype: torch.dtype) -> None:
    made = backend("cpu", torch.bfloat16, library=library()).ops
    draw = torch.Generator().manual_seed(3)
    logits, correction = torch.randn(70, 24, generator=draw).to(dtype), torch.randn(24)
    routing = Routing(5, sigmoid=True, groups=6, open_groups=3, scale=1.5)
    ids, weights = made.route(logits, routing, correction)
    for row in (0, 33, 69):
        alone = made.route(logits[row : row + 1], routing, correction)
        assert torch.equal(alone[0], ids[row : row + 1])
        assert torch.equal(alone[1], weights[row : row + 1])
    expected = PLAIN_OPS.route(logits, routing, correction)
    assert torch.equal(ids, expected[0])
    torch.testing.assert_close(weights, expected[1])


def test_a_router_of_logits_that_are_no_numbers_still_names_experts() -> None:
    made = backend("cpu", torch.bfloat16, library=library()).ops
    for number in (float("nan"), float("inf"), -float("inf")):
        ids, _ = made.route(torch.full((3, 7), number), Routing(4))
        assert ids.tolist() == [[0, 1, 2, 3]] * 3
    some = torch.tensor([[float("nan"), 1.0, 2.0, float("nan")]])
    ids, _ = made.route(some, Routing(3))
    assert len(set(ids[0].tolist())) == 3 and 0 <= int(ids.min()) <= int(ids.max()) < 4
