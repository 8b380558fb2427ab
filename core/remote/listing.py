"""Recognises a server by its list of models, and reads that list."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from core.api.errors import RemoteAnswerError, RemoteRefusedError, WaymarkError
from core.remote.connection import Connections, TryAgainError, normalised
from core.remote.messages import Kind, RemoteModel, RemoteServer

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


async def look(connections: Connections, address: str, key: str) -> RemoteServer:
    """The server at an address, with or without its `/v1`. Raises TryAgainError, WaymarkError."""
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
    entries = body.get("data") if isinstance(body, dict) else None
    if not isinstance(entries, list):
        raise RemoteAnswerError("The answer is no list of models.")
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
    sees: bool | None = None
    if isinstance(abilities, list):
        sees = "vision" in abilities
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
        listed = await connections.json(f"{base.removesuffix('/v1')}/api/v0/models", key)
        return read_list(listed)[1]
    return ()
