"""`python -m core.remote`: messages on standard input, events on standard output.

A server is recognised by its list of models.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from core.api.commands import Cancel
from core.api.errors import (
    InternalError,
    RemoteAnswerError,
    RemoteRefusedError,
    RemoteStalledError,
    WaymarkError,
)
from core.api.events import Failed
from core.client.child import named, run_child
from core.remote.body import JSON, chat_body, completion_body, has_ids, prompt_ids
from core.remote.connection import (
    Connections,
    TryAgainError,
    encoded,
    events_of,
    normalised,
    read_json,
)
from core.remote.messages import (
    TO_REMOTE,
    Connect,
    Kind,
    Look,
    Looked,
    RemoteModel,
    RemoteServer,
    Reply,
    ToRemote,
)
from core.remote.reading import ReplyReader
from core.vision.decode import PictureDecoder

MOST_MODELS = 1_000
# Who "owns" the models in the answers of these programs.
_OWNERS: dict[str, Kind] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llamacpp",
    "library": "ollama",
    "organization_owner": "lmstudio",
    "waymark": "waymark",
}
_NO_CHAT = ("embeddings", "embedding")


@dataclass(frozen=True)
class Patience:
    """Seconds until the first token, between pieces of text, for the numbers after the last one,
    and for a list of models; the first pause before another attempt, which doubles."""

    first_s: float = 900.0
    stall_s: float = 90.0
    numbers_s: float = 5.0
    look_s: float = 20.0
    pause_s: float = 1.0
    attempts: int = 5


class Service:
    def __init__(self, emit: Callable[[BaseModel], None], patience: Patience = Patience()) -> None:
        self._emit, self._patience = emit, patience
        self._connected: Connections | None = None
        self._trouble: WaymarkError = InternalError("No connection is configured.")
        self._pictures = PictureDecoder()
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def take(self, message: ToRemote) -> None:
        match message:
            case Connect():
                await self._connect(message.proxy)
            case Look():
                self._spawn(message.request, self._look(message))
            case Reply():
                self._spawn(message.generate.request, self._reply(message))
            case Cancel() if message.target in self._tasks:
                self._tasks[message.target].cancel()
        # A task that is cancelled before its first step would answer nothing.
        await asyncio.sleep(0)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._connected is not None:
            await self._connected.close()

    async def _connect(self, proxy: str) -> None:
        before, self._connected = self._connected, None
        try:
            self._connected = Connections(proxy)
        except WaymarkError as error:
            self._trouble = error
        if before is not None:
            await before.close()

    def _connections(self) -> Connections:
        if self._connected is None:
            raise self._trouble
        return self._connected

    def _spawn(self, request: int, work: Awaitable[BaseModel]) -> None:
        task = asyncio.ensure_future(self._answer(request, work))
        self._tasks[request] = task
        task.add_done_callback(lambda _task: self._tasks.pop(request, None))

    async def _answer(self, request: int, work: Awaitable[BaseModel]) -> None:
        try:
            self._emit(await work)
        except Exception as error:
            self._emit(Failed(request=request, error=named(error).info()))

    async def _look(self, message: Look) -> Looked:
        try:
            async with asyncio.timeout(self._patience.look_s):
                server = await look(self._connections(), message.address, message.key)
        except TimeoutError:
            raise RemoteStalledError("It sent no list of models in time.") from None
        except TryAgainError as failure:
            raise failure.error from failure
        return Looked(request=message.request, server=server)

    async def _reply(self, message: Reply) -> BaseModel:
        reader = ReplyReader(message)
        self._emit(reader.waiting())
        try:
            chat = await asyncio.to_thread(chat_body, message, self._pictures)
            if not await self._reply_to_ids(message, chat, reader):
                await self._patiently(message, "chat/completions", encoded(chat), reader)
        except asyncio.CancelledError:
            # The user stopped the reply; at the end of the process nobody listens.
            return reader.finished(stopped=True)
        return reader.finished()

    async def _reply_to_ids(self, message: Reply, chat: JSON, reader: ReplyReader) -> bool:
        """Ask with replies as they were sampled; False if only texts will do."""
        prompt = None
        if has_ids(message):
            with contextlib.suppress(TimeoutError, TryAgainError, WaymarkError):
                async with asyncio.timeout(self._patience.look_s):
                    prompt = await prompt_ids(self._connections(), message, chat)
        if prompt is None:
            return False
        body = encoded(completion_body(chat, prompt))
        try:
            await self._patiently(message, "completions", body, reader)
        except RemoteRefusedError:
            # A refusal of the request itself; the texts may be accepted.
            if reader.begun or reader.fault is not None:
                raise
            return False
        return True

    async def _patiently(self, message: Reply, path: str, body: bytes, reader: ReplyReader) -> None:
        """Try again, but never after the first token."""
        for attempt in range(self._patience.attempts):
            try:
                await self._stream(message, path, body, reader)
                return
            except TryAgainError as failure:
                if reader.begun:
                    words = "The connection broke off in the middle of the reply."
                    raise RemoteStalledError(words) from failure
                if attempt + 1 == self._patience.attempts:
                    raise failure.error from failure
                await asyncio.sleep(max(failure.wait_s, self._patience.pause_s * 2**attempt))

    async def _stream(self, message: Reply, path: str, body: bytes, reader: ReplyReader) -> None:
        url = f"{message.server.address}/{path}"
        loop, patience, closing = asyncio.get_running_loop(), self._patience, False
        try:
            async with (
                asyncio.timeout(patience.first_s) as limit,
                self._connections().stream("POST", url, message.key, body) as response,
            ):
                kind = response.headers.get("Content-Type", "")
                if "html" in kind:
                    raise RemoteAnswerError("The answer is a web page.")
                if "json" in kind:
                    self._tell(reader, reader.take_whole(await read_json(response)))
                    return
                async for events in events_of(response.aiter_raw()):
                    # Only news extends the limit: comments may come for ever.
                    said = self._tell(reader, reader.take(events))
                    if reader.ended:
                        break
                    if reader.complete and not closing:
                        closing = True
                        limit.reschedule(loop.time() + patience.numbers_s)
                    elif said and not closing:
                        wait_s = patience.stall_s if reader.begun else patience.first_s
                        limit.reschedule(loop.time() + wait_s)
        except TryAgainError:
            if not reader.complete:
                raise
        except TimeoutError:
            if not reader.complete:
                waited = patience.stall_s if reader.begun else patience.first_s
                raise RemoteStalledError(f"No text came for {waited:.0f} seconds.") from None
        finally:
            if (rest := reader.rest()) is not None:
                self._emit(rest)

    def _tell(self, reader: ReplyReader, said: Sequence[BaseModel]) -> bool:
        for event in said:
            self._emit(event)
        if reader.fault is not None:
            raise reader.fault
        return bool(said)


async def look(connections: Connections, address: str, key: str) -> RemoteServer:
    """The server at an address, with or without `/v1`. Raises TryAgainError, WaymarkError."""
    typed = normalised(address)
    bases = [typed] if typed.endswith("/v1") else [f"{typed}/v1", typed]
    refusal: WaymarkError | None = None
    for base in bases:
        try:
            listed = await connections.json(f"{base}/models", key)
        except (RemoteRefusedError, RemoteAnswerError) as error:
            # The first answer says more than that of a second guess.
            refusal = refusal or error
            continue
        kind, models = read_list(listed)
        if kind == "lmstudio":
            models = await _of_lm_studio(connections, base, key) or models
        return RemoteServer(address=base, kind=kind, keyed=bool(key), models=models)
    assert refusal is not None
    raise refusal


def read_list(body: object) -> tuple[Kind, tuple[RemoteModel, ...]]:
    """Raises RemoteAnswerError."""
    entries = body.get("data") if isinstance(body, dict) else None
    if not isinstance(entries, list):
        raise RemoteAnswerError("The answer isn't a list of models.")
    listed = [each for each in entries[:MOST_MODELS] if isinstance(each, dict)]
    models = tuple(model for each in listed if (model := _model(each)) is not None)
    kinds = [kind for each in listed if (kind := _OWNERS.get(str(each.get("owned_by"))))]
    return (kinds[0] if kinds else "other"), models


def _model(entry: Mapping[str, Any]) -> RemoteModel | None:
    meta = entry.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    limits = (
        entry.get("max_model_len"),
        meta.get("n_ctx"),
        entry.get("max_context_length"),
        entry.get("context_length"),
        meta.get("n_ctx_train"),
    )
    abilities = meta.get("capabilities")
    sees = "vision" in abilities if isinstance(abilities, list) else None
    if entry.get("type") in ("vlm", "llm"):
        sees = entry["type"] == "vlm"
    name = entry.get("id")
    # Control characters and marks that turn the direction could show another name.
    if not isinstance(name, str) or not name.isprintable() or not name:
        return None
    if entry.get("type") in _NO_CHAT:
        return None
    with contextlib.suppress(ValidationError):
        return RemoteModel(
            name=name,
            context_length=next((each for each in limits if type(each) is int and each > 0), None),
            vision=sees,
        )
    return None


async def _of_lm_studio(connections: Connections, base: str, key: str) -> tuple[RemoteModel, ...]:
    """Its own list tells which models see pictures, and their contexts."""
    with contextlib.suppress(TryAgainError, WaymarkError):
        address = f"{base.removesuffix('/v1')}/api/v0/models"
        return read_list(await connections.json(address, key))[1]
    return ()


def main() -> None:
    run_child(Service, TO_REMOTE)


if __name__ == "__main__":
    main()
