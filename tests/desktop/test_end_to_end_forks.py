"""The real window with the real worker: a fork outlives its chat at no cost; deleted is gone."""

from __future__ import annotations

from core.api.events import Prepared
from desktop.app import App
from desktop.store.folders import SAMPLE_PICTURES, Folders
from desktop.store.tables import chats
from tests.desktop.conftest import OpenApp, until
from tests.desktop.hands import drop, files, press, stats_of, thumbnails
from tests.desktop.test_end_to_end import answer, with_model


class Heard:
    """What idle work came to, by the message that ended its path."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._told: dict[int | None, Prepared] = {}
        app.parts.idle_prefill.prepared.connect(self._told.__setitem__)

    def forget(self) -> None:
        """What was told so far is of no account: a reply goes on."""
        self._told.clear()

    async def of_last(self) -> Prepared:
        """The settling of the reply that ends the transcript."""
        end = self._app.parts.transcript.rows[-1].id
        await until(lambda: end in self._told)
        return self._told[end]

    async def of_draft(self) -> Prepared:
        """The reading ahead of the draft of a new chat."""
        self._told.pop(None, None)
        await until(lambda: None in self._told)
        return self._told[None]


async def delete(app: App, chat: int) -> None:
    """Delete a chat for good, and wait until the engine has forgotten it."""
    app.parts.chats.delete(chat)
    await until(lambda: chat in [each.id for each in app.parts.chats.trash.chats])
    app.parts.deletion.delete_for_good(chat)
    waiting = True
    while waiting:
        await until(lambda: not app.parts.deletion._sending)
        rows = await app.parts.database.run(
            lambda connection: connection.execute("SELECT count(*) FROM chats").fetchone()
        )
        left = await app.parts.database.run(chats.next_to_forget)
        waiting = left is not None or rows[0] != len(app.parts.chat_list.chats)


async def test_a_fork_outlives_its_chat_at_no_cost(open_app: OpenApp, folders: Folders) -> None:
    app, _ = await with_model(open_app, folders)
    heard = Heard(app)
    drop(app, files([SAMPLE_PICTURES / "three-shapes.png"]))
    await until(lambda: thumbnails(app) and app.parts.chat.draft.complete)
    await answer(app, "What is in the picture?")
    original = app.parts.transcript.chat
    assert original is not None
    await heard.of_last()
    press(app, "forkChat")
    await until(lambda: app.parts.transcript.chat not in (None, original))
    fork = app.parts.transcript.chat
    assert fork is not None
    # All of it was read for the chat it came from.
    assert (await heard.of_last()).tokens == 0
    await delete(app, original)
    stats = stats_of(await answer(app, "What colour is the star?"))
    assert stats.images_encoded == 0 and stats.miss is None
    assert stats.evaluated_tokens < stats.prompt_tokens / 2
    await heard.of_last()
    await delete(app, fork)
    assert not list(folders.pictures.glob("??/*"))
    await until(lambda: app.parts.transcript.rows == [])
    drop(app, files([SAMPLE_PICTURES / "three-shapes.png"]))
    # Read from nothing on the new page: neither the picture nor a word was kept.
    assert (await heard.of_draft()).encoded == 1
