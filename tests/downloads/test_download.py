"""Downloads against a hub that stalls, breaks off, lies and refuses, and killed at every point."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import ssl
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.api.errors import WaymarkError
from core.client.programs import program
from core.downloads import __main__ as download
from core.downloads import jobs, parts, transfer
from core.downloads.__main__ import Download
from core.downloads.choices import choices
from core.downloads.client import DownloadNews, DownloadsClient
from core.downloads.hub import Hub, look
from core.downloads.jobs import Job
from core.downloads.messages import (
    Completed,
    Connection,
    Paused,
    Plan,
    Progress,
    RemoteFile,
    Stopped,
)
from core.downloads.parts import PartFile
from core.downloads.transfer import Patience
from core.system.private_files import RESERVE_BYTES
from desktop.store.folders import DEMO_MODEL
from tests.downloads.fake_hub import FakeHub, FakeRepository, Fault, flipped

NAME = "Org/Tiny-1B"
QUICK = Patience(attempts=20, first_pause_s=0.001, longest_pause_s=0.002, stall_s=0.3)
PIECE = 2_000
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model-00001-of-00002.safetensors": bytes(range(256)) * 40,
    "model-00002-of-00002.safetensors": b"second" * 1_500,
    "tokenizer.json": b"{}" * 700,
    "pytorch_model.bin": b"never fetched",
    "run.py": b"never fetched",
}
WANTED = {name: data for name, data in FILES.items() if not name.endswith((".bin", ".py"))}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    monkeypatch.setattr(transfer, "PIECE_BYTES", PIECE)
    # Or each client would read the system's certificates again, for 20 ms.
    certificates = ssl.create_default_context()
    create = "httpx2._transports.default.create_ssl_context"
    monkeypatch.setattr(create, lambda *_, **__: certificates)
    with FakeHub({NAME: FakeRepository(dict(FILES))}) as hub:
        yield hub


async def planned(hub: FakeHub) -> Plan:
    client = Hub(Connection(hub=hub.address))
    try:
        return choices(await look(client, NAME))[-1]
    finally:
        await client.close()


async def fetch(job: Job, hub: FakeHub, told: list[Progress] | None = None) -> Path:
    client = Hub(Connection(hub=hub.address), QUICK.stall_s)
    tell = (told if told is not None else []).append
    try:
        return await Download(job, lambda: client, tell, QUICK).run()
    finally:
        await client.close()


def created(models: Path, hub: FakeHub) -> Job:
    return jobs.create(models, asyncio.run(planned(hub)))


def shown(models: Path) -> dict[str, bytes]:
    """All files that anyone would take for complete."""
    target = models / NAME
    return {
        each.relative_to(target).as_posix(): each.read_bytes()
        for each in target.rglob("*")
        if each.is_file()
    }


def test_a_model_arrives_and_leaves_nothing_else(hub: FakeHub, tmp_path: Path) -> None:
    told: list[Progress] = []
    job = created(tmp_path, hub)
    assert asyncio.run(fetch(job, hub, told)) == tmp_path / NAME
    assert shown(tmp_path) == WANTED
    assert not (tmp_path / jobs.HIDDEN).exists() and jobs.unfinished(tmp_path) == []
    assert told[0].done == 0 and told[0].total == job.plan.size
    # Again: everything is found, nothing is requested.
    asked = len(hub.asked)
    job = created(tmp_path, hub)
    asyncio.run(fetch(job, hub))
    assert [each.path for each in hub.asked[asked:] if "resolve" in each.path] == []


PASSING = [
    Fault("break", 5_000), Fault("stall", 3_000), Fault("wrong", 4_321), Fault("endless"),
    Fault("whole"), Fault("changed"), Fault("garbage"), Fault("429"), Fault("500"), Fault("403"),
    Fault("416"), Fault("404"),
]  # fmt: skip
LASTING = [Fault("size"), Fault("range"), Fault("encoding")]


@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: fault.kind)
def test_L1_a_fault_that_passes_costs_an_attempt(
    hub: FakeHub, tmp_path: Path, fault: Fault
) -> None:
    # The second one meets a request for a range.
    hub.faults.extend([Fault("break", 4_000), fault])
    asyncio.run(fetch(created(tmp_path, hub), hub))
    assert shown(tmp_path) == WANTED


@pytest.mark.parametrize("fault", LASTING, ids=lambda fault: fault.kind)
def test_L1_an_answer_that_is_wrong_ends_it_by_name(
    hub: FakeHub, tmp_path: Path, fault: Fault
) -> None:
    hub.faults.extend([Fault("break", 4_000)] * 4 + [fault] * 4)
    job = created(tmp_path, hub)
    with pytest.raises(WaymarkError, match=r"server"):
        asyncio.run(fetch(job, hub))
    assert shown(tmp_path) == {}
    hub.faults.clear()
    asyncio.run(fetch(job, hub))
    assert shown(tmp_path) == WANTED


KINDS = sorted({fault.kind for fault in PASSING + LASTING} | {"none"})
FAULTS = st.lists(st.builds(Fault, st.sampled_from(KINDS), st.integers(0, 20_000)), max_size=14)


def test_L1_what_is_shown_as_complete_is_as_published(
    hub: FakeHub, tmp_path_factory: pytest.TempPathFactory
) -> None:
    @settings(max_examples=40)
    @given(FAULTS)
    def holds(faults: list[Fault]) -> None:
        models = tmp_path_factory.mktemp("models")
        job = created(models, hub)
        hub.faults.extend(faults)
        with contextlib.suppress(WaymarkError):
            asyncio.run(fetch(job, hub))
            assert shown(models) == WANTED
        assert shown(models) in ({}, WANTED)
        hub.faults.clear()
        if shown(models) == {}:
            asyncio.run(fetch(job, hub))
        assert shown(models) == WANTED

    holds()


def test_L1_a_server_that_always_lies_is_found_out(hub: FakeHub, tmp_path: Path) -> None:
    hub.faults.extend([Fault("wrong", 1_234)] * 100)
    job = created(tmp_path, hub)
    with pytest.raises(WaymarkError, match="digest"):
        asyncio.run(fetch(job, hub))
    assert shown(tmp_path) == {}


def test_L1_a_damaged_piece_alone_is_read_again(hub: FakeHub, tmp_path: Path) -> None:
    hub.faults.extend([Fault("break", 3_000)] * 8 + [Fault("404")] * 200)
    job = created(tmp_path, hub)
    with pytest.raises(WaymarkError):
        asyncio.run(fetch(job, hub))
    read = job.parts()
    for part in read:
        part.read_journal()
    part = next(each for each in read if len(each.pieces) > 1)
    second = part.pieces[1]
    missing = job.plan.size - job.received()
    part.path.write_bytes(flipped(part.path.read_bytes(), second.start + 5))
    hub.faults.clear()
    sent = hub.bytes_sent
    asyncio.run(fetch(job, hub))
    assert shown(tmp_path) == WANTED
    assert hub.bytes_sent - sent == missing + second.end - second.start


class _KilledError(BaseException):
    """Stands for SIGKILL: from here on nothing reaches the disk."""


class Death:
    """Kills the process at the `at`-th step that writes, in the middle of the step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.steps = 10**9, 0
        for place, name in (
            (parts, "open_or_create"), (jobs, "write_whole"), (jobs, "rename"), (os, "link"),
            (os, "fsync"), (Path, "unlink"), (Path, "rmdir"),
        ):  # fmt: skip
            monkeypatch.setattr(place, name, self._counted(getattr(place, name)))

    def _counted(self, act: Any) -> Any:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.steps += 1
            if self.steps < self.at:
                return act(*arguments, **named)
            path = arguments[0]
            if self.steps == self.at and str(path).endswith(".journal") and path.exists():
                with path.open("ab") as journal:
                    journal.write(b"123 45")
            raise _KilledError

        return counted


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_L2_a_kill_at_any_point_resumes(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    plan = asyncio.run(planned(hub))
    death = Death(monkeypatch)

    def live(models: Path, at: int) -> None:
        death.at, death.steps = at, 0
        hub.faults.extend([Fault("break", 1_500)] * 16)
        with contextlib.suppress(_KilledError, BaseExceptionGroup):
            asyncio.run(fetch(jobs.create(models, plan), hub))
        death.at = 10**9
        hub.faults.clear()

    live(tmp_path / "whole", 10**9)
    points = death.steps
    assert points > 60
    sent, kills = hub.bytes_sent, 12 if few else points
    for kill in range(kills):
        models = tmp_path / str(kill)
        # A prime, so that any number of them is spread, and as many as there are points hit all.
        live(models, 1 + kill * 37 % points)
        if kill % 3 == 2:
            live(models, 1 + kill % 40)
        assert set(shown(models).items()) <= set(WANTED.items())
        complete = "config.json" in shown(models)
        assert not complete or shown(models) == WANTED
        live(models, 10**9)
        assert shown(models) == WANTED
        assert not (models / jobs.HIDDEN).exists()
        shutil.rmtree(models)
    whole = sum(map(len, WANTED.values()))
    # A kill costs a piece of each file at most, and what was begun of it.
    assert hub.bytes_sent - sent < kills * (whole + 2 * 4 * 3 * PIECE)


def test_L2_a_resumed_download_never_looks_lost(hub: FakeHub, tmp_path: Path) -> None:
    job = created(tmp_path, hub)
    hub.faults.extend([Fault("break", 5_000)] * 4 + [Fault("size")] * 4)
    with pytest.raises(WaymarkError):
        asyncio.run(fetch(job, hub))
    told: list[Progress] = []
    hub.faults.clear()
    arrived = job.received()
    asyncio.run(fetch(job, hub, told))
    assert told[0].done == arrived > 0


def test_L2_a_damaged_plan_is_written_again(hub: FakeHub, tmp_path: Path) -> None:
    job = created(tmp_path, hub)
    (job.work / jobs.PLAN).write_bytes(b"{")
    assert created(tmp_path, hub) == job


def test_L2_two_choices_that_share_a_file_arrive_at_once(hub: FakeHub, tmp_path: Path) -> None:
    files = {"A-Q4_0.gguf": b"4" * 9_000, "A-Q8_0.gguf": b"8" * 9_000, "mmproj-F16.gguf": b"m" * 50}
    hub.repositories[NAME].files = files
    hub.pace_s = 0.02

    async def both() -> None:
        client = Hub(Connection(hub=hub.address))
        plans = choices(await look(client, NAME))
        await client.close()
        assert len(plans) == 2
        await asyncio.gather(*(fetch(jobs.create(tmp_path, plan), hub) for plan in plans))

    asyncio.run(both())
    assert shown(tmp_path) == files


Usage = namedtuple("Usage", "total used free")


def test_L2_a_full_disk_stops_it_and_room_lets_it_go_on(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = created(tmp_path, hub)
    free = [RESERVE_BYTES + 100]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, free[0]))
    with pytest.raises(WaymarkError, match="GB are free"):
        asyncio.run(fetch(job, hub))
    # Other programs write meanwhile.
    left = iter([2**40] * 4 + [0] * 100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, next(left)))
    with pytest.raises(WaymarkError, match="full"):
        asyncio.run(fetch(job, hub))
    assert job.received() > 0
    monkeypatch.undo()
    asyncio.run(fetch(job, hub))
    assert shown(tmp_path) == WANTED


