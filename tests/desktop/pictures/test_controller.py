from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from core.api.chat import ImagePart
from core.api.errors import EngineDiedError
from core.api.events import ImageDescribed
from desktop.engine import tasks
from desktop.engine.engine_status import Phase
from desktop.pictures import picture_files, pictures
from desktop.pictures.picture_files import Refusal, not_added
from desktop.store.folders import Folders
from desktop.window.window_parts import WindowParts
from tests.desktop.chat.test_chat import ask, ended
from tests.desktop.conftest import OpenParts, until
from tests.desktop.fake_engine import FakeEngine, model_info, png


async def shown_pictures(parts: WindowParts, count: int) -> None:
    await until(lambda: len(parts.chat.draft.ready_pictures()) == count)


def looking(parts: WindowParts) -> bool:
    return any(task.get_name() == "Checking pictures again" for task in parts.tasks._running)


async def ready(open_parts: OpenParts) -> tuple[WindowParts, list[str]]:
    parts = await open_parts()
    await until(lambda: parts.engine.status.phase is Phase.READY)
    refused: list[str] = []
    parts.pictures.refused.connect(lambda _draft, what: refused.append(not_added(what)))
    return parts, refused


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


async def test_a_picture_is_stored_and_described(open_parts: OpenParts, tmp_path: Path) -> None:
    # The engine is still starting.
    parts = await open_parts()
    source = written(tmp_path, "a.png", png(48, 32))
    parts.pictures.add_files(parts.chat.draft, [source])
    await until(lambda: parts.chat.draft.pictures and parts.chat.draft.complete)
    (picture,) = parts.chat.draft.ready_pictures()
    assert (picture.name, picture.size, picture.tokens) == ("a.png", (48, 32), 4)
    source.unlink()
    assert parts.chat._blobs.path(picture.digest).read_bytes() == png(48, 32)


