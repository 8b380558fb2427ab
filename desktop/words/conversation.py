"""The conversation in words: what a reply waits for, why it ended, and what was not sent."""

from __future__ import annotations

from core.api.errors import NoVisionError, WaymarkError
from core.api.events import FinishReason, Prefilling
from core.api.params import FORMAT_TOKENS, LONGEST_REPLY_BYTES, THOUGHT_TOKENS
from desktop.numbers import count_of, format_count

LONGEST_QUEUED = 200

# The composer.
MESSAGE = "Message"
ASK = "Ask, or drop a picture"
ADD_PICTURES = "Add pictures"
INSTRUCTIONS_IN_USE = "Instructions are in use: show or hide them"
SEND, SEND_TIP, SEND_SPOKEN = "Send", "Send (Enter)", "Send the message"
STOP, STOP_TIP, STOP_SPOKEN = "Stop", "Stop the reply (Esc)", "Stop the reply"
QUEUE = "Queue"
QUEUE_TIP = "Send this when the reply is complete (Enter)"
TAKE_BACK = "Take it back into the message field"
LOOKING = "It is sent as soon as the picture has been looked at."

JUMP = "Jump to the newest"

# A message and its buttons.
REPLY, YOUR_MESSAGE = "Reply", "Your message"
EDIT = "Edit the message and send it again"
ANOTHER = "Write another reply"
FORK = "Fork into a new chat"
CONTINUE = "Continue"
CONTINUE_TIP = "Have the reply continued from where it ends"
SHOW_MORE = "Show more of this message"
THINKING = "Thinking\N{HORIZONTAL ELLIPSIS}"
THOUGHT = "Thought"
LEFT_OUT = "The model no longer reads the messages above"
READ_ALL = "Have the model read all messages again"
UNDO = "Undo"
COPIED = "Copied"
COPY, COPY_LINK, SELECT_ALL = "Copy", "Copy link", "Select all"
COPY_CODE = "Copy the code"
BEGINNING_LATER = "The beginning is shown once this is complete."


# What a reply waits for, and why it ended.
STOPPING = "Stopping"
WAITING = "Waiting for the engine"
NOT_STOPPED = "The engine did not stop in time."
LEFT_RUNNING = "Stopped: Waymark was closed before the reply was complete."
ENDINGS: dict[FinishReason, str] = {
    "length": "The reply reached the longest length set and was cut off.",
    "context": "The context is full: the reply was cut off here.",
    "format_length": (
        f"A reply in a given form ends after {format_count(FORMAT_TOKENS)} tokens unless a longest "
        "reply is set: it was cut off."
    ),
    "thought_length": (
        f"A thought ends after {format_count(THOUGHT_TOKENS)} tokens unless a longest reply is "
        "set: it was cut off."
    ),
    "repetition": "The reply repeated the same words without end and was cut off.",
    "size": (
        f"The reply reached {LONGEST_REPLY_BYTES // 2**20} MB, the most that one reply can hold, "
        "and was cut off."
    ),
    "cancelled": "Stopped.",
}


def before_words(what: str) -> str:
    """The button to the version before; `what` is 'reply' or 'message'."""
    return f"Show the {what} before this one"


def after_words(what: str) -> str:
    """The button to the version after."""
    return f"Show the {what} after this one"


def copy_words(what: str) -> str:
    """The button that copies a message."""
    return f"Copy the {what}"


def place_words(place: int, count: int) -> str:
    """Which version is shown, between its two buttons."""
    return f"{place + 1}/{count}"


def version_words(place: int, count: int) -> str:
    """The same where there is room for words."""
    return f"Version {place + 1} of {count}"


def more_words(characters: int) -> str:
    """The button below a message of which only a part is drawn."""
    return f"Show more: {format_count(characters)} characters are not shown"


def code_words(language: str) -> str:
    """A listing for a screen reader."""
    return f"Code, {language}" if language else "Code"


def unseen_pictures_words(model: str) -> str:
    """Why a chat with pictures gets no reply of a model that can't see them."""
    return f"There are pictures in this chat, and {model} can't look at them."


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
