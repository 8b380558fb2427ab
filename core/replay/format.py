"""Reads a conversation script: what doesn't fit is refused with its place and the reason.

The format is in `script_steps`, what steps do to chats in `script_chats`.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from core.api.chat import AssistantMessage
from core.api.errors import InvalidRequestError
from core.replay.chats import Chats
from core.replay.steps import AnsweringStep, ChatStep, ContinueStep, Script, Side


def read_script(path: Path) -> Script:
    """Parse and check a script. Raises InvalidRequestError with the place and the reason."""
    try:
        script = Script.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidRequestError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        words = f"{place}: {first['msg']}" if place else first["msg"]
        raise InvalidRequestError(f"{path}: {words}") from error
    _rehearse(script, path)
    return script


def _rehearse(script: Script, path: Path) -> None:
    """Go through the chats without answers: which messages exist depends on the steps alone."""
    chats = Chats()
    for index, step in enumerate(script.steps):
        if not isinstance(step, ChatStep):
            continue
        try:
            chat = chats.move(step)
            if isinstance(step, AnsweringStep) and not isinstance(step, ContinueStep | Side):
                chat.open_reply().add(AssistantMessage(text=""))
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{path}: steps.{index}: {error.message}") from error
