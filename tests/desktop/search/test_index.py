"""U1: what is found is what is written, in any script."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desktop.engine.tasks import Tasks
from desktop.search import index
from desktop.search.folding import extract, fold, terms_of
from desktop.search.index import Hit, Query
from desktop.search.search import ABOVE_ALL_IDS, SearchController
from desktop.store.database import open_database
from desktop.store.folders import Folders
from desktop.store.tables import attachments, chats, message_tree, messages
from desktop.store.tables.attachments import document_of
from tests.desktop.conftest import Loop, until

# Latin with diacritics, ß and ligatures; Greek; Cyrillic; Han, kana, Hangul, Thai; signs.
LETTERS = st.text(
    st.sampled_from("abcdeABCéÉßǆﬁΣςωйёж缓存模型がカ한글กินी́ 0.-_>\"'\n\t(\U0001f600\U00010400")
    | st.characters(blacklist_categories=["Cs"]),
    max_size=60,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_database(tmp_path / "chats.db")) as connection:
        yield connection


@pytest.fixture
def searched(store: sqlite3.Connection, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(index.open_index(tmp_path / "search.db", tmp_path / "chats.db")) as connection:
        yield connection


def fill(store: sqlite3.Connection, *texts: str) -> list[int]:
    chat = chats.create(store, "A chat")
    return [messages.add_message(store, chat, None, text) for text in texts]


def update(searched: sqlite3.Connection) -> None:
    index.drop_stale(searched)
    below = ABOVE_ALL_IDS
    while below := index.add_missing(searched, below):
        pass


def found(searched: sqlite3.Connection, query: Query) -> dict[int, Hit]:
    hits = index.begin_words(searched, query, 1000)
    below = index.newest(searched) + 1
    while below > 1:
        hits += index.scan(searched, query, below, 1000)
        below -= index.SCAN_IDS
    return {hit.message: hit for hit in hits}


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(LETTERS, min_size=1, max_size=8), st.data())
def test_U1_every_message_that_contains_a_part_is_found(
    store: sqlite3.Connection, searched: sqlite3.Connection, texts: list[str], data: st.DataObject
) -> None:
    ids = fill(store, *texts)
    update(searched)
    text = data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(text)))
    part = text[start : data.draw(st.integers(start, len(text)))]
    hits = found(searched, Query(terms_of(part)))
    assert {each for each, written in zip(ids, texts, strict=True) if part in written} <= set(hits)
    for number, written in zip(ids, texts, strict=True):
        if number in hits:
            assert all(term in fold(written) for term in terms_of(part))
            match = hits[number].extract.match
            assert match in written
            assert not terms_of(part) or max(terms_of(part), key=len) in fold(match)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("cafe", "In the Café"),
        ("STRASSE", "Straße"),
        ("缓存", "这个模型的缓存很大"),
        ("存", "缓存"),
        ("ß", "GROẞ"),
        ("σίσυφος", "ΣΊΣΥΦΟΣ"),
        ("->", "fn f() -> int"),
        ("llo wor", "hello world"),
        ('"b c"', "a b\nc"),
        ("fi", "ﬁsh"),
        ("กิน", "ฉันกินข้าว"),
        ("world hello", "Hello, World"),
    ],
)
def test_U1_found(
    store: sqlite3.Connection, searched: sqlite3.Connection, query: str, text: str
) -> None:
    (wanted, _other) = fill(store, text, "Something else")
    update(searched)
    assert set(found(searched, Query(terms_of(query)))) == {wanted}


def test_marks_of_other_scripts_tell_words_apart(
    store: sqlite3.Connection, searched: sqlite3.Connection
) -> None:
    fill(store, "กน")
    update(searched)
    assert not found(searched, Query(terms_of("กิน")))


def test_a_changed_deleted_or_trashed_message(
    store: sqlite3.Connection, searched: sqlite3.Connection
) -> None:
    first, second, third = fill(store, "green apple", "green pear", "green plum")
    trashed = fill(store, "green grape")
    (chat,) = store.execute("SELECT chat FROM messages WHERE id = ?", (trashed[0],)).fetchone()
    update(searched)
    chats.delete(store, chat)
    store.execute("UPDATE messages SET text = 'now a quince' WHERE id = ?", (first,))
    store.execute("DELETE FROM messages WHERE id = ?", (second,))
    update(searched)
    assert set(found(searched, Query(("green",)))) == {third}
    assert set(found(searched, Query(("quince",)))) == {first}


def test_deleted_words_are_in_no_file(
    store: sqlite3.Connection, searched: sqlite3.Connection, tmp_path: Path
) -> None:
    fill(store, *["other words"] * 50, "xylophonic secretive", *["more words"] * 50)
    update(searched)
    store.execute("DELETE FROM messages WHERE text LIKE 'xylo%'")
    assert index.drop_stale(searched)
    for path in tmp_path.glob("search.db*"):
        assert b"ylophonic" not in path.read_bytes()
        assert b"ecretive" not in path.read_bytes()


def test_words_of_a_document_go_with_its_message(
    store: sqlite3.Connection, searched: sqlite3.Connection
) -> None:
    document = attachments.document_of("a.txt", False, "xylophonic")
    made = messages.append_turn(store, None, "", [document])
    update(searched)
    assert set(found(searched, Query(("xylo",)))) == {made.message}
    message_tree.delete(store, made.chat, made.message, answers=False)
    assert message_tree.purge(store)
    assert index.drop_stale(searched)
    # Its row, which stays, is not indexed again.
    assert index.count_missing(searched) == 0
    update(searched)
    assert searched.execute("SELECT text FROM texts").fetchall() == [("",)]


def test_filters(store: sqlite3.Connection, searched: sqlite3.Connection) -> None:
    one, two = fill(store, "a tree", "a tree too")
    reply = messages.add_alternative(store, 1, one).reply
    (other,) = fill(store, "a tree elsewhere")
    store.execute("UPDATE messages SET text = 'trees' WHERE id = ?", (reply,))
    store.execute("UPDATE replies SET model = 'Qwen' WHERE message = ?", (reply,))
    store.execute("UPDATE messages SET created = 5.0 WHERE id = ?", (two,))
    store.execute("INSERT INTO pictures VALUES ('d', 1, 1, x'')")
    store.execute(
        "INSERT INTO message_pictures (message, place, digest, name) VALUES (?, 0, 'd', 'n')",
        (other,),
    )
    update(searched)
    terms = ("tree",)
    assert set(found(searched, Query(terms))) == {one, two, other, reply}
    assert set(found(searched, Query(terms, chat=1))) == {one, two, reply}
    assert set(found(searched, Query(terms, model="Qwen"))) == {reply}
    assert set(found(searched, Query(terms, since=6.0))) == {one, other, reply}
    assert set(found(searched, Query((), pictures=True))) == {other}
    assert index.models(searched) == ["Qwen"]
    assert [hit.chat for hit in index.titled(searched, Query(("chat",)), 10)] == [2, 1]


def test_without_fts5(
    store: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "WORDS", index.WORDS.replace("fts5", "missing"))
    with closing(index.open_index(tmp_path / "search.db", tmp_path / "chats.db")) as searched:
        (wanted,) = fill(store, "green apple")
        update(searched)
        assert set(found(searched, Query(("app",)))) == {wanted}
        store.execute("DELETE FROM messages")
        update(searched)
        assert not found(searched, Query(("app",)))


@pytest.mark.parametrize("length", [10, 200_000])
def test_an_extract_shows_the_match_as_written(length: int) -> None:
    text = "ß\n " * length + "The Café is open.\nCome in"
    before, match, after = extract(text, ("cafe", "is"))
    assert (match, after) == ("Café", " is open. Come in")
    assert before.endswith("The ") and len(before) <= 62


async def test_a_damaged_index_is_made_again(qloop: Loop, folders: Folders) -> None:
    with closing(open_database(folders.database)) as store:
        (wanted,) = fill(store, "green apple")
        folders.search_index.write_bytes(b"nonsense" * 1000)
        search = SearchController(folders, Tasks(lambda error: None))
        search.begin()
        search.look_for(Query(("apple",)))
        await until(lambda: search.hits and not search.is_searching)
        assert [hit.message for hit in search.hits] == [wanted]
        store.execute("DELETE FROM messages")
        await search.forget()
        await until(lambda: not search.hits)
        await search.clear()
        assert not folders.search_index.exists()
        await asyncio.sleep(0)
        await search.close()


def test_M2_a_document_of_a_message_without_text_is_forgotten(
    store: sqlite3.Connection, searched: sqlite3.Connection
) -> None:
    chat = chats.create(store, "A chat")
    document = document_of("a.txt", False, "zebrafish", source="x")
    message = messages.add_message(store, chat, None, "", [document])
    update(searched)
    assert found(searched, Query(("zebrafish",)))
    assert message_tree.delete(store, chat, message, True) is not None
    message_tree.purge(store)
    update(searched)
    texts = [text for (text,) in searched.execute("SELECT text FROM texts")]
    assert "zebrafish" not in "".join(texts)
    assert not index.drop_stale(searched)


def test_a_tag_finds_its_chats_and_words_in_them(
    store: sqlite3.Connection, searched: sqlite3.Connection
) -> None:
    tagged, other = chats.create(store, "House #Tax"), chats.create(store, "Garden")
    inside = messages.add_message(store, tagged, None, "the invoice of May")
    outside = messages.add_message(store, other, None, "another invoice")
    written = messages.add_message(store, other, None, "invoice for #tax purposes")
    update(searched)

    def answer(words: str) -> set[int]:
        return set(found(searched, Query(terms_of(words))))

    assert answer("invoice") == {inside, outside, written}
    assert answer("#tax invoice") == answer("invo #TAX") == {inside, written}
    assert answer("#tax") == {written} and answer("#tax nothing") == set()
    titled = index.titled(searched, Query(terms_of("#tax")), 10)
    assert [each.chat for each in titled] == [tagged]
