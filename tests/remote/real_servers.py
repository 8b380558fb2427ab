"""llama.cpp's server and vLLM with tiny models, and what they answer.

    python -m tests.remote.real_servers

writes tests/remote/recorded/, whose answers tests/remote/test_recorded.py replays.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from core.api.chat import Conversation, TextPart, UserMessage
from core.api.params import SamplingParams
from core.api.reply_format import ReplyFormat
from core.remote.body import chat_body, completion_body, prompt_ids
from core.remote.connection import Connections
from core.remote.messages import Kind, Reply
from core.vision.decode import PictureDecoder
from tests.bench.levels import here
from tests.bench.llama.build import Build, usual_folder
from tests.bench.reuse import written
from tests.bench.server_process import KEY, ServerProcess
from tests.remote import vllm
from tests.remote.formats import MODEL, RECORDED
from tests.remote.talking import asked, reply_of, talk

# Asked for on import: tests have empty user folders.
LLAMA, VLLM = usual_folder(), vllm.usual_folder()
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "round": {"type": "boolean"}},
    "required": ["colour", "round"],
    "additionalProperties": False,
}


@contextmanager
def llamacpp(folder: Path) -> Iterator[ServerProcess]:
    """A model that sees pictures and writes random words."""
    build = Build(LLAMA, (here() or (None,))[-1], _say)
    build.build(jobs=2)
    model, vision = written(build, folder)
    command = [
        str(build.program("llama-server")), "-m", str(model), "--mmproj", str(vision), "--jinja",
        "--alias", MODEL, "--api-key", KEY, "-c", "4096", "-np", "1", "-t", "2",
    ]  # fmt: skip
    with ServerProcess("llama-server", command, folder / "llama-server.log") as server:
        yield server


@contextmanager
def vllm_server(folder: Path) -> Iterator[ServerProcess]:
    program = vllm.environment(VLLM, _say)
    with vllm.server(program, vllm.write_model(folder / "model"), folder / "vllm.log") as server:
        yield server


SERVERS: dict[Kind, Callable[[Path], Any]] = {"llamacpp": llamacpp, "vllm": vllm_server}


def question(kind: Kind, server: ServerProcess, *messages: Any, **more: Any) -> Reply:
    more = {"sampling": SamplingParams(temperature=0, seed=1, max_tokens=6), **more}
    generate = asked(
        conversation=Conversation(messages=tuple(map(said, messages))), thinking=False, **more
    )
    return reply_of(f"{server.url}/v1", generate, MODEL, kind, KEY)


def said(message: Any) -> Any:
    return UserMessage(content=(TextPart(text=message),)) if isinstance(message, str) else message


def exchanges(kind: Kind, server: ServerProcess) -> Iterator[tuple[str, str, Any]]:
    """Names, paths and bodies of requests; the body of a GET is None."""
    yield "models", "v1/models", None
    chat = question(kind, server, "What is round?")
    yield "reply", "v1/chat/completions", _body(chat)
    form = ReplyFormat(kind="json_schema", text=json.dumps(SCHEMA))
    long = SamplingParams(temperature=0, max_tokens=64)
    schema = question(kind, server, "What is round?", format=form, sampling=long)
    yield "schema", "v1/chat/completions", _body(schema)
    stopped = talk(chat).text[1:4]
    stop = SamplingParams(temperature=0, max_tokens=64, stop=(stopped,))
    yield (
        "stop",
        "v1/chat/completions",
        _body(question(kind, server, "What is round?", sampling=stop)),
    )
    yield "too long", "v1/chat/completions", _body(question(kind, server, "round " * 5_000))
    yield "no such model", "v1/chat/completions", {**_body(chat), "model": "other"}
    if kind == "vllm":
        reply = talk(chat).finished.reply
        following = question(kind, server, "What is round?", reply, "And now?")
        yield "ids", "v1/completions", _completion(following)


def _body(reply: Reply) -> dict[str, Any]:
    return chat_body(reply, PictureDecoder())


def _completion(reply: Reply) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        connections = Connections()
        prompt = await prompt_ids(connections, reply, _body(reply))
        await connections.close()
        assert prompt is not None
        return completion_body(_body(reply), prompt)

    return asyncio.run(ask())


def _say(words: str) -> None:
    print(words, file=sys.stderr)


def record(kind: Kind, server: ServerProcess) -> dict[str, Any]:
    answers = {}
    with httpx2.Client(trust_env=False, timeout=120) as client:

        def answer(path: str, body: Any, key: str = KEY) -> dict[str, Any]:
            url, headers = f"{server.url}/{path}", {"Authorization": f"Bearer {key}"}
            method = "GET" if body is None else "POST"
            got = client.request(method, url, headers=headers, json=body)
            media = got.headers["Content-Type"].partition(";")[0]
            return {"path": f"/{path}", "status": got.status_code, "type": media, "body": got.text}

        for name, path, body in exchanges(kind, server):
            answers[name] = answer(path, body)
        answers["wrong key"] = answer("v1/chat/completions", {}, "wrong")
    return answers


def main() -> None:
    RECORDED.mkdir(exist_ok=True)
    for kind, serving in SERVERS.items():
        if sys.argv[1:] and kind not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as server:
            text = json.dumps(record(kind, server), indent=1, ensure_ascii=False)
            text = text.replace(folder, "/models")
            (RECORDED / f"{kind}.json").write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
