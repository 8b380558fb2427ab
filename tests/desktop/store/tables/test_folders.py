from __future__ import annotations

import sqlite3

from core.api.reply_format import ReplyFormat
from desktop.store.tables import chats, drafts, folders, forks, messages, replies
from desktop.store.tables.drafts import StoredDraft
from desktop.store.tables.records import Begin, Reply, ReplyState

BEGIN = Begin("Be brief.", ReplyFormat(kind="json"), {"sampling.stop": ("a", "b")})


def folder_of(connection: sqlite3.Connection, chat: int) -> int | None:
    return next(each.folder for each in chats.listed(connection) if each.id == chat)


def test_a_folder_keeps_what_its_chats_begin_with(connection: sqlite3.Connection) -> None:
    plain = folders.create(connection, "b")
    own = folders.create(connection, "A", "Poet", BEGIN)
    assert [each.id for each in folders.listed(connection)] == [own, plain]
    assert folders.listed(connection)[0].begin == BEGIN
    assert folders.listed(connection)[1].begin is None
    folders.begin_with(connection, own, "", None)
    assert folders.listed(connection)[0].begin is None


def test_chats_drafts_and_forks_know_their_folder(connection: sqlite3.Connection) -> None:
    folder = folders.create(connection, "Work")
    turn = messages.append_turn(connection, None, "one", folder=folder)
    assert folder_of(connection, turn.chat) == folder
    path = messages.read_chat(connection, turn.chat)
    assert path is not None and path.folder is not None and path.folder.name == "Work"
    replies.save(connection, turn.reply, "two", Reply(ReplyState.COMPLETE))
    forked = forks.fork(connection, turn.chat, turn.reply)
    begun = forks.begin_from(connection, turn.chat, "short", None)
    assert forked is not None and begun is not None
    assert folder_of(connection, forked.chat) == folder_of(connection, begun.chat) == folder
    draft = StoredDraft(None, "typed", "k", folder=path.folder)
    drafts.save(connection, draft)
    gone = folders.delete(connection, folder)
    assert gone is not None and set(gone.chats) == {turn.chat, forked.chat, begun.chat}
    assert drafts.stored(connection)[0].folder is None
    assert folder_of(connection, turn.chat) is None
    # Too late: the folder is gone.
    late = messages.append_turn(connection, None, "late", folder=folder)
    drafts.save(connection, draft)
    folders.move(connection, [late.chat], folder)
    assert folder_of(connection, late.chat) is None
    assert folders.delete(connection, folder) is None
    other = folders.create(connection, "Other")
    folders.move(connection, [begun.chat], other)
    folders.restore(connection, gone)
    (back,) = [each.id for each in folders.listed(connection) if each.name == "Work"]
    places = [folder_of(connection, chat) for chat in (turn.chat, forked.chat, begun.chat)]
    assert places == [back, back, other]
