"""Eight programs and the window at once: chats, titles, edits, and requests that are given up."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from core.api.chat import Conversation, ImagePart, Message, TextPart, UserMessage
from core.api.commands import ClearCache, Generate
from core.api.events import Finished
from core.api.params import CacheSettings, SamplingParams
from core.server.held import MOST_BYTES
from tests.server.serving import Served, serving_model
from tests.server.test_reuse import content

FolderOf = Callable[[str], Path]
PictureOf = Callable[..., ImagePart]
CLIENTS, TURNS, TOKENS = 8, 4, 6
# Enough for the latest chat of each; older ones have to go.
CACHE = CacheSettings(interval=64, count=256)


@dataclass
class Program:
    """One client, which begins a new chat after TURNS replies. `replies` are what it asked and was
    answered, `lost` what a growing chat had read again."""

    served: Served
    number: int
    picture: ImagePart
    replies: list[tuple[list[Any], str]] = field(default_factory=list)
    lost: list[Any] = field(default_factory=list)
    asked: int = 0

    def __post_init__(self) -> None:
        self.client = self.served.openai(f"program {self.number}")

    def run(self, most: int) -> None:
        for chat in itertools.count():
            messages: list[Any] = [{"role": "system", "content": f"You are number {self.number}."}]
            for turn in range(TURNS):
                if self.asked >= most:
                    return
                self._turn(messages, chat, turn)
            # The last question in other words, and a request that is given up.
            del messages[-2:]
            messages.append({"role": "user", "content": f"No, I mean the other one of {chat}."})
            self._ask(messages)
            stream = self._create(messages, stream=True, max_tokens=10_000)
            next(iter(stream))
            stream.close()

    def _turn(self, messages: list[Any], chat: int, turn: int) -> None:
        words = f"Tell me about number {turn} in the list {chat} of {self.number}."
        parts: list[Any] = [TextPart(text=words)]
        if turn == chat % 3 == 0:
            parts.insert(0, self.picture)
        messages.append({"role": "user", "content": content(UserMessage(content=tuple(parts)))})
        text, timings = self._ask(messages)
        # Who makes room depends on measured speeds; tests/cache/test_pressure.py has the rule.
        if turn and timings["miss"] and timings["miss"]["reason"] not in ("unsettled", "evicted"):
            self.lost.append(timings["miss"])
        messages.append({"role": "assistant", "content": text})
        title = f"Name this chat:\n{words}\n{text}"
        reply = self._create([{"role": "user", "content": title}])
        assert reply.timings["side"]

    def _ask(self, messages: list[Any]) -> tuple[str, Any]:
        stream = self._create(messages, stream=True)
        text, reason, timings = "", "", None
        for chunk in stream:
            text += chunk.choices[0].delta.content or ""
            reason = chunk.choices[0].finish_reason or reason
            timings = getattr(chunk, "timings", timings)
        assert reason in ("stop", "length")
        self.replies.append((list(messages), text))
        return text, timings

    def _create(self, messages: list[Any], **fields: Any) -> Any:
        self.asked += 1
        create: Any = self.client.chat.completions.create
        options = {"max_tokens": TOKENS, "seed": 5, "temperature": 0.8, **fields}
        return create(model="any", messages=messages, **options)


async def window(served: Served, stop: asyncio.Event) -> list[Finished]:
    """A chat of the window's until the programs are done."""
    finished, messages = list[Finished](), list[Message]()
    while not stop.is_set():
        if len(messages) == 2 * TURNS:
            messages.clear()
        messages.append(UserMessage(content=(TextPart(text=f"And now? {len(finished)}"),)))
        command = Generate(
            conversation=Conversation(messages=tuple(messages)), chat="window", cache=CACHE,
            sampling=SamplingParams(seed=5, max_tokens=TOKENS),
        )  # fmt: skip
        finished.append(await served.engine.ask(command).last())
        messages.append(finished[-1].reply)
        await asyncio.sleep(0.1)
    return finished


@pytest.mark.parametrize("requests", [6, pytest.param(125, marks=pytest.mark.slow)])
def test_A2_eight_programs_and_the_window_lose_nothing(
    folder_of: FolderOf, picture: PictureOf, tmp_path: Path, requests: int
) -> None:
    with serving_model(folder_of("hybrid"), tmp_path) as served:
        served.answering.cache = CACHE
        stop = asyncio.Event()
        before = served.run(num_tasks())
        asking = asyncio.run_coroutine_threadsafe(window(served, stop), served.loop)
        programs = [Program(served, number, picture(number)) for number in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as threads:
            for done in [threads.submit(each.run, requests) for each in programs]:
                done.result()
        served.loop.call_soon_threadsafe(stop.set)
        finished = asking.result()
        served.settled()
        assert [each.lost for each in programs] == [[]] * CLIENTS
        # The window's turns found what it had read, too.
        misses = [each.stats.miss for each in finished]
        assert {miss.reason for miss in misses if miss} <= {"unsettled", "evicted"}, misses
        # Nothing is left open, and what is held does not grow with the requests.
        answering = served.answering
        assert answering.turns.num_waiting == 0 and not answering.turns.is_busy
        assert served.run(num_tasks()) <= before + 1
        assert answering.held.num_bytes <= MOST_BYTES
        assert max(each.stats.checkpoints_held for each in finished) <= CACHE.count
        full = [each for each in finished if each.stats.checkpoints_held == CACHE.count]
        kv = [each.stats.bytes.kv for each in full]
        assert full or requests < 100
        assert not full or max(kv[len(kv) // 2 :]) <= 1.5 * max(kv[: 1 + len(kv) // 2])
        # The same again from nothing.
        for program in programs:
            served.run(cleared(served))
            messages, text = program.replies[-1]
            assert program._ask(messages)[0] == text


async def num_tasks() -> int:
    return len(asyncio.all_tasks())


async def cleared(served: Served) -> None:
    await served.engine.ask(ClearCache()).last()
