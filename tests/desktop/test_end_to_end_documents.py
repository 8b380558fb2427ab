"""The real window, worker and demo model: a document is read once, also over a restart."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData

from core.api.events import Prepared
from desktop.app import App
from desktop.store.folders import Folders
from tests.desktop.conftest import OpenApp, until
from tests.desktop.hands import drop, ended, files, paste, press, stats_of, type_in
from tests.desktop.test_end_to_end import answer, with_model
from tests.documents import pdf

# More than a question with the end of a document and the template's text around it.
FEW_TOKENS = 64


def a_pdf(folder: Path, pages: int) -> Path:
    rng = random.Random(7)
    words = "the red blue circle square of an old green star is near that house".split()
    lines = [["".join(f"{rng.choice(words)} " for _ in range(8)) for _ in range(6)]]
    lines *= pages
    path = folder / "report.pdf"
    path.write_bytes(
        pdf(["\n".join([f"Page number {at}", *each]) for at, each in enumerate(lines)])
    )
    return path


async def prepared(app: App, told: list[Prepared], count: int, what: str) -> Prepared:
    await until(lambda: len(told) >= count, what)
    return told[count - 1]


@pytest.mark.parametrize("is_pasted", [False, True], ids=["a file", "a pasted text"])
async def test_U3_a_document_is_read_once_also_after_a_restart(
    open_app: OpenApp, folders: Folders, tmp_path: Path, is_pasted: bool
) -> None:
    app, _ = await with_model(open_app, folders)
    told: list[Prepared] = []
    app.parts.idle_prefill.prepared.connect(lambda _end, event: told.append(event))
    if is_pasted:
        data = QMimeData()
        data.setText("the red circle of an old house is near that green star\n" * 200)
        paste(app, data)
    else:
        drop(app, files([a_pdf(tmp_path, 24)]))
    read = await prepared(app, told, 1, "the document is read ahead")
    (document,) = app.parts.chat.draft.ready_documents()
    assert document.tokens is not None and document.tokens > 2_000
    assert read.tokens > document.tokens - FEW_TOKENS

    first = stats_of(await answer(app, "How many pages?"))
    assert first.reused_tokens == read.tokens and first.evaluated_tokens < FEW_TOKENS
    await prepared(app, told, 2, "the reply is settled")
    second = stats_of(await answer(app, "And lines?"))
    assert second.evaluated_tokens < FEW_TOKENS and second.miss is None
    await prepared(app, told, 3, "the second reply is settled")

    # Another question in place of the first leaves the document as it was.
    message = app.parts.transcript.rows[0].message
    app.parts.chat.edit(message.id, "Which colour is the house?")
    await until(lambda: app.parts.transcript.rows[0].id != message.id)
    edited = stats_of(await ended(app))
    assert edited.evaluated_tokens < FEW_TOKENS

    (chat,) = [each.id for each in app.parts.chat_list.chats]
    app.window.close()
    await app.gone.wait()
    app, _ = await with_model(open_app, folders)
    told.clear()
    app.parts.idle_prefill.prepared.connect(lambda _end, event: told.append(event))
    app.parts.chat.open(chat)
    await prepared(app, told, 1, "the opened chat is prefilled")
    assert told[0].tokens < FEW_TOKENS
    type_in(app, "What is near the house?")
    press(app, "sendButton")
    await until(lambda: len(app.parts.transcript.rows) == 4)
    later = stats_of(await ended(app))
    assert later.prompt_tokens > document.tokens
    assert later.evaluated_tokens < FEW_TOKENS and later.miss is None
    assert app.parts.documents.reader.read == 0
