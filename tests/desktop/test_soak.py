"""Two hundred turns of an ordinary day: pictures, edits, other replies, restarts, deleted chats.

What window and engine hold at the end is what they held after fifty turns: memory within a
twentieth, open files and threads the same. `make test-slow` plays a few turns, for the moves' sake.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
from dataclasses import dataclass

import psutil
import pytest
from PySide6.QtGui import QAction

from core.client.client import EngineClient
from desktop.app import App
from desktop.chat.transcript import Row
from desktop.engine.engine_status import Phase
from desktop.settings.controls import NumberBox
from desktop.store.folders import SAMPLE_PICTURES, Folders
from tests.desktop import conftest
from tests.desktop.conftest import OpenApp, until
from tests.desktop.hands import child, drop, ended, files, find, thumbnails
from tests.desktop.test_end_to_end import answer, with_model

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
TURNS, FROM = (200, 50) if THOROUGH else (12, 6)
# A restart gives a new engine, whose memory says nothing of leaks: all come before FROM.
RESTARTS = (4, 20, 35) if THOROUGH else (3,)
MOST_CHATS, LONGEST_CHAT = 4, 12
QUESTIONS = (
    "What is in the picture?",
    "How many shapes are there?",
    "My name is Ada.",
    "What is my name?",
    "Hello!",
)
LEEWAY = 1.05
# A pool starts its second thread when two jobs first meet, and a file may be open just now.
POOLED = 2


@dataclass(frozen=True)
class Held:
    memory: int
    files: int
    threads: int


def held_by(process: psutil.Process) -> Held:
    return Held(process.memory_info().rss, process.num_fds(), process.num_threads())


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "PATIENCE_S", 3_000.0)


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files as Linux tells them")
@pytest.mark.timeout(3_000)
@pytest.mark.slow
async def test_two_hundred_turns_leave_nothing_behind(open_app: OpenApp, folders: Folders) -> None:
    app, engine = await with_model(open_app, folders)
    app.window.side_panel.show_page(1)
    find(app, NumberBox, "settingCacheCount").setValue(16)
    day, before = Day(app, engine), {}
    for number in range(1, TURNS + 1):
        await day.turn(number)
        if number == FROM:
            before = await day.held()
    after, grown = await day.held(), dict[str, tuple[float, ...]]()
    for name, then in before.items():
        now = after[name]
        print(f"{name}: {then} after {FROM} turns, {now} after {TURNS}")
        held = (now.threads - then.threads, now.files - then.files)
        grown.update({name: (*held, now.memory / then.memory)} if max(held) > POOLED else {})
        if THOROUGH and now.memory > then.memory * LEEWAY:
            grown[name] = (*held, now.memory / then.memory)
    assert grown == {}


class Day:
    def __init__(self, app: App, engine: EngineClient) -> None:
        self._app, self._engine = app, engine
        self._random = random.Random("a day")

    async def turn(self, number: int) -> None:
        if number in RESTARTS:
            await self._restart()
        if len(self._rows) >= LONGEST_CHAT or self._random.random() < 0.08:
            await self._new_chat()
        move = self._random.random()
        if self._rows and move < 0.15:
            await self._edit()
        elif self._rows and move < 0.3:
            await self._another_reply()
        else:
            await self._ask(with_picture=move > 0.8)

    @property
    def _rows(self) -> list[Row]:
        return self._app.parts.transcript.rows

    async def held(self) -> dict[str, Held]:
        await asyncio.sleep(6)
        gc.collect()
        assert self._engine.worker_pid is not None
        return {
            "window": held_by(psutil.Process()),
            "engine": held_by(psutil.Process(self._engine.worker_pid)),
        }

    async def _ask(self, with_picture: bool) -> None:
        app = self._app
        if with_picture:
            samples = sorted(SAMPLE_PICTURES.glob("*.png"))
            drop(app, files([self._random.choice(samples)]))
            await until(lambda: thumbnails(app) and app.parts.chat.draft.complete)
        await answer(app, self._random.choice(QUESTIONS))

    async def _edit(self) -> None:
        users = [row.message for row in self._rows if not row.message.is_reply]
        self._app.parts.chat.edit(self._random.choice(users).id, self._random.choice(QUESTIONS))
        await asyncio.sleep(0.2)
        await ended(self._app)

    async def _another_reply(self) -> None:
        self._app.parts.chat.regenerate(self._rows[-1].message.id)
        await asyncio.sleep(0.2)
        await ended(self._app)

    async def _new_chat(self) -> None:
        app = self._app
        action = child(app.window, QAction, "actionNewChat")
        action.trigger()
        await until(lambda: app.parts.transcript.rows == [])
        chats = app.parts.chat_list.chats
        if len(chats) > MOST_CHATS:
            app.parts.chats.delete(self._random.choice(chats[1:]).id)
            await until(lambda: len(app.parts.chat_list.chats) < len(chats))
            await until(lambda: app.parts.chats.trash.chats)
            app.parts.deletion.delete_for_good()
            await until(lambda: not app.parts.chats.trash.chats)

    async def _restart(self) -> None:
        pid, status = self._engine.worker_pid, self._app.parts.engine
        status.restart()
        await until(lambda: self._engine.worker_pid not in (pid, None))
        await until(lambda: status.status.phase is Phase.READY)
