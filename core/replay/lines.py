"""The lines a replay prints: every line has every key, null where it does not apply."""

from __future__ import annotations

from core.api.errors import ErrorInfo
from core.api.events import Finished, Prepared
from core.api.reply_format import ReplyFormat
from core.api.stats import CacheBytes
from core.formats.check import NotCheckedError, fault

Line = dict[str, object]

EMPTY_LINE: Line = dict.fromkeys(
    (
        "step",
        "op",
        "chat",
        "prompt_tokens",
        "prompt_positions",
        "reused_tokens",
        "evaluated_tokens",
        "images_in_prompt",
        "images_encoded",
        "restored_from",
        "restored_at",
        "checkpoints",
        "miss",
        "prompt_ids",
        "reply_ids",
        "reply",
        "reasoning",
        "finish_reason",
        "format_valid",
        "ttft_s",
        "prefill_s",
        "decode_tokens_per_s",
        "bytes",
        "seed",
        "draft",
        "settled_tokens",
        "read_ahead_tokens",
        "error",
    )
)


def empty_line(index: int, op: str, chat: str | None) -> Line:
    """A step's line with nothing to tell yet."""
    return {**EMPTY_LINE, "step": index, "op": op, "chat": chat}


def answer_line(finished: Finished, form: ReplyFormat | None) -> Line:
    """What an answering step that asked for `form` adds to its line."""
    stats = finished.stats.model_dump(mode="json")
    line: Line = {key: stats[key] for key in EMPTY_LINE.keys() & stats.keys()}
    return line | {
        "prompt_ids": list(finished.prompt_ids),
        "reply_ids": list(finished.reply_ids),
        "reply": finished.reply.text,
        "reasoning": finished.reply.reasoning,
        "finish_reason": finished.reason,
        "format_valid": None if form is None else _is_valid(finished, form),
    }


def _is_valid(finished: Finished, form: ReplyFormat) -> bool | None:
    """A reply that was cut off is never valid; None if the check took too long."""
    try:
        return finished.reason == "stop" and not fault(form, finished.reply.text)
    except NotCheckedError:
        return None


def prepared_line(prepared: Prepared, op: str, totals: CacheBytes | None) -> Line:
    """What idle work adds to its line; `totals` are known better when it was written to disk."""
    key = "settled_tokens" if op == "settle" else "read_ahead_tokens"
    return {
        key: prepared.tokens,
        "images_encoded": prepared.encoded,
        "bytes": (totals or prepared.bytes).model_dump(mode="json"),
    }


def error_line(error: ErrorInfo, answering: bool) -> Line:
    """What a step that failed adds to its line; an answering one says that there is no reply."""
    told: Line = {"error": {"name": error.name, "title": error.title, "message": error.message}}
    return told | {"finish_reason": "error"} if answering else told
