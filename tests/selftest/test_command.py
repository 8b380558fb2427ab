"""`python -m core.selftest`: says operation by operation whether this machine computes rightly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor

from core.loading.precision import Chosen, choose_precision
from core.selftest import __main__ as selftest
from kernels.ops import PLAIN_OPS, Ops
from tests.bench.folders import DEMO


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """The printed verdict of each operation."""
    said = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    return dict(each for each in said if len(each) == 2)


def test_every_operation_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert selftest.main([str(DEMO), "--device", "cpu"]) == 0
    said = lines(capsys)
    assert set(Ops.__slots__) - {"rows_per_part"} <= said.keys()
    assert {said[name] for name in Ops.__slots__ if name in said} <= {"right", "plain torch"}


def test_an_operation_that_lies_is_named_and_fails_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lies(first: Tensor, second: Tensor, multiplier: float = 1.0, scale: float = 1.0) -> Tensor:
        return 1.1 * scale * (first + multiplier * second)

    choose = choose_precision

    def with_a_liar(*args: Any) -> Chosen:
        found = choose(*args)
        liar = replace(found.kernels, ops=replace(PLAIN_OPS, add=lies))
        return replace(found, kernels=liar)

    monkeypatch.setattr(selftest, "choose_precision", with_a_liar)
    assert selftest.main([str(DEMO), "--device", "cpu", "--precision", "bfloat16"]) == 1
    said = lines(capsys)
    assert "off by" in said["add"] and said["rotate"] == "plain torch"
    assert said["1"].startswith("failed")


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_what_is_no_model_is_refused_in_words(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert selftest.main([folder]) == 2
    assert capsys.readouterr().err.count(":") >= 1
