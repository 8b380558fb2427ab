"""`python -m tests.bench [ops] [model]`: how fast this machine runs Waymark, beside its own limits
and beside others; with --device cuda how fast its GPU does.

Every ratio compares measurements of one run, in interleaved rounds. Tables go to standard output,
progress to standard error. docs/performance.md says how to read the tables.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time

try:
    # Imported only by the processes of peers, which would fail much later.
    if importlib.util.find_spec("transformers") is None:
        raise ModuleNotFoundError(name="transformers")
    import torch

    from tests.bench import model, op_rounds, ops
    from tests.bench.clock import Clock, CudaClock, ProcessorClock
    from tests.bench.folders import NoRoomError
    from tests.bench.gpu.machine import GpuLimits, where
    from tests.bench.levels import Level
    from tests.bench.llama.build import BuildError
    from tests.bench.machine import READING, Limits, machine
    from tests.bench.options import parsed, title_of
    from tests.bench.shapes import dense, described
    from tests.bench.spread import Spread
except ModuleNotFoundError as error:
    sys.exit(
        f"The benchmarks use what the tests use, and {error.name} is not installed. "
        "Run `make bench`, or install it: python -m pip install -e '.[test]'"
    )


def main(arguments: list[str] | None = None) -> int:
    options = parsed(arguments, __doc__)
    if not options.is_at_level:
        return _again(arguments, options.level)
    torch.set_num_threads(options.threads)
    try:
        _measure(options)
    except (BuildError, NoRoomError) as error:
        _say(str(error))
        return 1
    return 0


def _measure(options: argparse.Namespace) -> None:
    for shape in options.shape:
        for name in options.names:
            if options.device == "cpu":
                text = cpu_text(options, name, shape, quick_limits() if options.quick else Limits())
            else:
                clock = CudaClock()
                text = gpu_text(options, name, shape, GpuLimits(clock, torch.device("cuda")), clock)
            title = title_of(name, shape, options.device, options.level)
            print(f"## {title}\n\n{text}", flush=True)


def _again(arguments: list[str] | None, level: Level) -> int:
    """Run in a process at that level: libraries read it once."""
    given = sys.argv[1:] if arguments is None else arguments
    command = [sys.executable, "-m", "tests.bench", *given]
    environment = {**os.environ, **level.environment()}
    return subprocess.run(command, env=environment, check=False).returncode


def cpu_text(options: argparse.Namespace, name: str, shape: str, limits: Limits) -> str:
    if name == "ops":
        numbers = ops.Numbers(_sizes(options, shape), torch.device("cpu"), "cpu")
        clock = ProcessorClock()
        made = op_rounds.ops_text(options.precision, numbers, limits, clock, _say)
    else:
        made = model.measured(options, limits, shape, _say)
    return f"{_where(options, limits, shape)}\n\n{made}"


def gpu_text(
    options: argparse.Namespace, name: str, shape: str, limits: GpuLimits, clock: Clock
) -> str:
    if name == "ops":
        numbers = ops.Numbers(_sizes(options, shape), limits.device, "gpu")
        made = op_rounds.ops_text(options.precision, numbers, limits, clock, _say)
    else:
        made = model.measured(options, limits, shape, _say)
    return f"{where(described(shape, options.quick), limits.taken)}\n\n{made}"


def _sizes(options: argparse.Namespace, name: str) -> ops.Sizes:
    shape = dense(name)
    assert shape is not None, "options refuse ops of the others"
    if options.quick:
        return ops.QUICK
    return ops.gpu_sizes(shape) if options.device == "cuda" else ops.Sizes(shape)


def quick_limits() -> Limits:
    return Limits(read_bytes=2**20, rows=(16,))


def _where(options: argparse.Namespace, limits: Limits, shape: str) -> str:
    taken = {name: Spread.of(each).scaled(1e-9) for name, each in sorted(limits.taken.items())}
    told = [
        f"{each} GB/s" if name == READING else f"{each} GFLOP/s in {name}"
        for name, each in taken.items()
    ]
    level = "" if options.level is None else f" at level {options.level.name},"
    return (
        f"{described(shape, options.quick)},{level} on {machine()}; {options.threads} threads, "
        f"torch {torch.__version__}. The machine's limits meanwhile: {', '.join(told)}."
    )


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
