"""What the window says of the list of chats, of the trash, and of deleting for good."""

from __future__ import annotations

from datetime import datetime

from desktop.numbers import count_of, format_count

CHATS = "Chats"
NEW_CHAT = "New chat"
RENAME = "Rename"
RENAME_CHAT = "Rename the chat (F2)"
DELETE = "Delete"
DELETE_CHAT = "Delete the chat (Delete)"
PIN = "Pin to the top"
UNPIN = "Unpin"

PINNED = "Pinned"
TODAY = "Today"
YESTERDAY = "Yesterday"
THIS_WEEK = "Last 7 days"
FORK = "fork"

SEARCH_TITLES = "Search titles"
CLEAR = "Clear the search"

TRASH = "Deleted chats"
BACK = "Back to the chats"
RESTORE = "Restore"
RESTORE_CHAT = "Put the chat back on the list"
UNDO = "Undo"
DELETE_FOR_GOOD = "Delete for good"
DELETE_ALL_FOR_GOOD = "Delete all for good"
KEEP = "Keep"
DELETE_ALL = "Delete all data"
KEEP_EVERYTHING, DELETE_EVERYTHING = "Keep everything", "Delete everything"
ALL_GONE = "All data is deleted."
# In the year 9999, behind which no calendar goes, wherever the clock stands.
LAST_MOMENT = 253_370_764_800.0

INSTRUCTIONS = "Instructions for this chat"
INSTRUCTIONS_SPOKEN = "Instructions for the model"
INSTRUCTIONS_EXAMPLE = "For example: Answer in short sentences."
INSTRUCTIONS_DONE = "Close the instructions; they are used with the next message"
DONE = "Done"


def month_words(moment: float) -> str:
    """The head of the chats of a month: 'March 2026'."""
    return f"{datetime.fromtimestamp(min(moment, LAST_MOMENT)):%B %Y}"


def instructions_note(begun: bool) -> str:
    """What becomes of what is typed; `begun` says that the chat has messages."""
    told = "Used with the next message, before everything else."
    return f"{told} If they change, the whole chat is read again." if begun else told


def no_match(searched: str) -> str:
    """Said in place of the list when no title matches."""
    quoted = f"\N{LEFT DOUBLE QUOTATION MARK}{searched}\N{RIGHT DOUBLE QUOTATION MARK}"
    return f"No title contains {quoted}."


def trash_row(count: int) -> str:
    """The row that opens the trash: 'Deleted chats (3)'."""
    return f"{TRASH} ({format_count(count)})"


def trash_note(days: int) -> str:
    """What the trash is, in its head."""
    return f"Kept for {days} days, then deleted for good."


def kept_until(moment: float) -> str:
    """Until when the trash keeps a chat: 'Kept until 3 March'."""
    day = datetime.fromtimestamp(min(moment, LAST_MOMENT))
    return f"Kept until {day.day} {day:%B}"


def deleted(title: str, days: int) -> str:
    """Said after a delete: the chat is not gone yet."""
    return f"Moved to {TRASH}, kept for {days} days: {title}"


def delete_trash_words(count: int) -> str:
    """Asks before deleted chats go."""
    chats = "The selected chat goes" if count == 1 else f"All {count_of(count, 'deleted chat')} go"
    return f"{chats} for good, with messages and pictures. This can't be undone."


def delete_all_words(count: int, in_trash: int) -> str:
    """Asks before all data goes: what goes, and what stays."""
    chats = "One chat" if count == 1 else f"All {format_count(count)} chats"
    trash = f"{count_of(in_trash, 'deleted chat')} that could still be restored"
    known = [*([chats] if count else []), *([trash] if in_trash else [])]
    return (
        f"{' and '.join(known) or 'All data'}: messages, pictures and drafts are deleted for good, "
        "with older files of chats that are kept, and all that was kept of reading them. This "
        "can't be undone. Your settings and models stay."
    )


def not_deleted(file: object, reason: str | None) -> str:
    """A file that the system did not let go."""
    return (
        f"{file} could not be deleted: {reason}. It is tried again with the next chat that is "
        "deleted for good."
    )


def not_forgotten(reason: str) -> str:
    """The engine did not delete what it had kept of a chat."""
    return (
        f"What was read of a deleted chat is not gone yet: {reason} It is tried again at the next "
        "start."
    )
