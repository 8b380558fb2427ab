"""Prints the demo model's accuracy on held-out conversations by kind of question.

An answer counts when it is the expected text, word for word. How a conversation is answered is an
argument (`Answer`): here Waymark's own engine answers, in the precision that the app chooses.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from published_model import DEMO_FOLDER, REPOSITORY
from questions import KINDS, Case, Message, cases

# The scripts run by path; the engine lies two folders up.
sys.path.insert(0, str(REPOSITORY))

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    ImagePart,
    SystemMessage,
    TextPart,
    UserMessage,
)
from core.api.commands import Generate
from core.api.params import ModelSettings, SamplingParams
from core.client.blobs import BlobStore
from core.client.client import EngineClient

MOST_TOKENS = 128
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


@contextmanager
def engine_answer(folder: Path) -> Iterator[Callable[[list[Message], bool], str]]:
    """A greedy answerer over the published folder; its worker ends with the context."""
    loop = asyncio.new_event_loop()
    client = EngineClient()
    with TemporaryDirectory() as pictures:
        blobs = BlobStore(Path(pictures))
        loop.run_until_complete(client.start())
        try:
            loop.run_until_complete(client.load(ModelSettings(path=str(folder))))

            def answer(messages: list[Message], thinking: bool) -> str:
                conversation = conversation_of(messages, blobs)
                return loop.run_until_complete(ask(client, conversation, thinking))

            yield answer
        finally:
            loop.run_until_complete(client.close())
            loop.close()


async def ask(client: EngineClient, conversation: Conversation, thinking: bool) -> str:
    sampling = SamplingParams(temperature=0, max_tokens=MOST_TOKENS)
    command = Generate(conversation=conversation, sampling=sampling, thinking=thinking)
    finished = await client.ask(command).last()
    return finished.reply.text


def conversation_of(messages: list[Message], blobs: BlobStore) -> Conversation:
    made: list[SystemMessage | UserMessage | AssistantMessage] = []
    for message in messages:
        content = message["content"]
        if message["role"] == "system":
            made.append(SystemMessage(text=content))
        elif message["role"] == "assistant":
            made.append(AssistantMessage(text=content))
        else:
            made.append(UserMessage(content=tuple(part_of(part, blobs) for part in content)))
    return Conversation(messages=tuple(made))


def part_of(part: Message, blobs: BlobStore) -> ContentPart:
    """One part of a user's message; a picture becomes a PNG file."""
    if part["type"] == "text":
        return TextPart(text=part["text"])
    picture: Image.Image = part["image"]
    file = io.BytesIO()
    picture.save(file, "PNG")
    digest, path = blobs.put(file.getvalue())
    return ImagePart(digest=digest, path=str(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=DEMO_FOLDER)
    parser.add_argument("--split", choices=("validation", "test"), default="validation")
    parser.add_argument("--per-kind", type=int, default=100)
    parser.add_argument("--thinking", action="store_true")
    parser.add_argument("--say-wrong", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    chosen = cases(options.split, options.per_kind, options.thinking)
    with engine_answer(options.model) as answer:
        shares = accuracy(answer, chosen, options.say_wrong)
    print(table(shares, options.per_kind))
    print(f"{options.split}, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
