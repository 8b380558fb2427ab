"""The command line of `python -m tests.bench`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import get_args

import psutil

from core.api.params import Precision
from kernels.common.capability import what_is_missing
from tests.bench.levels import LEVELS, Level, named
from tests.bench.llama.build import usual_folder
from tests.bench.llama.files import MIXES
from tests.bench.rounds import Plan
from tests.bench.shapes import ShapeError, chosen, dense, names
from tests.gguf.llama_converter import TEXT

NAMES = ("ops", "model")
DEVICES = ("cpu", "cuda")
SLOW = "float32"  # with a peer of its own it would take nearly half of the time


def parsed(arguments: list[str] | None, about: str | None = None) -> argparse.Namespace:
    """The command line; it ends the process where it makes no sense."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=about)
    _add_subjects(parser)
    _add_sizes(parser)
    _add_peers(parser)
    parser.add_argument("--folder", type=Path, help="keep the random weights in this folder")
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False) or 1)
    parser.add_argument("--quick", action="store_true", help="a model of no size, for a try")
    options = parser.parse_args(arguments)
    others = [each for each in options.shape if not dense(each)]
    options.names = options.names or [each for each in NAMES if each == "model" or not others]
    fault = _fault(options)
    if fault is not None:
        parser.error(fault)
    level = named(options.level) if options.device == "cpu" else None
    options.is_at_level = options.level is None or level is None or level.is_set()
    options.level = level
    return options


def title_of(name: str, shape: str, device: str, level: Level | None = None) -> str:
    """The title of a table."""
    if device == "cuda":
        return f"{name} of {shape} on a GPU"
    title = name if shape == names()[0] else f"{name} of {shape}"
    return title if level is None else f"{title} at level {level.name}"


def _add_subjects(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {NAMES}; all without one")
    parser.add_argument(
        "--device", choices=DEVICES, default=DEVICES[0],
        help="cuda: an NVIDIA GPU, with tables of its own",
    )  # fmt: skip
    parser.add_argument(
        "--level", choices=[each.name for each in LEVELS],
        help="of processors, set for all engines; the machine's own unless named",
    )  # fmt: skip
    parser.add_argument(
        "--shape", nargs="+", type=_shape, default=list(names()[:1]), metavar="SHAPE[/LAYERS]",
        help=f"of which released model the random weights are: {', '.join(names())}; with so many "
        "of its layers, what all of them take is computed",
    )  # fmt: skip
    known = [each for each in get_args(Precision) if each not in ("auto", "published")]
    parser.add_argument(
        "--precision", nargs="+", choices=[*known, *MIXES],
        default=[each for each in known if each != SLOW],
        help=f"bfloat16 and integers unless named; {' and '.join(MIXES)} are files of llama.cpp's "
        "that are run as published",
    )  # fmt: skip


def _shape(name: str) -> str:
    """The name of a shape that there is."""
    try:
        return chosen(name).name
    except ShapeError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _add_peers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--peers", nargs="+", choices=["bfloat16", SLOW], default=["bfloat16"],
        help=f"what transformers computes in; it stands beside {SLOW} in {SLOW} anyway",
    )  # fmt: skip
    parser.add_argument(
        "--llama", action="store_true",
        help="llama.cpp beside them, at the same level: built once, which takes minutes",
    )  # fmt: skip
    parser.add_argument(
        "--ik", type=Path, metavar="PATH", help="the same of ik_llama.cpp's llama-bench"
    )
    parser.add_argument(
        "--llama-folder", type=Path, default=usual_folder(), metavar="FOLDER",
        help="where llama.cpp and its files are kept (%(default)s)",
    )  # fmt: skip


def _add_sizes(parser: argparse.ArgumentParser) -> None:
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


def _fault(options: argparse.Namespace) -> str | None:
    """Find options that contradict each other, before minutes are spent."""
    unknown = set(options.names) - set(NAMES)
    if unknown:
        return f"there is no bench named {', '.join(sorted(unknown))}; there are {NAMES}"
    others = [each for each in options.shape if not dense(each)]
    if "ops" in options.names and others:
        return f"of {', '.join(others)} there is the whole model alone: `model --shape ...`"
    beside = options.llama or options.ik or set(options.precision) & set(MIXES)
    lacking = [each for each in options.shape if chosen(each).config["model_type"] not in TEXT]
    if beside and lacking:
        return f"llama.cpp has no {', '.join(lacking)}"
    return _gpu_fault(options) if options.device == "cuda" else _level_fault(options)


def _gpu_fault(options: argparse.Namespace) -> str | None:
    missing = what_is_missing()
    if missing is not None:
        return f"there is no GPU to measure: {missing}"
    if options.level or options.llama or options.ik:
        return "levels and llama-bench are of the processor's tables alone"
    return None


def _level_fault(options: argparse.Namespace) -> str | None:
    try:
        named(options.level)
    except ValueError as error:
        return str(error)
    if options.ik is not None and not os.access(options.ik, os.X_OK):
        return f"{options.ik} is no program that can be run"
    return None
