"""The server's routes, behind the check of every request's headers, and `/v1/models`, `/health`."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from core.api.model_info import ModelInfo
from core.server.access import Access
from core.server.activity import Activity, entry_of
from core.server.answering import Answering
from core.server.endpoint import AnswerEndpoint, Connection, CountEndpoint, guarded
from core.server.protocols.chat_completions import CHAT_COMPLETIONS
from core.server.protocols.completions import COMPLETIONS, TOKENIZE
from core.server.protocols.messages import COUNT_TOKENS, MESSAGES
from core.server.protocols.protocol import Count, Protocol, openai_problem, to_json
from core.server.protocols.responses import RESPONSES
from core.server.requests.parameters import Body
from core.server.requests.pictures import Pictures
from core.server.requests.refusals import Refusal

PROTOCOLS: tuple[Protocol, ...] = (CHAT_COMPLETIONS, COMPLETIONS, MESSAGES, RESPONSES)
COUNTS: tuple[Count, ...] = (TOKENIZE, COUNT_TOKENS)
_PROBLEMS = [
    *((each.path, each.problem) for each in PROTOCOLS),
    *((each.path, each.problem) for each in COUNTS),
]


def application(
    answering: Answering, pictures: Pictures, access: Access, activity: Activity
) -> ASGIApp:
    """An ASGI application without state of its own beside what it is given."""

    def fact(path: str, tell: Callable[[Request], Body]) -> Route:
        return Route(path, lambda request: _json(tell(request)), methods=["GET"])

    routes = [
        Route(each.path, AnswerEndpoint(each, answering, pictures), methods=["POST"])
        for each in PROTOCOLS
    ]
    routes += [
        Route(each.path, CountEndpoint(each, answering, pictures), methods=["POST"])
        for each in COUNTS
    ]
    routes += [
        fact("/health", lambda _: health(answering)),
        fact("/v1/models", lambda _: models(answering)),
        fact(
            "/v1/models/{name:path}",
            lambda request: model(answering, request.path_params["name"]),
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


class _Guard:
    """Passes on the requests that `access` allows."""

    def __init__(self, app: ASGIApp, access: Access, activity: Activity) -> None:
        self._app, self._access, self._activity = app, access, activity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        named = (problem for path, problem in _PROBLEMS if path == scope["path"])

        headers = Headers(scope=scope)
        self._activity.enter(scope, headers)

        async def work(_request: Request, _connection: Connection) -> None:
            self._access.check(headers)
            await self._app(scope, receive, send)

        await guarded(scope, receive, send, next(named, openai_problem), work)


def _json(body: Body, status: int = 200) -> Response:
    return Response(to_json(body), status, media_type="application/json")


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    entry_of(request.scope).end("refused", error.status)
    return _json(openai_problem(error), error.status)


def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    entry_of(request.scope).end("refused", error.status_code)
    refusal = Refusal("There is nothing here.", status=error.status_code)
    if error.status_code == 405:
        refusal = Refusal("This method can't be used here.", status=405)
    return _json(openai_problem(refusal), error.status_code)


def health(answering: Answering) -> Body:
    return {
        "status": "ok",
        "model": answering.model.name,
        "waiting": answering.turns.num_waiting,
        "preparing": answering.num_preparing,
    }


def models(answering: Answering) -> Body:
    return {"object": "list", "data": [_described(answering.model)]}


def model(answering: Answering, name: str) -> Body:
    if name != answering.model.name:
        raise Refusal("There is no model of this name.", "model", 404, "model_not_found")
    return _described(answering.model)


def capabilities(model: ModelInfo) -> list[str]:
    asked = {
        "vision": model.vision,
        "tools": model.tools is not None,
        "thinking": model.thinking_switch,
    }
    return ["completion", *(name for name, can in asked.items() if can)]


def _described(model: ModelInfo) -> Body:
    return {
        "id": model.name,
        "object": "model",
        "created": 0,
        "owned_by": "waymark",
        "context_length": model.context_length,
        "meta": {
            "n_ctx": model.context_length,
            "n_ctx_train": model.model_context_length,
            "n_params": model.num_parameters,
            "capabilities": capabilities(model),
        },
    }
