"""The server's routes, behind a check of every request's headers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from functools import cache

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.api.errors import InternalError, WaymarkError
from core.api.model_info import ModelInfo
from core.client.programs import RESOURCES
from core.client.traces import place_of, print_trace
from core.server.access import Access
from core.server.activity import Activity
from core.server.answering import Answering
from core.server.endpoint import AnswerEndpoint, CountEndpoint, read_body
from core.server.protocols import messages, ollama
from core.server.protocols.completions import CHAT_COMPLETIONS, COMPLETIONS, TOKENIZE
from core.server.protocols.protocol import (
    Count,
    Protocol,
    capabilities,
    openai_problem,
    to_json,
)
from core.server.protocols.responses import RESPONSES
from core.server.requests.parameters import Body
from core.server.requests.pictures import Pictures
from core.server.requests.refusals import Refusal

PROTOCOLS: tuple[Protocol, ...] = (
    CHAT_COMPLETIONS,
    COMPLETIONS,
    messages.MESSAGES,
    RESPONSES,
    ollama.CHAT,
)
COUNTS: tuple[Count, ...] = (TOKENIZE, messages.COUNT_TOKENS)
# The bodies of errors below these paths; elsewhere as OpenAI does.
_PROBLEMS = (("/api/", ollama.problem), (messages.MESSAGES.path, messages.problem))
_UNKNOWN = {404: "There is nothing here.", 405: "This method can't be used here."}


def application(
    answering: Answering, pictures: Pictures, access: Access, activity: Activity
) -> ASGIApp:
    def fact(path: str, tell: Callable[[Request], Body]) -> Route:
        async def answer(request: Request) -> Response:
            return _json(tell(request))

        return Route(path, answer, methods=["GET"])

    async def show(request: Request) -> Response:
        body = await read_body(request)
        return _json(ollama.show(body, answering.model, _others(answering)))

    routes = [
        Route(each.path, AnswerEndpoint(each, answering, pictures), methods=["POST"])
        for each in PROTOCOLS
    ]
    routes += [
        Route(each.path, CountEndpoint(each, answering, pictures), methods=["POST"])
        for each in COUNTS
    ]
    routes += [
        fact("/openapi.json", lambda _: _described_fields()),
        fact("/health", lambda _: _health(answering)),
        fact("/api/version", lambda _: {"version": ollama.VERSION}),
        fact("/api/tags", lambda _: ollama.tags(answering.model, _others(answering))),
        Route("/api/show", show, methods=["POST"]),
        fact("/v1/models", lambda _: _models(answering)),
        fact(
            "/v1/models/{name:path}", lambda request: _model(answering, request.path_params["name"])
        ),
    ]
    app: ASGIApp = _Guard(Router(routes), access, activity)
    if access.origins:
        # What a browser asks before it sends a page's request has no key.
        app = CORSMiddleware(
            app, allow_origins=access.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return app


@cache
def _described_fields() -> Body:
    body: Body = json.loads((RESOURCES / "server" / "openapi.json").read_text("utf-8"))
    return body


def _health(answering: Answering) -> Body:
    return {
        "status": "ok",
        "model": answering.model.name,
        "asleep": answering.client.asleep,
        "waiting": answering.turns.num_waiting,
        "preparing": answering.num_preparing,
        "disk_trouble": answering.disk_trouble,
    }


def _models(answering: Answering) -> Body:
    return {
        "object": "list",
        "data": [_described(answering.model), *map(_named, _others(answering))],
    }


def _model(answering: Answering, name: str) -> Body:
    if name in _others(answering):
        return _named(name)
    if name != answering.model.name:
        raise Refusal("There is no model of this name.", "model", 404, "model_not_found")
    return _described(answering.model)


def _others(answering: Answering) -> list[str]:
    return [name for name in answering.client.names if name != answering.model.name]


def _named(name: str) -> Body:
    return {"id": name, "object": "model", "created": 0, "owned_by": "waymark"}


def _described(model: ModelInfo) -> Body:
    return {
        **_named(model.name),
        "context_length": model.context_length,
        "meta": {
            "n_ctx": model.context_length,
            "n_ctx_train": model.model_context_length,
            "n_params": model.num_parameters,
            "capabilities": capabilities(model),
        },
    }


class _Guard:
    def __init__(self, app: ASGIApp, access: Access, activity: Activity) -> None:
        self._app, self._access, self._activity = app, access, activity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        given, begun = Headers(scope=scope), False
        entry = self._activity.enter(scope, given)
        # Without it, the router answers 404 and 405 itself.
        scope["app"] = self._app

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            self._access.check(given)
            await self._app(scope, receive, sending)
        except (ClientDisconnect, OSError):
            entry.end("gone")
            return
        except Exception as error:
            refusal, headers = _refusal_of(error)
        else:
            entry.end("done")
            return
        entry.end("refused", refusal.status)
        if not begun:
            found = (each for start, each in _PROBLEMS if scope["path"].startswith(start))
            body = next(found, openai_problem)(refusal)
            with contextlib.suppress(OSError):
                await _json(body, refusal.status, headers)(scope, receive, send)


def _refusal_of(error: Exception) -> tuple[Refusal, Mapping[str, str] | None]:
    if isinstance(error, HTTPException):
        words = _UNKNOWN.get(error.status_code, error.detail)
        # The methods that are allowed.
        return Refusal(words, status=error.status_code), error.headers
    if not isinstance(error, WaymarkError):
        # Its own message may quote what people wrote.
        print_trace(error)
        error = InternalError(place_of(error), "Unexpected error in the server")
    refusal = error if isinstance(error, Refusal) else Refusal.of(error.info())
    wait_s = refusal.retry_s
    return refusal, None if wait_s is None else {"retry-after": str(wait_s)}


def _json(body: Body, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json(body), status, headers, media_type="application/json")
