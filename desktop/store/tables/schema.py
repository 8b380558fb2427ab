"""The tables as migrations; `user_version` counts those a file has been through.

A released migration never changes. Salvage copies the columns that formats have in common, so it
must handle migrations that do more than add columns and tables.
"""

from __future__ import annotations

from collections.abc import Sequence

# Messages form a tree: the children of one parent are alternatives, and the one chosen last is
# shown. So an edited message and another reply are new siblings, and nothing is ever overwritten.
FIRST = """
CREATE TABLE chats (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL,
    created REAL NOT NULL,
    used REAL NOT NULL,
    deleted REAL
) STRICT;
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    chat INTEGER NOT NULL REFERENCES chats ON DELETE CASCADE,
    parent INTEGER REFERENCES messages ON DELETE CASCADE,
    text TEXT NOT NULL,
    created REAL NOT NULL,
    chosen INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_of_chat ON messages (chat);
CREATE INDEX messages_of_parent ON messages (parent);
CREATE TABLE replies (
    message INTEGER PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
    state TEXT NOT NULL,
    reasoning TEXT NOT NULL DEFAULT '',
    ids BLOB,
    tokenizer TEXT,
    starts_in_reasoning INTEGER NOT NULL DEFAULT 0,
    finish_reason TEXT,
    error TEXT,
    stats TEXT
) STRICT;
CREATE TABLE pictures (
    digest TEXT PRIMARY KEY,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    thumbnail BLOB NOT NULL
) STRICT;
CREATE TABLE message_pictures (
    message INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
    place INTEGER NOT NULL,
    digest TEXT NOT NULL REFERENCES pictures,
    name TEXT NOT NULL,
    resized_width INTEGER,
    resized_height INTEGER,
    tokens INTEGER,
    PRIMARY KEY (message, place)
) STRICT;
CREATE INDEX message_pictures_by_digest ON message_pictures (digest);
"""

# A chat's key names it to the engine's cache and never comes twice, unlike a name a user gives.
# `left_out` is the last message that is no longer in the prompt. The draft of the page on which a
# new chat begins has no chat; it holds the key and the instructions that chat will have. A key in
# `forgets` was not yet forgotten by the engine; NULL stands for everything.
SECOND = """
ALTER TABLE chats ADD COLUMN key TEXT NOT NULL DEFAULT '';
UPDATE chats SET key = lower(hex(randomblob(16)));
CREATE UNIQUE INDEX chats_by_key ON chats (key);
ALTER TABLE chats ADD COLUMN system TEXT NOT NULL DEFAULT '';
ALTER TABLE chats ADD COLUMN left_out INTEGER;
CREATE TABLE drafts (
    number INTEGER PRIMARY KEY,
    chat INTEGER UNIQUE REFERENCES chats ON DELETE CASCADE,
    text TEXT NOT NULL,
    system TEXT NOT NULL,
    key TEXT NOT NULL
) STRICT;
CREATE TABLE draft_pictures (
    draft INTEGER NOT NULL REFERENCES drafts ON DELETE CASCADE,
    place INTEGER NOT NULL,
    digest TEXT NOT NULL REFERENCES pictures,
    name TEXT NOT NULL,
    resized_width INTEGER,
    resized_height INTEGER,
    tokens INTEGER,
    PRIMARY KEY (draft, place)
) STRICT;
CREATE INDEX draft_pictures_by_digest ON draft_pictures (digest);
CREATE TABLE forgets (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT) STRICT;
"""

# A pinned chat stands on top of the list. The trash counts its days from `deleted`, which has been
# there from the beginning.
THIRD = """
ALTER TABLE chats ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
"""

# The form that replies must have, as JSON of `ReplyFormat`: of a chat its next ones, of a draft
# those of the chat that would begin, of a reply its own. NULL where they are free.
FOURTH = """
ALTER TABLE chats ADD COLUMN format TEXT;
ALTER TABLE drafts ADD COLUMN format TEXT;
ALTER TABLE replies ADD COLUMN format TEXT;
"""

# The numbers of ids after which a reply was stopped or cut off, as JSON; NULL where that was not
# noted yet.
FIFTH = """
ALTER TABLE replies ADD COLUMN pauses TEXT;
"""

