"""A server on a free port, in a thread of its own, with a real or a scripted engine."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import anthropic
import openai
import pytest

from core.api.chat import AssistantMessage, ReplyIds
from core.api.commands import Answered, CountPrompt, Generate, PrefillReply
from core.api.events import Answer, Counted, Failed, Finished, Generated, Prefilling, Prepared
from core.api.model_info import ModelInfo
from core.api.params import CacheSettings, ModelSettings, SamplingParams
from core.api.stats import CacheBytes, RequestStats
from core.client.client import EngineClient
from core.client.requests import Request
from core.server.__main__ import SwitchingEngine
from core.server.access import Access, digest_of
from core.server.activity import Activity
from core.server.answering import Answering
from core.server.application import application
from core.server.kept_replies import KeptReplies
from core.server.listening import bound, serve
from core.server.messages import ContentSeen, RequestSeen
from core.server.requests.pictures import Pictures

KEY = "a key for the tests"
LIMIT_S = 60.0
CACHE = CacheSettings(interval=64)
ACCESS = Access(digest_of(KEY))
Result = TypeVar("Result")
Connect = Callable[[], Awaitable[Any]]


@dataclass
class Served:
    port: int
    answering: Answering
    engine: Any
    seen: list[RequestSeen]
    loop: asyncio.AbstractEventLoop
    clients: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def openai(self, name: str = "tests") -> openai.OpenAI:
        client = openai.OpenAI(
            base_url=f"{self.url}/v1",
            api_key=KEY,
            max_retries=0,
            timeout=LIMIT_S,
            default_headers={"User-Agent": name},
        )
        return self.clients.enter_context(client)

    def anthropic(self) -> anthropic.Anthropic:
        client = anthropic.Anthropic(base_url=self.url, api_key=KEY, max_retries=0, timeout=LIMIT_S)
        return self.clients.enter_context(client)

    def raw(self, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """A request by hand: its status and its body."""
        lines = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {KEY}",
            "Connection": "close",
            "Content-Length": str(len(body)),
        }
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S) as connection:
            method = "POST" if body else "GET"
            connection.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        head_end, _, rest = answer.partition(b"\r\n\r\n")
        return int(head_end.split()[1]), rest

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run something in the server's thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LIMIT_S)

    def settled(self) -> None:
        """Wait until replies are prefilled."""
        until(lambda: self.answering.num_preparing == 0)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextlib.contextmanager
def serving(
    connect: Connect,
    folder: Path,
    access: Access = ACCESS,
    disk: bool = False,
    models: Mapping[str, Path] = MappingProxyType({}),
) -> Iterator[Served]:
    ready: list[Served | BaseException] = []
    ended: list[Callable[[], object]] = []

    async def run() -> None:
        client = await connect()
        kept = KeptReplies(folder / "replies.db" if disk else None)
        engine: Any = client
        if isinstance(client, EngineClient):
            assert client.wanted is not None
            engine = SwitchingEngine(client, client.wanted, models)
        answering = Answering(engine, CACHE, kept)
        pictures = Pictures(folder / "pictures")
        seen: list[RequestSeen] = []

        def see(told: RequestSeen | ContentSeen) -> None:
            assert isinstance(told, RequestSeen)
            seen.append(told)

        with contextlib.closing(bound(0, access.lan)) as listening:
            app = application(answering, pictures, access, Activity(see))
            task = asyncio.ensure_future(serve(app, listening))
            loop = asyncio.get_running_loop()
            ended.append(lambda: loop.call_soon_threadsafe(task.cancel))
            ready.append(Served(listening.getsockname()[1], answering, client, seen, loop))
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await client.close()
        kept.close()
        pictures.clear()

    def guarded() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            ready.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    until(lambda: bool(ready))
    first = ready[0]
    if isinstance(first, BaseException):
        raise first
    try:
        with first.clients:
            yield first
    finally:
        ended[0]()
        thread.join(LIMIT_S)
        assert not thread.is_alive()
        assert ready[1:] == []


@contextlib.contextmanager
def serving_model(
    model: Path,
    folder: Path,
    disk: bool = False,
    models: Mapping[str, Path] = MappingProxyType({}),
) -> Iterator[Served]:
    """A real worker with the model of a folder."""
    connect = partial(connected, model, folder, disk)
    with serving(connect, folder, disk=disk, models=models) as served:
        yield served


async def connected(model: Path, folder: Path, disk: bool = False) -> EngineClient:
    client = EngineClient(log_file=folder / "engine.log")
    await client.start()
    contexts = str(folder / "contexts") if disk else None
    await client.load(ModelSettings(path=str(model), device="cpu", cache_folder=contexts))
    return client


MODEL = ModelInfo(
    name="scripted",
    path="",
    family="",
    device="cpu",
    precision="float32",
    num_parameters=3_400_000,
    context_length=100,
    model_context_length=100,
    vision=True,
    thinking_switch=True,
    max_image_tokens=0,
    grid=512,
    checkpoint_bytes=1,
    kv_bytes_per_token=1,
    sampling=SamplingParams(),
    tokenizer="t",
    fingerprint="",
)


class ScriptedEngine:
    """Answers every request at once with the next of `answers`: a text, an error's Failed, or None
    for an answer that begins and goes on until it is cancelled."""

    def __init__(self, *answers: str | Failed | None, then: str | None = "Yes.") -> None:
        self.model = MODEL
        self.names: tuple[str, ...] = ()
        self.used: list[str] = []
        self.asleep = False
        self.commands: list[Generate] = []
        self.counted: list[CountPrompt] = []
        self.cancelled: list[int] = []
        self.endless = "and so on"
        self.disk_trouble: str | None = None
        self._answers = itertools.chain(answers, itertools.repeat(then))
        self._numbers = itertools.count(1)

    def answer_next(self, answer: str | Failed | None) -> None:
        self._answers = itertools.chain([answer], self._answers)

    async def connect(self) -> ScriptedEngine:
        return self

    async def close(self) -> None:
        pass

    async def use(self, name: str) -> None:
        self.used.append(name)
        self.asleep = False

    def ask(self, command: Answered[Any]) -> Request[Any]:
        number = next(self._numbers)
        request = Request(command.model_copy(update={"request": number}), self.cancelled.append)
        if isinstance(command, PrefillReply):
            request.put(Prepared(request=number, tokens=0, encoded=0, bytes=CacheBytes()))
            return request
        if isinstance(command, CountPrompt):
            self.counted.append(command)
            request.put(Counted(request=number, tokens=3, ids=(5, 6, 7)))
            return request
        assert isinstance(command, Generate)
        self.commands.append(command)
        for event in self._events(number, next(self._answers)):
            request.put(event)
        return request

    def _events(self, number: int, answer: str | Failed | None) -> Iterator[Answer]:
        stats = RequestStats(
            prompt_tokens=10,
            reused_tokens=7,
            evaluated_tokens=3,
            reply_tokens=2,
            ttft_s=0.5,
            disk_trouble=self.disk_trouble,
        )
        if isinstance(answer, Failed):
            yield answer.model_copy(update={"request": number})
            return
        yield Prefilling(request=number, done=7, stats=stats)
        if answer is None:
            yield Generated(request=number, answer=self.endless)
            return
        thought, _, text = answer.rpartition("|")
        yield Generated(request=number, reasoning=thought)
        for word in text.split(" "):
            yield Generated(request=number, answer=word if text.startswith(word) else f" {word}")
        ids = ReplyIds.pack((number, 2), "t", False)
        reply = AssistantMessage(text=text, reasoning=thought, ids=ids)
        yield Finished(request=number, reason="stop", reply=reply, reply_ids=(1, 2), stats=stats)


def refused(call: Callable[[], object]) -> openai.APIStatusError:
    with pytest.raises(openai.APIStatusError) as caught:
        call()
    return caught.value
