"""`python -m tests.bench [ops] [model]`: how fast this machine runs Waymark, beside its own limits
and beside others; with --device cuda how fast its GPU does.

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
from dataclasses import replace
from pathlib import Path

import torch

from tests.bench import llama, op_rounds, ops, rounds
from tests.bench.folders import RELEASED, TINY, write_random
from tests.bench.gpu import words
from tests.bench.gpu.clock import Clock, CudaClock
from tests.bench.gpu.machine import GpuLimits
from tests.bench.machine import READING, Bounds, Limits, machine
from tests.bench.options import SLOW, parsed, place
from tests.bench.page import PAGE, write_between
from tests.bench.peer import Engine, Peer
from tests.bench.process import Process
from tests.bench.rounds import Plan
from tests.bench.speed_tables import PEER, model_table, ops_table
from tests.bench.spread import Spread

Open = Callable[[Engine], Peer]


def main(arguments: list[str] | None = None) -> int:
    """Measure what was named, print it, and write it down where that was asked for."""
    options = parsed(arguments, __doc__)
    torch.set_num_threads(options.threads)
    for shape in options.shape:
        for name in options.names:
            if options.device == "cpu":
                text = _here(options, name, shape)
            else:
                clock = CudaClock()
                text = gpu_text(options, name, shape, GpuLimits(clock, torch.device("cuda")), clock)
            title = place(name, shape, options.device)
            print(f"## {title}\n\n{text}", flush=True)
            if options.write:
                write_between(PAGE, title, text)
    return 0


def _here(options: argparse.Namespace, name: str, shape: str) -> str:
    """What is told of a processor."""
    limits = quick_limits() if options.quick else Limits()
    made = ops_text(options, limits, shape) if name == "ops" else _model(options, limits, shape)
    return f"{_where(options, limits, shape)}\n\n{made}"


def gpu_text(
    options: argparse.Namespace, name: str, shape: str, limits: GpuLimits, clock: Clock
) -> str:
    """What is told of a GPU."""
    from tests.bench.gpu import case, report  # need Triton, which a processor's tables don't

    if name == "ops":
        sizes = case.QUICK if options.quick else case.Sizes(RELEASED[shape])
        made = report.ops_text(options.precision, sizes, limits.device, limits, clock, _say)
    else:
        made = _model(options, limits, shape)
    return f"{words.where('tiny' if options.quick else shape, limits.taken)}\n\n{made}"


def ops_text(options: argparse.Namespace, limits: Bounds, shape: str) -> str:
    """A table of a processor's ops for each precision."""
    sizes = ops.QUICK if options.quick else ops.Sizes(RELEASED[shape])
    texts = []
    for precision in options.precision:
        measured = []
        for op in ops.all_ops(sizes, precision):
            _say(f"{precision}: {op.name}")
            measured.append(op_rounds.measure(op, limits, sizes))
        texts.append(f"**{precision}**\n\n{ops_table(measured)}")
    return "\n".join(texts)


def model_text(
    options: argparse.Namespace, folder: Path, scratch: Path, limits: Bounds, opened: Open
) -> str:
    """A table for each precision. Those with one peer take turns with it in the same rounds."""
    on_gpu = options.device == "cuda"
    plan = replace(rounds.QUICK if options.quick else _plan(options), warm=on_gpu)
    texts = []
    for peer_type, precisions in groups(options.precision).items():
        given = folder, plan.longest, scratch, options.device
        peers = {each: opened(Engine("waymark", each, *given)) for each in precisions}
        peers[PEER] = opened(Engine("transformers", peer_type, *given))
        try:
            rows = rounds.measure(plan, peers, limits, getattr(torch, peer_type), _say)
        finally:
            for peer in peers.values():
                peer.close()
        for precision in precisions:
            beside = _llama(options.gguf, precision, plan, options.threads)
            title = f"**{precision}**, beside transformers in {peer_type}"
            if on_gpu:
                title = ". ".join(
                    [title, words.helped(rows), *words.strayed(rows.values(), precision)]
                )
            table = model_table(rows, precision, beside, rates=on_gpu)
            texts.append(f"{title}\n\n{table}")
    return "\n".join([*texts, "" if options.gguf or on_gpu else _without_llama()])


def quick_limits() -> Limits:
    """Limits of nothing much, in no time."""
    return Limits(read_bytes=2**20, rows=(16,))


def groups(precisions: Iterable[str]) -> Mapping[str, list[str]]:
    """Precisions by the type in which transformers stands beside them: it quantises nothing."""
    found: dict[str, list[str]] = {}
    for precision in precisions:
        peer = precision if precision == SLOW else "bfloat16"
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


def _model(options: argparse.Namespace, limits: Bounds, shape: str) -> str:
    with tempfile.TemporaryDirectory(prefix="waymark-bench-") as place:
        scratch = Path(place)
        folder = _folder(options, shape) or scratch / "weights"
        if not (folder / "model.safetensors").exists():
            _say(f"writing random weights to {folder}")
            made = TINY if options.quick else RELEASED[shape]
            write_random(folder, made, device=options.device)
        return model_text(
            options, folder, scratch, limits, lambda engine: Process(engine, options.threads)
        )


def _folder(options: argparse.Namespace, shape: str) -> Path | None:
    """Where random weights are kept: each shape but the first in a folder of its own."""
    folder: Path | None = options.folder
    return folder if folder is None or shape == next(iter(RELEASED)) else folder / shape


def _where(options: argparse.Namespace, limits: Limits, shape: str) -> str:
    """The machine, and what it could do meanwhile."""
    shape = "A tiny shape" if options.quick else f"The {shape} shape, random weights"
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


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
