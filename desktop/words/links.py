"""What is said of an address that the model wrote: where it leads, and why it is not opened."""

from __future__ import annotations

from desktop.number_format import whole

LINK = "Link"
LEADS_TO = "The model wrote this address. It leads to:"
NOT_OPENED = "The model wrote this address, which is not opened."
WHOLE_ADDRESS = "The whole address"
CANCEL, CLOSE, OPEN = "Cancel", "Close", "Open in the browser"

NO_WEB_ADDRESS = "Waymark opens web addresses only (http and https)."
NAMES_SOMEONE = (
    "A name or a password stands before its host, which is how an address pretends to lead "
    "somewhere else."
)
INCOMPLETE = "It is not a complete web address."
AMBIGUOUS = "It can be read in more than one way."


def too_long(most: int) -> str:
    """An address that no browser needs."""
    return f"It is longer than {whole(most)} characters."


def in_letters(host: str) -> str:
    """A host in letters of other alphabets."""
    return f"In letters: {host}. Letters of other alphabets can make one name look like another."


def unseen(characters: str) -> str:
    """Characters that would not be seen."""
    return (
        f"It holds {characters}, which is not seen, or turns the line around, where an address is "
        "shown in letters."
    )


def not_opened(address: str, why: str) -> str:
    """Said where the pointer rests on a link that leads nowhere."""
    return f"Not opened: {address}\n{why}"
