"""What the window says of pictures: what was not taken and why, and what stands in a strip."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from desktop.numbers import count_of, format_bytes, format_count

NAMES_SHOWN = 3
SENTENCES_SHOWN = 4

ADD = "Add pictures"
PASTED = "Pasted picture"
LOOKING = "Looking at it \N{HORIZONTAL ELLIPSIS}"
STILL_LOOKING = "It can be sent as soon as the picture has been looked at."

# A picture in a strip, and the large one.
TAKE_OUT, SHOW_LARGE = "Take this picture out", "Show this picture large"
NO_PREVIEW = "No preview"
FIT = "Fit the picture into the window (F)"
ONE_TO_ONE = "Show every pixel, one to one (1)"
PICTURE = "Picture"
PREVIOUS, NEXT = "The picture before this one (Left)", "The next picture (Right)"
COPY, SAVE = "Copy the picture (Ctrl+C)", "Save the picture as a file (Ctrl+S)"
SAVE_TITLE = "Save the picture"
NOT_SAVED = "The picture was not saved"
NOT_SHOWN = "The engine gave no picture that can be shown."

# What was pasted or dropped.
FORM_REFUSED = "Not taken: that picture comes in a form that Waymark does not read."
SIZE_REFUSED = "Not taken: that picture is too large."
ADDRESS_REFUSED = (
    "Not taken: that is a web address, and Waymark never fetches one. Save the picture first."
)

EDIT = "Edit your message"
SEND_AGAIN = "Send again"
CANCEL = "Cancel"

# Why a file is no picture, as 'a.txt is ...' and 'a.txt, b.txt are ...'.
FOLDER = "a folder; drop the pictures in it instead"
NO_FILE = "not a file"
EMPTY = "empty"
NO_PICTURE = "not a picture"
_OF_MANY = {
    FOLDER: "folders; drop the pictures in them instead",
    NO_FILE: "not files",
    NO_PICTURE: "not pictures",
}


class Refusal(NamedTuple):
    """A picture that was not taken, by the name the user knows.

    `why` completes "a.txt is ..."; `said` is a sentence in its place, with no name of its own where
    `name` is ''.
    """

    name: str = ""
    why: str = ""
    said: str = ""


def not_saved(reason: str | None) -> str:
    """Why the system did not take a picture's file."""
    return f"The system says: {reason}." if reason else "The system did not say why."


def place_words(place: int, count: int) -> str:
    """Which of several pictures is shown large."""
    return f"{place + 1} of {count}"


def too_large(limit: int) -> str:
    """A file beyond what is read."""
    return f"larger than {format_bytes(limit)}"


def not_readable(reason: str) -> str:
    """A file that the system does not give."""
    return f"not readable ({reason})"


def no_answer(seconds: float) -> str:
    """A file that can't be read because its disk or server does not answer."""
    return f"Its disk or server gave no answer within {seconds:.0f} seconds."


def not_taken(refusals: Iterable[Refusal]) -> str:
    """All that was not taken, and why: a few names for each reason, then how many more."""
    by_reason: dict[str, list[str]] = {}
    sentences: list[str] = []
    for name, why, said in dict.fromkeys(refusals):
        if why:
            by_reason.setdefault(why, []).append(name)
        else:
            sentences.append(_said(name, said))
    grouped = [_not_taken(why, names) for why, names in by_reason.items()]
    more = sentences[SENTENCES_SHOWN:]
    if more:
        verb = "was" if len(more) == 1 else "were"
        sentences[SENTENCES_SHOWN:] = [f"And {format_count(len(more))} more {verb} not taken."]
    return " ".join([*grouped, *sentences])


def count_in_strip(count: int) -> str:
    """Said over a strip of which only a part is seen."""
    return count_of(count, "picture")


def _said(name: str, said: str) -> str:
    if not name:
        return said
    return f"Not taken: {said}" if name in said else f"{name} was not taken: {said}"


def _not_taken(why: str, names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    if len(names) > NAMES_SHOWN:
        shown += f" and {format_count(len(names) - NAMES_SHOWN)} more"
    is_why = f"is {why}" if len(names) == 1 else f"are {_OF_MANY.get(why, why)}"
    return f"Not taken: {shown} {is_why}."
