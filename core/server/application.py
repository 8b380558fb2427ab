"""The server's routes, behind the check of every request's headers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from core.api.model_info import ModelInfo
from core.client.programs import RESOURCES
from core.server.access import Access
from core.server.activity import Activity, entry_of
from core.server.answering import Answering
from core.server.endpoint import AnswerEndpoint, Connection, CountEndpoint, guarded, read_body
from core.server.protocols import ollama
from core.server.protocols.completions import CHAT_COMPLETIONS, COMPLETIONS, TOKENIZE
from core.server.protocols.messages import COUNT_TOKENS, MESSAGES
from core.server.protocols.protocol import (
    Count,
    Problem,
    Protocol,
    capabilities,
    openai_problem,
    to_json,
)
from core.server.protocols.responses import RESPONSES
from core.server.requests.parameters import Body
from core.server.requests.pictures import Pictures
from core.server.requests.refusals import Refusal

PROTOCOLS: tuple[Protocol, ...] = (CHAT_COMPLETIONS, COMPLETIONS, MESSAGES, RESPONSES, ollama.CHAT)
COUNTS: tuple[Count, ...] = (TOKENIZE, COUNT_TOKENS)
# How errors are written below these paths; elsewhere as OpenAI does.
_PROBLEMS: tuple[tuple[str, Problem], ...] = (
    ("/api/", ollama.problem),
    (MESSAGES.path, MESSAGES.problem),
)


def application(
    answering: Answering, pictures: Pictures, access: Access, activity: Activity
) -> ASGIApp:
    def fact(path: str, tell: Callable[[Request], Body]) -> Route:
        return Route(path, lambda request: _json(tell(request)), methods=["GET"])

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
    handlers = {HTTPException: _unknown, Refusal: _refused}
    app: ASGIApp = _Guard(Starlette(routes=routes, exception_handlers=handlers), access, activity)
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
        headers = Headers(scope=scope)
        self._activity.enter(scope, headers)

        async def work(_request: Request, _connection: Connection) -> None:
            self._access.check(headers)
            await self._app(scope, receive, send)

        await guarded(scope, receive, send, _problem_at(scope), work)


def _problem_at(scope: Scope) -> Problem:
    found = (problem for start, problem in _PROBLEMS if scope["path"].startswith(start))
    return next(found, openai_problem)


def _json(body: Body, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json(body), status, headers, media_type="application/json")


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    entry_of(request.scope).end("refused", error.status)
    return _json(_problem_at(request.scope)(error), error.status)


def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    entry_of(request.scope).end("refused", error.status_code)
    refusal = Refusal("There is nothing here.", status=error.status_code)
    if error.status_code == 405:
        refusal = Refusal("This method can't be used here.", status=405)
    # The methods that are allowed.
    return _json(_problem_at(request.scope)(refusal), error.status_code, error.headers)
