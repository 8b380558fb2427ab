"""`python -m tests.bench.speculation`: what drafts gain, against the same replies without.

The model has random weights of a released shape and is made to say a given text. Drafts are looked
up in the chat, or are those of the model's head, whose tokens are then made right with a set
probability. The demo model says and drafts what it likes. Ratios are medians of interleaved rounds.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import torch
from tokenizers import Tokenizer

from core.api.chat import Conversation, ImagePart, TextPart, UserMessage
from core.api.commands import Generate
from core.api.events import Finished
from core.api.params import CacheSettings, DraftSettings, ModelSettings, SamplingParams
from core.engine.cancel import CancelFlag
from core.engine.engine import Engine
from core.engine.loaded import load
from tests.bench.drafted import Case, cases, saying
from tests.bench.folders import DEMO, RELEASED, TINY, write_random
from tests.bench.levels import LEVELS, named
from tests.bench.spread import Spread

OFF = DraftSettings(mode="off")
SAMPLES = DEMO.parents[1] / "samples"
# Of the demo model, which is small enough for what a step takes to differ from one to the next.
MORE_ROUNDS = 5

Row = tuple[str, str, str]
"""Name of the measurement, drafted tokens that were right, and a figure."""


def main(arguments: list[str] | None = None) -> int:
    options = _parsed(arguments)
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
        print("\n".join(table(options, folder)))
    return 0


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
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
    return parser.parse_args(arguments)


def table(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    size = "a model of no size" if options.quick else options.shape
    level = named(options.level)
    where = f"{size} at level {level.name}" if level is not None else size
    yield f"{where}, {options.threads} threads, replies of {options.tokens} tokens"
    yield ""
    yield "| drafts | right | " + " | ".join(options.precision) + " |"
    yield "|---" * (2 + len(options.precision)) + "|"
    columns = [list(rows(options, folder, precision)) for precision in options.precision]
    for row in zip(*columns, strict=True):
        name, right, _ = row[0]
        yield f"| {name} | {right} | " + " | ".join(cell for _, _, cell in row) + " |"


def rows(options: argparse.Namespace, folder: Path, precision: str) -> Iterator[Row]:
    for row in _measured(options, folder, precision):
        print(f"{precision}: {', '.join(row)}", file=sys.stderr, flush=True)
        yield row


def _measured(options: argparse.Namespace, folder: Path, precision: str) -> Iterator[Row]:
    engine = loaded(folder, precision)
    for case in cases(options.tokens, encoder(folder)):
        yield compared(engine, case, options.rounds)
    demo, rounds = loaded(DEMO, precision), options.rounds + MORE_ROUNDS
    for mode in ("auto", "mtp"):
        yield compared(demo, Case(f"of the demo model, {mode}", pictured(), None, mode), rounds)


def loaded(folder: Path, precision: str) -> Engine:
    settings = ModelSettings.model_validate({"path": str(folder), "precision": precision})
    engine = Engine()
    engine.loaded = load(settings, lambda done, total: None, lambda: None)
    return engine


def encoder(folder: Path) -> Callable[[str], Sequence[int]]:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def compared(engine: Engine, case: Case, rounds: int) -> Row:
    """The speed of a reply over that of the same without drafts."""
    draft = DraftSettings.model_validate({"mode": case.mode})
    # What steps take is known before it counts.
    answered(engine, case, draft)
    ratios, accepted, drafted = [], 0, 0
    for _ in range(rounds):
        plain, fast = answered(engine, case, OFF), answered(engine, case, draft)
        assert plain.reply_ids == fast.reply_ids, "another reply"
        ratios.append(speed(fast) / speed(plain))
        counts = fast.stats.draft
        assert counts is not None
        accepted, drafted = accepted + counts.accepted, drafted + counts.drafted
    right = f"{accepted / drafted:.0%} of {drafted / rounds:.0f}" if drafted else "none drafted"
    return case.name, right, str(Spread.of(ratios))


def answered(engine: Engine, case: Case, draft: DraftSettings, most: int = 128) -> Finished:
    """One reply to a case, of at most so many tokens where it is the model's own."""
    command = Generate(
        conversation=Conversation(messages=case.chat),
        cache=CacheSettings(),
        sampling=SamplingParams(temperature=0, max_tokens=len(case.reply or range(most))),
        draft=draft,
    )
    with saying(case):
        finished = engine.generate(command, CancelFlag(), lambda event: None)
    assert case.reply in (None, finished.reply_ids), "another reply"
    return finished


def speed(finished: Finished) -> float:
    """Tokens a second, the prompt left out."""
    return finished.stats.decode_tokens_per_s or 0.0


def pictured() -> tuple[UserMessage, ...]:
    file = SAMPLES / "three-shapes.png"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    content = (ImagePart(digest=digest, path=str(file)), TextPart(text="What is in this picture?"))
    return (UserMessage(content=content),)


if __name__ == "__main__":
    sys.exit(main())
