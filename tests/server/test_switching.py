"""Models that requests name are loaded, and an idle one sleeps, if the server was told to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.api.errors import WaymarkError
from core.api.params import ModelSettings
from core.server import __main__ as server
from core.server.__main__ import SwitchingEngine, _named, parse_options
from core.server.turns import Turns
from tests.server.serving import (
    MODEL,
    ScriptedEngine,
    Served,
    refused,
    serving,
    serving_model,
    until,
)

FolderOf = Callable[[str], Path]
QUESTION: list[Any] = [{"role": "user", "content": "Which of the two is larger, and why?"}]


def asked(served: Served, model: str = "any", messages: list[Any] = QUESTION) -> Any:
    create: Any = served.openai().chat.completions.create
    return create(model=model, messages=messages, max_tokens=6, temperature=0)


def engine_of(served: Served) -> SwitchingEngine:
    engine = served.answering.client
    assert isinstance(engine, SwitchingEngine)
    return engine


def listed(served: Served) -> list[str]:
    return [each.id for each in served.openai().models.list()]


@pytest.fixture(scope="module")
def two(
    folder_of: FolderOf, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, str, str]]:
    """A server of two models that keeps contexts on disk, and their names."""
    first, second = folder_of("hybrid"), folder_of("other")
    models = {first.name: first, second.name: second, "broken": first.parent / "none"}
    folder = tmp_path_factory.mktemp("two")
    with serving_model(first, folder, disk=True, models=models) as served:
        yield served, first.name, second.name


def test_a_named_model_is_loaded_in_place_of_the_other(two: tuple[Served, str, str]) -> None:
    served, first, second = two
    assert listed(served) == [first, second, "broken"]
    assert served.openai().models.retrieve(second).id == second
    before = asked(served)
    assert before.model == first
    other = asked(served, second)
    assert other.model == second and listed(served)[0] == second
    # A name of no model means any; the loaded one stays.
    assert asked(served, "gpt-4").model == second
    assert json.loads(served.raw("/api/tags")[1])["models"][1]["name"] == first
    shown = served.raw("/api/show", json.dumps({"model": first}).encode())
    assert shown[0] == 200 and "completion" in json.loads(shown[1])["capabilities"]
    count = {"model": f"{first}:latest", "messages": QUESTION}
    assert served.raw("/v1/messages/count_tokens", json.dumps(count).encode())[0] == 200
    assert listed(served)[0] == first
    again = asked(served, first)
    assert again.choices[0].message.content == before.choices[0].message.content


def test_a_model_that_can_not_be_loaded_costs_its_request_alone(
    two: tuple[Served, str, str],
) -> None:
    served, first, _ = two
    error = refused(lambda: asked(served, "broken"))
    assert error.status_code == 500 and error.response.json()["error"]["message"]
    assert asked(served, first).model == first


def test_an_idle_model_sleeps_and_the_next_request_restores_from_disk(
    two: tuple[Served, str, str],
) -> None:
    served, first, _ = two
    engine = engine_of(served)
    before = asked(served, first)
    served.settled()

    async def sleep() -> None:
        napping = asyncio.ensure_future(engine.sleep_when_idle(served.answering.turns, 0.1))
        while not engine.asleep:  # noqa: ASYNC110 - it has no signal
            await asyncio.sleep(0.01)
        napping.cancel()

    served.run(sleep())
    assert served.engine.model is None
    health = json.loads(served.raw("/health")[1])
    assert health["asleep"] and health["model"] == first and listed(served)[0] == first
    more = [
        *QUESTION,
        {"role": "assistant", "content": before.choices[0].message.content},
        {"role": "user", "content": "And now?"},
    ]
    after = asked(served, messages=more)
    assert after.timings["restored_from"] == "disk"
    assert after.timings["cache_n"] >= before.usage.prompt_tokens
    assert not engine.asleep


def test_a_model_that_sleeps_is_not_asked_about_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise asyncio.CancelledError

    resting: Any = SimpleNamespace(model=None, idle_s=500.0)
    engine = SwitchingEngine(resting, ModelSettings(path=""), {})
    # Not the other servers'.
    monkeypatch.setattr(server, "asyncio", SimpleNamespace(sleep=sleep))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(engine.sleep_when_idle(Turns(), 60.0))
    assert waits == [60.0] * 3


def test_a_load_goes_on_when_its_client_has_gone(two: tuple[Served, str, str]) -> None:
    served, first, second = two

    async def begin() -> None:
        using = asyncio.ensure_future(engine_of(served).use(second))
        await asyncio.sleep(0)
        using.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await using
        await engine_of(served).use(second)

    served.run(begin())
    assert listed(served)[0] == second
    assert asked(served, first).model == first


def test_names_mean_nothing_without_the_switch(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    with serving(engine.connect, tmp_path) as served:
        assert listed(served) == ["scripted"]
        assert asked(served, "other").model == "scripted"
    assert engine.used == []


def test_requests_that_come_while_it_falls_asleep_wait_and_wake_it(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    engine.asleep = True
    with serving(engine.connect, tmp_path) as served:
        turns = served.answering.turns
        held = served.run(_take(turns))
        answers: list[Any] = []
        threads = [threading.Thread(target=lambda: answers.append(asked(served))) for _ in range(3)]
        for each in threads:
            each.start()
        until(lambda: turns.num_waiting == 3)
        assert engine.used == []
        served.run(_leave(held))
        for each in threads:
            each.join()
    assert len(answers) == 3 and engine.used == ["scripted"]


async def _take(turns: Turns) -> Any:
    held = turns.turn("sleep")
    await held.__aenter__()
    return held


async def _leave(held: Any) -> None:
    await held.__aexit__(None, None, None)


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "soon"])
def test_a_time_that_is_none_is_refused(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options(["--model", "m", "--sleep", minutes])
    assert "--sleep" in capsys.readouterr().err


def test_a_folder_without_models_is_named(tmp_path: Path) -> None:
    assert _named(MODEL, []) == {}
    with pytest.raises(WaymarkError, match="no model"):
        _named(MODEL, [tmp_path])
