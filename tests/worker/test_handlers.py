"""Every command that waits for an answer has somebody who gives it, of the class it names."""

from __future__ import annotations

from typing import get_args

from core.api.commands import Answered, AnyCommand, Cancel, Ping
from core.api.events import Last
from core.engine.engine import Engine

COMMANDS = get_args(get_args(AnyCommand)[0])


def test_every_command_that_is_answered_has_a_handler() -> None:
    found = Engine().handlers(lambda event: None)
    assert set(found) == set(COMMANDS) - {Cancel, Ping}


def test_every_answered_command_names_the_event_that_ends_it() -> None:
    answered = [each for each in COMMANDS if issubclass(each, Answered)]
    assert len(answered) == len(COMMANDS) - 2
    assert all(issubclass(each.last_event(), Last) for each in answered)
