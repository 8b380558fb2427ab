"""llama.cpp's server and vLLM as remote engines (`make test-remote`)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from core.api.chat import ImagePart, TextPart, UserMessage
from core.api.events import Failed, Generated
from core.api.params import SamplingParams
from core.api.reply_format import ReplyFormat
from core.remote.__main__ import Service
from core.remote.messages import Kind, Look, Looked
from tests.bench.server_process import KEY, ServerProcess
from tests.remote.formats import MODEL
from tests.remote.real_servers import SCHEMA, SERVERS, question
from tests.remote.talking import QUICK, Talk, reply_of, stop_at_text, talk, until

pytestmark = [pytest.mark.remote, pytest.mark.timeout(3600)]
PATIENT = replace(QUICK, first_s=120.0, stall_s=60.0, numbers_s=5.0, pause_s=1.0, attempts=8)
GREEDY = SamplingParams(temperature=0, max_tokens=40)
LONG = " ".join(f"Number {number} is round and number {number + 1} is not." for number in range(60))


@pytest.fixture(scope="module", params=SERVERS)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture(scope="module")
def server(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with SERVERS[kind](tmp_path_factory.mktemp(kind)) as running:
        yield running


def test_it_is_recognised_and_wants_its_key(kind: Kind, server: ServerProcess) -> None:
    heard = talk(Look(request=1, address=server.url, key=KEY)).events[-1]
    assert isinstance(heard, Looked) and heard.server.kind == kind
    (model,) = heard.server.models
    assert (model.name, model.context_length) == (MODEL, 4096)
    wrong = reply_of(f"{server.url}/v1", model=MODEL, kind=kind, key="wrong")
    assert talk(wrong).error == "RemoteKeyError"


def test_a_reply_is_streamed(kind: Kind, server: ServerProcess) -> None:
    heard = talk(question(kind, server, "What is round?", sampling=GREEDY), PATIENT)
    assert sum(isinstance(each, Generated) for each in heard.events) > 1
    end = heard.finished
    assert end.reply.text == heard.text != ""
    assert end.stats.remote is not None and end.stats.remote.prompt
    assert end.stats.prompt_tokens > 4 and 0 < end.stats.reply_tokens <= 40
    assert end.stats.ttft_s is not None
    ids = end.reply.ids
    if kind == "vllm":
        ended = end.reason == "stop"
        assert ids is not None and ids.num_ids == end.stats.reply_tokens - ended
    else:
        assert ids is None
    again = talk(question(kind, server, "What is round?", sampling=GREEDY), PATIENT)
    assert again.text == heard.text


def test_a_stop_string_ends_a_reply_before_it(kind: Kind, server: ServerProcess) -> None:
    whole = talk(question(kind, server, "What is round?", sampling=GREEDY), PATIENT).text
    stop = whole[3:6]
    sampling = GREEDY.model_copy(update={"stop": (stop,)})
    end = talk(question(kind, server, "What is round?", sampling=sampling), PATIENT).finished
    assert (end.reply.text, end.reason) == (whole[: whole.index(stop)], "stop")
    assert end.reply.ids is None


def test_stop_ends_a_reply_and_the_server_goes_on(kind: Kind, server: ServerProcess) -> None:
    endless = GREEDY.model_copy(update={"max_tokens": None, "temperature": 1.5})
    heard = talk(question(kind, server, "Tell me all.", sampling=endless), PATIENT, stop_at_text)
    assert heard.finished.reason in ("cancelled", "stop")
    assert talk(question(kind, server, "And now?"), PATIENT).finished.reply.text


def test_structured_output_fits_its_schema(kind: Kind, server: ServerProcess) -> None:
    form = ReplyFormat(kind="json_schema", text=json.dumps(SCHEMA))
    longer = GREEDY.model_copy(update={"max_tokens": 200})
    heard = talk(question(kind, server, "What is it?", sampling=longer, format=form), PATIENT)
    assert heard.finished.reason == "stop"
    found = json.loads(heard.text)
    assert found["colour"] in ("red", "blue") and isinstance(found["round"], bool)
    assert set(found) == {"colour", "round"}


def test_tokens_from_the_servers_cache_are_reported(kind: Kind, server: ServerProcess) -> None:
    first, second = (talk(question(kind, server, LONG), PATIENT).finished for _ in range(2))
    assert first.stats.remote is not None and first.stats.remote.cached
    assert first.stats.prompt_tokens == second.stats.prompt_tokens > 500
    assert second.stats.reused_tokens >= second.stats.prompt_tokens // 2
    assert first.stats.reused_tokens < second.stats.reused_tokens


def test_a_picture_is_seen(kind: Kind, server: ServerProcess, tmp_path: Path) -> None:
    if kind == "vllm":
        pytest.skip("its model here takes texts only")
    path = tmp_path / "picture"
    Image.new("RGB", (128, 128), "red").save(path, "PNG")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    image = ImagePart(digest=digest, path=str(path), name="picture")
    text = TextPart(text="What colour is it?")
    seen = talk(question(kind, server, UserMessage(content=(image, text))), PATIENT).finished
    blind = talk(question(kind, server, "What colour is it?"), PATIENT).finished
    assert seen.reply.text and seen.stats.prompt_tokens > blind.stats.prompt_tokens + 8


def test_replies_go_back_as_ids_and_hit_the_cache(kind: Kind, server: ServerProcess) -> None:
    """Texts would end the prefix cache in the reply, which has more than a block of tokens."""
    if kind != "vllm":
        pytest.skip("it reports no ids")
    sampling = SamplingParams(temperature=0, max_tokens=400)
    first = talk(question(kind, server, "Go on.", sampling=sampling), PATIENT).finished
    assert first.reply.ids is not None
    texts = first.reply.model_copy(update={"ids": None})
    by_text = talk(question(kind, server, "Go on.", texts, "And?"), PATIENT).finished
    by_ids = talk(question(kind, server, "Go on.", first.reply, "And?"), PATIENT).finished
    sampled = first.stats.prompt_tokens + first.reply.ids.num_ids
    assert by_text.stats.reused_tokens < by_ids.stats.reused_tokens
    assert sampled - 128 <= by_ids.stats.reused_tokens <= sampled
    form = ReplyFormat(kind="json_schema", text=json.dumps(SCHEMA))
    held = question(kind, server, "Go on.", first.reply, "And?", format=form, sampling=sampling)
    assert set(json.loads(talk(held, PATIENT).text)) == {"colour", "round"}


def test_A5_a_restart_amid_a_reply(kind: Kind, server: ServerProcess) -> None:
    endless = GREEDY.model_copy(update={"max_tokens": 3_000})

    async def kill(_: Service, heard: Talk) -> None:
        await until(lambda: heard.text)
        await asyncio.to_thread(server.stop, kill=True)

    heard = Talk()
    for _ in range(5):
        heard = talk(question(kind, server, "Tell me all.", sampling=endless), PATIENT, kill)
        server.start()
        if isinstance(heard.events[-1], Failed):
            break
        # vLLM may send a whole reply of so small a model at once.
        server.wait()
    assert heard.text and heard.error == "RemoteStalledError"
    # Without waiting: it refuses connections, then says that it loads.
    longer = replace(PATIENT, attempts=12)
    assert talk(question(kind, server, "And now?"), longer).finished.reply.text
