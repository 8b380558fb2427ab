"""Which precision is taken: the wish, or the most exact one that fits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from core.api.model_info import HEADROOM_BYTES, PrecisionChoice, TooLarge
from core.api.params import Device, ModelSettings, Precision
from core.loading.plan import ModelPlan
from core.loading.precision import (
    BFLOAT16,
    FLOAT32,
    INT4,
    INT8,
    PRECISIONS,
    Chooser,
    Chosen,
    automatic,
    choose_precision,
)
from core.storage.store import DiskStore
from core.weights.published.folder import ModelFolder
from tests.storage.disks import RoomyFiles

CPU, GPU = torch.device("cpu"), torch.device("cuda")
DEMO = Path(__file__).parents[2] / "resources" / "models" / "demo"


def settings(precision: Precision = "auto", device: Device = "auto") -> ModelSettings:
    return ModelSettings(path=str(DEMO), precision=precision, device=device)


class Faster:
    """Plays a machine on which a type is faster; None if nobody knows which."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.calls = 0

    def be(self, dtype: torch.dtype | None) -> None:
        def found(_: Chooser) -> torch.dtype | None:
            self.calls += 1
            return dtype

        self._monkeypatch.setattr(Chooser, "faster_type", found)


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> Faster:
    found = Faster(monkeypatch)
    found.be(torch.bfloat16)
    return found


@pytest.fixture(scope="module")
def plan() -> ModelPlan:
    return ModelPlan(ModelFolder.open(DEMO))


def num_bytes(plan: ModelPlan, each: Chosen) -> int:
    return plan.held(each.precision.dtype, each.kernels).num_bytes


def needed(plan: ModelPlan) -> dict[str, int]:
    """Bytes that should be free for each precision: a tenth more than the model, and headroom."""
    found = {}
    for name, each in PRECISIONS.items():
        kernels = Chooser().backend(CPU, each.dtype, each.integers)
        found[name] = int(plan.held(each.dtype, kernels).num_bytes * 1.1) + HEADROOM_BYTES
    return found


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8", "int4"])
def test_a_wish_is_a_wish_and_needs_no_reason(
    name: Precision, plan: ModelPlan, faster: Faster
) -> None:
    """Even where it does not fit. Loading refuses it then, with numbers; nobody gets coarser
    answers than they asked for."""
    for free in (0, 2**40):
        chosen = choose_precision(settings(name), plan, CPU, free)
        assert chosen.precision == PRECISIONS[name] and chosen.why is None
        assert chosen.num_bytes == num_bytes(plan, chosen)
    assert faster.calls == 0


def test_automatic_goes_from_exact_to_small() -> None:
    assert automatic(torch.bfloat16) == automatic(None) == (BFLOAT16, INT8, INT4)
    assert automatic(torch.float32) == (FLOAT32, BFLOAT16, INT8, INT4)


def test_a_graphics_card_computes_in_bfloat16_unless_told_otherwise(
    plan: ModelPlan, faster: Faster
) -> None:
    chosen = choose_precision(settings(), plan, GPU, 2**40)
    assert faster.calls == 0
    assert chosen.precision == BFLOAT16 and chosen.why is not None
    assert chosen.why.free == 2**40 and chosen.why.needed < 2**40
    assert chosen.why.too_large == () and chosen.why.faster_than == ""


def test_automatic_takes_the_first_that_fits_and_else_the_smallest(
    plan: ModelPlan, faster: Faster
) -> None:
    needs = needed(plan)
    assert needs["bfloat16"] > needs["int8"] > needs["int4"] > 0
    expected = {2**40: BFLOAT16, needs["bfloat16"]: BFLOAT16, needs["bfloat16"] - 1: INT8}
    expected |= {needs["int8"]: INT8, needs["int8"] - 1: INT4, needs["int4"] - 1: INT4, 0: INT4}
    for free, precision in expected.items():
        chosen = choose_precision(settings(), plan, CPU, free)
        assert chosen.precision == precision and chosen.num_bytes == num_bytes(plan, chosen)


def too_large(needs: dict[str, int], *names: str) -> tuple[TooLarge, ...]:
    return tuple(TooLarge(precision=name, needed=needs[name]) for name in names)


def test_the_reason_is_what_did_not_fit(plan: ModelPlan, faster: Faster) -> None:
    needs = needed(plan)
    for free, name, larger in (
        (needs["bfloat16"] - 1, "int8", ("bfloat16",)),
        (needs["int8"] - 1, "int4", ("bfloat16", "int8")),
        (1, "int4", ("bfloat16", "int8")),  # nothing fits
    ):
        chosen = choose_precision(settings(), plan, CPU, free)
        expected = PrecisionChoice(
            needed=needs[name], free=free, too_large=too_large(needs, *larger)
        )
        assert chosen.precision.name == name and chosen.why == expected
    faster.be(torch.float32)
    without_the_faster = choose_precision(settings(), plan, CPU, needs["float32"] - 1)
    assert without_the_faster.precision == BFLOAT16
    assert without_the_faster.why == PrecisionChoice(
        needed=needs["bfloat16"], free=needs["float32"] - 1, too_large=too_large(needs, "float32")
    )


def test_the_reason_is_speed_only_where_it_was_measured(plan: ModelPlan, faster: Faster) -> None:
    needs, free = needed(plan), 2**40
    for dtype, name, slower in (
        (torch.bfloat16, "bfloat16", "float32"),
        (torch.float32, "float32", "bfloat16"),
        (None, "bfloat16", ""),
    ):
        faster.be(dtype)
        chosen = choose_precision(settings(), plan, CPU, free)
        assert chosen.precision.name == name
        assert chosen.why == PrecisionChoice(needed=needs[name], free=free, faster_than=slower)


def test_the_speed_of_this_machine_decides_and_is_remembered(
    plan: ModelPlan, tmp_path: Path
) -> None:
    """The app gives only the place to remember it."""
    asked = settings().model_copy(update={"measure_kernels": True})
    notes = DiskStore(tmp_path, 0, RoomyFiles())
    chosen = choose_precision(asked, plan, CPU, 2**40, notes=notes)
    assert chosen.why is not None
    assert {chosen.precision.name, chosen.why.faster_than} == {"bfloat16", "float32"}
    again = choose_precision(asked, plan, CPU, 2**40, notes=notes)
    assert (again.precision, again.why) == (chosen.precision, chosen.why)
