"""`python -m core.selftest MODEL`: whether this machine computes each operation correctly.

Prints the results that a load would get. Remembered results and weights are not read.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import get_args

import torch

from core.api.errors import WaymarkError
from core.api.params import Device, ModelSettings, Precision
from core.engine.loaded import fix_threads, resolve_device
from core.loading.plan import ModelPlan
from core.loading.precision import choose_precision, what_slows
from core.weights.memory import available_bytes
from core.weights.published.folder import ModelFolder
from kernels.common.capability import processor_level
from kernels.ops import Ops
from kernels.self_test.validation import faults, suspects

RIGHT, PLAIN = "right", "plain torch"


def run(settings: ModelSettings) -> int:
    device = resolve_device(settings)
    plan = ModelPlan(ModelFolder.open(Path(settings.path)))
    chosen = choose_precision(settings, plan, device, available_bytes(device))
    precision, kernels, dtype = chosen.precision, chosen.kernels, chosen.precision.dtype
    print(f"{processor_level()}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print(
        f"{Path(settings.path).resolve().name}: {precision.name} on {device.type}, {kernels.name}"
    )
    if slower := what_slows(kernels, device, dtype, precision.integers):
        print(f"Slower than it could be: {slower}")
    tested = suspects(kernels)
    failed, _ = faults(kernels, plan.shapes(dtype), device, dtype)
    for name in (each for each in Ops.__slots__ if each != "rows_per_part"):
        print(f"  {name:30}{failed.get(name, RIGHT if name in tested else PLAIN)}")
    print(
        f"{len(failed)} failed" + (": a load uses plain torch in their place." if failed else ".")
    )
    return len(failed)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m core.selftest", description=__doc__)
    parser.add_argument("model", type=Path, help="a model folder: its sizes are tested")
    parser.add_argument("--precision", choices=get_args(Precision), default="auto")
    parser.add_argument("--device", choices=get_args(Device), default="auto")
    options = parser.parse_args(arguments)
    settings = ModelSettings(
        path=str(options.model), device=options.device, precision=options.precision
    )
    try:
        return 1 if run(settings) else 0
    except WaymarkError as error:
        print(f"{error.title}: {error.message}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    fix_threads()
    sys.exit(main())
