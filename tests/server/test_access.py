"""Limits on who may connect, how much they may send, and how long they may take."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import json
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from core.api.errors import InvalidRequestError
from core.api.stats import RequestStats
from core.client.codec import encode
from core.server import endpoint, listening
from core.server.__main__ import key_of, main
from core.server.access import Access, digest_of, origin_of
from core.server.listening import address_of, bound
from core.server.messages import Serve
from core.server.relayed import serve_window
from core.server.requests.ask import Delta
from core.server.requests.pictures import Pictures
from tests.server.serving import KEY, LIMIT_S, ScriptedEngine, Served, serving, until

CHAT = "/v1/chat/completions"
HELLO = json.dumps({"messages": [{"role": "user", "content": "Hello"}]}).encode()
PAGE = "https://page.example"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(ScriptedEngine().connect, tmp_path_factory.mktemp("server")) as served:
        yield served


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Authorization": "", "x-api-key": KEY}, 200),
        ({"Authorization": f"bearer {KEY}"}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "LOCALHOST:1"}, 200),
        ({"Host": "[::1]:8484"}, 200),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Basic {KEY}"}, 401),
        ({"Authorization": f"Bearer {KEY}x"}, 401),
        ({"Authorization": "Bearer \xfc"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "192.168.1.5"}, 403),
        ({"Host": "[::1"}, 200),
        ({"Host": "2130706433"}, 403),
        ({"Origin": PAGE}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:8484"}, 403),
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/health", "/v1/models", "/nowhere"])
def test_A4_host_origin_and_key_are_checked_first(
    served: Served, path: str, headers: dict[str, str], status: int
) -> None:
    wanted = 404 if status == 200 and path == "/nowhere" else status
    answered, body = served.raw(path, HELLO if path == CHAT else b"", **headers)
    assert answered == wanted
    if status != 200:
        assert "error" in json.loads(body) and b"Yes" not in body


def test_the_window_is_told_of_a_wrong_address_and_of_no_model(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.seen.clear()
    assert served.raw("/v1/models")[0] == 200 and served.seen == []
    served.raw("/nowhere")
    monkeypatch.setattr(served.engine, "model", None)
    served.raw("/v1/models")
    assert [(each.path, each.state, each.status) for each in served.seen] == [
        ("/nowhere", "refused", 404),
        ("/v1/models", "refused", 503),
    ]


def test_A4_it_listens_on_loopback_unless_switched() -> None:
    with bound(0, lan=False) as own:
        assert own.getsockname()[0] == "127.0.0.1"
    with bound(0, lan=True) as shared:
        assert shared.getsockname()[0] == "0.0.0.0"


def test_A4_an_origin_that_was_entered_may_connect(tmp_path: Path) -> None:
    access = Access(digest_of(KEY), origins=(PAGE,))
    with serving(ScriptedEngine().connect, tmp_path, access) as served:
        assert served.raw(CHAT, HELLO, Origin=PAGE)[0] == 200
        assert served.raw(CHAT, HELLO, Origin=PAGE, Authorization="")[0] == 401
        assert served.raw(CHAT, HELLO, Origin="https://other.example")[0] == 403


@pytest.mark.parametrize(("address", "origin"), [
    ("https://Page.example", PAGE), ("https://page.example:443/a?b#c", PAGE),
    ("http://localhost:80", "http://localhost"), ("http://localhost:3000/", "http://localhost:3000"),
    ("app://obsidian.md", "app://obsidian.md"), ("http://[::1]:80/", "http://[::1]"),
    ("*", ""), ("null", ""), ("page.example", ""), ("https://", ""), ("https://a@b", ""),
])  # fmt: skip
def test_A4_an_origin_is_entered_as_an_address(address: str, origin: str) -> None:
    if origin:
        assert origin_of(address) == origin
    else:
        with pytest.raises(InvalidRequestError, match="not the address"):
            origin_of(address)


def test_A4_other_machines_are_named_by_address_only() -> None:
    headers = {"host": "192.168.1.5:8484", "authorization": f"Bearer {KEY}"}
    Access(digest_of(KEY), lan=True).check(headers)
    with pytest.raises(Exception, match="Host"):
        Access(digest_of(KEY), lan=True).check({**headers, "host": "evil.example"})


def test_the_key_is_made_once_and_kept_privately(tmp_path: Path) -> None:
    made = key_of(None, tmp_path)
    assert len(made) >= 32 and key_of(None, tmp_path) == made
    assert (tmp_path / "server.key").stat().st_mode & 0o077 == 0
    assert key_of("a given key", tmp_path) == "a given key"


@pytest.mark.parametrize("key", ["", "short", "not ascii \xfc", "two\nlines of it"])
def test_a_key_that_protects_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    assert main(["--model", "nowhere", "--data", str(tmp_path), "--key", key]) == 1
    assert "at least 8" in capsys.readouterr().err


@pytest.mark.parametrize("kept", [b"", b"short\n", b"\xff" * 24])
def test_A4_a_damaged_key_file_lets_nobody_in(tmp_path: Path, kept: bytes) -> None:
    (tmp_path / "server.key").write_bytes(kept)
    with pytest.raises(InvalidRequestError, match="key: A key has at least 8"):
        key_of(None, tmp_path)


def test_pictures_that_a_killed_server_left_are_deleted(tmp_path: Path) -> None:
    left = tmp_path / "aa" / ("a" * 64)
    left.parent.mkdir(parents=True)
    left.write_bytes(b"a picture")
    Pictures(tmp_path)
    assert not left.exists()


def test_the_number_of_tiny_pictures_is_bounded(tmp_path: Path) -> None:
    pictures = Pictures(tmp_path, most_bytes=40_000)
    for width in range(1, 5):
        data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(width)).decode()
        with pictures.releasing([pictures.put(data, "image")]):
            pass
    assert sum(each.is_file() for each in tmp_path.rglob("*")) == 2


def test_a_folder_that_can_not_be_used_is_said_to_the_window(tmp_path: Path) -> None:
    file = tmp_path / "pictures"
    file.touch()
    told = list[Any]()
    first = encode(Serve(port=0, lan=False, key="", pictures=str(file)))
    asyncio.run(serve_window(BytesIO(first), told.append))
    assert [each.error.name for each in told] == ["InternalError"]


@pytest.mark.parametrize(
    ("option", "value", "name"),
    [
        ("--checkpoints", "99999", "count"),
        ("--port", "99999", "Port"),
        ("--host-bytes", f"{2**53 + 1}", "host_bytes"),
    ],
)
def test_an_option_that_can_not_be_used_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, name: str
) -> None:
    assert main(["--model", "nowhere", "--data", str(tmp_path), option, value]) == 1
    assert name in capsys.readouterr().err


def test_a_port_that_is_taken_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with bound(0, lan=False) as taken:
        port = str(taken.getsockname()[1])
        assert main(["--model", "nowhere", "--data", str(tmp_path), "--port", port]) == 1
    assert f"Port {port} can't be used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"\xff\xfe", 400),
        (b'{"a":' * 500 + b"1" + b"}" * 500, 400),
        (b'{"messages": NaN}', 400),
        (b" " * 4096, 413),
    ],
)
def test_A3_bodies_that_can_not_be_read(
    served: Served, monkeypatch: pytest.MonkeyPatch, body: bytes, status: int
) -> None:
    monkeypatch.setattr(endpoint, "MOST_BODY_BYTES", 4_000)
    answered, answer = served.raw(CHAT, body)
    assert answered == status and json.loads(answer)["error"]["message"]


def test_A3_a_body_that_is_too_large_is_answered_while_it_is_sent(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "MOST_BODY_BYTES", 4_000)
    assert served.raw(CHAT, b" " * 16 * 2**20)[0] == 413


def connected(served: Served, data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", served.port), timeout=LIMIT_S)
    connection.sendall(data)
    return connection


HEAD = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n".encode()


@pytest.mark.parametrize("data", [b"", HEAD[:30]])
def test_a_head_that_never_ends_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(listening, "HEAD_S", 0.2)
    with connected(served, data) as connection:
        began = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        assert time.monotonic() - began < LIMIT_S / 2


def test_a_body_that_never_ends_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "BODY_S", 0.2)
    with connected(served, HEAD + b"Content-Length: 100\r\n\r\n{") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_parts_of_an_answer_wait_for_no_acknowledgement(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = listening._Protocol.connection_made
    at_once: list[int] = []

    def look(protocol: listening._Protocol, transport: asyncio.Transport) -> None:
        begin(protocol, transport)
        connection = transport.get_extra_info("socket")
        at_once.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(listening._Protocol, "connection_made", look)
    assert served.raw("/health")[0] == 200
    assert at_once and all(at_once)


def test_nothing_said_is_in_the_logs(
    served: Served, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps({"messages": [{"role": "SECRET", "content": "SECRET"}]}).encode()
    assert served.raw(CHAT, body)[0] == 400
    with connected(served, b"SECRET nonsense\r\n\r\n") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    captured = capfd.readouterr()
    assert "SECRET" not in captured.out + captured.err + caplog.text


@pytest.mark.parametrize("stream", [False, True])
def test_A3_a_client_that_goes_ends_its_request(tmp_path: Path, stream: bool) -> None:
    engine = ScriptedEngine(None)
    body = json.dumps({**json.loads(HELLO), "stream": stream}).encode()
    length = f"Content-Length: {len(body)}\r\n\r\n".encode()
    with serving(engine.connect, tmp_path) as served:
        with connected(served, HEAD + length + body):
            until(lambda: len(engine.commands) == 1)
            with connected(served, HEAD + length + body):
                until(lambda: served.answering.turns.num_waiting == 1)
            # The one that waited goes without having reached the engine.
            until(lambda: served.answering.turns.num_waiting == 0)
            assert engine.cancelled == []
        until(lambda: engine.cancelled == [1])
        assert len(engine.commands) == 1
        assert served.raw(CHAT, HELLO)[0] == 200


def test_A3_a_client_that_takes_nothing_ends_its_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "SEND_S", 0.2)
    monkeypatch.setattr(endpoint, "SILENCE_S", 0.01)
    engine = ScriptedEngine(None)
    engine.endless = "x" * 2**25
    body = json.dumps({**json.loads(HELLO), "stream": True}).encode()
    length = f"Content-Length: {len(body)}\r\n\r\n".encode()
    with (
        serving(engine.connect, tmp_path) as served,
        connected(served, HEAD + length + body) as connection,
    ):
        until(lambda: engine.cancelled == [1])
        # Nothing waits for the client any longer: it gets only what is on its way.
        answer = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(2**16):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 200") and len(answer) < len(engine.endless)


def test_A3_a_stream_is_not_silent_while_a_prompt_is_read_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "SILENCE_S", 0.02)

    async def steps() -> AsyncGenerator[Delta, None]:
        for _ in range(20):
            await asyncio.sleep(0.005)
            yield Delta(stats=RequestStats())

    async def heard() -> list[object]:
        return [event async for event in endpoint.with_silences(steps())]

    events = asyncio.run(heard())
    assert events.count(None) >= 3 and len(events) - events.count(None) == 20


def test_A3_too_many_requests_are_told_when_to_come_back(tmp_path: Path) -> None:
    engine = ScriptedEngine(None)
    with serving(engine.connect, tmp_path) as served:
        served.answering.turns._most = 0
        with connected(served, HEAD + f"Content-Length: {len(HELLO)}\r\n\r\n".encode() + HELLO):
            until(lambda: len(engine.commands) == 1)
            with connected(
                served, HEAD + f"Content-Length: {len(HELLO)}\r\n\r\n".encode() + HELLO
            ) as second:
                answer = second.recv(1000)
        assert answer.startswith(b"HTTP/1.1 429") and b"retry-after: " in answer


def test_A4_other_machines_are_told_the_address_in_their_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with contextlib.closing(bound(0, False)) as alone:
        assert address_of(alone) == f"http://127.0.0.1:{alone.getsockname()[1]}"
    with contextlib.closing(bound(0, True)) as everywhere:
        found = urlsplit(address_of(everywhere))
        with socket.create_connection((found.hostname, found.port), timeout=LIMIT_S):
            pass

        def unreachable(*_: object) -> None:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

        monkeypatch.setattr(
            socket, "socket", type("Cut", (socket.socket,), {"connect": unreachable})
        )
        assert address_of(everywhere).startswith("http://127.0.0.1:")
