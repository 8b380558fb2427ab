"""`python -m tests.bench.speculation`: what drafts gain, against the same replies without.

The model has random weights of a released shape and is made to say a given text, so that every run
computes the same tokens. Drafts are real where a text can be guessed from what stood before it;
those of a model are its own head's, whose tokens are then made right with a set probability, or
come from an artificial drafter that costs nothing. Ratios are of runs in interleaved rounds; the
median counts.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import psutil
import torch
from tokenizers import Tokenizer

from core.api.chat import Conversation, TextPart, UserMessage
from core.api.commands import Generate
from core.api.params import CacheSettings, DraftSettings, ModelSettings, SamplingParams
from core.engine.cancel import CancelFlag
from core.engine.drafting import drafters
from core.engine.drafting.controller import Acceptance
from core.engine.drafting.head import HeadDrafter
from core.engine.drafting.offer import Offer
from core.engine.engine import Engine
from core.engine.loaded import load
from core.engine.writing.sampler import Sampler
from tests.bench.folders import RELEASED, TINY, write_random
from tests.bench.levels import LEVELS, named
from tests.bench.page import PAGE, write_between
from tests.bench.spread import Spread

RATES = (0.0, 0.5, 0.7, 0.9)
OFF = DraftSettings(mode="off")
SOURCE = Path(__file__).parents[2] / "docs" / "architecture.md"


@dataclass(frozen=True)
class Case:
    """A prompt, what is said to it, and how it is drafted."""

    name: str
    prompt: str
    reply: tuple[int, ...]
    mode: str
    # How often a drafted token is right; None where it is what it is.
    rate: float | None = None
    is_free: bool = False


class Artificial:
    """Drafts the next tokens of a known text, each right with the same probability, at no cost."""

    def __init__(self, case: Case) -> None:
        assert case.rate is not None
        self._known, self._case, self._next = case.reply, case, 0
        self._acceptance = Acceptance(0.6)
        self._random = random.Random(7)

    def follow(self, ids: Sequence[int], hidden: torch.Tensor) -> None:
        self._next += len(ids)

    def offer(self, most: int) -> Offer:
        left = self._known[self._next : self._next + max(0, most)]
        return Offer(len(left), self._acceptance, lambda depth: self.draft(left[:depth]))

    def draft(self, right: Sequence[int]) -> list[int]:
        """These, each perhaps replaced."""
        rate = self._case.rate or 0.0
        return [each if self._random.random() < rate else (each + 1) % 500 for each in right]


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.speculation", description=__doc__)
    parser.add_argument(
        "--shape", choices=[*RELEASED], default="0.8B", help="of the random weights"
    )
    parser.add_argument("--level", choices=[each.name for each in LEVELS], help="of processors")
    parser.add_argument("--precision", nargs="+", default=["int4", "int8", "bfloat16"])
    parser.add_argument("--tokens", type=int, default=96, help="of each reply")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False) or 1)
    parser.add_argument("--folder", type=Path, help="keep the random weights in this folder")
    parser.add_argument("--quick", action="store_true", help="a model of no size, for a try")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    options = parser.parse_args(arguments)
    level = named(options.level)
    if options.level is not None and level is not None and not level.is_set():
        # Libraries read it once.
        command = [sys.executable, "-m", "tests.bench.speculation", *(arguments or sys.argv[1:])]
        environment = {**os.environ, **level.environment()}
        return subprocess.run(command, env=environment, check=False).returncode
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch) / "model"
        if not (folder / "model.safetensors").exists():
            shape = TINY if options.quick else RELEASED[options.shape]
            write_random(folder, shape, mtp=True)
        text = "\n".join(table(options, folder))
    print(text)
    if options.write and level is not None:
        write_between(PAGE, f"speculation at level {level.name}", text)
    return 0


def table(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """The lines of a table, in Markdown."""
    size = "a model of no size" if options.quick else options.shape
    level = named(options.level)
    where = f"{size} at level {level.name}" if level is not None else size
    yield f"{where}, {options.threads} threads, replies of {options.tokens} tokens"
    yield ""
    yield "| drafts | right | " + " | ".join(options.precision) + " |"
    yield "|---" * (2 + len(options.precision)) + "|"
    columns = [measured(options, folder, precision) for precision in options.precision]
    for index, (case, rate, _) in enumerate(columns[0]):
        cells = " | ".join(str(column[index][2]) for column in columns)
        yield f"| {case} | {rate} | {cells} |"


def measured(
    options: argparse.Namespace, folder: Path, precision: str
) -> list[tuple[str, str, Spread]]:
    """Of each case its name, how many drafted tokens were right, and its speed over plain."""
    settings = ModelSettings.model_validate({"path": str(folder), "precision": precision})
    loaded = load(settings, lambda done, total: None, lambda: None)
    engine = Engine()
    engine.loaded = loaded
    found = []
    for case in cases(options.tokens, encoder(folder)):
        draft = DraftSettings.model_validate({"mode": case.mode})
        # What steps take is known before it counts.
        answered(engine, case, draft)
        ratios, accepted, drafted = [], 0, 0
        for _ in range(options.rounds):
            plain, _ = answered(engine, case, OFF)
            fast, counts = answered(engine, case, draft)
            ratios.append(fast / plain)
            accepted, drafted = accepted + counts[0], drafted + counts[1]
        right = (
            f"{accepted / drafted:.0%} of {drafted / options.rounds:.0f}"
            if drafted
            else "none drafted"
        )
        found.append((case.name, right, Spread.of(ratios)))
        print(
            f"{precision}: {case.name}: {found[-1][1]}, {found[-1][2]}", file=sys.stderr, flush=True
        )
    return found


def encoder(folder: Path) -> Callable[[str], Sequence[int]]:
    """The folder's tokenizer."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def cases(count: int, encode: Callable[[str], Sequence[int]]) -> Iterator[Case]:
    """What is measured."""
    text = SOURCE.read_text("utf-8")
    prose = tuple(encode(text[2000:8000])[:count])
    question = "What is this about?"
    yield Case("prose, from the chat", question, prose, "lookup")
    yield Case(
        "a text with every 25th word changed, from the chat", *edited(count, encode, text), "lookup"
    )
    for rate in RATES:
        yield Case(f"of a head, {rate:.0%} made right", question, prose, "mtp", rate)
    for rate in RATES:
        yield Case(f"at no cost, {rate:.0%} right", question, prose, "lookup", rate, is_free=True)


