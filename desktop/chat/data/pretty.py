"""JSON written out with a line for each value, to be copied."""

from __future__ import annotations

from desktop.chat.data.events import Event, events

# Deeper than this nothing is indented any more: lines would be longer than what is in them.
DEEPEST = 32


def pretty(text: str) -> str:
    """The same JSON, indented; every name and number is as it was written. Raises NotJsonError."""
    written: list[str] = []
    depth, before = 0, None
    for event, token in events(text):
        if event is Event.CLOSE:
            depth -= 1
        if event is Event.CLOSE and before is Event.OPEN:
            pass
        elif before is Event.NAME:
            written.append(": ")
        elif before is not None:
            parted = event is not Event.CLOSE and before is not Event.OPEN
            written.append(("," if parted else "") + _new_line(depth))
        written.append(token)
        if event is Event.OPEN:
            depth += 1
        before = event
    return "".join(written)


def _new_line(depth: int) -> str:
    return "\n" + "  " * depth if depth <= DEEPEST else ""
