"""`python -m tests.bench [ops] [model]`: how fast this machine runs Waymark, beside its own limits
and beside others.

Every ratio is of measurements of one run, in interleaved rounds. The tables go to standard output,
and with --write into docs/performance.md, which says how to read them; what is being done goes to
standard error.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import get_args

import psutil
import torch

from core.api.params import Precision
from tests.bench import llama, op_rounds, ops, rounds
from tests.bench.folders import TINY, Shape, write_random
from tests.bench.machine import READING, Limits, machine
from tests.bench.page import PAGE, write_between
from tests.bench.peer import Engine, Peer
from tests.bench.process import Process
from tests.bench.rounds import Plan
from tests.bench.speed_tables import PEER, model_table, ops_table
from tests.bench.spread import Spread

NAMES = ("ops", "model")
SLOW = "float32"  # with a peer of its own it would take nearly half of the time
Open = Callable[[Engine], Peer]


def main(arguments: list[str] | None = None) -> int:
    """Measure what was named, print it, and write it down where that was asked for."""
    options = parsed(arguments)
    torch.set_num_threads(options.threads)
    for name in options.names:
        limits = quick_limits() if options.quick else Limits()
        made = ops_text(options, limits) if name == "ops" else _model(options, limits)
        text = f"{_where(options, limits)}\n\n{made}"
        print(f"## {name}\n\n{text}", flush=True)
        if options.write:
            write_between(PAGE, name, text)
    return 0


def ops_text(options: argparse.Namespace, limits: Limits) -> str:
    """A table of the ops for each precision."""
    sizes = ops.QUICK if options.quick else ops.Sizes()
    texts = []
    for precision in options.precision:
        measured = []
        for op in ops.all_ops(sizes, precision):
            _say(f"{precision}: {op.name}")
            measured.append(op_rounds.measure(op, limits, sizes))
        texts.append(f"**{precision}**\n\n{ops_table(measured)}")
    return "\n".join(texts)


def model_text(
    options: argparse.Namespace, folder: Path, scratch: Path, limits: Limits, opened: Open
) -> str:
    """A table for each precision. Those with one peer take turns with it in the same rounds."""
    plan = rounds.QUICK if options.quick else _plan(options)
    texts = []
    for peer_type, precisions in groups(options.precision).items():

        def engine(precision: str) -> Engine:
            return Engine("waymark", precision, folder, plan.longest, scratch)

        peers = {precision: opened(engine(precision)) for precision in precisions}
        peers[PEER] = opened(Engine("transformers", peer_type, folder, plan.longest, scratch))
        try:
            rows = rounds.measure(plan, peers, limits, getattr(torch, peer_type), _say)
        finally:
            for peer in peers.values():
                peer.close()
        for precision in precisions:
            beside = _llama(options.gguf, precision, plan, options.threads)
            title = f"**{precision}**, beside transformers in {peer_type}"
            texts.append(f"{title}\n\n{model_table(rows, precision, beside)}")
    return "\n".join([*texts, "" if options.gguf else _without_llama()])


def quick_limits() -> Limits:
    """Limits of nothing much, in no time."""
    return Limits(read_bytes=2**20, rows=(16,))


def groups(precisions: Iterable[str]) -> Mapping[str, list[str]]:
    """Precisions by the type in which transformers stands beside them: it quantises nothing."""
    found: dict[str, list[str]] = {}
    for precision in precisions:
        peer = "float32" if precision == "float32" else "bfloat16"
        found.setdefault(peer, []).append(precision)
    return found


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(
        prompts=tuple(options.prompts),
        contexts=tuple(options.contexts),
        images=tuple(options.images),
        rounds=options.rounds,
        seconds=options.seconds,
    )


def _model(options: argparse.Namespace, limits: Limits) -> str:
    with tempfile.TemporaryDirectory(prefix="waymark-bench-") as place:
        scratch = Path(place)
        folder = options.folder or scratch / "weights"
        if not (folder / "model.safetensors").exists():
            _say(f"writing random weights to {folder}")
            write_random(folder, TINY if options.quick else Shape())
        return model_text(
            options, folder, scratch, limits, lambda engine: Process(engine, options.threads)
        )


def _where(options: argparse.Namespace, limits: Limits) -> str:
    """The machine, and what it could do meanwhile."""
    shape = "A tiny shape" if options.quick else "The 0.8B shape, random weights"
    taken = {name: Spread.of(each).scaled(1e-9) for name, each in sorted(limits.taken.items())}
    told = [
        f"{each} GB/s" if name == READING else f"{each} GFLOP/s in {name}"
        for name, each in taken.items()
    ]
    return (
        f"{shape}, on {machine()}; {options.threads} threads, torch {torch.__version__}. "
        f"The machine's limits meanwhile: {', '.join(told)}."
    )


def _llama(
    files: Mapping[str, Path], precision: str, plan: Plan, threads: int
) -> Mapping[rounds.Step, Spread] | None:
    if precision not in files or not llama.is_there():
        return None
    _say(f"llama-bench beside {precision}")
    return llama.measure(files[precision], plan, threads)


def _without_llama() -> str:
    if llama.is_there():
        return "llama-bench is here, but no --gguf names a file for it to run."
    return "llama-bench is not on the PATH of this machine, so its column is left out."


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; it ends the process where it makes no sense."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {NAMES}; all without one")
    known = [each for each in get_args(Precision) if each != "auto"]
    parser.add_argument(
        "--precision", nargs="+", choices=known, default=[each for each in known if each != SLOW],
        help=f"all but {SLOW} unless named",
    )  # fmt: skip
    for name, what in (
        ("prompts", "tokens of the prompts"),
        ("contexts", "tokens behind which is generated"),
        ("images", "sides of the pictures in pixels"),
    ):
        default = getattr(Plan, name)
        parser.add_argument(f"--{name}", type=int, nargs="*", default=default, help=what)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each step, at most")
    parser.add_argument(
        "--seconds", type=float, default=Plan.seconds, help="no new round of a step after so many"
    )
    parser.add_argument("--folder", type=Path, help="keep the random weights in this folder")
    parser.add_argument(
        "--gguf", action="append", type=_named_file, default=[], metavar="PRECISION=FILE",
        help="what llama-bench runs beside a precision",
    )  # fmt: skip
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False) or 1)
    parser.add_argument("--quick", action="store_true", help="a model of no size, for a try")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.name}")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no bench named {', '.join(sorted(unknown))}; there are {NAMES}")
    options.names = options.names or list(NAMES)
    options.gguf = dict(options.gguf)
    return options


def _named_file(text: str) -> tuple[str, Path]:
    precision, _, file = text.partition("=")
    return precision, Path(file)


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