def edited(
    count: int, encode: Callable[[str], Sequence[int]], text: str
) -> tuple[str, tuple[int, ...]]:
    """A text to be edited as a prompt, and so many tokens of it, edited."""
    words = text[2000:8000].split(" ")
    changed = [word if index % 25 else "otherwise" for index, word in enumerate(words, start=1)]
    original = encode(" ".join(words))[: 2 * count]
    said = tuple(encode(" ".join(changed))[:count])
    shown = " ".join(words)[: 6 * len(original)]
    return f"Change some words of this: {shown}", said


def answered(engine: Engine, case: Case, draft: DraftSettings) -> tuple[float, tuple[int, int]]:
    """Tokens a second of a reply, and how many drafted tokens were right, of how many."""
    command = Generate(
        conversation=Conversation(messages=(UserMessage(content=(TextPart(text=case.prompt),)),)),
        cache=CacheSettings(),
        sampling=SamplingParams(temperature=0, max_tokens=len(case.reply)),
        draft=draft,
    )
    with saying(case):
        finished = engine.generate(command, CancelFlag(), lambda event: None)
    assert finished.reply_ids == case.reply, "another reply"
    counts = finished.stats.draft
    right = (counts.accepted, counts.drafted) if counts is not None else (0, 0)
    return finished.stats.decode_tokens_per_s or 0.0, right


@contextmanager
def saying(case: Case) -> Iterator[None]:
    """The model says this, and is guessed as the case has it."""
    sample, take, made = Sampler.sample, HeadDrafter._take, iter(case.reply)

    def said(sampler: Sampler, logits: torch.Tensor, index: int) -> int:
        sample(sampler, logits, index)
        return next(made)

    artificial = Artificial(case) if case.rate is not None else None

    def head_take(drafter: HeadDrafter, depth: int) -> list[int]:
        take(drafter, depth)
        assert artificial is not None
        drawn = drafter._next - drafter._start.token.value
        return artificial.draft(case.reply[drawn : drawn + depth])

    with patch.object(Sampler, "sample", said):
        if artificial is None:
            yield
        elif case.is_free:
            with patch.object(drafters, "LookupDrafter", lambda prompt: Artificial(case)):
                yield
        else:
            with patch.object(HeadDrafter, "_take", head_take):
                yield


if __name__ == "__main__":
    sys.exit(main())
