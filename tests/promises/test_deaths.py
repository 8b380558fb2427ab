"""D1, D2: the worker is killed while it settles, spills and writes; a full disk, a folder that
can't be used. What starts again on the same folder opens, answers as a cold engine would, and has
lost nothing but what was not written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pytest
import torch

from core.api.chat import Conversation, Message
from core.api.commands import Command, Flush, Generate, LoadModel, PrefillReply
from core.api.events import EVENTS, Done, Event, Failed, Finished, Hello, Loaded, Prepared
from core.api.params import CacheSettings, ModelSettings, Probe
from core.client.codec import decode, encode, read_frame
from core.client.transport import worker_environment
from tests.promises.fixtures import FolderOf, LoadedOf, PictureOf
from tests.promises.machine import GREEDY, Machine, last_end, same, user, words
from tests.storage.disks import FailingFiles

LAST = (Loaded, Finished, Prepared, Done, Failed)
FATES = [
    ("settle", 1),
    ("write", 2),
    ("spill", 1),
    ("write", 5),
    ("settle", 2),
    ("write", 9),
    ("spill", 3),
    ("write", 14),
    ("spill", 6),
    ("write", 20),
    ("none", 0),
]


class Life:
    """One worker process, spoken to in frames."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdin is not None and process.stdout is not None
        self._input, self._output = process.stdin, cast(BinaryIO, process.stdout)
        assert isinstance(self._next(), Hello)

    def ask(self, command: Command) -> Event | None:
        """The last event of a command; None when the process died over it."""
        self._input.write(encode(command))
        self._input.flush()
        while (event := self._next()) is not None:
            if isinstance(event, LAST):
                return event
        return None

    def _next(self) -> Event | None:
        body = read_frame(self._output)
        return decode(EVENTS, body) if body is not None else None


@contextmanager
def life(kind: str, steps: int, log: Path) -> Iterator[Life]:
    command = [sys.executable, "-m", "tests.dying_worker", kind, str(steps)]
    environment = {**worker_environment(), "OMP_NUM_THREADS": "1"}
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment
        )
        try:
            yield Life(process)
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def logits_of(path: Path) -> torch.Tensor:
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.float32)


@pytest.mark.skipif(os.name == "nt", reason="a process can't kill itself with SIGKILL there")
@pytest.mark.parametrize(
    "fates",
    [[*FATES[1:3], FATES[-1]], pytest.param(FATES, marks=pytest.mark.slow)],
    ids=["two", "ten"],
)
def test_D1_D2_ten_deaths_of_a_worker_lose_only_what_was_not_written(
    folder_of: FolderOf,
    loaded_of: LoadedOf,
    picture: PictureOf,
    tmp_path: Path,
    fates: list[tuple[str, int]],
) -> None:
    settings = ModelSettings(
        path=str(folder_of("hybrid")),
        device="cpu",
        precision="float32",
        grid=64,
        max_image_tokens=0,
        cache_folder=str(tmp_path / "cache"),
    )
    base = loaded_of("hybrid")
    kv_buffer = base.info.context_length * base.info.kv_bytes_per_token
    chat: list[Message] = [user(picture(1, "wide"), "What is it?")]
    floor = 0
    for number, (kind, steps) in enumerate(fates):
        logits = tmp_path / f"{number}.logits"
        with life(kind, steps, tmp_path / "worker.log") as worker:
            assert isinstance(worker.ask(LoadModel(request=1, settings=settings)), Loaded)
            answer = worker.ask(
                Generate(
                    request=2,
                    conversation=Conversation(messages=tuple(chat)),
                    chat="chat",
                    sampling=GREEDY,
                    probe=Probe(logits_file=str(logits)),
                )
            )
            assert isinstance(answer, Finished)
            cold = Machine(base).ask(chat)
            assert answer.reply_ids == cold.ids
            assert torch.equal(logits_of(logits), cold.rows[0])
            assert answer.stats.reused_tokens >= floor
            assert answer.stats.images_encoded == (1 if number == 0 else 0)
            floor = last_end(answer.prompt_ids)
            assert isinstance(worker.ask(Flush(request=3)), Done)
            chat.append(answer.reply)
            if kind == "none":
                break
            last = Conversation(messages=tuple(chat))
            if kind == "spill":
                tight = CacheSettings(host_bytes=kv_buffer + 400_000)
                elsewhere = Conversation(messages=(user(words(60, "elsewhere")),))
                died = worker.ask(Generate(request=4, conversation=elsewhere, cache=tight))
            else:
                died = worker.ask(PrefillReply(request=4, conversation=last, chat="chat"))
            if kind == "write":
                assert isinstance(died, Prepared)
                died = worker.ask(Flush(request=5))
            assert died is None and worker.process.wait() == -signal.SIGKILL
        chat.append(user(words(25, f"turn{number}-")))
    # All of it is still there for the last of them to delete.
    machine = Machine(base, tmp_path / "cache")
    machine.check_whole()
    assert machine.cache.disk.num_bytes > 0
    machine.forget("chat")
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


def test_D4_a_full_disk_is_said_and_costs_no_answer(
    loaded_of: LoadedOf, picture: PictureOf, tmp_path: Path
) -> None:
    files = FailingFiles()
    machine = Machine(loaded_of("hybrid"), tmp_path / "cache", files)
    chat: list[Message] = [user(words(60), picture(1))]
    files.room = 20_000
    for _ in range(3):
        answer = machine.ask(chat)
        same(answer, machine.cold(chat))
        chat.append(answer.reply)
        machine.settle(chat)
        machine.write()
        chat.append(user("More."))
    trouble = machine.ask(chat).stats.disk_trouble
    assert trouble is not None and "No space left on device" in trouble
    # What had been written whole is good, and with room again everything is written.
    machine.restart(files=FailingFiles())
    machine.check_whole()
    assert machine.same_as_cold(chat).stats.disk_trouble is None
    machine.reopen()
    assert machine.same_as_cold([*chat, user("And?")]).stats.restored_from == "disk"


def test_D3_a_folder_that_cannot_be_used_is_said_and_costs_no_answer(
    loaded_of: LoadedOf, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    machine = Machine(loaded_of("hybrid"), tmp_path / "cache")
    chat: list[Message] = [user(words(60))]
    answer = machine.ask(chat)
    same(answer, machine.cold(chat))
    assert answer.stats.disk_trouble is not None and "cache" in answer.stats.disk_trouble
    machine.write()
    assert machine.cache.disk.num_bytes == 0
    chat += [answer.reply, user("More.")]
    assert machine.same_as_cold(chat).reused == last_end(answer.finished.prompt_ids)
