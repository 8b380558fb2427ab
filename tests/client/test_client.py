"""The client outlives every death of the worker and says what happened. No engine is involved."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from core import watchdog
from core.api.chat import Conversation, TextPart, UserMessage
from core.api.commands import ClearCache, CountTokens, Flush, Generate
from core.api.errors import EngineDiedError
from core.api.events import Failed, Finished
from core.api.params import ModelSettings
from core.client import client as client_module
from core.client import life
from core.client.client import EngineClient
from core.client.life import EngineState
from core.client.requests import EngineError

FAKE = [sys.executable, "-m", "tests.client.fake_worker"]
LIMIT_S = 200  # a machine with twenty other processes took more than 60
SAY = Generate(conversation=Conversation(messages=()))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "FIRST_PAUSE_S", 0.01)


class Watch:
    """Remembers every state and lets a test wait for one."""

    def __init__(self, client: EngineClient) -> None:
        self.seen: list[tuple[EngineState, str]] = []
        client.subscribe(lambda state, words: self.seen.append((state, words)))

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - conditions look at plain attributes
            await asyncio.sleep(0.01)

    @property
    def states(self) -> list[EngineState]:
        return [state for state, _ in self.seen]

    def words(self, state: EngineState) -> list[str]:
        return [words for seen, words in self.seen if seen is state and words]


def play(scene: Callable[[EngineClient, Watch], Awaitable[None]], log: Path | None = None) -> Watch:
    async def whole() -> Watch:
        client = EngineClient(log_file=log, command=FAKE)
        watch = Watch(client)
        await client.start()
        try:
            await scene(client, watch)
        finally:
            await client.close(flush=False)
        return watch

    return asyncio.run(asyncio.wait_for(whole(), LIMIT_S))


def settings(path: str) -> ModelSettings:
    return ModelSettings(path=path)


def test_load_and_generate() -> None:
    progress: list[tuple[int, int]] = []

    async def scene(client: EngineClient, _: Watch) -> None:
        info = await client.load(settings("fine"), lambda *step: progress.append(step))
        assert client.model == info and info.name == "fine"
        # Half a surrogate pair, as a paste can carry, is no reason to leave it unanswered.
        said = UserMessage(content=(TextPart(text="\ud83d"),))
        last = await client.ask(Generate(conversation=Conversation(messages=(said,)))).last()
        assert isinstance(last, Finished) and last.reply.text == "yes"
        await client.ask(ClearCache()).last()
        await client.unload()
        assert client.model is None

    play(scene)
    assert progress == [(1, 2)]


def test_a_killed_worker_fails_what_was_open_and_comes_back_with_its_model() -> None:
    async def scene(client: EngineClient, watch: Watch) -> None:
        await client.load(settings("silent"))
        request = client.ask(SAY)
        first = client.worker_pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        events = [event async for event in request]
        assert isinstance(events[-1], Failed)
        assert events[-1].error.name == EngineDiedError.__name__
        assert "SIGKILL" in events[-1].error.message
        await watch.until(lambda: client.model is not None)
        assert client.state is EngineState.READY and client.worker_pid != first

    watch = play(scene)
    assert [state.name for state in watch.states[:4]] == "STARTING READY RESTARTING READY".split()


def test_a_model_that_kills_the_worker_is_not_loaded_again(tmp_path: Path) -> None:
    async def scene(client: EngineClient, watch: Watch) -> None:
        await client.load(settings("fine"))
        with pytest.raises(EngineError, match="out of luck"):
            await client.load(settings("crash"))
        await watch.until(lambda: client.model is not None)
        assert client.model is not None and client.model.name == "fine"

    log = tmp_path / "worker.log"
    play(scene, log)
    assert "out of luck" in log.read_text()


def test_a_worker_that_dies_at_every_request_is_given_up_until_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(client: EngineClient, watch: Watch) -> None:
        for _ in range(life.MAX_DEATHS):
            with pytest.raises(EngineError):
                await client.load(settings("exit"))
            await watch.until(lambda: client.state in (EngineState.READY, EngineState.FAILED))
        assert client.state is EngineState.FAILED
        assert "exit code 3" in watch.words(EngineState.FAILED)[0]
        with pytest.raises(EngineError, match="not running"):
            await client.load(settings("fine"))
        await client.restart()
        assert (await client.load(settings("fine"))).name == "fine"

    play(scene)


@pytest.mark.parametrize(
    ("kind", "words"),
    [("garbage", "can't be read"), ("torn", "exit code 0"), ("lying", "announces 4,294,967,295")],
)
def test_a_worker_that_talks_nonsense_is_replaced(kind: str, words: str) -> None:
    async def scene(client: EngineClient, watch: Watch) -> None:
        with pytest.raises(EngineError, match=words):
            await client.load(settings(kind))
        await watch.until(lambda: client.state is EngineState.READY)
        assert (await client.load(settings("fine"))).name == "fine"

    play(scene)


def test_a_request_that_has_ended_gets_nothing_more_and_a_stale_cancel_is_harmless() -> None:
    async def scene(client: EngineClient, _: Watch) -> None:
        await client.load(settings("chatty"))
        for _turn in range(2):
            request = client.ask(SAY)
            events = [event async for event in request]
            assert [event.type for event in events] == ["generated", "finished"]
            request.cancel()
            client.cancel(12_345)
            await client.ask(ClearCache()).last()
            assert [event async for event in request] == []

    play(scene)


def test_closing_while_it_starts_leaves_no_worker() -> None:
    async def scene() -> None:
        client = EngineClient(command=FAKE)
        watch = Watch(client)
        start = asyncio.ensure_future(client.start())
        await asyncio.sleep(0)
        assert (client.state, start.done()) == (EngineState.STARTING, False)
        await client.close()
        with pytest.raises(EngineDiedError, match="was closed"):
            await start
        assert (client.state, client.worker_pid) == (EngineState.CLOSED, None)
        assert EngineState.READY not in watch.states
        await client.start()
        assert client.state is EngineState.READY
        await client.close()

    asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


@pytest.mark.parametrize(
    ("command", "words"), [(FAKE, "was killed"), (["/nowhere/at/all"], "could not be started")]
)
def test_an_engine_that_cannot_be_used_is_said(
    command: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PROTOCOL", "999")

    async def scene() -> None:
        client = EngineClient(command=command)
        with pytest.raises(EngineDiedError, match=words):
            await client.start()
        assert client.state is EngineState.FAILED
        await client.close()

    asyncio.run(asyncio.wait_for(scene(), LIMIT_S))


def test_closing_ends_the_worker_and_fails_what_is_open(tmp_path: Path) -> None:
    async def scene(client: EngineClient, _: Watch) -> None:
        await client.load(settings("silent"))
        pid = client.worker_pid
        request = client.ask(SAY)
        await client.close(flush=False)
        await client.close(flush=False)
        events = [event async for event in request]
        assert isinstance(events[-1], Failed)
        with pytest.raises(ProcessLookupError):
            os.kill(pid or 0, 0)

    play(scene, tmp_path / "worker.log")


def test_closing_has_what_is_computed_written_first(tmp_path: Path) -> None:
    async def scene(client: EngineClient, _: Watch) -> None:
        await client.close()
        await client.start()
        await client.load(settings("fine"))
        await client.close()
        with pytest.raises(EngineError, match="not running"):
            await client.ask(Flush()).last()

    log = tmp_path / "worker.log"
    play(scene, log)
    # Without a model there is nothing to write.
    assert log.read_text().count("flushed") == 1


def test_a_worker_that_does_not_write_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FLUSH_PATIENCE_S", 0.05)

    async def scene(client: EngineClient, _: Watch) -> None:
        await client.load(settings("silent"))
        await client.close()
        assert client.worker_pid is None

    play(scene)


@pytest.mark.skipif(sys.platform == "win32", reason="no process can be stopped there")
def test_H6_closing_waits_once_for_a_worker_that_stood_still_at_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "FLUSH_PATIENCE_S", 0.05)
    monkeypatch.setattr(life, "STOP_PATIENCE_S", 2 * LIMIT_S)

    async def scene(client: EngineClient, _: Watch) -> None:
        await client.load(settings("fine"))
        pid = client.worker_pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await client.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    play(scene)


def test_a_killed_engine_writes_nothing_and_stays_closed(tmp_path: Path) -> None:
    async def scene(client: EngineClient, watch: Watch) -> None:
        await client.load(settings("fine"))
        await client.kill()
        assert client.state is EngineState.CLOSED and client.worker_pid is None

    watch = play(scene, tmp_path / "worker.log")
    assert EngineState.RESTARTING not in watch.states
    assert "flushed" not in (tmp_path / "worker.log").read_text()


def test_a_load_that_cost_the_model_before_leaves_none() -> None:
    async def scene(client: EngineClient, _: Watch) -> None:
        await client.load(settings("fine"))
        with pytest.raises(EngineError, match="too large"):
            await client.load(settings("missing"))
        assert client.model is not None
        with pytest.raises(EngineError, match="too large"):
            await client.load(settings("huge"))
        assert client.model is None

    play(scene)


@pytest.fixture
def fast_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (life, watchdog):
        monkeypatch.setattr(module, "TICK_S", 0.1)


@pytest.mark.skipif(sys.platform == "win32", reason="no process can be stopped there")
@pytest.mark.parametrize("path", ["stopped", "hung"])
def test_H5_an_engine_that_hangs_is_replaced_and_its_model_comes_back(
    path: str, fast_ticks: None
) -> None:
    async def scene(client: EngineClient, watch: Watch) -> None:
        await client.load(settings(path))
        first = client.worker_pid
        await watch.until(lambda: client._life._watchdog._last is not None)
        request = client.ask(SAY)
        # Stop goes unanswered, and so does all else; none of it may wait for ever.
        request.cancel()
        with pytest.raises(EngineError, match="did not answer"):
            await request.last()
        await watch.until(lambda: client.model is not None)
        assert client.state is EngineState.READY and client.worker_pid != first

    watch = play(scene)
    assert EngineState.SILENT in watch.states[: watch.states.index(EngineState.RESTARTING)]
    assert any("did not answer" in words for words in watch.words(EngineState.RESTARTING))


def test_H5_a_worker_that_falls_silent_and_speaks_again_is_kept(fast_ticks: None) -> None:
    async def scene(client: EngineClient, watch: Watch) -> None:
        await client.load(settings("stopped"))
        pid = client.worker_pid
        assert pid is not None
        await watch.until(lambda: client._life._watchdog._last is not None)
        os.kill(pid, signal.SIGSTOP)
        await watch.until(lambda: client.state is EngineState.SILENT)
        os.kill(pid, signal.SIGCONT)
        await watch.until(lambda: client.state is EngineState.READY)
        assert client.worker_pid == pid and client.model is not None
        assert (await client.ask(Flush()).last()).bytes is None

    assert EngineState.RESTARTING not in play(scene).states


@pytest.mark.skipif(sys.platform == "win32", reason="no process can be stopped there")
@pytest.mark.parametrize("asked", [False, True], ids=["idle", "a request that fits no pipe"])
def test_H5_an_engine_that_stood_still_at_rest_is_replaced(fast_ticks: None, asked: bool) -> None:
    async def scene(client: EngineClient, watch: Watch) -> None:
        await client.load(settings("fine"))
        pid = client.worker_pid
        assert pid is not None
        await watch.until(lambda: client._life._watchdog._last is not None)
        os.kill(pid, signal.SIGSTOP)
        if asked:
            with pytest.raises(EngineError, match="did not answer"):
                await client.ask(CountTokens(text="x" * 2**20)).last()
        await watch.until(lambda: client.worker_pid not in (pid, None) and client.model is not None)

    play(scene)


def test_the_engine_can_be_restarted_whatever_it_does() -> None:
    """Again and again: what the user asks for is no death."""

    async def scene(client: EngineClient, watch: Watch) -> None:
        await client.load(settings("silent"))
        for _ in range(life.MAX_DEATHS + 1):
            request, pid = client.ask(SAY), client.worker_pid
            await client.restart()
            with pytest.raises(EngineError, match="as you asked"):
                await request.last()
            await watch.until(lambda: client.model is not None)
            assert client.worker_pid != pid

    assert EngineState.FAILED not in play(scene).states


def replaced(client: EngineClient, pid: int | None) -> bool:
    return client.worker_pid not in (pid, None)


@pytest.mark.parametrize("loaded", [True, False])
def test_a_restart_in_the_middle_of_a_load_keeps_the_model(loaded: bool) -> None:
    """Again and again: of a load that the user asked for, and of one that follows a restart."""

    async def scene(client: EngineClient, watch: Watch) -> None:
        if loaded:
            await client.load(settings("fine"))
        own = asyncio.ensure_future(client.load(settings("slow")))
        for _ in range(3):
            await watch.until(lambda: client.wanted == settings("slow"))
            await watch.until(lambda: client.state is EngineState.READY)
            pid = client.worker_pid
            await client.restart()
            await client.restart()
            await watch.until(partial(replaced, client, pid))
        with pytest.raises(EngineError, match="as you asked"):
            await own
        await watch.until(lambda: client.model is not None)
        assert client.model is not None and client.model.name == "slow"
        assert client.state is EngineState.READY

    assert EngineState.FAILED not in play(scene).states


def test_a_model_that_kills_the_worker_as_it_comes_back_is_not_tried_again() -> None:
    async def scene(client: EngineClient, watch: Watch) -> None:
        own = asyncio.ensure_future(client.load(settings("slow")))
        await watch.until(lambda: client.wanted is not None)
        await client.restart()
        first = client.worker_pid
        await watch.until(lambda: client.worker_pid not in (first, None))
        await watch.until(lambda: client.wanted == settings("slow"))
        second = client.worker_pid
        assert second is not None
        os.kill(second, signal.SIGKILL)
        await watch.until(lambda: client.worker_pid not in (second, None))
        await watch.until(lambda: client.state is EngineState.READY)
        assert client.wanted is None and client.model is None
        with pytest.raises(EngineError):
            await own

    play(scene)
