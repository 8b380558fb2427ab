"""The log's line for a request: all the numbers, and nothing that anyone wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.api.chat import AssistantMessage, Conversation, ImagePart, TextPart, UserMessage
from core.api.commands import (
    Command,
    Flush,
    Generate,
    LoadModel,
    PrefillDraft,
    PrefillReply,
    UnloadModel,
)
from core.api.errors import MissingFileError
from core.api.events import Done, Event, Failed, Finished, Prepared
from core.api.params import ModelSettings, Probe, SamplingParams
from core.api.stats import CacheBytes, Miss, Place, RequestStats
from core.worker.__main__ import KEYS, log_line

SECRET = "secret"
CHAT = Conversation(
    messages=(
        UserMessage(
            content=(
                TextPart(text=SECRET),
                ImagePart(digest="a" * 64, path=f"/{SECRET}.png", name=SECRET),
            )
        ),
    )
)
STATS = RequestStats(
    prompt_tokens=30,
    reused_tokens=20,
    evaluated_tokens=10,
    reply_tokens=3,
    images_in_prompt=1,
    restored_from="disk",
    restored_at=Place(token=20, position=12),
    checkpoints_held=4,
    miss=Miss(reason="evicted", token=20, message=1),
    ttft_s=0.5,
    bytes=CacheBytes(kv=7, disk=9),
    seed=77,
)


def line(command: Command, last: Event) -> dict[str, Any]:
    text = log_line(command, last, clock=lambda: 1.5)
    assert "\n" not in text and SECRET not in text
    read: dict[str, Any] = json.loads(text)
    assert tuple(read) == KEYS and read["at"] == 1.5
    return read


def test_W1_a_reply_s_line_has_the_numbers_and_no_word_of_it() -> None:
    command = Generate(
        request=5,
        conversation=CHAT,
        chat="k1",
        side=True,
        sampling=SamplingParams(stop=(SECRET,)),
        probe=Probe(logits_file=f"/{SECRET}"),
    )
    last = Finished(
        request=5,
        reason="length",
        reply=AssistantMessage(text=SECRET, reasoning=SECRET),
        prompt_ids=(123_456,),
        reply_ids=(654_321,),
        stats=STATS,
    )
    read = line(command, last)
    assert (read["request"], read["op"], read["side"]) == (5, "generate", True)
    assert (read["prompt_tokens"], read["reused_tokens"], read["evaluated_tokens"]) == (30, 20, 10)
    assert (read["reply_tokens"], read["images_in_prompt"], read["checkpoints_held"]) == (3, 1, 4)
    assert read["restored_from"] == "disk" and read["restored_at"] == {"token": 20, "position": 12}
    assert read["miss"] == {"reason": "evicted", "token": 20, "message": 1}
    assert read["bytes"]["disk"] == 9 and read["ttft_s"] == 0.5
    assert read["finish_reason"] == "length" and read["error"] is None
    assert "123456" not in json.dumps(read) and "654321" not in json.dumps(read)


@pytest.mark.parametrize(
    ("kind", "key"), [(PrefillReply, "settled_tokens"), (PrefillDraft, "read_ahead_tokens")]
)
def test_idle_work_s_line_says_what_it_read(
    kind: type[PrefillReply] | type[PrefillDraft], key: str
) -> None:
    last = Prepared(request=6, tokens=8, encoded=1, bytes=CacheBytes(kv=3))
    read = line(kind(request=6, conversation=CHAT, chat="k2"), last)
    others = {"settled_tokens", "read_ahead_tokens"} - {key}
    assert read[key] == 8 and all(read[other] is None for other in others)
    assert (read["images_encoded"], read["bytes"]["kv"]) == (1, 3)


def test_M2_a_line_tells_one_chat_from_another_and_holds_no_key() -> None:
    """A deleted chat's key must not outlive it in a log."""
    done = Prepared(request=6, tokens=8, encoded=0, bytes=CacheBytes())
    keys = ["a1" * 16, "b2" * 16, "a1" * 16]
    lines = [line(PrefillReply(request=6, conversation=CHAT, chat=key), done) for key in keys]
    first, other, again = (each["chat"] for each in lines)
    assert first and first == again != other
    assert not any(key[:8] in json.dumps(lines) for key in keys)


def test_an_error_is_named_and_not_quoted() -> None:
    command = LoadModel(request=7, settings=ModelSettings(path=f"/{SECRET}"))
    failed = Failed(request=7, error=MissingFileError(f"/{SECRET} is gone").info())
    read = line(command, failed)
    assert (read["op"], read["error"], read["chat"]) == ("load_model", "MissingFileError", None)


def test_other_work_has_its_line_too() -> None:
    totals = CacheBytes(disk=5)
    assert line(Flush(request=8), Done(request=8, bytes=totals))["bytes"]["disk"] == 5
    assert line(UnloadModel(request=9), Done(request=9))["bytes"] is None
