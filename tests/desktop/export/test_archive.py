"""U2: an export contains everything of a chat, and its import gives the same chat."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.api.archive import (
    ArchivedChat,
    ArchivedFolder,
    ArchivedMessage,
    ArchivedPicture,
    ArchivedReply,
)
from core.api.chat import ReplyIds
from core.api.errors import ErrorInfo
from core.api.reply_format import ReplyFormat
from core.api.stats import Miss, RequestStats
from desktop.export.archive import add_archive, read_archive
from desktop.export.reading import ChatsFile
from desktop.export.writing import WRITERS, digests_of
from desktop.store.database import open_database
from desktop.store.tables.records import Picture
from tests.desktop.fake_engine import png

PICTURES = [png(20 + number, 20) for number in range(3)]
DIGESTS = [hashlib.sha256(data).hexdigest() for data in PICTURES]
# The store reads zeros as damage.
TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=30)
MOMENTS = st.floats(0, 4e9)
FOLDERS = [
    ArchivedFolder(name="Work"),
    ArchivedFolder(name="Verse", preset="Poet", system="In verse.", settings='{"thinking": true}'),
    ArchivedFolder(name="Lists", preset="", format=ReplyFormat(kind="json")),
]


@st.composite
def replies(draw: st.DrawFn) -> ArchivedReply:
    ids = draw(st.lists(st.integers(0, 2**31), max_size=5))
    return ArchivedReply(
        state=draw(st.sampled_from(["complete", "stopped", "failed"])),
        reasoning=draw(TEXTS),
        # A stopped reply is read as one that paused at its end.
        ids=draw(
            st.none() | st.just(ReplyIds.pack(ids, "t" * 64, True, (len(ids),) if ids else ()))
        ),
        finish_reason=draw(st.sampled_from([None, "stop", "length"])),
        error=draw(st.none() | st.just(ErrorInfo(name="E", title="Title", message="Words"))),
        stats=draw(
            st.none()
            | st.just(
                RequestStats(
                    prompt_tokens=9, ttft_s=0.1, miss=Miss(reason="cold", token=0, message=1)
                )
            )
        ),
        format=draw(st.none() | st.just(ReplyFormat(kind="choice", choices=("a", "b")))),
        model=draw(TEXTS),
    )


@st.composite
def trees(draw: st.DrawFn) -> ArchivedChat:
    messages: list[ArchivedMessage] = []
    count = draw(st.integers(0, 12))
    order = draw(st.permutations(range(count)))
    for place in range(count):
        parent = draw(st.none() | st.integers(0, place - 1)) if place else None
        is_reply = parent is not None and messages[parent].reply is None
        pictures = draw(st.lists(st.integers(0, 2), max_size=2)) if not is_reply else []
        messages.append(
            ArchivedMessage(
                parent=parent,
                text=draw(TEXTS),
                created=draw(MOMENTS),
                chosen=order[place],
                pictures=tuple(
                    ArchivedPicture(digest=DIGESTS[at], name=draw(TEXTS), resized=(4, 5), tokens=at)
                    for at in pictures
                ),
                reply=draw(replies()) if is_reply else None,
            )
        )
    return ArchivedChat(
        title=draw(TEXTS),
        created=draw(MOMENTS),
        used=draw(MOMENTS),
        pinned=draw(st.booleans()),
        forked=draw(st.booleans()),
        folder=draw(st.sampled_from([None, *FOLDERS])),
        system=draw(TEXTS),
        format=draw(st.none() | st.just(ReplyFormat(kind="json"))),
        left_out=draw(st.integers(0, count - 1)) if count and draw(st.booleans()) else None,
        messages=tuple(messages),
    )


KNOWN = {
    digest: Picture(digest, "", (20, 20), thumbnail=data)
    for digest, data in zip(DIGESTS, PICTURES, strict=True)
}


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return open_database(tmp_path / "chats.db")


def pictures_in(folder: Path) -> None:
    for digest, data in zip(DIGESTS, PICTURES, strict=True):
        (folder / digest).write_bytes(data)


def exported(chats: Sequence[ArchivedChat], path: Path, folder: Path) -> None:
    writer = WRITERS[path.suffix](path, folder.joinpath)
    for chat in chats:
        writer.add(chat)
    writer.end()


@pytest.mark.parametrize("suffix", [".zip", ".json"])
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(trees(), min_size=1, max_size=4))
def test_U2_random_trees_come_back(
    store: sqlite3.Connection, tmp_path: Path, suffix: str, chats: list[ArchivedChat]
) -> None:
    pictures_in(tmp_path)
    stored = [add_archive(store, chat, KNOWN) for chat in chats]
    read = [read_archive(store, chat) for chat in stored]
    assert read == chats
    path = tmp_path / f"all{suffix}"
    exported(chats, path, tmp_path)
    file = ChatsFile(path)
    try:
        found = []
        for each in file.chats():
            assert each.chat is not None
            found.append(each.chat)
            for message in each.chat.messages:
                for picture in message.pictures:
                    assert file.picture(picture) == PICTURES[DIGESTS.index(picture.digest)]
    finally:
        file.close()
    assert found == chats
    again = [add_archive(store, chat, KNOWN) for chat in found]
    assert [read_archive(store, chat) for chat in again] == chats


CHAT = ArchivedChat(
    title="Birds & <b>bees</b>",
    created=1e9,
    used=1e9,
    system="Be <i>brief</i>",
    messages=(
        ArchivedMessage(
            parent=None,
            text="Look <script>alert(1)</script>",
            pictures=(ArchivedPicture(digest=DIGESTS[0], name='a"b.png'),),
        ),
        ArchivedMessage(parent=0, text="old", chosen=1, reply=ArchivedReply(model="Old <model>")),
        ArchivedMessage(
            parent=0,
            text="**Yes** ![x](http://evil.example/a.png) [y](javascript:alert(1)) $x^2$ [^1]",
            chosen=2,
            reply=ArchivedReply(reasoning="Hm <b>", model="New"),
        ),
    ),
)


def test_html_is_one_file_that_runs_and_fetches_nothing(tmp_path: Path) -> None:
    pictures_in(tmp_path)
    exported([CHAT], tmp_path / "a.html", tmp_path)
    text = (tmp_path / "a.html").read_text("utf-8")
    assert "data:image/png;base64," in text and "<strong>Yes</strong>" in text
    assert "old" not in text and "default-src 'none'" in text
    for bad in ("<script", "<b>", "<i>", 'src="http', '<img alt="x"', 'href="javascript'):
        assert bad not in text, bad
    assert "$x^2$" in text and "&lt;script&gt;" in text


def test_markdown_holds_what_is_shown(tmp_path: Path) -> None:
    exported([CHAT], tmp_path / "a.md", tmp_path)
    text = (tmp_path / "a.md").read_text("utf-8")
    assert text.startswith("# Birds & <b>bees</b>\n")
    assert "> Be <i>brief</i>" in text and "## New\n\n**Yes**" in text
    assert "old" not in text and 'Picture: a"b.png' in text


def test_a_file_that_can_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    writer = WRITERS[".zip"](tmp_path / "a.zip", tmp_path.joinpath)
    writer.add(CHAT)
    writer.stopped = True
    with pytest.raises(InterruptedError):
        writer.end()
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_pictures_that_are_gone_are_counted(tmp_path: Path) -> None:
    writer = WRITERS[".zip"](tmp_path / "a.zip", tmp_path.joinpath)
    writer.add(CHAT)
    writer.end()
    assert (writer.missing, len(digests_of(CHAT))) == (1, 1)


def test_a_circle_is_no_chat() -> None:
    raw = json.loads(CHAT.model_dump_json())
    raw["messages"][0]["parent"] = 2
    with pytest.raises(ValueError, match="parent"):
        ArchivedChat.model_validate_json(json.dumps(raw))


def test_a_deleted_chat_is_not_exported(store: sqlite3.Connection) -> None:
    with closing(store):
        chat = add_archive(store, CHAT, KNOWN)
        store.execute("UPDATE chats SET deleted = 1.0")
        assert read_archive(store, chat) is None
