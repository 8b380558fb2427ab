"""The GPU that measures: its name, and how fast it copies, reads and multiplies at its best."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from tests.bench.gpu.clock import Clock, Stretch
from tests.bench.machine import READING

COPYING = "copying"
# Many times what a GPU keeps of its memory for itself (50 MB on an H200).
COPY_BYTES = 2**30
# Rows, columns and what is summed over; which of them goes fastest differs.
PRODUCT_SIZES = (4_096, 8_192)


def gpu() -> str:
    """The GPU and what drives it, in a few words."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    memory = properties.total_memory / 2**30
    return (
        f"{torch.cuda.get_device_name()}, {memory:.0f} GiB, driver {driver()}, "
        f"CUDA {torch.version.cuda}, torch {torch.__version__}, Triton {installed('triton')}"
    )


def driver() -> str:
    """The version of NVIDIA's driver, as its own tool says it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "unknown"
    asked = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    ran = subprocess.run(asked, capture_output=True, text=True, check=False)
    return (ran.stdout.split() or ["unknown"])[0]


def installed(package: str) -> str:
    """The version of a Python package, or that it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


class GpuLimits:
    """What a GPU can do: a `Bounds` (tests.bench.machine), measured anew with every call.

    `move` is what a copy within the GPU's memory moves, bytes read and bytes written both counted;
    how fast it is only read is taken beside it. `taken` are all answers so far.
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
        """Bytes a second, read and written, of the faster of two copies; and how fast it reads."""
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
