"""A request over HTTP: its body within limits, its answer, and its end when the client goes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from dataclasses import replace
from functools import partial
from json import JSONDecodeError

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from core.api.chat import AssistantMessage, Conversation
from core.api.json_text import json_fault, parse_json
from core.server.activity import Entry, entry_of
from core.server.answering import Answered, Answering
from core.server.protocols.protocol import Call, Count, Protocol, to_json
from core.server.requests.ask import Delta, Ended
from core.server.requests.content import Reader
from core.server.requests.parameters import Body
from core.server.requests.pictures import Pictures
from core.server.requests.refusals import Refusal

MOST_BODY_BYTES = 64 * 2**20
BODY_S = 60.0
# Until then an error still gets its own status. Some clients and proxies give up on a silent
# connection after a minute; a long prompt may take several.
SILENCE_S = 10.0


async def read_body(request: Request) -> Body:
    """Raises Refusal, ClientDisconnect."""
    size, chunks = 0, list[bytes]()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= MOST_BODY_BYTES:
                    chunks.append(chunk)
                else:
                    # Read on: a client that is still sending would lose the answer.
                    chunks.clear()
    except TimeoutError:
        raise Refusal("The request took too long to arrive.", status=408) from None
    if size > MOST_BODY_BYTES:
        limit = MOST_BODY_BYTES >> 20
        raise Refusal(f"The request is larger than {limit} MiB.", status=413)
    return await asyncio.to_thread(_parsed, b"".join(chunks))


def _parsed(data: bytes) -> Body:
    try:
        body = parse_json(data)
    except UnicodeDecodeError:
        raise Refusal("The request is not valid UTF-8.") from None
    except ValueError as error:
        fault = json_fault(error) if isinstance(error, JSONDecodeError) else str(error)
        raise Refusal(f"The request is not valid JSON: {fault}.") from None
    if not isinstance(body, dict):
        raise Refusal("The request must be a JSON object.")
    return body


class Connection:
    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def begin(self, headers: dict[str, str]) -> None:
        self.begun = True
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": pairs})

    async def write(self, data: bytes, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def whole(self, body: Body) -> None:
        data = to_json(body)
        await self.begin({"content-type": "application/json", "content-length": str(len(data))})
        await self.write(data, more=False)


def client_of(request: Request) -> str:
    """Tells programs apart: where one runs, and its name."""
    host = request.client.host if request.client is not None else ""
    return f"{host} {request.headers.get('user-agent', '')}"


class AnswerEndpoint:
    def __init__(self, protocol: Protocol, answering: Answering, pictures: Pictures) -> None:
        self._protocol = protocol
        self._answering = answering
        self._pictures = pictures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, connection, entry = Request(scope, receive), Connection(send), entry_of(scope)
        body = await read_body(request)
        entry.begin()
        reader = Reader(self._pictures)
        with self._pictures.releasing(reader.images):
            model = self._answering.name_of(body.get("model"))
            # Pictures are decoded and stored.
            read = partial(self._protocol.read, body, reader, client_of(request), model)
            call = await asyncio.to_thread(read)
            call = replace(call, ask=replace(call.ask, model=model))
            await until_gone(request, self._respond(call, connection, entry))

    async def _respond(self, call: Call, connection: Connection, entry: Entry) -> None:
        answers = self._answering.answer(call.ask)
        async with contextlib.aclosing(shown(answers, entry, call.ask.conversation)) as events:
            if call.stream:
                await self._stream(call, events, connection, entry)
            else:
                await self._whole(call, events, connection)

    async def _whole(
        self, call: Call, events: AsyncIterator[Answered], connection: Connection
    ) -> None:
        said = list[Delta]()
        async for event in events:
            if isinstance(event, Ended):
                await connection.whole(call.writer.whole(_reply(said), event))
            elif event.is_said:
                said.append(event)

    async def _stream(
        self,
        call: Call,
        events: AsyncGenerator[Answered, None],
        connection: Connection,
        entry: Entry,
    ) -> None:
        writer = call.writer
        try:
            async with contextlib.aclosing(with_silences(events)) as spoken:
                async for event in spoken:
                    if not connection.begun:
                        headers = {"content-type": writer.media_type, "cache-control": "no-store"}
                        await connection.begin(headers)
                        stats = None if event is None else event.stats
                        await connection.write(writer.begin(stats))
                    if event is None:
                        await connection.write(writer.waiting())
                    elif isinstance(event, Ended):
                        await connection.write(writer.end(event))
                    elif event.answer or event.reasoning or event.call is not None:
                        await connection.write(writer.more(event))
        except Refusal as refusal:
            if not connection.begun:
                raise
            entry.end("refused", refusal.status)
            await connection.write(writer.broken(refusal))
        await connection.write(b"", more=False)


class CountEndpoint:
    def __init__(self, count: Count, answering: Answering, pictures: Pictures) -> None:
        self._count, self._answering, self._pictures = count, answering, pictures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, connection = Request(scope, receive), Connection(send)
        body = await read_body(request)
        reader = Reader(self._pictures)
        with self._pictures.releasing(reader.images):
            read = partial(self._count.read, body, reader, client_of(request))
            ask = await asyncio.to_thread(read)
            ask = replace(ask, model=self._answering.name_of(body.get("model")))

            async def work() -> None:
                counted = await self._answering.count(ask)
                await connection.whole(self._count.tell(counted, self._answering.model))

            await until_gone(request, work())


async def shown(
    events: AsyncGenerator[Answered, None], entry: Entry, asked: Conversation
) -> AsyncGenerator[Answered, None]:
    said: list[Delta] | None = [] if entry.tells_content else None
    try:
        async with contextlib.aclosing(events):
            async for event in events:
                if isinstance(event, Ended):
                    entry.show("writing", event.stats, event.volatile)
                else:
                    entry.show("reading" if event.stats is not None else "writing", event.stats)
                    if said is not None and event.is_said:
                        said.append(event)
                yield event
    finally:
        if said is not None:
            entry.show_content(asked, _reply(said))


def _reply(said: Sequence[Delta]) -> AssistantMessage:
    return AssistantMessage(
        text="".join(each.answer for each in said),
        reasoning="".join(each.reasoning for each in said),
        calls=tuple(each.call for each in said if each.call is not None),
    )


async def with_silences(events: AsyncIterator[Answered]) -> AsyncGenerator[Answered | None, None]:
    """The events, and None for each SILENCE_S without text."""
    due = time.monotonic() + SILENCE_S
    following = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=due - time.monotonic())
            if not done:
                yield None
                due = time.monotonic() + SILENCE_S
                continue
            event = following.result()
            if event is None:
                return
            yield event
            # Progress in the prompt is not written.
            if event.stats is None:
                due = time.monotonic() + SILENCE_S
            following = asyncio.ensure_future(anext(events, None))
    finally:
        following.cancel()
        await asyncio.wait({following})


async def until_gone(request: Request, work: Awaitable[None]) -> None:
    """Do the work, or cancel it as soon as the client has gone. Call with the body read."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        working.result()
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.wait({working, watching})
