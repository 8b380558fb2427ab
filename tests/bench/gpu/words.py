"""What is said of a GPU's tables above them: the machine, its limits, and who computed how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from tests.bench.gpu import fla
from tests.bench.gpu.machine import COPYING, gpu, installed
from tests.bench.machine import READING, machine
from tests.bench.rounds import Row, Step
from tests.bench.speed_tables import PEER
from tests.bench.spread import Spread

_MOVED = {
    COPYING: "GB/s copied, read and written both counted, which bytes are held against",
    READING: "GB/s read",
}


def where(subject: str, taken: Mapping[str, list[float]]) -> str:
    """What is measured, the GPU, the computer around it, and what the GPU could do meanwhile."""
    return (
        f"{subject}, on {gpu()}; in {machine()}. "
        f"The GPU's limits meanwhile: {limits(taken)}. "
        f"flash-linear-attention: {linear_attention()}."
    )


def limits(taken: Mapping[str, list[float]]) -> str:
    """Bytes and operations a second, each in its unit."""
    return "; ".join(
        f"{Spread.of(each).scaled(1e-9)} {_MOVED[name]}"
        if name in _MOVED
        else f"{Spread.of(each).scaled(1e-12)} TFLOP/s in {name}"
        for name, each in sorted(taken.items())
    )


def linear_attention() -> str:
    """Its version where it can be imported; the package's name there is another."""
    if find_spec("fla") is None:
        return fla.NOT_INSTALLED
    return installed("flash-linear-attention")


def helped(rows: Mapping[Step, Row]) -> str:
    """Whose kernels transformers called, as its warm-up found out."""
    readings = (each for row in rows.values() for each in row.readings[PEER])
    called = next((each.helpers for each in readings if each.helpers), "")
    if not called:
        return f"{PEER} called no kernels but torch's: its delta rule is plain torch"
    return f"{PEER} called kernels of {called}"


def strayed(rows: Iterable[Row], engine: str) -> list[str]:
    """Steps in which `engine` or transformers drew other ids in a later round, in words."""
    return [
        f"{name} drew other ids in a later round of {row.step.task} {row.step.size:,} "
        f"behind {row.step.context:,}"
        for row in rows
        for name in sorted(row.strayed & {engine, PEER})
    ]
