"""One line of JSON per request for the log: numbers and names, no text, no ids, no paths."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable

from core.api.commands import Command
from core.api.events import Done, Event, Failed, Finished, Prepared
from core.api.stats import RequestStats

FROM_STATS = (
    "prompt_tokens",
    "reused_tokens",
    "evaluated_tokens",
    "reply_tokens",
    "images_in_prompt",
    "images_encoded",
    "restored_from",
    "restored_at",
    "miss",
    "ttft_s",
    "prefill_s",
    "decode_tokens_per_s",
    "bytes",
    "checkpoints_held",
    "draft",
)
KEYS = (
    "at",
    "request",
    "op",
    "chat",
    "side",
    "finish_reason",
    *FROM_STATS,
    "settled_tokens",
    "read_ahead_tokens",
    "error",
)

_SALT = secrets.token_bytes(16)


def log_line(command: Command, last: Event, clock: Callable[[], float] = time.time) -> str:
    """The line for a command that ended in `last`, with every key of KEYS; `chat` is an alias that
    lasts as long as the process."""
    line: dict[str, object] = dict.fromkeys(KEYS)
    line |= {
        "at": round(clock(), 3),
        "request": command.request,
        "op": command.type,
        "chat": _alias(getattr(command, "chat", None)),
        "side": getattr(command, "side", None),
    }
    return json.dumps(line | _outcome(command, last))


def _alias(chat: str | None) -> str | None:
    """A salted name that reveals no key, so that the log may outlive a deleted chat."""
    if chat is None:
        return None
    return hashlib.blake2b(chat.encode(), key=_SALT, digest_size=4).hexdigest()


def _outcome(command: Command, last: Event) -> dict[str, object]:
    match last:
        case Finished():
            return {"finish_reason": last.reason, **_numbers(last.stats)}
        case Prepared():
            op = "settled_tokens" if command.type == "settle" else "read_ahead_tokens"
            totals = last.bytes.model_dump()
            return {op: last.tokens, "images_encoded": last.encoded, "bytes": totals}
        case Done() if last.bytes is not None:
            return {"bytes": last.bytes.model_dump()}
        case Failed():
            return {"error": last.error.name}
        case _:
            return {}


def _numbers(stats: RequestStats) -> dict[str, object]:
    return stats.model_dump(mode="json", include=set(FROM_STATS))
