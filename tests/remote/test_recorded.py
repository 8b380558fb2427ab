"""Answers that llama.cpp's server and vLLM gave (tests/remote/real_servers.py), read again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.remote.messages import Kind, Look, Looked
from tests.remote.fake_server import Answer, FakeServer
from tests.remote.formats import MODEL, RECORDED
from tests.remote.talking import Talk, reply_of, talk

ANSWERS: dict[Kind, dict[str, Any]] = {
    kind: json.loads((RECORDED / f"{kind}.json").read_text("utf-8"))
    for kind in ("llamacpp", "vllm")
}
pytestmark = pytest.mark.parametrize("kind", ANSWERS)


def replayed(kind: Kind, name: str) -> Talk:
    recorded = ANSWERS[kind][name]
    # In pieces that end amid lines and characters.
    body = recorded["body"].encode()
    pieces = [body[at : at + 97] for at in range(0, len(body), 97)]
    with FakeServer() as server:
        server.chat(Answer(pieces, recorded["status"], recorded["type"]))
        return talk(reply_of(server.address, model=MODEL, kind=kind, key="key"))


def test_its_models_are_listed(kind: Kind) -> None:
    recorded = ANSWERS[kind]["models"]
    with FakeServer() as server:
        server.on("/v1/models", Answer([recorded["body"].encode()], kind=recorded["type"]))
        heard = talk(Look(request=1, address=server.address)).events[-1]
    assert isinstance(heard, Looked) and heard.server.kind == kind
    (model,) = heard.server.models
    assert (model.name, model.context_length) == (MODEL, 4096)


@pytest.mark.parametrize("name", ["reply", "schema", "stop", "ids"])
def test_a_reply_is_read(kind: Kind, name: str) -> None:
    if name not in ANSWERS[kind]:
        pytest.skip("only vLLM takes ids")
    end = replayed(kind, name).finished
    stats, report, ids = end.stats, end.stats.remote, end.reply.ids
    assert end.reason == ("length" if name in ("reply", "ids") else "stop") or end.reply.text
    assert report is not None and report.prompt and report.cached
    assert stats.prompt_tokens > 4 and stats.reply_tokens > 0
    assert (ids is not None) == (kind == "vllm" and name != "stop")
    if ids is not None:
        assert ids.num_ids == stats.reply_tokens - (end.reason == "stop")
    if name == "schema":
        assert set(json.loads(end.reply.text)) == {"colour", "round"}


@pytest.mark.parametrize(("name", "error"), [
    ("too long", "RemoteRefusedError"), ("wrong key", "RemoteKeyError"),
])  # fmt: skip
def test_a_refusal_has_a_name(kind: Kind, name: str, error: str) -> None:
    heard = replayed(kind, name)
    assert heard.error == error and len(heard.words) > 30
