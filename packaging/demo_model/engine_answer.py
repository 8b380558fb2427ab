"""Answers a conversation with Waymark's own engine, in its own process, the way the window does."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from published_model import REPOSITORY
from questions import Message

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
    """The question set's messages in the engine's words."""
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
