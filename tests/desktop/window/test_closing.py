"""Closing attempts everything: whatever fails, the rest is stored, ended and closed."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from core.client.lock import DataFolderLock
from desktop.app import App
from desktop.engine.engine_status import Phase
from desktop.store.folders import Folders
from desktop.window.window_parts import WindowParts
from tests.desktop.chats.test_deletion import age, confirm_the_clock
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import send, type_in

SECRET = "zanzibar"
STEPS = [
    "window.save_geometry",
    "window.page.composer.keep",
    "window.leave",
    "parts.tasks.close",
    "parts.replies.store_at_closing",
    "parts.drafts.store_at_closing",
    "parts.drafts.store_instructions",
    "parts.deletion.close",
    "parts.engine.close",
    "parts._threads.shutdown",
]


def stored(folders: Folders) -> tuple[list[str], list[str]]:
    """The texts of messages and drafts in the file, whose log was written into it at closing."""
    assert not Path(f"{folders.database}-wal").exists()
    with closing(sqlite3.connect(folders.database)) as connection:
        messages = connection.execute("SELECT text FROM messages ORDER BY id").fetchall()
        drafts = connection.execute("SELECT text FROM drafts WHERE text != ''").fetchall()
    return [text for (text,) in messages], [text for (text,) in drafts]


async def with_work(open_app: OpenApp, engine: FakeEngine) -> App:
    app = await open_app()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    (await send(app, engine, "a chat to delete")).finish("Yes")
    await until(lambda: app.parts.chat.running is None and app.parts.transcript.chat is not None)
    assert app.parts.transcript.chat is not None
    app.parts.chats.delete(app.parts.transcript.chat)
    await until(lambda: not app.parts.chat_list.chats)
    await age(app.parts, 31)
    confirm_the_clock(app.parts.folders)
    asked = await send(app, engine, "a question")
    asked.say("half an answer")
    await until(lambda: app.parts.transcript.rows[-1].text == "half an answer")
    # What is typed is stored after a pause; here closing alone may do it.
    app.parts.drafts._timer.setInterval(2**30)
    type_in(app, "half a thought")
    return app


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_that_fails_keeps_no_other_from_being_done(
    open_app: OpenApp,
    engine: FakeEngine,
    folders: Folders,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: str,
) -> None:
    app = await with_work(open_app, engine)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(SECRET)

    *owners, name = step.split(".")
    owner: object = app
    for each in owners:
        owner = getattr(owner, each)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail)
        app.leave()
        await app.gone.wait()
    await app.parts.tasks.close()
    messages, drafts = stored(folders)
    gone = [] if step != "parts.deletion.close" else ["a chat to delete", "Yes"]
    arrived = "half an answer" if step != "parts.replies.store_at_closing" else ""
    assert messages == [*gone, "a question", arrived]
    # Storing the draft was begun in the background as well, and may have been done in time.
    if step != "parts.drafts.store_at_closing":
        assert drafts == ["half a thought"]
    assert engine.closed or "engine" in step
    assert "RuntimeError" in caplog.text and SECRET not in caplog.text
    app.window.leave()
    app.parts._threads.shutdown()


async def test_a_reply_that_can_not_be_stored_keeps_no_other_from_it(
    open_app: OpenApp, engine: FakeEngine, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await with_work(open_app, engine)
    runs = app.parts.replies._runs
    (number,) = runs

    class Failing:
        async def store_at_closing(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(app.parts.replies, "_runs", {-1: Failing(), number: runs[number]})
    app.leave()
    await app.gone.wait()
    assert "half an answer" in (stored(folders))[0]
    DataFolderLock(folders.data).release()


async def test_a_draft_changed_back_while_it_was_stored_is_stored_as_it_is(
    parts: WindowParts, folders: Folders
) -> None:
    draft = parts.chat.draft
    for text in ("first", "second"):
        draft.text = text
        parts.drafts.save(draft)
        await asyncio.sleep(0)
        # The store is done with it before the loop hears of that; of the second it never does.
        time.sleep(0.3)  # noqa: ASYNC251 - the loop is to be kept from hearing it
        if text == "first":
            await until(lambda: not keeping(parts))
    draft.text = "first"
    await parts.close()
    assert stored(folders)[1] == ["first"]


def keeping(parts: WindowParts) -> bool:
    return any(task.get_name() == "Storing a draft" for task in parts.tasks._running)
