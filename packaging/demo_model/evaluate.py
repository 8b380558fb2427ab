"""Prints the demo model's accuracy on held-out conversations by kind of question.

An answer counts when it is the expected text, word for word. How a conversation is answered is an
argument (`Answer`): here Waymark's own engine answers, in the precision that the app chooses.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from published_model import DEMO_FOLDER
from questions import KINDS, Case, Message, cases

Answer = Callable[[list[Message], bool], str]
"""Messages (content parts of text and PIL pictures) and the thinking switch -> the answer."""


def visible(text: str) -> str:
    return text.rpartition("</think>")[2].strip()


def accuracy(answer: Answer, chosen: Sequence[Case], say_wrong: int = 0) -> dict[str, float]:
    """The share answered right, by kind; the first `say_wrong` wrong ones are printed."""
    right: Counter[str] = Counter()
    for case in chosen:
        given = visible(answer(case.messages, case.thinking))
        right[case.kind] += given == case.expected
        if given != case.expected and say_wrong > 0:
            say_wrong -= 1
            print(f"  {case.kind}: {given!r}, not {case.expected!r}", file=sys.stderr)
    totals = Counter(case.kind for case in chosen)
    return {kind: right[kind] / totals[kind] for kind in KINDS if totals[kind]}


def table(shares: dict[str, float], per_kind: int) -> str:
    rows = [
        f"| {kind.replace('_', ' / ' if kind == 'yes_no' else ' ')} | {share:.1%} |"
        for kind, share in shares.items()
    ]
    return "\n".join([f"| kind ({per_kind} questions each) | right |", "|---|---|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=DEMO_FOLDER)
    parser.add_argument("--split", choices=("validation", "test"), default="validation")
    parser.add_argument("--per-kind", type=int, default=100)
    parser.add_argument("--thinking", action="store_true")
    parser.add_argument("--say-wrong", type=int, default=0)
    options = parser.parse_args()
    from engine_answer import engine_answer

    started = time.monotonic()
    chosen = cases(options.split, options.per_kind, options.thinking)
    with engine_answer(options.model) as answer:
        shares = accuracy(answer, chosen, options.say_wrong)
    print(table(shares, options.per_kind))
    print(f"{options.split}, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
