"""Time to first token against context length: user actions beside a cold read of the same prompt.

Counters check every scenario: only the new message is read, and the logits have the bits of the
cold read where there was one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import torch

from core.api.chat import ImagePart, Message
from tests.bench.rig import Reading, Rig
from tests.bench.words import Words, picture

NEW = 48  # tokens of every new message
REPLY = 8
SCENARIOS = (
    "append",
    "regenerate",
    "edit of the last user message",
    "same image, new question",
    "second image added",
    "reopened from disk",
)


@dataclass
class Row:
    """All that was measured at one context length; `cold` by scenario, `warm` several times."""

    length: int
    cold: dict[str, Reading] = field(default_factory=dict)
    warm: dict[str, list[Reading]] = field(default_factory=dict)
    swipe_back: int = 0
    written_bytes: int = 0
    write_s: float = 0.0
    keep_s: float = 0.0

    def seconds(self, scenario: str, of: Callable[[Reading], float]) -> float:
        return median(of(reading) for reading in self.warm[scenario])

    def cold_of(self, scenario: str) -> Reading:
        """The cold read of the same prompt, else of the append turn of the same length."""
        return self.cold.get(scenario, self.cold["append"])


@dataclass
class Chat:
    """A long message and its reply, and what may follow them."""

    words: Words
    pictures: Sequence[ImagePart]
    base: list[Message]

    def append(self, seed: int) -> list[Message]:
        return [*self.base, self.words.user(NEW, seed)]

    def edit(self, seed: int) -> list[Message]:
        """The last message of `append(0)`, changed from its middle on."""
        kept = self.words.text(NEW, 0).split()[: NEW // 2]
        changed = self.words.text(NEW, seed).split()[NEW // 2 :]
        message = self.words.user(NEW, 0)
        text = message.content[-1].model_copy(update={"text": " ".join(kept + changed)})
        return [*self.base, message.model_copy(update={"content": (text,)})]

    def looked(self, seed: int) -> list[Message]:
        return [*self.base, self.words.user(NEW, seed, self.pictures[0])]

    def second(self, seed: int) -> list[Message]:
        shown = [*self.looked(0), self.words.reply(REPLY, 2)]
        return [*shown, self.words.user(NEW, seed, self.pictures[seed])]


def measure(
    rig: Rig, folder: Path, length: int, repeats: int, picture_size: int, every_cold: bool
) -> Row:
    """One row. With `every_cold` each prompt is also read cold, else only the appended turn's."""
    words = Words(Path(rig.settings.path), rig.loaded.info.tokenizer)
    pictures = [picture(folder, seed, picture_size) for seed in range(repeats + 1)]
    # What follows the long message is within the length, and 16 tokens for the template's glue.
    long = words.user(max(1, length - NEW - REPLY - 16), 1)
    chat = Chat(words, pictures, [long, words.reply(REPLY, 1)])
    row = Row(length)
    _read_cold(rig, chat, row, every_cold)
    rig.settle(chat.base)
    _read_warm(rig, chat, row, repeats)
    _reopen(rig, chat, row)
    return row


def _read_cold(rig: Rig, chat: Chat, row: Row, every_cold: bool) -> None:
    """The append turn comes last: what it read is what the warm readings go on from."""
    prompts = {"append": chat.append(0)}
    if every_cold:
        prompts = {
            "second image added": chat.second(1),
            "same image, new question": chat.looked(1),
            "edit of the last user message": chat.edit(1),
        } | prompts
    for name, messages in prompts.items():
        rig.clear()
        row.cold[name] = rig.ask(messages)
        assert row.cold[name].stats.reused_tokens == 0


def _read_warm(rig: Rig, chat: Chat, row: Row, repeats: int) -> None:
    seeds = range(1, repeats + 1)
    row.warm["append"] = [_new_only(rig, chat.append(seed)) for seed in seeds]
    row.keep_s = rig.clock.seconds["keep"]
    row.warm["regenerate"] = [rig.ask(chat.append(repeats)) for _ in seeds]
    assert all(reading.evaluated == 0 for reading in row.warm["regenerate"])
    rig.ask(chat.append(0))
    row.warm["edit of the last user message"] = [_new_only(rig, chat.edit(seed)) for seed in seeds]
    first = _new_only(rig, chat.looked(0))
    assert first.stats.images_encoded == 1
    row.warm["same image, new question"] = [_question_only(rig, chat.looked(s)) for s in seeds]
    row.swipe_back = _swipe(rig, chat)
    row.warm["second image added"] = [_picture_too(rig, chat.second(seed)) for seed in seeds]
    for name, reading in row.cold.items():
        seed = 0 if name == "append" else 1
        again = rig.ask(_prompt(chat, name)(seed))
        assert torch.equal(again.logits, reading.logits), f"{name}: warm and cold bits differ"


def _prompt(chat: Chat, scenario: str) -> Callable[[int], list[Message]]:
    return {
        "append": chat.append,
        "edit of the last user message": chat.edit,
        "same image, new question": chat.looked,
        "second image added": chat.second,
    }[scenario]


def _new_only(rig: Rig, messages: list[Message]) -> Reading:
    reading = rig.ask(messages)
    new = rig.num_new(messages)
    assert reading.evaluated == new, f"{reading.evaluated} tokens were read, {new} are new"
    assert reading.stats.miss is None
    return reading


def _question_only(rig: Rig, messages: list[Message]) -> Reading:
    reading = rig.ask(messages)
    assert reading.stats.images_encoded == 0
    assert reading.evaluated < rig.num_new(messages), "the picture was read again"
    return reading


def _picture_too(rig: Rig, messages: list[Message]) -> Reading:
    """The template's glue before the picture may be cached from another picture, and a checkpoint
    may be evicted where a long context needs most of the count."""
    reading = rig.ask(messages)
    assert reading.stats.images_encoded == 1
    miss, new = reading.stats.miss, rig.num_new(messages)
    assert reading.evaluated <= new, f"{reading.evaluated} tokens were read, {new} are new"
    assert miss is None or (miss.reason, miss.message) == ("evicted", len(messages) - 1), miss
    return reading


def _swipe(rig: Rig, chat: Chat) -> int:
    """Two settled replies, then back to the first: tokens read beyond the new message."""
    one, other = ([*chat.looked(0), chat.words.reply(REPLY, seed)] for seed in (2, 3))
    for replied in (one, other):
        rig.settle(replied)
    assert rig.settle(one).tokens == 0
    messages = [*one, chat.words.user(NEW, 5)]
    return rig.ask(messages).evaluated - rig.num_new(messages)


def _reopen(rig: Rig, chat: Chat, row: Row) -> None:
    """One more turn, settled; quit, start, open, send: the new message alone is read."""
    if rig.settings.cache_folder is None:
        return
    settled = [*chat.append(0), chat.words.reply(REPLY, 4)]
    rig.settle(settled)
    messages = [*settled, chat.words.user(NEW, 6)]
    # A side request leaves nothing behind that a restart could find.
    held = rig.ask(messages, side=True)
    began = time.perf_counter()
    row.written_bytes = rig.write()
    row.write_s = time.perf_counter() - began
    rig.reopen()
    reading = _new_only(rig, messages)
    assert reading.stats.restored_from == "disk"
    assert torch.equal(reading.logits, held.logits)
    row.warm["reopened from disk"] = [reading]
