"""Damaged requests to every endpoint: each gets an answer of its protocol, and never a 500 (A3)."""

from __future__ import annotations

import base64
import copy
import io
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.server.serving import KEY, LIMIT_S, MODEL, ScriptedEngine, Served, serving

REFUSED = (400, 404, 405, 408, 413, 429, 503)
CALL = '<tool_call>\n{"name": "weather", "arguments": {"town": "Oslo"}}\n</tool_call>'
PARAMETERS = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
FUNCTION = {"name": "weather", "description": "Tells it.", "parameters": PARAMETERS}


def _png() -> str:
    data = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


URL = f"data:image/png;base64,{_png()}"
SOURCE = {"type": "base64", "media_type": "image/png", "data": _png()}
SAMPLING = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": 1, "max_tokens": 9}
CALLED = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
TEXT = {"type": "text", "text": "Hi"}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": PARAMETERS}}
USED = {"type": "tool_use", "id": "c1", "name": "weather", "input": {"town": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "4 C"}
THOUGHT = {"type": "reasoning_text", "text": "Hm."}
CHAT = {
    "model": "any", "stream": True, "stream_options": {"include_usage": True}, **SAMPLING,
    "stop": ["END"], "response_format": SCHEMA, "reasoning_effort": "none", "n": 1,
    "chat_template_kwargs": {"enable_thinking": False}, "tool_choice": "auto",
    "tools": [{"type": "function", "function": FUNCTION}],
    "messages": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [TEXT, {"type": "image_url", "image_url": {"url": URL}}]},
        {"role": "assistant", "content": "", "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "c1", "content": "4 C"},
    ],
}  # fmt: skip
MESSAGES = {
    "model": "any", "stream": True, "max_tokens": 9, "system": [TEXT], "stop_sequences": ["END"],
    "thinking": {"type": "disabled"}, "tool_choice": {"type": "any"},
    "tools": [{"name": "weather", "input_schema": PARAMETERS}],
    "messages": [
        {"role": "user", "content": [{"type": "image", "source": SOURCE}, TEXT]},
        {"role": "assistant", "content": [USED]},
        {"role": "user", "content": [RESULT]},
    ],
}  # fmt: skip
RESPONSES = {
    "model": "any", "stream": True, "instructions": "Be short.", "max_output_tokens": 9,
    "text": {"format": {"type": "json_object"}}, "reasoning": {"effort": "low"},
    "tools": [{"type": "function", **FUNCTION}], "tool_choice": "required",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"},
                                     {"type": "input_image", "image_url": URL}]},
        {"type": "reasoning", "summary": [], "content": [THOUGHT]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "4 C"},
    ],
}  # fmt: skip
OLLAMA = {
    "model": "any", "stream": True, "think": False, "format": PARAMETERS,
    "options": {"temperature": 0.5, "num_predict": 9, "stop": ["END"]},
    "tools": [{"type": "function", "function": FUNCTION}],
    "messages": [
        {"role": "user", "content": "Hi", "images": [_png()]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {}}}]},
        {"role": "tool", "tool_name": "weather", "content": "4 C"},
    ],
}  # fmt: skip
COMPLETION = {"model": "any", "stream": True, "prompt": ["Once"], "echo": False, **SAMPLING}
BODIES: dict[str, Any] = {
    "/v1/chat/completions": CHAT, "/v1/messages": MESSAGES, "/v1/responses": RESPONSES,
    "/api/chat": OLLAMA, "/v1/completions": COMPLETION,
    "/v1/messages/count_tokens": MESSAGES, "/tokenize": {"messages": CHAT["messages"]},
    "/api/show": {"model": "scripted"},
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    engine = ScriptedEngine(then=f"Hm.|I look. {CALL}")
    engine.model = MODEL.model_copy(update={"tools": "hermes", "context_length": 20_000})
    with serving(engine.connect, tmp_path_factory.mktemp("fuzz")) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx2.Client(
        base_url=served.url, headers=headers, timeout=LIMIT_S, trust_env=False
    ) as made:
        yield made


WORDS = ["", "\ud800", "\0", "auto", "user", "image_url", "text", "http://a/b.png", "{", "[]",
         "data:image/png;base64,AAAA", 10**400, -1, 1e308, '{"a": 1}']  # fmt: skip
KEYS = st.sampled_from(["type", "text", "content", "role", "name", "function", "$ref"])
SIMPLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
JUNK = st.recursive(
    SIMPLE | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything in a body."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        yield (*at, key)
        if isinstance(each, dict | list):
            yield from places(each, (*at, key))


@st.composite
def damaged(draw: st.DrawFn, body: Any) -> Any:
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 3))):
        *way, key = draw(st.sampled_from(list(places(body))))
        holder = body
        for step in way:
            holder = holder[step]
        match draw(st.sampled_from(["replace", "remove", "twice", "add"])):
            case "remove":
                del holder[key]
            case "twice" if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case "add" if isinstance(holder, dict):
                holder[draw(st.text(max_size=3))] = draw(JUNK)
            case _:
                holder[key] = draw(JUNK)
        if not list(places(body)):
            break
    return body


