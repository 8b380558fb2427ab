"""`python -m tests.bench.speculation`: what drafts gain, against the same replies without.

The model has random weights of a released shape and says a given text. Drafts are real where a text
can be guessed from what stood before it; those of a model are its own head's, whose tokens are then
made right with a set probability, or come from an artificial drafter that costs nothing. The demo
model says what it says, and its head drafts what it drafts. Ratios are of runs in interleaved
rounds; the median counts.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

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
from core.engine.passes.prefill import Prefill
from tests.bench.drafted import SOURCE, Case, asked, cases, saying
from tests.bench.folders import DEMO, RELEASED, TINY, write_random
from tests.bench.levels import LEVELS, named
from tests.bench.spread import Spread

OFF = DraftSettings(mode="off")
ONE = DraftSettings(mode="mtp", tokens=1)
SAMPLES = DEMO.parents[1] / "samples"
# Of the demo model, which is small enough for what a step takes to differ from one to the next.
MORE_ROUNDS = 5

Row = tuple[str, str, str]
"""What was measured, how many drafted tokens were right, and a figure."""


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table."""
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
    """The lines of a table, in Markdown."""
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
    """Those of one precision."""
    for row in _measured(options, folder, precision):
        print(f"{precision}: {', '.join(row)}", file=sys.stderr, flush=True)
        yield row


def _measured(options: argparse.Namespace, folder: Path, precision: str) -> Iterator[Row]:
    engine = loaded(folder, precision)
    known = list(cases(options.tokens, encoder(folder)))
    for case in known:
        yield compared(engine, case, options.rounds)
    yield from steps(engine, known[0])
    yield read(engine, SOURCE.read_text("utf-8"), options.rounds)
    demo, rounds = loaded(DEMO, precision), options.rounds + MORE_ROUNDS
    for mode in ("auto", "mtp"):
        yield compared(demo, Case(f"of the demo model, {mode}", pictured(), None, mode), rounds)


def loaded(folder: Path, precision: str) -> Engine:
    """An engine with this model."""
    settings = ModelSettings.model_validate({"path": str(folder), "precision": precision})
    engine = Engine()
    engine.loaded = load(settings, lambda done, total: None, lambda: None)
    return engine


def encoder(folder: Path) -> Callable[[str], Sequence[int]]:
    """The folder's tokenizer."""
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
    """One reply to a case, of so many tokens at most where it is the model's own."""
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


def steps(engine: Engine, prose: Case) -> Iterator[Row]:
    """What a drafted token costs, as measured in three replies more."""
    assert engine.loaded is not None
    costs, found = engine.loaded.step_costs, []
    for draft, rate, width in ((OFF, None, 1), (ONE, 1.0, 2), (ONE, 0.0, 2)):
        answered(engine, replace(prose, mode="mtp", rate=rate), draft)
        found.append(costs.of(width))
    one, right, wrong = found
    yield from break_even(one, right, wrong, costs.of_drafting())


def break_even(one: float, right: float, wrong: float, drafting: float) -> Iterator[Row]:
    """Of the seconds of a step of one token, of two whose second is right or wrong, and of a token
    of the head: in steps of one, and how often a drafted token has to be right to pay."""
    more, back, drafting = right / one - 1, wrong / one - 1, drafting / one
    yield (
        "a step of one drafted token takes longer by, right / wrong",
        "",
        f"{more:.2f} / {back:.2f}",
    )
    yield "a token of the head takes, in steps", "", f"{drafting:.2f}"
    for kind, seconds in (("at no cost", 0.0), ("of a head", drafting)):
        # Where a step has 1 + rate tokens for what it takes on average.
        rate = (back + seconds) / (1 + back - more)
        yield f"a drafted token pays if it is right in, {kind}", "", _share(rate)


def _share(rate: float) -> str:
    return "never" if rate > 1 else f"{max(0.0, rate):.0%}"


def read(engine: Engine, text: str, rounds: int) -> Row:
    """The seconds of a prompt with the head's rows over those without."""
    ratios, count = [], 0
    for number in range(rounds + 1):
        prompts = [Case("", asked(f"{kind}{number} {text[:1000]}"), None, "off") for kind in "ab"]
        both = answered(engine, prompts[0], OFF, 1).stats
        with patch.object(Prefill, "_predict", lambda *_: None):
            alone = answered(engine, prompts[1], OFF, 1).stats
        ratios.append((both.prefill_s or 0.0) / (alone.prefill_s or 1.0))
        count = both.evaluated_tokens
    cell = str(Spread.of(ratios[1:]))
    return f"time of a prompt of {count} tokens, read for the head too", "", cell


def pictured() -> tuple[UserMessage, ...]:
    """What a newcomer asks first."""
    file = SAMPLES / "three-shapes.png"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    content = (ImagePart(digest=digest, path=str(file)), TextPart(text="What is in this picture?"))
    return (UserMessage(content=content),)


if __name__ == "__main__":
    sys.exit(main())
