"""The real window with the real worker: a fork outlives its chat at no cost; what is deleted is
gone.
"""

from __future__ import annotations

import pytest

from core.api.events import Prepared
from desktop.app import App
from desktop.controllers import deletion
from desktop.store import forgets
from desktop.store.folders import SAMPLE_PICTURES, Folders
from tests.desktop.conftest import OpenApp, until
from tests.desktop.test_end_to_end import answer, with_model
from tests.desktop.views.hands import drop, files, press, stats_of, thumbnails


async def settled(app: App, count: int) -> Prepared:
    """The settling that was asked for when the transcript had so many rows."""
    await until(lambda: len(app.parts.transcript.rows) == count and app.parts.ahead.settling)
    assert app.parts.ahead.settling is not None
    last = await app.parts.ahead.settling.last()
    assert isinstance(last, Prepared)
    app.parts.ahead.settling = None
    return last


async def delete(app: App, chat: int) -> None:
    """Delete a chat, and wait until the engine has forgotten it."""
    app.parts.chats.delete(chat)
    await until(lambda: chat not in [each.id for each in app.parts.chat_list.chats])
    await until(lambda: chat not in app.parts.deletion._timers)
    while await app.parts.database.run(forgets.first) or app.parts.forgets._sending:
        await until(lambda: not app.parts.forgets._sending)
    assert app.parts.transcript.chat != chat or not app.parts.transcript.rows


async def test_a_fork_outlives_its_chat_at_no_cost(
    open_app: OpenApp, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "UNDO_MS", 0)
    app, _ = await with_model(open_app, folders)
    drop(app, files([SAMPLE_PICTURES / "three-shapes.png"]))
    await until(lambda: thumbnails(app) and app.parts.chat.draft.complete)
    await answer(app, "What is in the picture?")
    original = app.parts.transcript.chat
    assert original is not None
    await settled(app, 2)
    press(app, "forkChat")
    await until(lambda: app.parts.transcript.chat not in (None, original))
    fork = app.parts.transcript.chat
    assert fork is not None
    # All of it was read for the chat it came from.
    assert (await settled(app, 2)).tokens == 0
    await delete(app, original)
    stats = stats_of(await answer(app, "What colour is the star?"))
    assert stats.images_encoded == 0 and stats.miss is None
    assert stats.evaluated_tokens < stats.prompt_tokens / 2
    await settled(app, 4)
    await delete(app, fork)
    assert not list(folders.pictures.glob("??/*"))
    cold = stats_of(await answer(app, "What is in the picture?"))
    assert cold.reused_tokens == 0 and cold.evaluated_tokens == cold.prompt_tokens
