"""`python -m tests.bench.cache`: what reuse is worth and what it costs, as tables of ratios.

Every ratio is of two measurements of one run on one machine. The tables go to standard output, what
is being done to standard error. docs/performance.md says how to read them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from core.api.chat import Message
from core.api.params import CacheSettings, ModelSettings
from tests.bench import costs, lengths, yardstick
from tests.bench.folders import DEMO, TINY, Shape, write_random
from tests.bench.machine import machine
from tests.bench.rig import Rig
from tests.bench.tables import MIB, print_append, print_kept, print_lengths, print_turns
from tests.bench.words import Words

SHORTEST = 1_024
ROOM = 2_048  # for what the scenarios add to the longest context: two pictures, their questions
TABLES = frozenset({"lengths", "costs", "yardsticks"})


@dataclass(frozen=True)
class Bench:
    """Sizes of one model's bench. Lengths, `message` and `side` are tokens."""

    name: str
    folder: Path
    longest: int
    every_cold_to: int
    repeats: int
    picture_size: int
    message: int
    side: int
    turns: int = 40
    step: int = 2
    tables: frozenset[str] = TABLES

    def lengths(self) -> list[int]:
        found = []
        length = min(SHORTEST, self.longest)
        while length <= self.longest:
            found.append(length)
            length *= self.step
        return found


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    print(f"{machine()}; {options.threads} threads, torch {torch.__version__}.\n")
    with tempfile.TemporaryDirectory(prefix="waymark-bench-") as scratch:
        for bench in _benches(options, Path(scratch)):
            report(bench, Path(scratch))
    return 0


def report(bench: Bench, scratch: Path) -> None:
    print(f"## {bench.name}\n")
    with _rig(bench, scratch) as rig:
        info = rig.loaded.info
        words = Words(bench.folder, info.tokenizer)
        print(
            f"A checkpoint is {info.checkpoint_bytes / MIB:.2f} MiB, keys and values "
            f"{info.kv_bytes_per_token / 1024:.1f} KiB a token.\n"
        )
        if "lengths" in bench.tables:
            _lengths(bench, rig, scratch)
        if "costs" in bench.tables:
            _print_costs(bench, rig, words)
        if "yardsticks" in bench.tables:
            _print_yardsticks(bench, rig, words, scratch)


def _lengths(bench: Bench, rig: Rig, scratch: Path) -> None:
    rows = []
    try:
        for length in bench.lengths():
            _say(f"{bench.name}: context of {length:,} tokens")
            every = length <= bench.every_cold_to
            row = lengths.measure(rig, scratch, length, bench.repeats, bench.picture_size, every)
            rows.append(row)
    except KeyboardInterrupt:
        _say("stopped")
    finally:
        # What took minutes to measure is told whatever comes after it.
        if rows:
            print_lengths(rows)
            print_append(rows)
            print_kept(rows)


@contextmanager
def _rig(bench: Bench, scratch: Path) -> Iterator[Rig]:
    folder = scratch / f"cache of {bench.name}"
    settings = ModelSettings(
        path=str(bench.folder),
        device="cpu",
        precision="bfloat16",
        context_length=max(bench.longest, bench.message, 4 * SHORTEST) + ROOM,
        cache_folder=str(folder),
    )
    rig = Rig(settings)
    try:
        yield rig
    finally:
        rig.close()


def _print_costs(bench: Bench, rig: Rig, words: Words) -> None:
    _say(f"{bench.name}: what cuts, checkpoints and copies cost")
    long = [words.user(bench.message, 50)]
    short: list[Message] = []
    for number in range(bench.turns):
        short += [words.user(20, 60 + number), words.reply(20, 160 + number)]
    short.append(words.user(20, 59))
    compared = [
        costs.cuts(rig, f"cuts: one message of {bench.message:,} tokens", long, 2),
        costs.cuts(rig, f"cuts: {bench.turns} turns of 20 tokens", short, 3),
        costs.on_and_off(rig, [words.user(bench.side, 51)], 3),
    ]
    print("| beside its peer | tokens | forwards | ratio | s | peer's s |")
    print("|---|---|---|---|---|---|")
    for each in compared:
        print(
            f"| {each.name} | {each.tokens:,} | {each.runs} | {each.ratio:.3f} "
            f"| {each.seconds:.2f} | {each.peer:.2f} |"
        )
    print()


def _print_yardsticks(bench: Bench, rig: Rig, words: Words, scratch: Path) -> None:
    _say(f"{bench.name}: the yardsticks")
    print_turns("Five turns of 300 tokens, replies of 60", yardstick.long_turns(rig, words))
    for count in (CacheSettings().count, 128):
        rig.cache_settings = CacheSettings(count=count)
        edit = yardstick.late_edit(rig, words)
        print_turns(f"An edit far back, count {count}", [edit])
    rig.cache_settings = CacheSettings()
    rows = yardstick.differences(rig, words, scratch, bench.picture_size)
    print_turns("Where others read again", rows)


def _benches(options: argparse.Namespace, scratch: Path) -> Iterator[Bench]:
    tables = frozenset(options.tables)
    timed = tables - {"yardsticks"}
    if "yardsticks" in tables:
        print_turns("Five turns of the demo model", yardstick.five_turns())
        yield Bench(
            name="random weights, small", folder=write_random(scratch / "small", TINY), longest=0,
            every_cold_to=0, repeats=0, picture_size=512, message=4_096, side=0,
            tables=frozenset({"yardsticks"}),
        )  # fmt: skip
    if timed and options.model in ("demo", "both"):
        yield Bench(
            name="demo model", folder=DEMO, longest=min(options.longest, 2_048),
            every_cold_to=2_048, repeats=options.repeats, picture_size=96, message=2_048,
            side=1_024, tables=timed, step=options.step,
        )  # fmt: skip
    if timed and options.model in ("0.8b", "both"):
        folder = options.folder or scratch / "random-0.8B"
        if not (folder / "model.safetensors").exists():
            _say(f"writing random weights to {folder}")
            write_random(folder, Shape())
        yield Bench(
            name="random weights, 0.8B shape", folder=folder, longest=options.longest,
            every_cold_to=options.every_cold_to, repeats=options.repeats, picture_size=512,
            message=options.message, side=2_048, tables=timed, step=options.step,
        )  # fmt: skip


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cache", description=__doc__)
    parser.add_argument("--model", choices=("demo", "0.8b", "both"), default="both")
    parser.add_argument("--tables", nargs="+", choices=sorted(TABLES), default=sorted(TABLES))
    parser.add_argument("--longest", type=int, default=32_768, help="longest context in tokens")
    parser.add_argument(
        "--every-cold-to",
        type=int,
        default=2_048,
        help="up to this context every prompt is also read cold",
    )
    parser.add_argument(
        "--message",
        type=int,
        default=8_192,
        help="tokens of the one long message whose cuts are compared with one pass",
    )
    parser.add_argument(
        "--step", type=int, default=2, help="times the context of one row to the next"
    )
    parser.add_argument("--repeats", type=int, default=3, help="warm readings of each scenario")
    parser.add_argument("--folder", type=Path, help="keep the random weights in this folder")
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False) or 1)
    return parser.parse_args(arguments)


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
