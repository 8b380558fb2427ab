"""What is said as the context fills up, and the ways on."""

from __future__ import annotations

from desktop.numbers import BETWEEN, count_of, format_count

DRAFT_TIP = (
    "How many tokens the message takes, counted by the model's tokenizer, and how many the context "
    "has left for the reply"
)


def alone_words(tokens: int, limit: int, longest: int | None) -> str:
    """A message that fits by no leaving out; `longest` is the model's longest context if that is
    too short as well."""
    words = (
        f"The last message alone takes {format_count(tokens)} tokens, and the context holds "
        f"{format_count(limit)}. Nothing was cut off: edit it"
    )
    if longest is not None:
        return f"{words}. This model's longest context is {format_count(longest)} tokens."
    return f"{words}, or load the model with a longer context."


def draft_words(tokens: int, left: int) -> str:
    """How long the message is, and what the context has left after it; `tokens` 0 is no message."""
    if left < 0:
        over = format_count(-left)
        return f"{count_of(tokens, 'token')}, {over} more than the context has left"
    room = f"{count_of(left, 'token')} left" if not tokens else f"{format_count(left)} left"
    return f"{count_of(tokens, 'token')}{BETWEEN}{room}" if tokens else room


def refused_words(limit: int) -> str:
    """The last message found no room."""
    return (
        f"There is no room for the last message in the context of {format_count(limit)} tokens. "
        f"{_WAYS_ON}"
    )


def full_words(tokens: int, limit: int) -> str:
    """The last reply ended with the context."""
    return f"The context is full ({_of(tokens, limit)}). {_WAYS_ON}"


def near_words(tokens: int, limit: int) -> str:
    """The context will be full before long."""
    return f"This chat fills {round(100 * tokens / limit)} % of the context ({_of(tokens, limit)})."


_WAYS_ON = (
    "Everything is kept. To go on, begin a new chat from a summary, or leave out the oldest "
    "turns: they stay here for you to read."
)


def _of(tokens: int, limit: int) -> str:
    return f"{format_count(tokens)} of {format_count(limit)} tokens"
