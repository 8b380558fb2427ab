"""What the window's frame says: header, menus, the empty page, and what the engine is doing."""

from __future__ import annotations

# What the engine is doing, in the header.

SILENT = "The engine is not answering"
STARTING = "Starting the engine"
LOADING = "Loading the model"
LOAD_CANCELLED = "Loading was cancelled"
NO_MODEL = "No model is loaded"
RESTARTING = "The engine stopped; starting it again"
FAILED = "The engine does not start"
CLOSING = "Closing"
WAITING_FOR_CHOICE = "Waiting for a model: choose one under Model & settings."


def loading_words(percent: int) -> str:
    """How far loading is."""
    return f"{LOADING}: {percent}%"


def waiting_words(state: str) -> str:
    """What a message waits for."""
    return f"Waiting for the model. {state} \N{HORIZONTAL ELLIPSIS}"


# The empty page.

EMPTY_TITLE = "What would you like to look at?"
EMPTY_WORDS = (
    "Ask a question below, or drop a picture and ask about it.\n"
    "Everything stays on this computer. What was read is reused where it can be: see Context on "
    "the right."
)
TRY_SAMPLE = "Try this one"


def sample_spoken(number: int) -> str:
    """What a screen reader says of a sample picture."""
    return f"Try sample picture {number}"
