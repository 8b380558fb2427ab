"""A5: a server that fails in any way costs an error with a name, and nothing goes elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.api.commands import Cancel
from core.api.errors import EngineDiedError
from core.api.events import Finished
from core.api.limits import LONGEST_REPLY_BYTES
from core.client import child
from core.client.requests import EngineError
from core.remote import client, reading
from core.remote.connection import is_readable, normalised
from core.remote.messages import Look, RemoteServer
from tests.remote.fake_server import EVENTS, Answer, FakeServer, as_json, delta, event, streamed
from tests.remote.talking import QUICK, Talk, asked, reply_of, stop_at_text, talk, until

HURRIED = replace(QUICK, first_s=0.3, stall_s=0.3)
COMMENTS = Answer([event(delta("Begun")), b": still here\n\n"], kind=EVENTS, end="endless")
BAD: dict[str, tuple[Answer, str, str]] = {
    "stalls": (streamed(delta("Begun"), done=False, end="hang"), "RemoteStalledError", "Begun"),
    "only comments": (COMMENTS, "RemoteStalledError", "Begun"),
    "breaks off": (streamed(delta("Begun"), done=False), "RemoteStalledError", "Begun"),
    "breaks off its body": (
        replace(streamed(delta("Begun"), done=False), short=True),
        "RemoteStalledError",
        "Begun",
    ),
    "nonsense": (
        Answer([event(delta("Begun")), event("{nonsense")], kind=EVENTS),
        "RemoteAnswerError",
        "Begun",
    ),
    "no object": (Answer([event("[1, 2]")], kind=EVENTS), "RemoteAnswerError", ""),
    "deep": (Answer([event("[" * 100_000)], kind=EVENTS), "RemoteAnswerError", ""),
    "other model": (
        streamed(delta("Wrong", model="another/model"), delta("Wrong")),
        "RemoteModelError",
        "",
    ),
    "other model amid": (
        Answer([event(delta("Begun")), event(delta("Wrong", model="another"))], kind=EVENTS),
        "RemoteModelError",
        "Begun",
    ),
    "error amid": (
        streamed(delta("Begun"), {"error": {"message": "out of memory"}}),
        "RemoteRefusedError",
        "Begun",
    ),
    "line without end": (Answer([b"data: " + b"x" * 2**20], kind=EVENTS, end="endless"),
                         "RemoteAnswerError", ""),
    "huge JSON": (Answer([b"[" + b" " * 2**20], end="endless"), "RemoteAnswerError", ""),
    "compressed": (
        Answer([b"\x1f\x8b"], headers={"Content-Encoding": "gzip"}),
        "RemoteAnswerError",
        "",
    ),
    "redirect": (
        Answer(status=307, headers={"Location": "http://127.0.0.1:1/v1/chat/completions"}),
        "RemoteAnswerError",
        "",
    ),
    "wrong key": (as_json({"error": {"message": "no"}}, 401), "RemoteKeyError", ""),
    "unknown model": (
        as_json({"error": {"message": "The model `m` does not exist."}}, 404),
        "RemoteRefusedError",
        "",
    ),
    "page": (Answer([b"<p>Log in"], kind="text/html; charset=utf-8"), "RemoteAnswerError", ""),
    "whole without choices": (as_json({"message": "no"}), "RemoteAnswerError", ""),
    "whole of a wrong type": (as_json([]), "RemoteAnswerError", ""),
    "whole that ended too soon": (
        as_json({"choices": [{"message": {"content": "Begun"}, "finish_reason": "abort"}]}),
        "RemoteStalledError",
        "Begun",
    ),
    "aborts": (
        streamed(delta("Begun"), delta(reason="abort")),
        "RemoteStalledError",
        "Begun",
    ),
    "lines without end": (Answer([b"data:\n" * 2**18], kind=EVENTS, end="endless"),
                          "RemoteAnswerError", ""),
    "breaks off in a mark": (streamed(delta("<thi"), done=False), "RemoteStalledError", "<thi"),
    "text for JSON": (Answer([b"<html>Welcome"]), "RemoteAnswerError", ""),
    "nothing": (Answer(kind=EVENTS), "RemoteStalledError", ""),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD)
def test_A5_a_fault_has_a_name_and_keeps_what_arrived(fault: str) -> None:
    answer, name, kept = BAD[fault]
    slow = HURRIED if fault in ("stalls", "only comments") else QUICK
    with FakeServer() as server:
        server.chat(answer)
        heard = talk(reply_of(server.address), slow)
        asked_for = {each.path for each in server.asked}
    assert heard.error == name
    assert heard.text == kept
    assert asked_for == {"/v1/chat/completions"}
    # Once a word has come, and for errors that stay, nothing is asked twice.
    assert len(server.asked) == 1


def test_A5_what_passes_is_tried_again_before_the_first_token() -> None:
    with FakeServer() as server:
        busy = as_json({"error": {"message": "Loading model"}}, 503, Retry_After="0")
        dropped = Answer(kind=EVENTS, short=True)
        server.chat(busy, dropped, streamed(delta("Yes.", reason="stop")))
        heard = talk(reply_of(server.address))
    assert heard.finished.reply.text == "Yes." and len(server.asked) == 3


def test_A5_attempts_are_bounded_and_the_reason_is_told() -> None:
    with FakeServer() as server:
        server.chat(as_json({"error": {"message": "Loading model"}}, 503))
        heard = talk(reply_of(server.address))
    assert heard.error == "RemoteUnreachableError" and len(server.asked) == QUICK.attempts
    assert heard.words == "The server answers 503: Loading model."


def test_A5_a_server_that_is_not_there_has_a_name() -> None:
    with FakeServer() as server:
        address = server.address
    assert talk(reply_of(address)).error == "RemoteUnreachableError"
    assert talk(Look(request=1, address=address)).error == "RemoteUnreachableError"


@pytest.fixture
def certificate(tmp_path: Path) -> ssl.SSLContext:
    """One that nobody has signed."""
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate")]
    name = ["-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    subprocess.run([*made, *files, *name], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    return context


def test_A5_a_certificate_that_can_t_be_verified_is_refused(certificate: ssl.SSLContext) -> None:
    with FakeServer(certificate) as server:
        heard = talk(reply_of(server.address, key="secret"))
    assert heard.error == "RemoteUnreachableError" and server.asked == []
    assert heard.words == "The request failed: the server's certificate can't be verified."


def test_A5_an_endless_reply_ends_at_the_limit() -> None:
    piece = event(delta("x" * 2**18))
    with FakeServer() as server:
        server.chat(Answer([piece], kind=EVENTS, end="endless"))
        heard = talk(reply_of(server.address))
    assert heard.finished.reason == "size"
    assert len(heard.text) <= LONGEST_REPLY_BYTES + 2**20


def test_A5_one_long_event_is_cut_at_the_limit() -> None:
    with FakeServer() as server:
        server.chat(streamed(delta("\N{EURO SIGN}" * 2**21)))
        heard = talk(reply_of(server.address))
    assert heard.finished.reason == "size" and heard.finished.reply.text == heard.text
    assert LONGEST_REPLY_BYTES - 3 <= len(heard.text.encode()) <= LONGEST_REPLY_BYTES


def test_A5_blanks_without_end_end_at_the_limit() -> None:
    with FakeServer() as server:
        server.chat(Answer([event(delta(" " * 2**18))], kind=EVENTS, end="endless"))
        heard = talk(reply_of(server.address))
    assert heard.finished.reason == "size"


def test_A5_ids_without_end_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_IDS", 1_000)
    reader = reading.ReplyReader(reply_of("http://host/v1"))
    ids = json.dumps({"choices": [{"delta": {"content": ""}, "token_ids": [7] * 600}]})
    said = json.dumps({"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]})
    assert [reader.take([each]) for each in (ids, ids, ids)] == [[], [], []]
    assert len(reader._ids) < 1_000
    reader.take([said, "[DONE]"])
    assert reader.finished().reply.text == "Yes." and reader.finished().reply.ids is None


def test_A5_progress_is_told_in_steps_that_a_person_sees() -> None:
    reader = reading.ReplyReader(reply_of("http://host/v1"))
    told = [
        progress
        for done in range(100_000)
        for progress in reader.take(
            [json.dumps({"prompt_progress": {"total": 100_000, "processed": done}})]
        )
    ]
    assert 100 < len(told) < 1_000


def test_A5_stop_right_after_send_ends_the_reply() -> None:
    async def stop(service: Any, heard: Talk) -> None:
        await service.take(Cancel(target=1))

    with FakeServer() as server:
        server.chat(streamed(end="hang", done=False))
        heard = talk(reply_of(server.address), meanwhile=stop)
    assert heard.finished.reason == "cancelled"


def test_A5_a_stream_that_goes_on_after_its_end_is_left() -> None:
    more = Answer([event(delta("Yes.", reason="stop")), b": more\n\n"], kind=EVENTS, end="endless")
    with FakeServer() as server:
        server.chat(more)
        heard = talk(reply_of(server.address))
    assert heard.finished.reply.text == "Yes."


@pytest.mark.parametrize("end", ["hang", "endless"])
def test_A5_stop_ends_a_reply_and_its_request(end: str) -> None:
    with FakeServer() as server:
        server.chat(Answer([event(delta("Begun "))], kind=EVENTS, end=end))
        heard = talk(reply_of(server.address), meanwhile=stop_at_text)
    assert heard.finished.reason == "cancelled"
    assert heard.finished.reply.text == heard.text and heard.text.startswith("Begun")


def test_A5_a_key_that_an_error_quotes_is_not_shown() -> None:
    said = as_json({"error": {"message": "Incorrect key: sk-12345."}}, 401)
    with FakeServer() as server:
        server.chat(said)
        heard = talk(reply_of(server.address, key="sk-12345"))
    assert heard.words == "The server answers 401: Incorrect key: [key]. Enter another key."


def test_A5_an_error_shows_no_key_and_no_control_characters_of_the_server() -> None:
    with FakeServer() as server:
        server.chat(
            streamed(delta(model="a sk-12345\n\x1b[1m\u202eb")),
            as_json({"error": {"message": "no\x1b[1m \u202esk-12345\x00"}}, 400),
        )
        first, second = (talk(reply_of(server.address, key="sk-12345")) for _ in range(2))
    assert first.words.startswith("It answers with a [key] [1mb, and this chat asked m.")
    assert second.words == "The server answers 400: no[1m [key]."


@pytest.mark.parametrize(
    ("asked_for", "answered", "same"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("gpt-4", "gpt-4-0613", True),
        ("llama3.2:latest", "llama3.2", True),
        ("org/Model", "model.gguf", True),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20", False),
        ("qwen3-2507", "qwen3-2512", False),
        ("qwen3:8b", "qwen3:4b", False),
    ],
)
def test_A5_another_model_is_known_by_its_name(asked_for: str, answered: str, same: bool) -> None:
    with FakeServer() as server:
        server.chat(streamed(delta("Yes.", model=answered, reason="stop")))
        heard = talk(reply_of(server.address, model=asked_for))
    assert isinstance(heard.events[-1], Finished) is same


def test_A5_a_process_that_hangs_is_ended_and_the_next_reply_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "CANCEL_PATIENCE_S", 0.0)
    monkeypatch.setattr(child, "STOP_PATIENCE_S", 0.1)

    async def session(fake: FakeServer) -> None:
        remote = client.RemoteClient()
        server = RemoteServer(address=fake.address)
        request = remote.ask(asked(), server, "m", "", "")
        await until(lambda: fake.asked)
        fake.chat(streamed(delta("Yes.", reason="stop")))
        assert remote.pid is not None
        os.kill(remote.pid, signal.SIGSTOP)
        request.cancel()
        with pytest.raises(EngineError) as failure:
            await request.last()
        assert failure.value.info().name == "EngineDiedError"
        finished = await remote.ask(asked(), server, "m", "", "").last()
        assert finished.reply.text == "Yes."
        await remote.close()

    with FakeServer() as server:
        server.chat(streamed(end="hang", done=False))
        asyncio.run(session(server))


def test_A5_a_stop_that_reaches_no_process_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ended(_child: child.Child[Any], _message: object) -> None:
        raise EngineDiedError("The process no longer accepts commands.")

    monkeypatch.setattr(child.Child, "send", ended)
    monkeypatch.setattr(child.Child, "pid", 1)
    asyncio.run(client.RemoteClient()._send_cancel(1))


@pytest.mark.parametrize(
    "listed",
    [
        b"[]", b"{", b'{"data": 5}', b'{"data": [{"id": 5}, 7, {"id": "' + b"x" * 600 + b'"}]}',
        b'{"data": [{"id": "a", "max_model_len": -1, "meta": 5, "owned_by": ["vllm"]}]}',
        b'{"data": [{"id": ""}, {"id": "a\\n"}, {"id": "\\u202ea"}, {"id": "\\ud800"}]}',
    ],
)  # fmt: skip
def test_A5_a_list_of_nonsense_is_refused_or_left_out(listed: bytes) -> None:
    with FakeServer() as server:
        server.on("/v1/models", Answer([listed]))
        heard = talk(Look(request=1, address=server.address))
    last: Any = heard.events[-1]
    if listed.startswith(b'{"data": ['):
        assert [each.name for each in last.server.models] in ([], ["a"])
        assert all(each.context_length is None for each in last.server.models)
    else:
        assert heard.error == "RemoteAnswerError"


def test_A5_a_bad_proxy_has_a_name() -> None:
    for proxy in ("nonsense", "socks5://127.0.0.1:1", "http://a:99999", "http://"):
        heard = talk(reply_of("https://example.invalid/v1"), proxy=proxy)
        assert heard.error == "RemoteUnreachableError" and "prox" in heard.words


def test_A5_certificates_that_can_t_be_read_have_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    heard = talk(reply_of("https://example.invalid/v1"))
    assert heard.error == "RemoteUnreachableError" and "certificates" in heard.words


def test_A5_loopback_never_goes_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with FakeServer() as server:
        server.chat(streamed(delta("Yes.", reason="stop")))
        heard = talk(reply_of(server.address), proxy="http://127.0.0.1:1")
    assert heard.finished.reply.text == "Yes."


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("gpu-box:8000/v1/", "http://gpu-box:8000/v1"),
        ("192.168.1.5:1234", "http://192.168.1.5:1234"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("api.example.com/v1/chat/completions", "https://api.example.com/v1"),
        (" HTTPS://Api.Example.com/v1/models ", "https://api.example.com/v1"),
        ("http://api.example.com", "http://api.example.com"),
    ],
)
def test_an_address_is_completed(typed: str, address: str) -> None:
    assert normalised(typed) == address


@pytest.mark.parametrize(
    "typed",
    ["", "https://", "ftp://host", "https://user:password@host", "https://host/?key=1",
     "host:99999", "file:///etc/passwd", "http://[::1", "host name", "http://host:port"],
)  # fmt: skip
def test_a_bad_address_is_refused(typed: str) -> None:
    assert talk(Look(request=1, address=typed)).error == "RemoteUnreachableError"


def test_what_others_can_read_is_known() -> None:
    assert is_readable("http://gpu-box/v1") and is_readable("http://192.168.1.5/v1")
    assert not is_readable("http://127.0.0.1:1/v1") and not is_readable("https://host/v1")


def ended(heard: Talk) -> set[int]:
    return {each.request for each in heard.events if isinstance(each, Finished)}


def test_A5_many_replies_at_once_keep_their_answers() -> None:
    async def more(service: Any, heard: Talk) -> None:
        for number in range(2, 12):
            generate = asked(str(number)).model_copy(update={"request": number})
            await service.take(reply_of(address, generate))
        await until(lambda: len(ended(heard)) == 11)

    with FakeServer() as server:
        address = server.address
        server.chat(streamed(delta("Yes.", reason="stop")))
        heard = talk(reply_of(address), meanwhile=more)
    assert ended(heard) == set(range(1, 12))
