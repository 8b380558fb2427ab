"""The real worker behind the real client: stops, queues, deaths, and a pipe with frames only."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import psutil
import pytest

from core import watchdog
from core.api.chat import Conversation, ImagePart, UserMessage
from core.api.commands import ClearCache, CountTokens, DescribeImage, Generate, LoadModel
from core.api.events import (
    EVENTS,
    Beat,
    Event,
    Finished,
    Generated,
    Hello,
    ImageDescribed,
    Loaded,
    Loading,
    Prefilling,
    Queued,
)
from core.api.params import ModelSettings, SamplingParams
from core.client import life
from core.client.client import EngineClient
from core.client.codec import HEADER, decode, encode, read_frame
from core.client.life import EngineState
from core.client.requests import EngineError, Request
from core.client.transport import default_command, worker_environment
from core.watchdog import Watchdog
from tests.noisy_worker import NOISE
from tests.promises.fixtures import FolderOf, PictureOf, folder_of, picture
from tests.promises.machine import user, words

__all__ = ["folder_of", "picture"]

Result = TypeVar("Result")
LIMIT_S = 120
SHORT = SamplingParams(temperature=0, max_tokens=3)
# The first token is drawn again and again: seconds of work, stopped in here long before its end.
ENDLESS = SamplingParams(temperature=0, max_tokens=4_000, frequency_penalty=-100)


def talk(*messages: UserMessage) -> Conversation:
    return Conversation(messages=messages)


HELLO = talk(user("Hello"))


def reply_to(conversation: Conversation, sampling: SamplingParams) -> Generate:
    return Generate(conversation=conversation, sampling=sampling)


def settings(folder: Path) -> ModelSettings:
    return ModelSettings(path=str(folder), device="cpu", precision="float32", grid=64)


# Kills itself no more than a window would: that is left to the test.
WINDOW = """
import asyncio, sys
from core.api.chat import Conversation, TextPart, UserMessage
from core.api.commands import Generate
from core.api.params import ModelSettings
from core.client.client import EngineClient

