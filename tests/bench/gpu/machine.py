"""The measured GPU: its name, its limits, and notes above its tables."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch
from torch import Tensor

from tests.bench.clock import Clock, Stretch
from tests.bench.gpu import fla
from tests.bench.machine import READING, machine
from tests.bench.rounds import Row, Step
from tests.bench.speed_tables import PEER
from tests.bench.spread import Spread

COPYING = "copying"
# Many times what a GPU keeps of its memory for itself (50 MB on an H200).
COPY_BYTES = 2**30
# Rows, columns and what is summed over; which of them goes fastest differs.
PRODUCT_SIZES = (4_096, 8_192)


def gpu() -> str:
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    memory = properties.total_memory / 2**30
    return (
        f"{torch.cuda.get_device_name()}, {memory:.0f} GiB, driver {driver()}, "
        f"CUDA {torch.version.cuda}, torch {torch.__version__}, Triton {installed('triton')}"
    )


def driver() -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "unknown"
    asked = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    ran = subprocess.run(asked, capture_output=True, text=True, check=False)
    return (ran.stdout.split() or ["unknown"])[0]


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


class GpuLimits:
    """The limits of a GPU: a `Bounds` (tests.bench.machine), measured anew with every call.

    `move` counts bytes read and bytes written of a copy in the GPU's memory; reading alone is
    measured too. `taken` are all results so far.
    """

    def __init__(
        self,
        clock: Clock,
        device: torch.device,
        num_bytes: int = COPY_BYTES,
        sizes: tuple[int, ...] = PRODUCT_SIZES,
    ) -> None:
        self.device = device
        self._clock, self._sizes = clock, sizes
        self._source = torch.randn(num_bytes // 4, device=device)
        self._target = torch.empty_like(self._source)
        self._factors: dict[torch.dtype, list[Tensor]] = {}
        self.taken: defaultdict[str, list[float]] = defaultdict(list)
        self.move()  # the first calls start the GPU and find their kernels
        self.taken.clear()

    def move(self) -> float:
        """Bytes a second, read and written, of the faster of two copies; also measures reading."""
        reads: tuple[Stretch, ...] = self._source.sum, self._source.amax
        self.taken[READING].append(self._source.nbytes / min(map(self._clock.seconds, reads)))
        seconds = [self._clock.seconds(lambda: self._target.copy_(self._source)) for _ in range(2)]
        found = 2 * self._source.nbytes / min(seconds)
        self.taken[COPYING].append(found)
        return found

    def multiply(self, dtype: torch.dtype) -> float:
        """Operations a second of the fastest of torch's products of square matrices in `dtype`."""
        if dtype not in self._factors:
            self._factors[dtype] = [self._noise(size, dtype) for size in self._sizes]
            for factor in self._factors[dtype]:
                torch.mm(factor, factor)  # chooses its kernel
        found = max(
            2 * len(factor) ** 3 / self._clock.seconds(partial(torch.mm, factor, factor))
            for factor in self._factors[dtype]
        )
        self.taken[str(dtype).removeprefix("torch.")].append(found)
        return found

    def _noise(self, size: int, dtype: torch.dtype) -> Tensor:
        """Numbers like a model's: products of zeros draw less power, and go faster."""
        return torch.randn(size, size, device=self.device).to(dtype)


_MOVED = {
    COPYING: "GB/s copied, read and written both counted, which bytes are held against",
    READING: "GB/s read",
}


def where(subject: str, taken: Mapping[str, list[float]]) -> str:
    return (
        f"{subject}, on {gpu()}; in {machine()}. "
        f"The GPU's limits meanwhile: {told(taken)}. "
        f"flash-linear-attention: {linear_attention()}."
    )


def told(taken: Mapping[str, list[float]]) -> str:
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