def check_answer(path: str, answer: httpx2.Response) -> None:
    media = answer.headers["Content-Type"].partition(";")[0]
    if answer.status_code != 200:
        assert answer.status_code in REFUSED, answer.text
        check_error(path, answer.json())
    elif media == "text/event-stream":
        events = [each for each in answer.text.split("\n\n") if "data: " in each]
        data = [each.partition("data: ")[2] for each in events]
        if path in ("/v1/chat/completions", "/v1/completions"):
            assert data.pop() == "[DONE]"
        last = [json.loads(each) for each in data][-1]
        ends = {"/v1/messages": ("message_stop",),
                "/v1/responses": ("response.completed", "response.incomplete")}  # fmt: skip
        assert last.get("type") in ends.get(path, (None,))
    elif media == "application/x-ndjson":
        assert [json.loads(line) for line in answer.text.splitlines()][-1]["done"]
    else:
        assert media == "application/json" and isinstance(answer.json(), dict)


def check_error(path: str, body: Any) -> None:
    if path.startswith("/api/"):
        assert set(body) == {"error"} and isinstance(body["error"], str)
        return
    error = body["error"]
    assert isinstance(error["message"], str) and isinstance(error["type"], str)
    if path.startswith("/v1/messages"):
        assert body["type"] == "error" and set(error) == {"type", "message"}
    else:
        assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("path", BODIES)
def test_the_requests_that_are_damaged_are_answered(client: httpx2.Client, path: str) -> None:
    answer = client.post(path, json=BODIES[path])
    assert answer.status_code == 200, answer.text
    check_answer(path, answer)


def fuzz(client: httpx2.Client, path: str, examples: int) -> None:
    @settings(max_examples=examples, database=None)
    @given(damaged(BODIES[path]))
    def ask(body: Any) -> None:
        content = json.dumps(body).encode()
        check_answer(path, client.post(path, content=content))

    ask()


@pytest.mark.parametrize("path", BODIES)
def test_A3_a_damaged_request_is_answered(client: httpx2.Client, path: str) -> None:
    fuzz(client, path, 30)


@pytest.mark.slow
@pytest.mark.parametrize("path", BODIES)
def test_A3_many_damaged_requests_are_answered(client: httpx2.Client, path: str) -> None:
    fuzz(client, path, 100)


PATHS = (*BODIES, "/v1/models", "/health", "/api/tags", "/v1/models/x", "/", "/v1")


@settings(max_examples=60, database=None)
@given(
    path=st.sampled_from(PATHS),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]),
    content=st.binary(max_size=30) | JUNK.map(lambda each: json.dumps(each).encode()),
)  # fmt: skip
def test_A3_any_method_and_any_bytes_are_answered(
    client: httpx2.Client, path: str, method: str, content: bytes
) -> None:
    answer = client.request(method, path, content=content)
    if method == "HEAD":
        assert answer.status_code in (200, *REFUSED)
    else:
        check_answer(path, answer)