def test_L3_nothing_in_the_way_is_replaced(hub: FakeHub, tmp_path: Path) -> None:
    job = created(tmp_path / "a", hub)
    (tmp_path / "a" / NAME).mkdir(parents=True)
    (tmp_path / "a" / NAME / "config.json").write_bytes(b"somebody's")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "Org").symlink_to(elsewhere)
    for each in (job, created(tmp_path / "b", hub)):
        with pytest.raises(WaymarkError, match=r"way|link"):
            asyncio.run(fetch(each, hub))
    assert shown(tmp_path / "a") == {"config.json": b"somebody's"}
    assert list(elsewhere.iterdir()) == []
    jobs.discard(job)
    assert jobs.unfinished(tmp_path / "a") == []


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("never came about")


async def ended(heard: list[DownloadNews]) -> DownloadNews:
    await until(lambda: any(not isinstance(each, Progress) for each in heard))
    return heard[-1]


def test_L2_a_process_paused_or_killed_goes_on_with_what_it_has(
    hub: FakeHub, tmp_path: Path
) -> None:
    hub.repositories[NAME].files["model-00001-of-00002.safetensors"] = os.urandom(30 * 2**20)
    hub.pace_s = 0.002
    wanted = {name: hub.repositories[NAME].files[name] for name in WANTED}

    async def live() -> None:
        heard: list[DownloadNews] = []
        client = DownloadsClient(heard.append, tmp_path / "log")
        await client.configure(Connection(hub=hub.address))
        job = jobs.create(tmp_path / "models", choices(await client.look(NAME))[-1])

        def has(num_bytes: int) -> bool:
            return job.received() >= num_bytes

        for kill in (True, True, False, False):
            heard.clear()
            before = job.received()
            await client.fetch(job.work)
            await until(partial(has, before + 2**20))
            if kill:
                assert client.pid is not None
                os.kill(client.pid, signal.SIGKILL)
            else:
                await client.pause(job.work)
            assert isinstance(await ended(heard), Stopped if kill else Paused), heard[-1]
            assert shown(tmp_path / "models") == {}
        heard.clear()
        hub.pace_s = 0.0
        await client.fetch(job.work)
        assert isinstance(await ended(heard), Completed), heard[-1]
        await client.close()
        await client.close()

    asyncio.run(live())
    assert shown(tmp_path / "models") == wanted
    # Two kills, of up to 8 MiB and what was on its way; pauses lose nothing that had arrived.
    assert hub.bytes_sent < sum(map(len, wanted.values())) + 2 * 10 * 2**20 + 2 * 2**20