async def main():
    client = EngineClient(command=[sys.executable, "-m", "tests.stuck_worker", "lock"])
    await client.start()
    await client.load(ModelSettings(path=sys.argv[1], device="cpu", precision="float32", grid=64))
    said = Conversation(messages=(UserMessage(content=(TextPart(text="Hello"),)),))
    client.ask(Generate(conversation=said))
    await asyncio.sleep(1)
    print(client.worker_pid, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


class Scene:
    """A client on an event loop that runs only while a test waits for something."""

    def __init__(self, command: list[str] | None = None, log: Path | None = None) -> None:
        self.loop = asyncio.new_event_loop()
        self.client = self.play(self._started(command, log))

    async def _started(self, command: list[str] | None, log: Path | None) -> EngineClient:
        client = EngineClient(log_file=log, command=command)
        await client.start()
        return client

    async def look_at(self, image: ImagePart) -> ImageDescribed:
        return await self.client.ask(DescribeImage(image=image, thumbnail=16)).last()

    def play(self, scene: Awaitable[Result]) -> Result:
        return self.loop.run_until_complete(asyncio.wait_for(scene, LIMIT_S))

    def close(self) -> None:
        self.play(self.client.close())
        self.loop.close()


@pytest.fixture(scope="module", autouse=True)
def one_thread(started_engines: None) -> Iterator[None]:
    """For the workers, which inherit it: tiny operations cost less than waking a second thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def shared(folder_of: FolderOf, picture: PictureOf) -> Iterator[Scene]:
    """One worker for the tests that leave it alive; it describes a picture before any model."""
    scene = Scene()
    described = scene.play(scene.look_at(picture(1, "wide")))
    assert described.size == (128, 64) and described.tokens is None
    scene.play(scene.client.load(settings(folder_of("hybrid"))))
    yield scene
    scene.close()


async def first_token(request: Request[Finished]) -> Generated:
    async for event in request:
        if isinstance(event, Generated):
            return event
    raise AssertionError("the reply ended before its first token")


@contextlib.asynccontextmanager
async def running(client: EngineClient) -> AsyncIterator[Request[Finished]]:
    """A reply that goes on until it is stopped."""
    request = client.ask(reply_to(HELLO, ENDLESS))
    await first_token(request)
    yield request
    request.cancel()
    assert (await request.last()).reason == "cancelled"


def on_its_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test of the shared worker, played on its client's loop."""

    @functools.wraps(test)
    def played(shared: Scene, **fixtures: Any) -> None:
        shared.play(test(shared, **fixtures))

    return played


@on_its_loop
async def test_M9_late_and_double_stops_never_touch_the_next_request(shared: Scene) -> None:
    client = shared.client
    expected = await client.ask(reply_to(HELLO, SHORT)).last()
    async with running(client) as stopped:
        stopped.cancel()
        stopped.cancel()
        following = client.ask(reply_to(HELLO, SHORT))
        client.cancel(stopped.id)
    assert (await following.last()).reply_ids == expected.reply_ids
    client.cancel(following.id)
    client.cancel(10_000)
    for _ in range(10):
        stopped, following = (client.ask(reply_to(HELLO, SHORT)) for _ in range(2))
        client.cancel(stopped.id)
        await stopped.last()
        client.cancel(stopped.id)
        after = await following.last()
        assert after.reason == "length" and after.reply_ids == expected.reply_ids


@on_its_loop
async def test_M9_a_queued_request_is_stopped_before_it_began(shared: Scene) -> None:
    client = shared.client
    async with running(client):
        waiting = [client.ask(reply_to(talk(user(word)), SHORT)) for word in ("one", "two")]
        waiting[0].cancel()
        events = [event async for event in waiting[0]]
        assert isinstance(events[0], Queued) and events[0].ahead == 1
        last = events[-1]
        assert isinstance(last, Finished) and last.reason == "cancelled"
        assert last.prompt_ids == () and last.stats.evaluated_tokens == 0
    events = [event async for event in waiting[1]]
    ahead = [event.ahead for event in events if isinstance(event, Queued)]
    assert (ahead[0], ahead[-1]) == (2, 1) and ahead == sorted(ahead, reverse=True)
    assert isinstance(events[-1], Finished) and events[-1].reason == "length"


@on_its_loop
async def test_pictures_and_tokens_are_looked_at_while_a_reply_is_running(
    shared: Scene, picture: PictureOf
) -> None:
    client = shared.client
    async with running(client):
        looks = (shared.look_at(picture(seed, "wide")) for seed in (1, 2, 3))
        assert [each.tokens for each in await asyncio.gather(*looks)] == [8, 8, 8]
        with pytest.raises(EngineError, match="gone"):
            await shared.look_at(ImagePart(digest="0" * 64, path="/nowhere/gone.png"))
        short = await client.ask(CountTokens(text="A word. ")).last()
        long = await client.ask(CountTokens(text="A word. " * 500)).last()
        assert 0 < short.tokens < long.tokens


@on_its_loop
async def test_a_load_that_fails_keeps_the_model(shared: Scene, tmp_path: Path) -> None:
    client = shared.client
    before = client.model
    with pytest.raises(EngineError):
        await client.load(settings(tmp_path))
    assert client.model == before is not None
    assert (await client.ask(reply_to(HELLO, SHORT)).last()).reason == "length"


@on_its_loop
async def test_a_command_too_large_for_the_pipe_fails_by_its_name(
    shared: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.client.codec.MAX_FRAME_BYTES", 1_000)
    with pytest.raises(EngineError, match="too large") as caught:
        await shared.client.ask(reply_to(talk(user(words(1_000))), SHORT)).last()
    assert caught.value.info().name == "ProtocolError"
    assert shared.client.state is EngineState.READY


@on_its_loop
async def test_events_come_in_order_and_end_with_the_last(shared: Scene) -> None:
    await shared.client.ask(ClearCache()).last()
    request = shared.client.ask(reply_to(talk(user(words(100))), SHORT))
    kinds = [type(event) async for event in request]
    assert kinds == sorted(kinds, key=[Prefilling, Generated, Finished].index)
    assert kinds.count(Finished) == 1 and kinds.count(Prefilling) > 3


def test_noise_and_a_stopped_load(folder_of: FolderOf, tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    slow = settings(Path("/nowhere/slow"))
    scene = Scene([sys.executable, "-m", "tests.noisy_worker"], log)
    client = scene.client

    async def stopped_load() -> None:
        await client.load(settings(folder_of("hybrid")))
        with pytest.raises(EngineError, match="stopped"):
            await client.load(slow, lambda done, total: client.cancel_load())
        await client.ask(ClearCache()).last()
        assert (await client.ask(reply_to(HELLO, SHORT)).last()).reason == "length"
        assert log.read_bytes().count(NOISE) > 1000

    try:
        scene.play(stopped_load())
    finally:
        scene.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - conditions look at plain attributes
        await asyncio.sleep(0.01)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A bare worker, to be spoken to in frames."""
    with subprocess.Popen(
        default_command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=worker_environment(),
    ) as started:
        yield started
        started.kill()


def test_the_worker_ends_with_its_input_even_while_it_computes(
    process: subprocess.Popen[bytes], folder_of: FolderOf
) -> None:
    assert process.stdin is not None and process.stdout is not None
    output = cast(BinaryIO, process.stdout)
    load = LoadModel(request=1, settings=settings(folder_of("hybrid")))
    generate = Generate(request=2, conversation=HELLO, sampling=ENDLESS)
    process.stdin.write(encode(load) + encode(generate))
    process.stdin.flush()
    seen: list[Event] = []
    while not (seen and isinstance(seen[-1], Generated)):
        body = read_frame(output)
        assert body is not None
        seen.append(decode(EVENTS, body))
    assert isinstance(seen[0], Hello) and seen[0].pid == process.pid
    assert any(isinstance(event, Loading) for event in seen)
    assert any(isinstance(event, Loaded) for event in seen)
    process.stdin.close()
    began = time.monotonic()
    while (body := read_frame(output)) is not None:
        assert not isinstance(decode(EVENTS, body), Finished)
    assert process.wait(30) == 0 and time.monotonic() - began < 30


@pytest.mark.parametrize("nonsense", [b"GET / HTTP/1.1\r\n\r\n", HEADER.pack(2) + b"{}"])
def test_nonsense_on_its_input_ends_the_worker(
    process: subprocess.Popen[bytes], nonsense: bytes
) -> None:
    assert process.stdin is not None
    process.stdin.write(nonsense)
    process.stdin.flush()
    assert process.wait(60) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lock", "free"])
@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in calls the C library")
def test_H5_a_reply_that_hangs_is_ended_with_the_engine_and_the_next_one_comes(
    kind: str, folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a call that holds Python's lock nothing of the process answers; in one without it all
    but the work does."""
    monkeypatch.setattr(life, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(life, "TICK_S", 0.7)
    monkeypatch.setattr(watchdog, "TICK_S", 10.0)
    scene = Scene([sys.executable, "-m", "tests.stuck_worker", kind])

    async def hangs(client: EngineClient) -> None:
        await client.load(settings(folder_of("hybrid")))
        pid = client.worker_pid
        with pytest.raises(EngineError, match="did not answer"):
            await client.ask(reply_to(HELLO, SHORT)).last()
        await until(lambda: client.model is not None)
        assert client.worker_pid != pid

    try:
        scene.play(hangs(scene.client))
    finally:
        scene.play(scene.client.kill())
        scene.loop.close()


@pytest.mark.slow
def test_H5_an_engine_that_works_is_never_taken_for_a_hanging_one(shared: Scene) -> None:
    """It answers pings while it computes, and says that it moves."""
    client, chat = shared.client, HELLO
    busy: list[int] = []
    hear = Watchdog.heard

    def listen(self: Watchdog, beat: Beat | None = None) -> None:
        busy.extend([beat.progress] if beat is not None and beat.busy else [])
        hear(self, beat)

    async def scene() -> None:
        while len(busy) < 2:
            await client.ask(reply_to(chat, ENDLESS)).last()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watchdog, "heard", listen)
        shared.play(scene())
    assert busy == sorted(set(busy))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the end of its input has to do")
def test_H6_an_engine_that_hangs_with_pythons_lock_ends_with_the_window(
    folder_of: FolderOf,
) -> None:
    window = subprocess.Popen(
        [sys.executable, "-c", WINDOW, str(folder_of("hybrid"))], stdout=subprocess.PIPE, text=True
    )
    assert window.stdout is not None
    engine = psutil.Process(int(window.stdout.readline()))
    window.kill()
    window.wait()
    window.stdout.close()
    engine.wait(30)
