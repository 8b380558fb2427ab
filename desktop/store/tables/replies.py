"""Replies: a row of `reply_parts` each second while one streams, all of it at its end.

Rewriting its own row each second would write a gigabyte for a reply of a megabyte.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, get_args

from core.api.chat import ReplyIds
from core.api.errors import ErrorInfo
from core.api.events import FinishReason
from core.api.reply_format import ReplyFormat
from core.api.stats import RequestStats
from desktop.store.tables import fields
from desktop.store.tables.records import Reply, ReplyState


def save(connection: sqlite3.Connection, message: int, text: str, reply: Reply) -> None:
    connection.execute("DELETE FROM reply_parts WHERE message = ?", (message,))
    connection.execute(
        "UPDATE messages SET text = ? WHERE id = ?", (fields.storable(text), message)
    )
    connection.execute(
        "UPDATE replies SET state = ?, reasoning = ?, ids = ?, tokenizer = ?,"
        " starts_in_reasoning = ?, pauses = ?, finish_reason = ?, error = ?, stats = ?, model = ?,"
        " edited = ?"
        " WHERE message = ?",
        (
            reply.state,
            fields.storable(reply.reasoning),
            reply.ids.data if reply.ids else None,
            reply.ids.tokenizer if reply.ids else None,
            int(reply.ids.starts_in_reasoning) if reply.ids else 0,
            json.dumps(reply.ids.pauses) if reply.ids else None,
            reply.finish_reason,
            fields.stored_model(reply.error),
            fields.stored_model(reply.stats),
            fields.storable(reply.model) or None,
            int(reply.edited),
            message,
        ),
    )


def append(connection: sqlite3.Connection, message: int, text: str, reply: Reply) -> None:
    """Store the text gained; the stats are of the whole reply."""
    # Stats are as large as the text of a second, so only the newest are kept.
    connection.execute(
        "UPDATE reply_parts SET stats = NULL"
        " WHERE number = (SELECT max(number) FROM reply_parts WHERE message = ?)",
        (message,),
    )
    ids = reply.ids.data if reply.ids else b""
    stats = fields.stored_model(reply.stats)
    connection.execute(
        "INSERT INTO reply_parts (message, text, thought, ids, stats) VALUES (?, ?, ?, ?, ?)",
        (message, fields.storable(text), fields.storable(reply.reasoning), ids, stats),
    )


def stop_running(connection: sqlite3.Connection) -> None:
    """Replies that a killed app left running."""
    merge_parts(connection)
    connection.execute(
        "UPDATE replies SET state = ? WHERE state = ?", (ReplyState.STOPPED, ReplyState.RUNNING)
    )


def merge_parts(connection: sqlite3.Connection, chat: int | None = None) -> None:
    of_chat = "SELECT id FROM messages WHERE ?1 IS NULL OR chat = ?1"
    found = connection.execute(
        f"SELECT DISTINCT message FROM reply_parts WHERE message IN ({of_chat})", (chat,)
    ).fetchall()
    for (message,) in found:
        _merge_parts_of(connection, message)


def _merge_parts_of(connection: sqlite3.Connection, message: int) -> None:
    parts = connection.execute(
        "SELECT text, thought, ids, stats FROM reply_parts WHERE message = ? ORDER BY number",
        (message,),
    ).fetchall()
    texts, thoughts, ids, stats = zip(*parts, strict=True)
    connection.execute(
        "UPDATE messages SET text = text || ? WHERE id = ?",
        ("".join(map(fields.text, texts)), message),
    )
    (before,) = connection.execute(
        "SELECT ids FROM replies WHERE message = ?", (message,)
    ).fetchone() or (None,)
    # Ids of a part of the text would be worse than none.
    known = [each for each in (before, *ids) if isinstance(each, bytes)]
    connection.execute(
        "UPDATE replies SET reasoning = reasoning || ?, ids = ?, stats = ifnull(?, stats)"
        " WHERE message = ?",
        (
            "".join(map(fields.text, thoughts)),
            b"".join(known) if len(known) == 1 + len(ids) else None,
            next((each for each in reversed(stats) if isinstance(each, str)), None),
            message,
        ),
    )
    connection.execute("DELETE FROM reply_parts WHERE message = ?", (message,))


def read(row: Sequence[Any]) -> Reply:
    state, reasoning, ids, tokenizer, in_reasoning, pauses, finish_reason, *rest = row
    error, stats, reply_format, model, edited = rest
    known = ReplyState(state) if state in set(ReplyState) else ReplyState.STOPPED
    read = _read_ids(ids, tokenizer, bool(in_reasoning), pauses)
    if read is not None and known is ReplyState.STOPPED and pauses is not None:
        # It was running when the app was killed.
        read = read.paused()
    return Reply(
        state=known,
        reasoning=fields.text(reasoning),
        ids=read,
        finish_reason=finish_reason if finish_reason in get_args(FinishReason) else None,
        error=fields.model(ErrorInfo, error),
        stats=fields.model(RequestStats, stats),
        format=fields.model(ReplyFormat, reply_format),
        model=model if isinstance(model, str) else "",
        edited=bool(edited),
    )


def _read_ids(
    data: object, tokenizer: object, in_reasoning: bool, pauses: object
) -> ReplyIds | None:
    # A fraction of an id would fail every later request. Without ids, the text is tokenized.
    if not isinstance(data, bytes) or not isinstance(tokenizer, str) or len(data) % 4:
        return None
    return ReplyIds(
        data=data,
        tokenizer=tokenizer,
        starts_in_reasoning=in_reasoning,
        pauses=fields.numbers(pauses),
    )


def prefill_speeds(connection: sqlite3.Connection) -> dict[str, float]:
    """Seconds per prefilled token of the newest replies, by model."""
    rows = connection.execute(
        "SELECT model, sum(json_extract(stats, '$.prefill_s')),"
        " sum(json_extract(stats, '$.evaluated_tokens')) FROM"
        " (SELECT model, stats FROM replies WHERE model IS NOT NULL AND json_valid(stats)"
        " ORDER BY message DESC LIMIT 500) GROUP BY model"
    )
    return {
        name: seconds / tokens
        for name, seconds, tokens in rows
        if isinstance(name, str) and isinstance(seconds, float) and tokens
    }
