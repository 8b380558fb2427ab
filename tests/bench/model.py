"""The whole model beside its peers, in tables: who takes part, and with which files."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.bench import rounds
from tests.bench.folders import has_vision, write_folder
from tests.bench.gpu import machine as gpu
from tests.bench.llama import files
from tests.bench.llama.build import Build
from tests.bench.llama.program import Llama
from tests.bench.machine import Bounds
from tests.bench.options import SLOW
from tests.bench.peer import Engine, Peer
from tests.bench.process import Process
from tests.bench.rounds import Plan, Row, Step
from tests.bench.shapes import Cut, chosen, names
from tests.bench.speed_tables import PEER, model_table
from tests.bench.spread import Spread
from tests.bench.whole import whole_table

Open = Callable[[Engine], Peer]
Say = Callable[[str], None]


class Beside:
    """Results of llama.cpp and its like right after each step, by precision and program."""

    def __init__(self, programs: Sequence[Llama], say: Say) -> None:
        self._programs = programs
        self._say = say
        self._found: dict[tuple[str, str], dict[Step, Spread]] = {}
        self._faults: dict[str, list[str]] = {}

    def measure(self, precisions: Iterable[str], step: Step) -> None:
        for precision in precisions:
            for program in self._programs:
                try:
                    measured = program.measure(precision, step)
                except (OSError, subprocess.CalledProcessError) as error:
                    self._fail(
                        precision, f"{program.name} failed at {step.task} {step.size}", error
                    )
                    continue
                if measured is not None:
                    self._say(f"{program.name} beside {precision}: {measured} tokens/s")
                    self._found.setdefault((precision, program.name), {})[step] = measured

    def _fail(self, precision: str, what: str, error: Exception) -> None:
        """Keep the results that others took minutes for."""
        self._say(f"{what}: {error}\n{getattr(error, 'stderr', '')}")
        self._faults.setdefault(precision, []).append(what)

    def faults(self, precision: str) -> Sequence[str]:
        return self._faults.get(precision, ())

    def of(self, precision: str) -> Mapping[str, Mapping[Step, Spread]]:
        """Tokens a second by program and step."""
        return {name: steps for (each, name), steps in self._found.items() if each == precision}


@dataclass(frozen=True)
class Subject:
    """A model folder, its peers, and the files of it that are run as published, by name in place of
    a precision."""

    folder: Path
    beside: Beside
    published: Mapping[str, Path] = field(default_factory=dict)

    def own(self, precision: str, longest: int, scratch: Path, device: str) -> Engine:
        """Waymark on the folder, or on a file of it."""
        file = self.published.get(precision)
        if file is None:
            return Engine("waymark", precision, self.folder, longest, scratch, device)
        return Engine("waymark", "published", file, longest, scratch, device)


@dataclass(frozen=True)
class Rest:
    """Completes the figures of a cut model: the same table and head with almost no layers."""

    cut: Cut
    head: Subject


def measured(options: argparse.Namespace, limits: Bounds, shape: str, say: Say) -> str:
    """The tables of a shape, from weights that are written first if missing. Raises NoRoomError,
    BuildError."""
    build = _llama_cpp(options, say)
    cut = chosen(shape, options.quick)
    with tempfile.TemporaryDirectory(prefix="waymark-bench-") as place:
        scratch = Path(place)
        folder = _folder(options, cut) or scratch / "weights"
        subject = _subject(options, build, folder, cut.label, cut.config, cut.fused, say)
        rest = None
        if not cut.is_whole:
            beside_it = folder.with_name(f"{folder.name}-head")
            name = f"{cut.release}-head"
            rest = Rest(cut, _subject(options, build, beside_it, name, cut.head(), False, say))
        opened = partial(Process, threads=options.threads)
        return text(options, subject, scratch, limits, opened, say, rest)


def text(
    options: argparse.Namespace,
    subject: Subject,
    scratch: Path,
    limits: Bounds,
    opened: Open,
    say: Say,
    rest: Rest | None = None,
) -> str:
    """A table for each precision. Precisions with the same peers share rounds."""
    on_gpu = options.device == "cuda"
    plan = replace(rounds.QUICK if options.quick else plan_of(options), warm=on_gpu)
    if not _sees(subject.folder):
        plan = replace(plan, images=())
    texts = []
    for types, precisions in groups(options.precision, options.peers):
        sees = not set(precisions) & subject.published.keys()
        shown = plan if sees else replace(plan, images=())
        given = shown, options.device, scratch, types, precisions, limits, opened, say
        rows = _rows(subject, *given)
        heads = None
        if rest is not None:
            say(f"the table and head of {rest.cut.release} alone")
            heads = _rows(rest.head, replace(plan, images=()), *given[1:])
        for precision in precisions:
            told = [
                f"**{precision}**, beside transformers in {types[0]}",
                *subject.beside.faults(precision),
            ]
            if on_gpu:
                told += [gpu.helped(rows), *gpu.strayed(rows.values(), precision)]
            found = subject.beside.of(precision)
            table = model_table(rows, precision, found, rates=on_gpu)
            texts.append(f"{'. '.join(told)}\n\n{table}")
            if rest is not None and heads is not None:
                alone = rest.head.beside.of(precision)
                texts.append(whole_table(rest.cut, precision, (rows, found), (heads, alone)))
    return "\n".join([*texts, ""])


def _rows(
    subject: Subject,
    plan: Plan,
    device: str,
    scratch: Path,
    types: Sequence[str],
    precisions: Sequence[str],
    limits: Bounds,
    opened: Open,
    say: Say,
) -> dict[Step, Row]:
    """Every step of the plan, measured with one folder by all who take part."""
    given = plan.longest, scratch, device
    peers = {each: opened(subject.own(each, *given)) for each in precisions}
    for each in types:
        peers[_peer(each, types)] = opened(Engine("transformers", each, subject.folder, *given))
    try:
        dtype = torch.float32 if SLOW in precisions else torch.bfloat16
        after = partial(subject.beside.measure, precisions)
        return rounds.measure(plan, peers, limits, dtype, say, after)
    finally:
        for peer in peers.values():
            peer.close()


def groups(
    precisions: Iterable[str], peers: Sequence[str]
) -> list[tuple[Sequence[str], list[str]]]:
    """The types in which transformers stands beside some precisions: it quantises nothing."""
    every = list(precisions)
    slow, mixes = ([each for each in every if each in those] for those in ((SLOW,), files.MIXES))
    others = [each for each in every if each not in (SLOW, *files.MIXES)]
    found = (([SLOW], slow), (peers, others), (peers, mixes))
    return [(types, those) for types, those in found if those]


def _peer(kind: str, types: Sequence[str]) -> str:
    """The first type's column is transformers' own, and what it computes in stands above."""
    return PEER if kind == types[0] else f"{PEER} {kind}"


def plan_of(options: argparse.Namespace) -> Plan:
    return Plan(
        prompts=tuple(options.prompts),
        contexts=tuple(options.contexts),
        images=tuple(options.images),
        rounds=options.rounds,
        seconds=options.seconds,
    )


def _llama_cpp(options: argparse.Namespace, say: Say) -> Build | None:
    """llama.cpp, built if missing; ik_llama.cpp and published files need it too. Raises
    BuildError."""
    if not (options.llama or options.ik or set(options.precision) & set(files.MIXES)):
        return None
    build = Build(options.llama_folder, options.level, say)
    build.build(options.threads)
    return build


def _subject(
    options: argparse.Namespace,
    build: Build | None,
    folder: Path,
    name: str,
    config: Mapping[str, Any],
    fused: bool,
    say: Say,
) -> Subject:
    """Random weights of a config, written where there are none, and llama.cpp's files of them."""
    if not (folder / "model.safetensors").exists():
        say(f"writing random weights to {folder}")
        write_folder(folder, config, fused=fused, device=options.device)
    if build is None:
        return Subject(folder, Beside([], say))
    name = f"tiny-{name}" if options.quick else name
    made = {}
    for precision in options.precision:
        if precision in files.FORMATS:
            say(f"llama.cpp's file of {name} in {files.FORMATS[precision]}")
            made[precision] = files.write(build, folder, name, precision, options.threads)
    published = {each: made[each] for each in files.MIXES if each in made}
    return Subject(folder, Beside(_programs(options, build, made), say), published)


def _programs(options: argparse.Namespace, build: Build, made: Mapping[str, Path]) -> list[Llama]:
    given = made, options.threads, options.rounds
    own = [Llama("llama.cpp", build.program("llama-bench"), *given)] if options.llama else []
    return [*own, Llama("ik_llama.cpp", options.ik, *given)] if options.ik else own


def _folder(options: argparse.Namespace, cut: Cut) -> Path | None:
    """The folder of random weights: each shape but the first has its own."""
    folder: Path | None = options.folder
    return folder if folder is None or cut.name == names()[0] else folder / cut.label


def _sees(folder: Path) -> bool:
    return has_vision(json.loads((folder / "config.json").read_text()))