async def test_what_is_no_picture_is_refused_in_words(
    open_parts: OpenParts, tmp_path: Path
) -> None:
    parts, refused = await ready(open_parts)
    (tmp_path / "folder").mkdir()
    given = [
        written(tmp_path, "notes.txt", b"some words"),
        written(tmp_path, "good.png", png()),
        tmp_path / "folder",
        written(tmp_path, "empty.png", b""),
        tmp_path / "gone.png",
        written(tmp_path, "broken.png", b"\x89PNG broken"),
    ]
    expected = ["notes.txt is neither a picture", "folder is a folder", "empty.png is empty"]
    expected += ["gone.png can't be read"]
    if hasattr(os, "mkfifo"):
        # Opening a pipe would wait for its other end.
        os.mkfifo(tmp_path / "pipe.png")
        given.append(tmp_path / "pipe.png")
        expected.append("pipe.png is not a file.")
    parts.pictures.add_files(parts.chat.draft, given)
    await until(lambda: len(refused) == 2 and parts.chat.draft.complete)
    assert [each.name for each in parts.chat.draft.pictures] == ["good.png"]
    assert [each for each in expected if each not in refused[0]] == []
    assert refused[1] == "broken.png was not added: It is damaged."


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
async def test_a_pipe_put_in_a_files_place_is_refused(
    open_parts: OpenParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the file was looked at, and before it is read."""
    parts, refused = await ready(open_parts)
    os.mkfifo(tmp_path / "a.png")
    monkeypatch.setattr(pictures, "why_no_picture", lambda _path: None)
    parts.pictures.add_files(parts.chat.draft, [tmp_path / "a.png"])
    await until(lambda: refused)
    assert refused == ["a.png was not added: It is a pipe, a device or a socket, not a file."]
    assert parts.chat.draft.pictures == []


async def test_a_file_that_never_answers_is_refused_and_holds_up_no_other(
    open_parts: OpenParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, refused = await ready(open_parts)
    gone, hangs = written(tmp_path, "gone.png", png()), threading.Event()
    monkeypatch.setattr(tasks, "FILE_LIMIT_S", 0.2)
    read = picture_files.read_picture_file
    monkeypatch.setattr(
        pictures, "read_picture_file", lambda path: (path == gone and hangs.wait()) or read(path)
    )
    parts.pictures.add_files(parts.chat.draft, [gone, written(tmp_path, "good.png", png())])
    await until(lambda: refused and parts.chat.draft.complete)
    assert refused[0].startswith("gone.png was not added: The disk or server did not answer")
    assert [each.name for each in parts.chat.draft.pictures] == ["good.png"]
    hangs.set()


async def test_a_huge_file_is_not_read(
    open_parts: OpenParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture_files, "MAX_PICTURE_BYTES", 10)
    parts, refused = await ready(open_parts)
    parts.pictures.add_files(parts.chat.draft, [written(tmp_path, "a.png", png())])
    await until(lambda: refused)
    assert refused == ["Not added: a.png is larger than 10 B."]


async def test_a_picture_that_fails_unexpectedly_is_removed(
    open_parts: OpenParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, _refused = await ready(open_parts)

    def fail(_path: Path) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(pictures, "read_picture_file", fail)
    parts.pictures.add_files(parts.chat.draft, [written(tmp_path, "a.png", png())])
    await until(lambda: parts.chat.draft.lost)
    assert not parts.chat.draft.pictures


async def test_a_message_whose_file_is_refused_after_enter_is_not_sent(
    open_parts: OpenParts, engine: FakeEngine, tmp_path: Path
) -> None:
    parts, refused = await ready(open_parts)
    draft = parts.chat.draft
    draft.text = "What is it?"
    parts.documents.add_files(draft, [tmp_path / "gone.png"])
    parts.chat.send()
    await until(lambda: refused and not parts.chat._sending)
    assert engine.asked == [] and parts.chat.draft.text == "What is it?"


async def test_sending_waits_for_a_picture_and_is_called_off_if_it_is_refused(
    open_parts: OpenParts, engine: FakeEngine, tmp_path: Path
) -> None:
    parts, refused = await ready(open_parts)
    draft = parts.chat.draft
    engine.may_describe.clear()
    parts.pictures.add_files(draft, [written(tmp_path, "a.png", b"\x89PNG broken")])
    await until(lambda: draft.pictures)
    draft.text = "What is it?"
    parts.chat.send()
    engine.may_describe.set()
    await until(lambda: refused)
    await until(lambda: not parts.chat._sending)
    assert engine.asked == []
    assert parts.chat.draft.text == "What is it?"


async def test_another_model_brings_the_captions_up_to_date(
    open_parts: OpenParts, engine: FakeEngine, tmp_path: Path
) -> None:
    parts, _ = await ready(open_parts)
    parts.pictures.add_files(parts.chat.draft, [written(tmp_path, "a.png", png())])
    await until(lambda: parts.chat.draft.pictures and parts.chat.draft.complete)
    assert parts.chat.draft.ready_pictures()[0].tokens == 4
    engine.model_to_load = model_info(vision=False)
    parts.settings.load()
    await until(lambda: parts.chat.draft.ready_pictures()[0].tokens is None)


async def test_closing_forgets_the_files_in_no_message_and_no_draft(
    open_parts: OpenParts, engine: FakeEngine, folders: Folders, tmp_path: Path
) -> None:
    parts, _ = await ready(open_parts)
    for name, colour in (("kept.png", "red"), ("unsent.png", "blue"), ("gone.png", "green")):
        parts.pictures.add_files(parts.chat.draft, [written(tmp_path, name, png(colour=colour))])
        shown = 2 if name == "gone.png" else 1
        await shown_pictures(parts, shown)
        if name == "kept.png":
            parts.chat.send()
            await until(lambda: engine.asked)
    digest = parts.transcript.rows[0].message.pictures[0].digest
    gone = parts.chat.draft.pictures[-1]
    parts.pictures.remove(parts.chat.draft, gone.number)
    (unsent,) = parts.chat.draft.ready_pictures()
    other = folders.pictures / "notes.txt"
    other.write_text("not ours")
    await parts.close()
    kept = {path.name for path in folders.pictures.rglob("*") if path.is_file()}
    assert kept == {digest, unsent.digest, "notes.txt"}


async def test_a_picture_that_was_sent_is_not_looked_at_again(
    open_parts: OpenParts, engine: FakeEngine, folders: Folders, tmp_path: Path
) -> None:
    """Its chat may be gone for good, and its file with it."""
    parts, refused = await ready(open_parts)
    parts.pictures.add_files(parts.chat.draft, [written(tmp_path, "a.png", png())])
    await shown_pictures(parts, 1)
    (await ask(parts, engine, "What is it?")).finish("A picture")
    await ended(parts)
    chat = parts.transcript.chat
    assert chat is not None
    parts.chat.open(None)
    parts.chats.delete(chat)
    await until(lambda: parts.chats.trash.chats)
    parts.deletion.delete_for_good(chat)
    await until(lambda: not list(folders.pictures.glob("??/*")))
    loads = len(engine.loads)
    parts.settings.load()
    await until(lambda: len(engine.loads) > loads)
    await until(lambda: parts.engine.status.phase is Phase.READY)
    await until(lambda: not looking(parts))
    assert refused == []


async def test_a_picture_that_is_missing_is_named_as_the_user_knows_it(
    open_parts: OpenParts, engine: FakeEngine, folders: Folders, tmp_path: Path
) -> None:
    parts, refused = await ready(open_parts)
    parts.pictures.add_files(parts.chat.draft, [written(tmp_path, "star.png", png())])
    await shown_pictures(parts, 1)
    (file,) = folders.pictures.glob("??/*")
    file.unlink()
    parts.settings.load()
    await until(lambda: refused)
    assert refused == ["Not added: star.png doesn't exist any more, or isn't a file."]
    assert parts.chat.draft.pictures == []


async def test_an_engine_that_dies_costs_a_draft_no_picture(
    open_parts: OpenParts, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, refused = await ready(open_parts)
    parts.pictures.add_files(parts.chat.draft, [written(tmp_path, "star.png", png())])
    await shown_pictures(parts, 1)
    asked: list[str] = []

    async def die(image: ImagePart) -> ImageDescribed:
        asked.append(image.name)
        raise EngineDiedError("The engine is not running.")

    monkeypatch.setattr(engine, "_describe", die)
    parts.settings.load()
    await until(lambda: asked == ["star.png"])
    await until(lambda: not looking(parts))
    assert refused == [] and len(parts.chat.draft.pictures) == 1


NO_PICTURE = "{names} is not a picture.", "{names} are not pictures."
TOO_LARGE = "{names} is larger than 2.0 KB.", "{names} are larger than 2.0 KB."


def test_refusals_of_one_kind_are_one_sentence() -> None:
    one = Refusal("a.txt", why=NO_PICTURE)
    assert not_added([one]) == "Not added: a.txt is not a picture."
    two = [one, Refusal("b.txt", why=NO_PICTURE), Refusal("c.png", why=TOO_LARGE)]
    assert not_added(two) == (
        "Not added: a.txt, b.txt are not pictures.\nNot added: c.png is larger than 2.0 KB."
    )
    three = [Refusal(f"{letter}.txt", why=NO_PICTURE) for letter in "abc"]
    assert not_added(three) == "Not added: a.txt, b.txt, c.txt are not pictures."
    # The same file twice is one refusal.
    assert not_added([one, one]) == not_added([one])
    assert not_added([]) == ""


def test_a_few_names_are_shown_and_the_others_counted() -> None:
    many = [Refusal(f"{at}.txt", why=NO_PICTURE) for at in range(15)]
    assert not_added(many) == "Not added: 0.txt, 1.txt, 2.txt and 12 more are not pictures."
    said = [Refusal(f"{at}.png", said="It is damaged.") for at in range(16)]
    words = not_added(said)
    assert words.startswith("0.png was not added: It is damaged.\n1.png was not added:")
    assert words.endswith("\nAnd 12 more were not added.") and len(words) < 300


def test_a_sentence_that_contains_the_name_doesnt_repeat_it() -> None:
    damaged = Refusal("a.png", said="a.png is damaged.")
    assert not_added([damaged]) == "Not added: a.png is damaged."
    words = not_added([Refusal(said="Not added: an address."), Refusal("a.txt", why=NO_PICTURE)])
    assert words == "Not added: a.txt is not a picture.\nNot added: an address."