def test_a_pause_ends_the_check_of_files_that_are_in_their_places(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, hashed = created(tmp_path, hub), list[int]()
    for name, data in WANTED.items():
        job.place(name).parent.mkdir(parents=True, exist_ok=True)
        job.place(name).write_bytes(data)

    def slowly(*_: object) -> Iterator[bytes]:
        for number in range(2_000):
            hashed.append(number)
            time.sleep(0.001)
            yield b"never as published"

    async def paused() -> None:
        running = asyncio.ensure_future(fetch(job, hub))
        await until(lambda: bool(hashed))
        running.cancel()
        await asyncio.wait((running,))
        assert running.cancelled()

    monkeypatch.setattr(parts, "_blocks", slowly)
    # The loop ends after its threads.
    asyncio.run(paused())
    assert len(hashed) < 200


def test_a_long_journal_is_read_in_time(tmp_path: Path) -> None:
    # Of 400 GB: pieces begun at many places, and some that arrived twice.
    size = 50_000
    part = PartFile(tmp_path, 0, RemoteFile(path="a", size=2 * size, git_blob="0" * 40))
    starts = [*range(0, size, 2), *range(1, size, 2), *range(0, size, 2)]
    lines = [f"{start} {start + 1} {start:064x}\n" for start in starts]
    lines.append(f"10 21 {0:064x}\n")
    part.journal.write_text("".join(lines))
    began = time.process_time()
    part.read_journal()
    assert time.process_time() - began < 5
    assert part.received == size and part.gap() == (size, 2 * size)
    assert [piece.start for piece in part.pieces[8:13]] == [8, 9, 10, 21, 22]


def test_L2_another_waymark_is_waited_for_and_taken_over_from(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is killed amid the download; nothing is received twice."""
    monkeypatch.setattr(download, "LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(download, "TELL_EVERY_S", 0.01)
    hub.repositories[NAME].files["model-00001-of-00002.safetensors"] = os.urandom(2**20)
    wanted = {name: hub.repositories[NAME].files[name] for name in WANTED}
    hub.pace_s = 0.01
    job, told = created(tmp_path / "models", hub), list[Progress]()

    async def both() -> None:
        client = DownloadsClient(lambda news: None, tmp_path / "log")
        await client.configure(Connection(hub=hub.address))
        await client.fetch(job.work)
        await until(lambda: jobs.is_claimed(job))
        second = asyncio.ensure_future(fetch(job, hub, told))
        await until(lambda: any(each.elsewhere for each in told))
        with pytest.raises(WaymarkError, match="Another Waymark is downloading"):
            jobs.discard(job)
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        hub.pace_s = 0.0
        assert await second == job.model
        await client.close()

    asyncio.run(both())
    assert shown(tmp_path / "models") == wanted and not told[-1].elsewhere
    assert not (tmp_path / "models" / jobs.HIDDEN).exists()


def test_L2_two_downloads_of_the_same_receive_it_once(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "LOOK_AGAIN_S", 0.01)
    job = created(tmp_path, hub)

    async def both() -> None:
        await asyncio.gather(fetch(job, hub), fetch(job, hub))

    asyncio.run(both())
    assert shown(tmp_path) == WANTED and not (tmp_path / jobs.HIDDEN).exists()
    asked = [each.path for each in hub.asked if hub.cdn and each.path.endswith("tokenizer.json")]
    assert len(asked) == 2  # the hub, and where it leads


def test_L2_a_download_that_was_deleted_elsewhere_ends_by_name(
    hub: FakeHub, tmp_path: Path
) -> None:
    job = created(tmp_path, hub)
    jobs.discard(job)
    with pytest.raises(WaymarkError, match="deleted"):
        asyncio.run(fetch(job, hub))
    assert not (tmp_path / jobs.HIDDEN).exists()


def demo_downloaded(command: list[str], folder: Path) -> Path:
    """The demo model, fetched from a local hub by the process of downloads that `command` runs."""
    files = {path.name: path.read_bytes() for path in DEMO_MODEL.iterdir()}
    heard: list[DownloadNews] = []

    async def live() -> None:
        client = DownloadsClient(heard.append, folder / "log", command)
        try:
            await client.configure(Connection(hub=local.address))
            (found,) = await client.search("tiny")
            plan = choices(await client.look(found.name))[-1]
            await client.fetch(jobs.create(folder / "models", plan).work)
            await ended(heard)
        finally:
            await client.close()

    config = {"model_type": "qwen3_5"}
    with FakeHub({"Org/Tiny-Demo": FakeRepository(files, config=config)}) as local:
        asyncio.run(live())
    assert isinstance(heard[-1], Completed), heard[-1]
    return Path(heard[-1].path)


def test_the_process_of_downloads_brings_a_whole_model(tmp_path: Path) -> None:
    """`make test-installer` does the same with the installed one, and chats with the model."""
    model = demo_downloaded(program("core.downloads"), tmp_path)
    assert {path.name for path in model.iterdir()} == {path.name for path in DEMO_MODEL.iterdir()}
    for path in DEMO_MODEL.iterdir():
        assert (model / path.name).read_bytes() == path.read_bytes()
