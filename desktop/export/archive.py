"""Chats between the database and their exported form."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import replace

from core.api.archive import (
    ArchivedChat,
    ArchivedDocument,
    ArchivedFolder,
    ArchivedMessage,
    ArchivedPicture,
    ArchivedReply,
    AttachedDocument,
)
from core.api.reply_format import ReplyFormat
from desktop.store.tables import attachments, chats, fields, folders, messages, replies
from desktop.store.tables.records import Begin, Folder, Message, Picture, Reply, ReplyState


def read_archive(connection: sqlite3.Connection, chat: int) -> ArchivedChat | None:
    """None if it is gone."""
    row = connection.execute(
        "SELECT title, created, used, pinned, forked, system, format, settings, left_out, folder"
        " FROM chats WHERE id = ? AND deleted IS NULL",
        (chat,),
    ).fetchone()
    if row is None:
        return None
    title, created, used, pinned, forked, system, reply_format, settings, left_out, folder = row
    tree = messages.read_tree(connection, chat)
    places = {message.id: place for place, (message, _) in enumerate(tree)}
    # The numbers of the database mean nothing elsewhere, their order does.
    ranks = {chosen: rank for rank, chosen in enumerate(sorted({each for _, each in tree}))}
    found = {each.digest: each for message, _ in tree for each in message.documents}
    numbers = {digest: number for number, digest in enumerate(found)}
    in_folder = folders.read(connection, folder)
    return ArchivedChat(
        title=fields.text(title),
        created=fields.moment(created),
        used=fields.moment(used),
        pinned=bool(pinned),
        forked=bool(forked),
        system=fields.text(system),
        format=fields.model(ReplyFormat, reply_format),
        settings=fields.text(settings) if settings is not None else "",
        folder=_archived_folder(in_folder) if in_folder else None,
        left_out=places.get(left_out),
        messages=tuple(
            _archived(message, ranks[chosen], places, place, numbers)
            for place, (message, chosen) in enumerate(tree)
        ),
        documents=tuple(
            ArchivedDocument(paged=each.paged, text=attachments.PART_END.join(each.parts))
            for each in found.values()
        ),
    )


def read_folders(connection: sqlite3.Connection) -> tuple[ArchivedFolder, ...]:
    return tuple(_archived_folder(each) for each in folders.listed(connection))


def _archived_folder(folder: Folder) -> ArchivedFolder:
    if folder.begin is None:
        return ArchivedFolder(name=folder.name)
    return ArchivedFolder(
        name=folder.name,
        preset=folder.preset,
        system=folder.begin.system,
        format=folder.begin.format,
        settings=fields.stored_tree(folder.begin.settings) or "",
    )


def _archived(
    message: Message,
    chosen: int,
    places: Mapping[int, int],
    place: int,
    numbers: Mapping[str, int],
) -> ArchivedMessage:
    parent = None if message.parent is None else places.get(message.parent)
    return ArchivedMessage(
        # Of a damaged file, a parent may come after its message.
        parent=parent if parent is not None and parent < place else None,
        text=message.text,
        created=message.created,
        chosen=chosen,
        pictures=tuple(
            ArchivedPicture(
                digest=each.digest, name=each.name, resized=each.resized, tokens=each.tokens
            )
            for each in message.pictures
        ),
        documents=tuple(
            AttachedDocument(
                document=numbers[each.digest],
                name=each.name,
                chosen=each.chosen,
                tokens=each.tokens,
            )
            for each in message.documents
        ),
        reply=_archived_reply(message.reply) if message.reply else None,
    )


def _archived_reply(reply: Reply) -> ArchivedReply:
    values = {name: getattr(reply, name) for name in ArchivedReply.model_fields}
    state = ReplyState.STOPPED if reply.state is ReplyState.RUNNING else reply.state
    return ArchivedReply.model_validate({**values, "state": state.value})


def add_archive(
    connection: sqlite3.Connection, chat: ArchivedChat, known: Mapping[str, Picture]
) -> int:
    """`known` pictures by digest. Returns the chat's id."""
    new = chats.create(
        connection,
        chat.title,
        begin=Begin(chat.system, chat.format, fields.tree(chat.settings)),
        folder=_folder_like(connection, chat.folder) if chat.folder else None,
    )
    connection.execute(
        "UPDATE chats SET created = ?, used = ?, pinned = ?, forked = ? WHERE id = ?",
        (chat.created, chat.used, chat.pinned, chat.forked, new),
    )
    (first,) = connection.execute("SELECT ifnull(max(chosen), 0) + 1 FROM messages").fetchone()
    order = sorted({message.chosen for message in chat.messages})
    ranks = {chosen: first + rank for rank, chosen in enumerate(order)}
    ids: list[int] = []
    texts = [
        attachments.document_of("", each.paged, fields.storable(each.text))
        for each in chat.documents
    ]
    for message in chat.messages:
        parent = None if message.parent is None else ids[message.parent]
        ids.append(_add_message(connection, new, parent, message, ranks[message.chosen], known))
        read = [
            replace(texts[each.document], name=each.name, chosen=each.chosen, tokens=each.tokens)
            for each in message.documents
        ]
        attachments.attach(connection, "message", ids[-1], read)
    if chat.left_out is not None:
        chats.leave_out(connection, new, ids[chat.left_out])
    return new


