"""An agent's session: tools, edits, a rewritten echo, titles, and a restart in its middle."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from core.api.commands import Answered, Generate
from core.api.events import Finished
from core.api.params import Probe
from core.client.client import EngineClient
from core.client.programs import RESOURCES
from core.client.requests import Request
from tests.server.serving import CACHE, Served, connected, serving

RULES = "Look at files before you change them. Say what you did. Change as little as you can. "
SYSTEM = {"role": "system", "content": "You are an agent.\n" + RULES * 8}
FILES = ["main.py", "test.py", "notes.txt"]


def tool(name: str, field: str, among: list[str]) -> Any:
    schema = {
        "type": "object",
        "properties": {field: {"type": "string", "enum": among}},
        "required": [field],
        "additionalProperties": False,
    }
    words = f"{name} for one {field}; the result is text."
    return {
        "type": "function",
        "function": {"name": name, "description": words, "parameters": schema},
    }


TOOLS = [tool("open_file", "file", FILES), tool("run", "command", ["tests", "lint"])]


@dataclass
class Recorder:
    """Notes what the server asks the engine, and is answered."""

    answers: list[tuple[Generate, Finished]] = field(default_factory=list)

    @contextmanager
    def serving(self, model: Path, folder: Path) -> Iterator[Served]:
        async def connect() -> EngineClient:
            client = await connected(model, folder, disk=True)
            ask = client.ask

            def noted(command: Answered[Any]) -> Request[Any]:
                if not isinstance(command, Generate) or command.side:
                    return ask(command)
                request = ask(command.model_copy(update={"probe": Probe()}))
                put = request.put

                def note(event: Any) -> None:
                    if isinstance(event, Finished):
                        self.answers.append((command, event))
                    put(event)

                # Both are wrapped to note the answers.
                request.put = note  # type: ignore[method-assign]
                return request

            client.ask = noted  # type: ignore[method-assign]
            return client

        with serving(connect, folder, disk=True) as served:
            yield served

    def reuse(self) -> float:
        """The share of reused tokens among those that an earlier request had read or written."""
        seen, reusable, reused = list[tuple[int, ...]](), 0, 0
        for _, finished in self.answers:
            prompt = finished.prompt_ids
            assert prompt is not None
            known = max((common(prompt, each) for each in seen), default=0)
            reusable += known
            reused += min(known, finished.stats.reused_tokens)
            seen.append((*prompt, *finished.reply_ids))
        return reused / reusable


def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    differing = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))


class Agent:
    def __init__(self) -> None:
        self.messages: list[Any] = [SYSTEM]

    def turn(self, served: Served, number: int) -> None:
        create: Any = served.openai("agent").chat.completions.create
        last = self.messages[-1]
        if calls := last.get("tool_calls"):
            result = {"role": "tool", "tool_call_id": calls[0]["id"], "content": f"Line {number}."}
            self.messages.append(result)
        else:
            question = f"Please look at file number {number} and fix it."
            self.messages.append({"role": "user", "content": question})
        reply = create(
            model="any", messages=self.messages, tools=TOOLS, seed=number, max_tokens=60,
            temperature=0.8, reasoning_effort="none", parallel_tool_calls=False,
            tool_choice="required" if number % 3 else "auto",
        )  # fmt: skip
        served.settled()
        message = reply.choices[0].message.model_dump(exclude_none=True)
        # The agent writes the arguments anew.
        for call in message.get("tool_calls", ()):
            given = json.loads(call["function"]["arguments"])
            call["function"]["arguments"] = json.dumps(given, indent=2)
        self.messages.append(message)
        asked = next(each for each in reversed(self.messages) if each["role"] == "user")
        quoted = f"Name this chat:\n{asked['content']}\n{message.get('content')}"
        title = create(model="any", messages=[{"role": "user", "content": quoted}], max_tokens=4)
        assert title.timings["side"]

    def edit(self, back: int) -> None:
        """Say one of the latest questions otherwise, and drop what followed."""
        asked = [at for at, each in enumerate(self.messages) if each["role"] == "user"]
        del self.messages[asked[-back] :]

    def rewrite(self) -> None:
        """Echo the latest text of the model's in other words."""
        said = [
            each for each in self.messages if each["role"] == "assistant" and each.get("content")
        ]
        said[-1]["content"] += " (shortened)"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo model, with room for a longer context."""
    folder = tmp_path_factory.mktemp("agent") / "demo"
    shutil.copytree(RESOURCES / "models" / "demo", folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["text_config"]["max_position_embeddings"] = 16_384
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder


@pytest.mark.slow
def test_A1_an_agents_session_is_read_once_and_answered_as_the_windows(
    model: Path, tmp_path: Path
) -> None:
    recorder, agent = Recorder(), Agent()
    for start, end in pairwise((0, 26, 50)):
        with recorder.serving(model, tmp_path) as served:
            for number in range(start, end):
                agent.turn(served, number)
                if number in (12, 31):
                    agent.edit(2)
                elif number == 40:
                    agent.rewrite()
    assert len(recorder.answers) == 50
    assert sum(bool(finished.stats.restored_from) for _, finished in recorder.answers) >= 49
    assert recorder.reuse() >= 0.99
    asyncio.run(compared(model, tmp_path, recorder))


async def compared(model: Path, folder: Path, recorder: Recorder) -> None:
    """Each seventh request again, in an engine that has read nothing."""
    client = await connected(model, folder / "cold")
    for command, finished in recorder.answers[::7]:
        cold = command.model_copy(update={"chat": "window", "cache": CACHE, "request": 0})
        again = await client.ask(cold).last()
        assert again.reply_ids == finished.reply_ids and again.reply.text == finished.reply.text
    await client.close()
