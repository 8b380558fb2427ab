"""Documents in the window: dropped, shown, chosen from, sent, found again, deleted."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QKeySequence, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QListView

from core.api.chat import ImagePart, TextPart, UserMessage
from core.api.errors import DocumentUnreadableError
from core.remote.messages import Place, RemoteServer
from desktop.app import App
from desktop.chat.compose.composer_text import LONG_PASTE
from desktop.documents import documents, reading
from desktop.documents.document_dialog import DocumentDialog
from desktop.documents.document_strip import DocumentChip, DocumentStrip
from desktop.documents.parts import not_sendable
from desktop.store.database import open_database
from desktop.store.folders import Folders
from desktop.store.tables import chats, messages
from desktop.store.tables.attachments import attached, document_of
from desktop.store.tables.records import Document
from desktop.widgets.plain import Label
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import Asked, FakeEngine, model_info, png
from tests.desktop.hands import (
    drop,
    ended,
    files,
    find,
    paste,
    press,
    send,
    user_rows,
    words,
)
from tests.documents import docx, paragraph, pdf

SECRET = "zebrafish"
ADDRESS = "http://127.0.0.1:9"


def written(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return folder / name


def captions(app: App, strip: str = "composerDocuments") -> list[str]:
    chips = find(app, DocumentStrip, strip).chips()
    return [found.text() for chip in chips for found in chip.findChildren(Label, "documentCaption")]


def content_of(asked: Asked) -> list[str]:
    """The parts of the last message; a picture by its name in brackets."""
    message = asked.conversation.messages[-1]
    assert isinstance(message, UserMessage)
    return [
        part.text if isinstance(part, TextPart) else f"[{part.name}]" for part in message.content
    ]


async def give(app: App, paths: Sequence[Path], count: int) -> list[Document]:
    """Drop files, and wait until `count` documents are read and counted."""
    drop(app, files(list(paths)))
    draft = app.parts.chat.draft

    def is_counted() -> bool:
        found = draft.ready_documents()
        return draft.complete and len(found) == count and all(each.tokens for each in found)

    await until(is_counted, "the documents are read")
    return list(draft.ready_documents())


def opened(app: App) -> DocumentDialog:
    return find(app, DocumentDialog, "documentDialog")


async def look_up(dialog: DocumentDialog, query: str) -> list[int]:
    """Search the document; returns the places that are shown."""
    dialog.field.setText(query)
    dialog.search()
    await until(lambda: not dialog._unsearched)
    return dialog.parts.shown


async def test_a_text_is_dropped_sent_and_there_again(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    app = await open_app()
    await give(app, [written(tmp_path, "notes.txt", b"The lamp is blue.")], 1)
    assert captions(app) == ["7 tokens"]
    asked = await send(app, engine, "Which colour?")
    said = '<document name="notes.txt">\nThe lamp is blue.\n</document>'
    assert content_of(asked) == [f"{said}\n\n", "Which colour?"]
    asked.finish("Blue")
    await ended(app)
    assert captions(app) == [] and captions(app, "messageDocuments") == ["7 tokens"]
    app.window.close()
    await app.gone.wait()
    app = await open_app()
    await until(lambda: app.parts.chat_list.chats)
    app.parts.chat.open(app.parts.chat_list.chats[0].id)
    await until(lambda: app.parts.transcript.rows)
    assert captions(app, "messageDocuments") == ["7 tokens"]
    find(app, DocumentStrip, "messageDocuments").open_asked.emit(0)
    assert opened(app).text.toPlainText() == "The lamp is blue."
    assert app.parts.transcript.rows[0].text == "Which colour?"


async def pasted(app: App, text: str) -> Document:
    """Paste a long text, and wait until it is attached."""
    data = QMimeData()
    data.setText(text)
    paste(app, data)
    await until(lambda: app.parts.chat.draft.complete)
    return app.parts.chat.draft.ready_documents()[-1]


LONG = "".join(f"line {number}\n" for number in range(1_000))


async def test_a_long_text_that_is_pasted_is_attached_and_sent_before_the_question(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    document = await pasted(app, LONG)
    assert "".join(document.parts) == LONG and len(document.parts) > 1
    assert document.name == "Pasted text, 8,890 characters"
    asked = await send(app, engine, "How many lines?")
    said = f'<document name="{document.name}">\n{LONG}</document>'
    assert content_of(asked) == [f"{said}\n\n", "How many lines?"]
    asked.finish("1,000")
    await ended(app)
    user_rows(app)[0].edit()
    assert len(captions(app, "editDocuments")) == 1
    app.parts.chat.edit(app.parts.transcript.rows[0].id, "Which is the first?")
    await until(lambda: len(engine.asked) == 2)
    assert content_of(engine.asked[1]) == [f"{said}\n\n", "Which is the first?"]


async def test_a_pasted_text_is_plain_with_shift_with_its_button_or_if_it_is_short(
    open_app: OpenApp,
) -> None:
    app = await open_app()
    field, draft = app.window.page.composer.text, app.parts.chat.draft
    data = QMimeData()
    data.setText(LONG)
    paste(app, data, plain=True)
    await until(field.is_complete)
    assert field.toPlainText() == LONG and not draft.documents
    field.clear()
    QTest.keyClicks(field, "before after")
    field.moveCursor(QTextCursor.MoveOperation.PreviousWord)
    await pasted(app, LONG)
    QTest.keyClicks(field, "now ")
    press(app, "documentAsText")
    await until(field.is_complete)
    assert field.toPlainText() == f"before {LONG}now after" and not draft.documents
    field.clear()
    data = QMimeData()
    data.setText(LONG[:LONG_PASTE])
    paste(app, data)
    await until(field.is_complete)
    assert field.toPlainText() == LONG[:LONG_PASTE] and not draft.documents


async def test_attaching_a_text_is_undone_and_redone_between_what_was_typed_before_and_after(
    open_app: OpenApp,
) -> None:
    app = await open_app()
    field, draft = app.window.page.composer.text, app.parts.chat.draft
    QTest.keyClicks(field, "a")
    await pasted(app, LONG)
    await pasted(app, LONG.upper())
    QTest.keyClicks(field, "b")
    left = []
    for _ in range(4):
        QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
        left.append((field.toPlainText(), len(draft.documents)))
    assert left == [("a", 2), ("a", 1), ("a", 0), ("", 0)]
    back = []
    for _ in range(5):
        QTest.keySequence(field, QKeySequence(QKeySequence.StandardKey.Redo))
        back.append((field.toPlainText(), len(draft.documents)))
    assert back == [("a", 0), ("a", 1), ("a", 2), ("ab", 2), ("ab", 2)]
    assert ["".join(each.parts) for each in draft.ready_documents()] == [LONG, LONG.upper()]
    field.clear()
    for each in list(draft.documents):
        app.parts.documents.remove(draft, each.number)
    QTest.keyClicks(field, "replaced")
    field.selectAll()
    await pasted(app, LONG)
    press(app, "documentRemove")
    assert field.toPlainText() == ""
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert field.toPlainText() == "replaced"
    field.moveCursor(QTextCursor.MoveOperation.End)
    await pasted(app, LONG)
    QTest.keyClick(field, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    # Whatever is attached ends what can be redone.
    await pasted(app, LONG.upper())
    QTest.keySequence(field, QKeySequence(QKeySequence.StandardKey.Redo))
    assert ["".join(each.parts) for each in draft.ready_documents()] == [LONG.upper()]


async def test_a_pasted_text_is_kept_while_another_document_is_read_and_waymark_is_closed(
    open_app: OpenApp,
) -> None:
    app = await open_app()
    data = QMimeData()
    data.setText(LONG)
    async with app.parts.documents._turn:
        paste(app, data)
        app.window.close()
        await app.gone.wait()
    app = await open_app()
    (document,) = app.parts.chat.draft.ready_documents()
    assert "".join(document.parts) == LONG


async def test_a_draft_keeps_its_documents_over_a_restart(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    app = await open_app()
    await give(app, [written(tmp_path, "a.pdf", pdf(["one", "two"]))], 1)
    app.parts.documents.choose(app.parts.chat.draft, app.parts.chat.draft.documents[0].number, [1])
    await until(lambda: "1 of 2 pages" in captions(app)[0])
    app.window.close()
    await app.gone.wait()
    app = await open_app()
    assert captions(app)[0].startswith("1 of 2 pages")
    asked = await send(app, engine, "What?")
    said = '<document name="a.pdf">\n[Page 2]\ntwo\n[Pages 2 of 2]\n</document>\n\n'
    assert content_of(asked) == [said, "What?"]


async def test_pages_are_chosen_by_number_and_by_words(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    pages = [f"page about {'cats' if at % 3 else 'dogs and dogs'}" for at in range(12)]
    await give(app, [written(tmp_path, "a.pdf", pdf(pages))], 1)
    find(app, DocumentStrip, "composerDocuments").chips()[0].opened.emit()
    dialog = opened(app)
    assert await look_up(dialog, "2-4, 7") == [1, 2, 3, 6]
    assert dialog.text.placeholderText() == ""
    assert await look_up(dialog, "99") == []
    assert dialog.text.placeholderText() == "Nothing was found."
    assert await look_up(dialog, "DOGS") == [0, 3, 6, 9]
    assert "2 matches" in dialog.list.model().index(0, 0).data()
    press(app, "documentFound")
    assert "Chosen: 4 of 12 pages" in words(app, "documentWords")
    press(app, "documentUse")
    await until(lambda: captions(app)[0].startswith("4 of 12 pages"))
    asked = await send(app, engine, "How many dogs?")
    sent = content_of(asked)[0]
    assert "[Pages 1, 4, 7, 10 of 12]" in sent and "cats" not in sent and "[Page 10]" in sent


async def test_the_best_parts_are_as_many_as_fit(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    text = "".join(f"# Part {at}\n{'word ' * 200}{'fox ' * at}\n" for at in range(30))
    await give(app, [written(tmp_path, "a.md", text.encode())], 1)
    find(app, DocumentStrip, "composerDocuments").chips()[0].opened.emit()
    dialog = opened(app)
    shown = await look_up(dialog, "fox")
    assert len(shown) == 29
    dialog._room = 4 * max(dialog._sizes)
    press(app, "documentFit")
    assert sorted(dialog.parts.chosen) == [26, 27, 28, 29]
    dialog.parts.choose([])
    press(app, "documentUse")
    assert words(app, "documentWords") == "Choose at least one part." and dialog.isVisible()
    first = dialog.list.model().index(0, 0)
    dialog.list.model().setData(first, Qt.CheckState.Checked, Qt.ItemDataRole.CheckStateRole)
    press(app, "documentUse")
    assert app.parts.chat.draft.documents[0].document is not None
    assert app.parts.chat.draft.documents[0].document.chosen == (1,)


async def test_what_is_longer_than_the_context_is_not_sent_and_says_so(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    engine.model_to_load = model_info(context_length=512)
    app = await open_app()
    await give(app, [written(tmp_path, "long.txt", b"word " * 3_000)], 1)
    assert "more than fits" in captions(app)[0]
    app.window.page.composer.text.setPlainText("What?")
    press(app, "sendButton")
    await until(lambda: "nothing was cut off" in words(app, "composerNotice"))
    assert engine.asked == [] and len(app.parts.chat.draft.documents) == 1
    press(app, "documentRemove")
    assert words(app, "composerNotice") == ""


async def test_a_folder_gives_its_documents_and_pictures(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    folder = tmp_path / "papers"
    written(folder, "a.txt", b"one")
    written(folder, "deep/b.docx", docx(paragraph("two")))
    written(folder, "deep/star.png", png())
    written(folder, "c.bin", bytes(100))
    written(folder, ".hidden/d.txt", b"no")
    (folder / "loop").symlink_to(folder)
    other = written(tmp_path, "e.txt", b"three")
    (tmp_path / "nothing").mkdir()
    # One folder alone could be a model.
    await give(app, [folder, other, tmp_path / "nothing"], 3)
    await until(lambda: app.parts.chat.draft.pictures)
    assert [each.name for each in app.parts.chat.draft.documents] == ["a.txt", "b.docx", "e.txt"]
    assert words(app, "composerNotice").split("\n") == [
        "papers was not added: files in it that are neither pictures nor documents: 1.",
        "nothing was not added: there are no files in it.",
    ]
    asked = await send(app, engine, "Compare.")
    sent = content_of(asked)
    assert all(
        part.startswith("<document name=") and part.endswith("</document>\n\n") for part in sent[:3]
    )
    assert sent[3:] == ["[star.png]", "Compare."]


async def test_the_same_file_is_read_once(app: App, engine: FakeEngine, tmp_path: Path) -> None:
    path = written(tmp_path, "a.pdf", pdf(["one", "two"]))
    await give(app, [path], 1)
    (await send(app, engine, "First?")).finish("Yes")
    await ended(app)
    app.parts.chat.open(None)
    await until(lambda: not app.parts.transcript.rows)
    (document,) = await give(app, [path], 1)
    assert app.parts.documents.reader.read == 1 and document.parts == ("one", "two")


async def test_pages_are_read_as_pictures(app: App, engine: FakeEngine, tmp_path: Path) -> None:
    await give(app, [written(tmp_path, "a.pdf", pdf(["one", "two", "three"]))], 1)
    draft = app.parts.chat.draft
    app.parts.documents.choose(draft, draft.documents[0].number, [0, 2])
    await until(lambda: captions(app)[0].startswith("2 of 3 pages"))
    find(app, DocumentChip, "documentChip").pages_asked.emit(False)
    await until(lambda: len(draft.pictures) == 2 and draft.complete)
    assert [each.name for each in draft.pictures] == ["a.pdf, page 1", "a.pdf, page 3"]
    assert draft.documents == [] and not draft.lost
    message = (await send(app, engine, "Look.")).conversation.messages[-1]
    assert isinstance(message, UserMessage)
    assert [type(part) for part in message.content] == [ImagePart, ImagePart, TextPart]


async def test_a_document_without_text_is_not_sent(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    drop(app, files([written(tmp_path, "scan.pdf", pdf(["", ""]))]))
    await until(lambda: app.parts.chat.draft.documents and app.parts.chat.draft.complete)
    assert "use its pages as pictures" in captions(app)[0]
    app.window.page.composer.text.setPlainText("What?")
    press(app, "sendButton")
    await until(lambda: "has no text to read" in words(app, "composerNotice"))
    assert engine.asked == []


async def test_what_can_not_be_read_is_refused_by_name(app: App, tmp_path: Path) -> None:
    paths = [
        written(tmp_path, "broken.pdf", b"%PDF-1.7 broken"),
        written(tmp_path, "empty.html", b"<html><script>x</script></html>"),
        written(tmp_path, "old.doc", b"\xd0\xcf\x11\xe0" + bytes(100)),
        written(tmp_path, "a.bin", bytes(100)),
    ]
    drop(app, files(paths))
    for said in (
        "broken.pdf is damaged",
        "empty.html has no text",
        "old.doc is in an old Office format",
        "a.bin is neither a picture nor a document",
    ):
        await until(partial(said_in_notice, app, said))
    assert app.parts.chat.draft.documents == []


async def test_an_edited_question_keeps_its_document(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    await give(app, [written(tmp_path, "a.txt", b"words")], 1)
    first = await send(app, engine, "First?")
    first.finish("Yes")
    await ended(app)
    user_rows(app)[0].edit()
    assert captions(app, "editDocuments") == ["4 tokens"]
    app.parts.chat.edit(app.parts.transcript.rows[0].id, "Second?")
    await until(lambda: len(engine.asked) == 2)
    assert content_of(engine.asked[1]) == [content_of(first)[0], "Second?"]


async def test_an_edit_with_more_than_the_context_is_not_sent(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    engine.model_to_load = model_info(context_length=512)
    app = await open_app()
    (await send(app, engine, "First?")).finish("Yes")
    await ended(app)
    user_rows(app)[0].edit()
    message = app.parts.transcript.rows[0].message
    draft = app.parts.drafts.edit(message)
    app.parts.documents.add_files(draft, [written(tmp_path, "long.txt", b"word " * 3_000)])
    await until(lambda: any(each.tokens for each in draft.ready_documents()))
    app.parts.chat.edit(message.id, "Second?")
    assert "nothing was cut off" in words(app, "composerNotice")
    assert len(engine.asked) == 1 and app.parts.drafts.edited(message.id) is draft


async def test_a_draft_with_a_document_is_prefilled(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    await give(app, [written(tmp_path, "a.txt", b"word " * 600)], 1)
    await until(lambda: engine.read)


def said_in_notice(app: App, said: str) -> bool:
    return said in words(app, "composerNotice")


def rows_with(path: Path, text: str) -> bool:
    return text.encode() in path.read_bytes()


async def test_M2_a_document_is_gone_with_its_chat(
    app: App, engine: FakeEngine, folders: Folders, tmp_path: Path
) -> None:
    await give(app, [written(tmp_path, "a.txt", f"About the {SECRET}.".encode())], 1)
    (await send(app, engine, "What?")).finish("Fish")
    await ended(app)
    chat = app.parts.transcript.chat
    assert chat is not None
    await app.parts.search._update()
    assert rows_with(folders.search_index, SECRET) or rows_with(
        Path(f"{folders.search_index}-wal"), SECRET
    )
    app.parts.chats.delete(chat)
    await until(lambda: app.parts.chats.trash.chats)
    await app.parts.deletion.purge(chat)
    app.window.close()
    await app.gone.wait()
    left = [path for path in folders.data.rglob("*") if path.is_file() and rows_with(path, SECRET)]
    assert left == []
    with closing(sqlite3.connect(folders.database)) as connection:
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (0,)


async def test_U1_words_of_a_document_are_found(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    await give(app, [written(tmp_path, "a.txt", f"About the {SECRET}.".encode())], 1)
    (await send(app, engine, "What?")).finish("Fish")
    await ended(app)
    press_search(app, "ZEBRA")
    search = app.parts.search
    await until(lambda: search.hits and not search.is_searching)
    assert search.hits[0].in_document and search.hits[0].extract.match == "zebra"
    app.window.dialogs.open_hit(search.hits[0])
    await until(lambda: app.window.findChildren(DocumentDialog))
    await until(lambda: opened(app).text.textCursor().selectedText() == "zebra")


def press_search(app: App, words: str) -> None:
    app.window.dialogs.show_search(words)


async def test_U2_documents_are_exported_and_imported(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    await pasted(app, LONG)
    await give(app, [written(tmp_path, "a.pdf", pdf(["one", "two", "three"]))], 2)
    draft = app.parts.chat.draft
    app.parts.documents.choose(draft, draft.documents[1].number, [0, 2])
    await until(lambda: all(each.tokens for each in draft.ready_documents()))
    (await send(app, engine, "What?")).finish("Fish")
    await ended(app)
    chat, before = app.parts.transcript.chat, app.parts.transcript.rows[0].message.documents
    assert chat is not None and before[1].chosen == (0, 2)
    for suffix in (".zip", ".json"):
        path = tmp_path / f"chats{suffix}"
        await app.parts.export.write([chat], path)
        report = await app.parts.export.read(path)
        assert (report.chats, report.documents, report.error) == (1, 2, "")
        await app.parts.chats.refresh()
        newest = max(each.id for each in app.parts.chat_list.chats)
        read = await app.parts.database.run(messages.read_path, newest)
        for was, now in zip(before, read[0].documents, strict=True):
            assert (now.digest, now.parts, now.chosen) == (was.digest, was.parts, was.chosen)
    for suffix in (".html", ".md"):
        await app.parts.export.write([chat], tmp_path / f"chats{suffix}")
        exported = (tmp_path / f"chats{suffix}").read_text("utf-8")
        # No file has a pasted text.
        assert "a.pdf" in exported and LONG in exported.replace("> ", "")


async def test_too_many_pages_are_not_added_as_pictures(
    app: App, engine: FakeEngine, tmp_path: Path
) -> None:
    await give(app, [written(tmp_path, "a.pdf", pdf(["x"] * 30))], 1)
    find(app, DocumentChip, "documentChip").pages_asked.emit(True)
    await until(lambda: str(documents.MOST_PAGE_PICTURES) in words(app, "composerNotice"))
    assert app.parts.chat.draft.pictures == []


async def test_a_removed_document_is_not_waited_for(app: App, tmp_path: Path) -> None:
    await give(app, [written(tmp_path, "a.txt", b"words")], 1)
    press(app, "documentRemove")
    assert app.parts.chat.draft.documents == [] and captions(app) == []
    assert not find(app, DocumentStrip, "composerDocuments").isVisible()
    assert app.window.findChildren(QListView, "documentParts") == []


async def test_a_file_that_is_still_looked_at_is_waited_for(
    app: App, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def slow_kind(path: Path) -> reading.FileKind:
        assert answers.wait(30)
        return reading.kind_of(path)

    monkeypatch.setattr(documents, "kind_of", slow_kind)
    drop(app, files([written(tmp_path, "a.txt", b"The lamp is blue."), tmp_path / "gone.txt"]))
    app.window.page.composer.text.setPlainText("Which colour?")
    press(app, "sendButton")
    await until(lambda: "once its files are ready" in words(app, "composerNotice"))
    answers.set()
    # The message is back, with the reason, for the user to decide.
    await until(lambda: "gone.txt can't be read" in words(app, "composerNotice"))
    await until(lambda: app.parts.chat.draft.complete and not app.parts.chat._sending)
    assert engine.asked == []
    press(app, "sendButton")
    await until(lambda: engine.asked)
    assert "The lamp is blue." in content_of(engine.asked[0])[0]


async def test_the_context_of_this_computer_limits_no_document_for_a_server(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    engine.model_to_load = model_info(context_length=512)
    app = await open_app()
    remote = app.parts.remote
    remote._put(remote.settings.model_copy(update={"servers": (RemoteServer(address=ADDRESS),)}))
    remote.place_new_chats(Place(address=ADDRESS, model="m"))
    (document,) = await give(app, [written(tmp_path, "long.txt", b"word " * 3_000)], 1)
    assert "more than fits" not in captions(app)[0]
    assert app.parts.chat._sendable(app.parts.chat.draft)
    empty = replace(document, parts=("",))
    assert "no text to read" in not_sendable([empty], None)


def test_pages_of_a_changed_or_broken_file_are_not_shown(tmp_path: Path) -> None:
    reader = reading.DocumentReader()
    data = {"a.pdf": pdf(["one", "two"]), "b.pdf": pdf(["three"])}
    paths = {name: written(tmp_path, name, each) for name, each in data.items()}
    sources = {name: reading.source_of(each, name) for name, each in data.items()}
    first = reader.picture_of(paths["a.pdf"], 1, sources["a.pdf"])
    written(tmp_path, "b.pdf", pdf(["four"]))
    with pytest.raises(DocumentUnreadableError, match=r"b\.pdf has changed"):
        reader.picture_of(paths["b.pdf"], 0, sources["b.pdf"])
    broken = written(tmp_path, "c.pdf", b"%PDF-1.7 broken")
    with pytest.raises(DocumentUnreadableError, match="damaged"):
        reader.picture_of(broken, 0, reading.source_of(broken.read_bytes(), "c.pdf"))
    assert reader.picture_of(paths["a.pdf"], 1, sources["a.pdf"]) == first
    reader.close()


def test_reading_a_file_again_repairs_its_text(tmp_path: Path) -> None:
    document = document_of("a.txt", False, "whole", source="s")
    with closing(open_database(tmp_path / "chats.db")) as connection:
        chat = chats.create(connection, "A chat")
        message = messages.add_message(connection, chat, None, "First?", [document])
        connection.execute("UPDATE documents SET text = 'damaged', source = ''")
        (damaged,) = attached(connection, "message", message, "").documents
        messages.add_message(connection, chat, message, "Second?", [document])
        assert attached(connection, "message", message, "").documents[0].parts == ("whole",)
        messages.add_message(connection, chat, message, "Third?", [damaged])
        assert attached(connection, "message", message, "").documents[0].parts == ("whole",)