# Text that a running reply gained since it was last stored whole, a row each second.
SIXTH = """
CREATE TABLE reply_parts (
    number INTEGER PRIMARY KEY,
    message INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
    text TEXT NOT NULL,
    thought TEXT NOT NULL,
    ids BLOB NOT NULL,
    stats TEXT
) STRICT;
CREATE INDEX reply_parts_of_message ON reply_parts (message);
"""

# The name of the model that wrote a reply, NULL where it is not known; whether a chat is a fork.
SEVENTH = """
ALTER TABLE replies ADD COLUMN model TEXT;
ALTER TABLE chats ADD COLUMN forked INTEGER NOT NULL DEFAULT 0;
"""

# When a message went to the trash: its children are shown in its place. Whether the user wrote a
# reply or changed its text. Settings of a chat, or of the chat that would begin, as a JSON object
# of their keys; NULL where it has none of its own.
EIGHTH = """
ALTER TABLE messages ADD COLUMN deleted REAL;
CREATE INDEX deleted_messages ON messages (deleted) WHERE deleted IS NOT NULL;
ALTER TABLE replies ADD COLUMN edited INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chats ADD COLUMN settings TEXT;
ALTER TABLE drafts ADD COLUMN settings TEXT;
"""

# The server and model that write a chat's replies, as JSON of `Place`, NULL for this computer; and
# the servers that the user agreed to send the chat to, as a JSON list of addresses.
NINTH = """
ALTER TABLE chats ADD COLUMN place TEXT;
ALTER TABLE chats ADD COLUMN agreed TEXT;
"""

# Documents by the SHA-256 of their text, with a form feed after each part but the last; parts are
# pages if `paged`, else sections. `source` is the SHA-256 of the file's name's ending and bytes, ''
# if unknown. `chosen` are the places of the parts that the model reads as JSON, NULL for all.
TENTH = """
CREATE TABLE documents (
    digest TEXT PRIMARY KEY,
    paged INTEGER NOT NULL,
    text TEXT NOT NULL,
    source TEXT NOT NULL
) STRICT;
CREATE INDEX documents_by_source ON documents (source);
CREATE TABLE message_documents (
    message INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
    place INTEGER NOT NULL,
    digest TEXT NOT NULL REFERENCES documents,
    name TEXT NOT NULL,
    chosen TEXT,
    tokens INTEGER,
    PRIMARY KEY (message, place)
) STRICT;
CREATE INDEX message_documents_by_digest ON message_documents (digest);
CREATE TABLE draft_documents (
    draft INTEGER NOT NULL REFERENCES drafts ON DELETE CASCADE,
    place INTEGER NOT NULL,
    digest TEXT NOT NULL REFERENCES documents,
    name TEXT NOT NULL,
    chosen TEXT,
    tokens INTEGER,
    PRIMARY KEY (draft, place)
) STRICT;
CREATE INDEX draft_documents_by_digest ON draft_documents (digest);
"""

# 0 for a chat whose title is still the first words of its first message.
ELEVENTH = """
ALTER TABLE chats ADD COLUMN titled INTEGER NOT NULL DEFAULT 1;
"""

# What new chats in a folder begin with: `preset` is the name of the preset that it was copied from,
# '' if it was a chat, NULL where the folder has nothing of its own.
TWELFTH = """
CREATE TABLE folders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    folded INTEGER NOT NULL DEFAULT 0,
    preset TEXT,
    system TEXT NOT NULL DEFAULT '',
    format TEXT,
    settings TEXT
) STRICT;
ALTER TABLE chats ADD COLUMN folder INTEGER REFERENCES folders ON DELETE SET NULL;
ALTER TABLE drafts ADD COLUMN folder INTEGER REFERENCES folders ON DELETE SET NULL;
"""

MIGRATIONS: tuple[str, ...] = (
    FIRST,
    SECOND,
    THIRD,
    FOURTH,
    FIFTH,
    SIXTH,
    SEVENTH,
    EIGHTH,
    NINTH,
    TENTH,
    ELEVENTH,
    TWELFTH,
)


def script(steps: Sequence[str]) -> str:
    return ";\n".join(steps)
