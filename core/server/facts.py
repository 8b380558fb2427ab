"""Answers about the server and its model: `/v1/models` and `/health`."""

from __future__ import annotations

from core.api.model_info import ModelInfo
from core.server.answering import Answering
from core.server.protocols.protocol import capabilities
from core.server.requests.parameters import Body
from core.server.requests.refusals import Refusal


def health(answering: Answering) -> Body:
    return {
        "status": "ok",
        "model": answering.model.name,
        "asleep": answering.client.asleep,
        "waiting": answering.turns.num_waiting,
        "preparing": answering.num_preparing,
    }


def models(answering: Answering) -> Body:
    return {
        "object": "list",
        "data": [_described(answering.model), *map(_named, others(answering))],
    }


def model(answering: Answering, name: str) -> Body:
    if name in others(answering):
        return _named(name)
    if name != answering.model.name:
        raise Refusal("There is no model of this name.", "model", 404, "model_not_found")
    return _described(answering.model)


def others(answering: Answering) -> list[str]:
    """Models that are loaded if a request names them."""
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
