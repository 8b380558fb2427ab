"""The conversation in words: what a reply waits for, why it ended, and what was not sent."""

from __future__ import annotations

from core.api.errors import NoVisionError, WaymarkError
from core.api.events import Prefilling
from desktop.words.numbers import count_of, format_count

LONGEST_QUEUED = 200

# The composer.
ASK = "Ask, or drop a picture"
ADD_PICTURES = "Add pictures"
SEND, SEND_TIP, SEND_SPOKEN = "Send", "Send (Enter)", "Send the message"
STOP, STOP_TIP, STOP_SPOKEN = "Stop", "Stop the reply (Esc)", "Stop the reply"
QUEUE = "Queue"
QUEUE_TIP = "Send this when the reply is complete (Enter)"
TAKE_BACK = "Take it back into the message field"
LOOKING = "It is sent as soon as the picture has been looked at."

JUMP = "Jump to the newest"

# The buttons of a message.
COPIED = "Copied"
COPY_CODE = "Copy the code"


def no_vision_words(model: str, in_draft: bool) -> str:
    """Why a message with pictures is not sent to a model that can't see them."""
    where = "Remove the picture" if in_draft else "Start a new chat"
    return f"{NoVisionError.title}: {model}. {where}, or load a model that can."


def not_sent_words(error: WaymarkError) -> str:
    """What went wrong when a message was to be stored."""
    return f"{error.title}: {error.message} The message was not sent."


def waiting_message_words(text: str, pictures: int) -> str:
    """A queued message on one line."""
    first = " ".join(text[:LONGEST_QUEUED].split())
    images = count_of(pictures, "image") if pictures else ""
    return f"Queued: {', '.join(each for each in (first, images) if each)}"


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
