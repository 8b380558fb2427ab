"""Products are taken by exactness and by a bounded measurement: the counts, by clocks made here."""

from __future__ import annotations

import time

import pytest
import torch

from kernels.linear import cpu as trying
from kernels.linear import int4, int8, probe
from kernels.linear.cpu import GIVEN_UP_S, MARGIN, keeps_up


class Machine:
    """Products that take seconds of a clock of their own."""

    def __init__(self, product_s: float, plain_s: float, hiccups: int = 0) -> None:
        self.now, self.products = 0.0, 0
        self._product_s, self._plain_s, self._hiccups = product_s, plain_s, hiccups

    def clock(self) -> float:
        return self.now

    def product(self, rows: int) -> None:
        self.products += 1
        self.now += self._product_s
        if self._hiccups:
            self._hiccups -= 1
            self.now += 1.0

    def plain(self, rows: int) -> None:
        self.now += self._plain_s

    def keeps_up(self) -> bool:
        return keeps_up(self.product, self.plain, self.clock)


def test_H10_a_product_that_keeps_up_is_taken_at_once() -> None:
    machine = Machine(0.001, 0.001)
    assert machine.keeps_up() and machine.products == 3
    assert Machine(MARGIN * 0.001, 0.001).keeps_up()
    assert not Machine(MARGIN * 0.001 + 1e-6, 0.001).keeps_up()


def test_H10_reference_code_is_given_up_in_half_a_second() -> None:
    """0.12 GOP/s where plain torch has hundreds: choosing a size of slices never ended."""
    machine = Machine(0.1, 0.0001)
    assert not machine.keeps_up()
    assert machine.now < 0.5
    machine = Machine(0.001, 0.0001)
    assert not machine.keeps_up() and machine.now < 2 * GIVEN_UP_S


def test_H10_a_busy_moment_costs_no_product() -> None:
    assert Machine(0.001, 0.001, hiccups=2).keeps_up()


@pytest.mark.parametrize(
    ("module", "asks"),
    [
        (int8, int8.multiplies_integers),
        (int4, int4._is_fast),
    ],
)
def test_H10_every_choice_of_a_product_asks_for_its_speed(
    module: object, asks: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "keeps_up", lambda *_: False)
    assert not asks.__wrapped__()  # type: ignore[attr-defined]


def test_integers_without_a_sign_give_the_sums_of_those_with_one() -> None:
    if not int8.multiplies_integers():
        pytest.skip("this processor has no exact and fast product of 8-bit numbers")
    generator = torch.Generator().manual_seed(0)
    values, inputs = (
        torch.randint(-127, 128, shape, generator=generator, dtype=torch.int8)
        for shape in ((200, 300), (70, 300))
    )
    packed = torch.ops.onednn.qlinear_prepack(values, [1, 300])
    zeros = torch.zeros(200, dtype=torch.int32)
    found = int8._integer_product(inputs, packed, torch.ones(200), zeros)
    assert torch.equal(found.long(), inputs.long() @ values.long().T)


def test_the_sizes_of_slices_are_compared_in_one_round_on_a_slow_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
    turns = list(probe._in_turns(dict.fromkeys(probe.CHOICES)))  # type: ignore[arg-type]
    assert [choice for choice, _ in turns] == list(probe.CHOICES)
    assert trying.OUTPUTS * trying.INPUTS < 2**20
