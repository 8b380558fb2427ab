"""What the Context page says: its numbers, its strip and its bars.

Says slab, memory and disk as a newcomer would: in use, in memory, on disk.
"""

from __future__ import annotations

from typing import TypeAlias

from desktop.numbers import count_of, format_count

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

# The numbers: each row's objectName, the word beside its value, and what the value means.

RowWords: TypeAlias = tuple[str, str, str]
TOKENS_ROW: RowWords = (
    "contextTokens",
    "In the context",
    "Tokens of this chat that the context holds, and how many fit. In idle time the last reply is "
    "read the way later turns show it, which may be a few tokens more or less than were written.",
)
PROMPT_ROWS: tuple[RowWords, ...] = (
    ("contextReused", "Reused", "Prompt tokens that did not have to be read for this reply."),
    ("contextEvaluated", "Read", "Prompt tokens that were read before the first word."),
    (
        "contextImagesReused",
        "Images reused",
        "Images of the prompt that were not encoded again.",
    ),
    (
        "contextImagesEncoded",
        "Images encoded",
        "Images that went through the vision tower for this reply.",
    ),
)
SPEED_ROWS: tuple[RowWords, ...] = (
    ("contextFirstToken", "First token", "Time from the request to the first token."),
    ("contextSpeed", "Speed", "Tokens of the reply written in a second."),
    ("contextDrafts", "Drafts", "What guessing tokens and checking several in a step has saved."),
)
KEPT_ROWS: tuple[RowWords, ...] = (
    (
        "contextCheckpoints",
        "Checkpoints",
        "States along this chat from which reading can resume; and those of all chats together.",
    ),
    ("contextRestoredFrom", "Restored from", "Where the reused part was held, and its end."),
)

NOT_LOADED = "Not loaded"
NOTHING_READ = "Nothing read yet"
OTHER_MODEL = "Not read by this model"
READ_AHEAD = "Read ahead"
READY = "Ready to go on"
READING = f"Reading{ELLIPSIS}"
MISS_TIP = "Why tokens were read that had been read before."
PROGRESS_SPOKEN = "Reading the prompt"


def held_words(used: int, limit: int) -> str:
    """How full the context is."""
    return f"{format_count(used)} of {format_count(limit)} tokens"


def first_words(read: int) -> str:
    """Of a chat's first message there was nothing to reuse."""
    return f"First message: {count_of(read, 'token')} read"


def reused_words(percent: int) -> str:
    """How much of the prompt was reused, as the largest words."""
    return f"{percent} % reused"


def summary_words(reused: int, prompt: int) -> str:
    """The last request in one sentence."""
    return f"Of {format_count(prompt)} prompt tokens {format_count(reused)} were reused."


def live_words(done: int, prompt: int, reused: int) -> str:
    """How far reading the prompt is."""
    return (
        f"{format_count(done)} of {format_count(prompt)} prompt tokens, "
        f"{format_count(reused)} of them reused."
    )


def nothing_words(limit: int) -> str:
    """Before the first message; `limit` is 0 without a model."""
    fits = f" {format_count(limit)} tokens fit." if limit else ""
    return f"Numbers appear with the first message.{fits}"


def other_model_words(limit: int) -> str:
    """A chat that another model has read."""
    return (
        "The last reply came from another model, or from one that was loaded otherwise. The next "
        f"message reads the chat anew; {format_count(limit)} tokens fit."
    )


def ahead_words(count: int) -> str:
    """What was read of a draft before it was sent."""
    return f"{count_of(count, 'token')} of your draft are read already."


def ready_words(count: int) -> str:
    """Of a chat whose last reply has no numbers: what the context holds of it."""
    return f"The context holds {count_of(count, 'token')} of this chat."


def difference_words(asked: int, held: int, reasoned: bool) -> str:
    """Why the context holds fewer tokens than the last request took; '' where it does not."""
    if not 0 < held < asked:
        return ""
    why = "leave its reasoning out" if reasoned else "have its reply in a shorter form"
    return (
        f"The last request and its reply took {count_of(asked, 'token')}; the context keeps "
        f"{format_count(held)} of them, for later turns {why}."
    )


def disk_trouble_words(trouble: str) -> str:
    """Why nothing more is kept on disk."""
    return f"Contexts can't be kept on disk, so after a restart they are read again: {trouble}"


def checkpoint_words(here: int, everywhere: int | None) -> str:
    """Those of this chat, and those of all chats where that is known."""
    words = f"{format_count(here)} here"
    return words if everywhere is None else f"{words}, {format_count(everywhere)} in all chats"


# The strip.

STRIP_SPOKEN = "Context"
FILL_SPOKEN = "How full the context is"
EMPTY = "The context is empty."
USED_PART = "The strip shows the used part."
IN_USE, IN_MEMORY, ON_DISK = "In use now", "In memory", "On disk"
REUSED, READ, REPLY = "Reused", "Read", "Reply"
KEPT_TOO = "Kept on disk too"
PLACES = {
    "slab": "In use now",
    "memory": "In memory, ready to be reused",
    "disk": "On disk, to be fetched when it is needed",
    "unknown": "Not loaded: the next message fetches what was kept of it, and reads the rest",
}
DEEDS = {
    "reused": "Reused for the last reply, not read again.",
    "evaluated": "Read for the last reply.",
    "reply": "The last reply itself.",
}
DONE = {"reused": "reused", "evaluated": "read", "reply": "written"}
TO_BE_READ = "Still to be read."
RESTART_KEEPS, RESTART_LOSES = "a restart keeps it", "a restart would lose it"


def free_words(count: int) -> str:
    """How many tokens still fit."""
    return f"Free {format_count(count)}"


def room_words(free: int, to_scale: bool) -> str:
    """What the strip says where nothing lies."""
    return f"Room for {count_of(free, 'more token')}{'' if to_scale else ' (not to scale)'}"


def part_words(is_image: bool, start: int, end: int) -> str:
    """What a part is, and where it begins and ends."""
    kind = "Image" if is_image else "Text"
    first, last = format_count(start), format_count(end - 1)
    place = f"token {first}" if first == last else f"{first} to {last}"
    return f"{kind}: {count_of(end - start, 'token')} ({place})"


def partly_words(counts: dict[str, int]) -> str:
    """What became of the tokens of a part, where it was not the same for all."""
    words = ", ".join(f"{format_count(count)} {DONE[source]}" for source, count in counts.items())
    return f"Of these, for the last reply: {words}." if words else ""


def strip_words(used: int, limit: int, where: str, asked: str) -> str:
    """The whole strip in a few sentences, for a screen reader."""
    words = f"The context holds {count_of(used, 'token')} of {format_count(limit)}: {where}."
    return f"{words} The last reply: {asked}." if asked else words


# The bars.

BYTES_TITLES = {"device": "Graphics memory", "host": "Memory", "disk": "Disk"}
SHARE_NAMES = {
    "slab": "Context in use now",
    "memory": "Contexts kept",
    "checkpoint": "Checkpoints",
    "image": "Pictures, encoded",
    "moving": "On its way",
    "disk": "Contexts and pictures",
}
NOTHING_KEPT = "nothing is kept here"