def add_folders(connection: sqlite3.Connection, archived: Iterable[ArchivedFolder]) -> None:
    for each in archived:
        _add_folder(connection, each)


def _folder_like(connection: sqlite3.Connection, archived: ArchivedFolder) -> int:
    """The first folder of this name, if possible the same, else a new one."""
    name = fields.storable(archived.name)
    named = [each for each in folders.listed(connection) if each.name == name]
    same = [each for each in named if _archived_folder(each) == archived]
    found = next(iter(same or named), None)
    return found.id if found is not None else _add_folder(connection, archived)


def _add_folder(connection: sqlite3.Connection, archived: ArchivedFolder) -> int:
    if archived.preset is None:
        return folders.create(connection, archived.name)
    begin = Begin(archived.system, archived.format, fields.tree(archived.settings))
    return folders.create(connection, archived.name, archived.preset, begin)


def _add_message(
    connection: sqlite3.Connection,
    chat: int,
    parent: int | None,
    message: ArchivedMessage,
    chosen: int,
    known: Mapping[str, Picture],
) -> int:
    parent = messages.fitting_parent(connection, chat, parent, message.reply is not None, chosen)
    cursor = connection.execute(
        "INSERT INTO messages (chat, parent, text, created, chosen) VALUES (?, ?, ?, ?, ?)",
        (chat, parent, fields.storable(message.text), message.created, chosen),
    )
    new = cursor.lastrowid
    assert new is not None
    if message.reply is not None:
        reply = message.reply
        connection.execute(
            "INSERT INTO replies (message, state, format) VALUES (?, ?, ?)",
            (new, reply.state, fields.stored_model(reply.format)),
        )
        stored = Reply(**{**dict(reply), "state": ReplyState(reply.state)})
        replies.save(connection, new, message.text, stored)
    shown = [
        Picture(
            each.digest,
            each.name,
            known[each.digest].size,
            each.resized,
            each.tokens,
            known[each.digest].thumbnail,
        )
        for each in message.pictures
        if each.digest in known
    ]
    attachments.attach(connection, "message", new, shown)
    return new


def known_pictures(connection: sqlite3.Connection, digests: set[str]) -> dict[str, Picture]:
    found = {}
    for digest in digests:
        row = connection.execute(
            "SELECT width, height, thumbnail FROM pictures WHERE digest = ?", (digest,)
        ).fetchone()
        if row is not None:
            found[digest] = Picture(digest, "", (row[0], row[1]), thumbnail=row[2])
    return found
