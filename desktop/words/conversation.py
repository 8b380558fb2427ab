"""The conversation in words: what a reply waits for, why it ended, and what was not sent."""

from __future__ import annotations

from core.api.events import Prefilling
from desktop.words.numbers import format_count

COPIED = "Copied"
COPY_CODE = "Copy the code"


def reading_words(event: Prefilling) -> str:
    """How far reading the prompt is; an image takes longer than the text around it."""
    parts = event.stats.parts
    is_image = any(part.kind == "image" and part.start <= event.done < part.end for part in parts)
    what = "Reading an image" if is_image else "Reading"
    prompt = format_count(event.stats.prompt_tokens)
    return f"{what}: {format_count(event.done)} of {prompt} tokens"


def queued_words(ahead: int) -> str:
    """What a reply waits for while others are written."""
    others = "another reply" if ahead == 1 else f"{format_count(ahead)} other replies"
    return f"Waiting: {others} first"
