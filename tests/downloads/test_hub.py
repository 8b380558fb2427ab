"""The hub's answers: searched, listed and refused; hostile names, absurd JSON, and the token."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from core.api.errors import (
    HubAnswerError,
    HubUnreachableError,
    NoAccessError,
    NoSuchModelError,
    WaymarkError,
)
from core.api.events import Failed
from core.client.child import Child
from core.downloads.__main__ import Service
from core.downloads.choices import ARCHITECTURES, FAMILIES, choices, suggested
from core.downloads.client import DownloadsClient
from core.downloads.hub import Hub, TryAgainError, look, search
from core.downloads.messages import (
    Configure,
    Connection,
    Fetch,
    Found,
    Pause,
    Paused,
    Progress,
    RemoteFile,
    Repository,
    Search,
    Stopped,
)
from core.downloads.names import checked_path, repository_name
from core.downloads.transfer import Patience
from core.gguf.models.model import ARCHITECTURES as READ_ARCHITECTURES
from core.loading.registry import FAMILIES as READ_FAMILIES
from tests.downloads.fake_hub import COMMIT, FakeHub, FakeRepository

T = TypeVar("T")
GGUF = {"config": {}, "gguf": {"architecture": "qwen35", "total": 4_000_000_000}}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub({
        "Org/Small": FakeRepository({"config.json": b"{}", "model.safetensors": bytes(5_000)}),
        "Org/Other": FakeRepository({}, config={"model_type": "mamba9"}),
        "Org/For-mlx": FakeRepository({}, more={"tags": ["mlx"]}),
        "Org/Q-GGUF": FakeRepository({"Q-Q4_K_M.gguf": bytes(2_000)}, more=GGUF),
    }) as hub:  # fmt: skip
        yield hub


def ask(address: str, question: Callable[[Hub], Awaitable[T]], token: str = "") -> T:
    async def asked() -> T:
        client = Hub(Connection(hub=address, token=token), 1.0)
        try:
            return await question(client)
        finally:
            await client.close()

    return asyncio.run(asked())


def test_only_what_runs_is_found(hub: FakeHub) -> None:
    assert READ_FAMILIES.keys() == FAMILIES and READ_ARCHITECTURES.keys() == ARCHITECTURES
    found = ask(hub.address, lambda client: search(client, " org/ "))
    assert [each.name for each in found] == ["Org/Small", "Org/Q-GGUF"]
    assert found[0].licence == "apache-2.0" and found[1].parameters == 4_000_000_000
    listed = ask(hub.address, lambda client: look(client, "Org/Small"))
    assert listed.commit == COMMIT and listed.files[1].sha256 and listed.files[0].git_blob


@pytest.mark.parametrize(
    ("status", "token", "kind"),
    [(401, "", NoAccessError), (403, "", NoAccessError), (401, "t", NoAccessError),
     (404, "", NoSuchModelError), (410, "", NoSuchModelError), (418, "", HubAnswerError),
     (429, "", TryAgainError), (500, "", TryAgainError), (503, "", TryAgainError)],
)  # fmt: skip
def test_a_refusal_has_a_name(hub: FakeHub, status: int, token: str, kind: type[Exception]) -> None:
    hub.refusals.append((status, "Retry-After: 7\r\n"))
    with pytest.raises(kind) as raised:
        ask(hub.address, lambda client: look(client, "Org/Small"), token)
    if isinstance(raised.value, TryAgainError):
        assert raised.value.wait_s == 7


@pytest.mark.parametrize(
    "answer",
    [b"", b"[" * 5_000, b"null", b"{}", b"[1]", b'"x"', b'{"id": 5, "sha": "x"}', b"\xff\xfe"],
)
def test_absurd_answers_are_refused(hub: FakeHub, answer: bytes) -> None:
    hub.answer = answer
    with pytest.raises(HubAnswerError):
        ask(hub.address, lambda client: look(client, "Org/Small"))
    with contextlib.suppress(HubAnswerError):
        assert ask(hub.address, lambda client: search(client, "x")) == ()


@pytest.mark.parametrize(
    "path",
    ["../a.gguf", "/a.gguf", "a/../../b.gguf", "a\\b.gguf", "c:a.gguf", "a//b.gguf", ".a.gguf",
     "nul.gguf", "COM1", "a.gguf.", "a\nb.gguf", "a\u202eb.gguf", "x" * 300 + ".gguf", "",
     "a/b/c/d/e/f/g/h/i.gguf", "a /b.gguf"],
)  # fmt: skip
def test_L3_names_that_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(HubAnswerError):
        checked_path(path)
    file = RemoteFile(path=path, size=1, sha256="a" * 64)
    offered = Repository(name="Org/A", family="llama", commit=COMMIT, files=(file,))
    with contextlib.suppress(HubAnswerError):
        assert choices(offered) == ()


def test_two_files_that_some_systems_confuse_are_refused() -> None:
    files = tuple(RemoteFile(path=p, size=1, sha256="a" * 64) for p in ("A.gguf", "a.gguf"))
    with pytest.raises(HubAnswerError):
        choices(Repository(name="Org/A", family="llama", commit=COMMIT, files=files))


@pytest.mark.parametrize(
    ("text", "name"),
    [("Org/Name", "Org/Name"), (" https://huggingface.co/Org/N-1.5/tree/main ", "Org/N-1.5"),
     ("https://huggingface.co/Org/Name/resolve/main/a.gguf", "Org/Name"), ("qwen", ""),
     ("huggingface.co/Org/Name", "Org/Name"), ("hf.co/Org/Name/tree/main", "Org/Name"),
     ("../etc", ""), ("a/..", ""), ("Org/", ""), ("http://[", ""), ("nul/a", ""), ("a b/c", "")],
)  # fmt: skip
def test_a_pasted_name_or_address(text: str, name: str) -> None:
    assert repository_name(text) == name


def test_many_files_and_hidden_ones_cost_little() -> None:
    names = [f"m{number}-Q4_K.gguf" for number in range(5_000)]
    names += ["config.json", "a.safetensors", ".hidden.json", ".cache/b.gguf"]
    files = tuple(gb(name, 1) for name in names)
    began = time.monotonic()
    plans = choices(Repository(name="Org/A", family="llama", commit=COMMIT, files=files))
    assert len(plans) == 5_001 and time.monotonic() - began < 5
    assert not any(file.path.startswith(".") for plan in plans for file in plan.files)


@pytest.mark.parametrize(
    ("connection", "kind"),
    [(Connection(proxy="socks5://127.0.0.1:1"), HubUnreachableError),
     (Connection(proxy="http://a:99999"), HubUnreachableError),
     (Connection(token="tök"), NoAccessError), (Connection(token="a\nb"), NoAccessError)],
)  # fmt: skip
def test_a_setting_that_can_not_be_used_has_a_name(
    connection: Connection, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        Hub(connection)


def test_a_change_of_settings_during_a_request_is_tried_again(hub: FakeHub) -> None:
    async def closed(client: Hub) -> None:
        await client.close()
        await look(client, "Org/Small")

    with pytest.raises(TryAgainError):
        ask(hub.address, closed)


def gb(path: str, size: float) -> RemoteFile:
    return RemoteFile(path=path, size=int(size * 10**9), sha256="a" * 64)


def test_a_repository_offers_its_quantisations_with_their_tower() -> None:
    split = [gb(f"BF16/Q-BF16-0000{n}-of-00003.gguf", 3) for n in (1, 2, 3)]
    files = (
        gb("Q-Q8_0.gguf", 4.3), gb("Q-Q4_K_M.gguf", 2.5), gb("Q-UD-IQ2_XXS.gguf", 1.3), *split,
        gb("mmproj-BF16.gguf", 0.9), gb("mmproj-F32.gguf", 1.8),
        gb("Q-Q6_K-00001-of-00002.gguf", 2),
        gb("mtp-Q.gguf", 1), gb("imatrix.gguf", 1), gb("README.md", 0),
    )  # fmt: skip
    offered = Repository(name="O/Q", family="qwen35", commit=COMMIT, files=files)
    plans = choices(offered)
    assert [plan.choice for plan in plans] == ["UD-IQ2_XXS", "Q4_K_M", "Q8_0", "BF16"]
    assert [file.path for file in plans[1].files] == ["mmproj-F32.gguf", "Q-Q4_K_M.gguf"]
    # The first part comes last: without it no other part is taken for a model.
    assert [file.path for file in plans[3].files][1:] == [file.path for file in reversed(split)]
    parameters = 4_000_000_000
    picked = {
        memory: plans[suggested(plans, parameters, memory * 10**9)].choice
        for memory in (1, 3, 5, 64)
    }
    assert picked == {1: "UD-IQ2_XXS", 3: "Q4_K_M", 5: "Q8_0", 64: "Q8_0"}


def test_H9_the_token_goes_to_the_hub_alone(hub: FakeHub, tmp_path: Path) -> None:
    path = f"/Org/Small/resolve/{COMMIT}/model.safetensors"

    async def read(client: Hub) -> int:
        async with client.stream(path) as response:
            return len(await response.aread())

    assert ask(hub.address, read, "secret") == 5_000
    first, second = hub.asked[-2:]
    assert first.headers["authorization"] == "Bearer secret"
    assert "authorization" not in second.headers


def test_H9_no_cookie_is_sent_back(hub: FakeHub) -> None:
    hub.refusals.extend([(503, "Set-Cookie: who=you; Path=/\r\n")] * 2)

    async def twice(client: Hub) -> None:
        for _ in range(2):
            with contextlib.suppress(TryAgainError):
                await look(client, "Org/Small")

    ask(hub.address, twice)
    assert len(hub.asked) == 2 and "cookie" not in hub.asked[1].headers


@pytest.mark.parametrize(
    "location", ["ftp://a/b", "file:///etc/passwd", "http://a:x/", "http://a:99999", "/again"]
)
def test_a_redirect_elsewhere_is_refused(hub: FakeHub, location: str) -> None:
    hub.refusals.extend([(302, f"Location: {location}\r\n")] * 20)
    with pytest.raises(HubAnswerError):
        ask(hub.address, lambda client: look(client, "Org/Small"))


@pytest.mark.parametrize(
    "address", ["", "ftp://a", "file:///etc", "http://", "https://[", "http://a:99999"]
)
def test_H9_an_address_that_is_none_is_refused_and_no_other_is_used(address: str) -> None:
    told: list[Any] = []

    async def live() -> None:
        service = Service(told.append, Patience(first_pause_s=0))
        await service.take(Search(request=1, text="a"))
        await service.take(Configure(connection=Connection(hub=address)))
        await service.take(Search(request=2, text="a"))
        await asyncio.sleep(0.1)
        await service.close()

    asyncio.run(live())
    assert [type(each) for each in told] == [Failed, Failed]
    assert told[1].error.name == HubUnreachableError.__name__


def test_certificates_that_can_not_be_read_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    with pytest.raises(HubUnreachableError, match="certificates"):
        Hub(Connection())


def test_a_proxy_gets_every_request_and_a_limit_holds(hub: FakeHub) -> None:
    async def live() -> float:
        client = Hub(
            Connection(hub="http://models.invalid", proxy=hub.address, bytes_per_second=10_000)
        )
        with contextlib.suppress(WaymarkError):
            await look(client, "Org/Small")
        began = time.monotonic()
        for _ in range(3):
            await client.keep_pace(1_000)
        await client.close()
        return time.monotonic() - began

    assert asyncio.run(live()) > 0.29
    assert hub.asked[-1].path.startswith("http://models.invalid/api/models/")


def test_L2_a_download_paused_before_it_began_says_so_and_can_go_on(tmp_path: Path) -> None:
    told: list[Any] = []

    async def live() -> None:
        service = Service(told.append)
        for _ in range(2):
            await service.take(Fetch(work=str(tmp_path)))
            await service.take(Pause(work=str(tmp_path)))
            await asyncio.sleep(0.01)
        await service.take(Fetch(work=str(tmp_path)))
        await asyncio.sleep(0.1)
        await service.close()

    asyncio.run(live())
    assert [type(each) for each in told] == [Paused, Paused, Stopped]


def test_L2_a_download_resumed_before_its_pause_has_ended_goes_on(tmp_path: Path) -> None:
    told: list[Any] = []

    async def live() -> None:
        service = Service(told.append)
        for command in (Fetch, Pause, Fetch, Fetch):
            await service.take(command(work=str(tmp_path)))
        await asyncio.sleep(0.1)
        await service.close()

    asyncio.run(live())
    assert [type(each) for each in told] == [Paused, Stopped]


def test_a_search_is_tried_twice_and_then_says_why(hub: FakeHub) -> None:
    told: list[Any] = []

    async def live() -> None:
        service = Service(told.append, Patience(first_pause_s=0.001))
        await service.take(Configure(connection=Connection(hub=hub.address)))
        for refused in (1, 2):
            hub.refusals.extend([(503, "")] * refused)
            await service.take(Search(request=refused, text="small"))
            for _ in range(500):
                await asyncio.sleep(0.01 if len(told) < refused else 0)
        await service.close()

    asyncio.run(live())
    assert [type(each) for each in told] == [Found, Failed]


def test_a_question_that_could_not_be_sent_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ended(child: Child[Any], first: object) -> None: ...

    monkeypatch.setattr(Child, "start", ended)

    async def live() -> None:
        client = DownloadsClient(lambda _: None)
        with pytest.raises(WaymarkError, match="process of downloads"):
            await client.search("a")
        assert client._requests.open_numbers == []

    asyncio.run(live())


def test_L2_a_download_resumed_before_its_pause_has_ended_is_told_if_the_process_dies() -> None:
    told: list[Any] = []
    client = DownloadsClient(told.append)
    for event in (Paused(work="a"), Progress(work="a", done=1, total=2)):
        client._take(event)
    client._ended()
    assert [type(each) for each in told] == [Paused, Progress, Stopped]


def test_a_child_that_can_not_start_or_dies_is_an_error(tmp_path: Path) -> None:
    async def live(*command: str) -> None:
        client = DownloadsClient(lambda _: None, tmp_path / "log", command)
        with pytest.raises(WaymarkError):
            await client.search("a")
        await client.close()

    asyncio.run(live("/nowhere/at/all"))
    asyncio.run(live("true"))
