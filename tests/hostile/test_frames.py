"""Mutants of frames: what is no message is refused by name, on both sides of the pipe."""

from __future__ import annotations

import io
from typing import Any

from pydantic import BaseModel, TypeAdapter

from core.api.chat import Conversation, ImagePart, ReplyIds, TextPart, UserMessage
from core.api.commands import COMMANDS, Cancel, DescribeImage, Generate
from core.api.errors import ProtocolError
from core.api.events import EVENTS, Generated, ImageRendered, Prefilling
from core.api.stats import RequestStats
from core.client.codec import decode, encode, read_frame
from tests.hostile.counts import each_of
from tests.hostile.mutation import mutated_bytes

SAID = Conversation(
    messages=(
        UserMessage(
            content=(ImagePart(digest="a" * 64, path="/p/a.png"), TextPart(text="What \u00e9?"))
        ),
    )
)
BEGUN = ReplyIds.pack([1], "tokenizer", False)
SENT: list[tuple[TypeAdapter[Any], BaseModel]] = [
    (COMMANDS, Generate(request=1, conversation=SAID, chat="a")),
    (COMMANDS, DescribeImage(request=2, image=ImagePart(digest="b" * 64, path="/p/b.png"))),
    (COMMANDS, Cancel(request=0, target=1)),
    (EVENTS, Generated(request=1, answer="yes", ids=(1, 2, 3))),
    (EVENTS, ImageRendered(request=3, width=2, height=2, pixels=bytes(range(16)))),
    (EVENTS, Prefilling(request=1, done=3, stats=RequestStats(), begun=BEGUN)),
]


@each_of(2_000)
def test_mutants_of_frames_are_messages_or_refused_by_name(seeds: range) -> None:
    refused: list[str] = []
    for seed in seeds:
        kind, message = SENT[seed % len(SENT)]
        stream = io.BytesIO(mutated_bytes(encode(message) * 2, seed))
        try:
            while (body := read_frame(stream)) is not None:
                decode(kind, body)
        except ProtocolError as error:
            refused.append(error.message)
    assert refused and all(each and "What" not in each for each in refused)
