"""The format of a reply, so that a program can read it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from core.api.params import Frozen, Settings
from core.api.tools import ToolSyntax

LONGEST_TEXT = 256 * 2**10
LONGEST_CHOICE = MOST_CHOICES = 1024

Choice = Annotated[str, Field(min_length=1, max_length=LONGEST_CHOICE)]


class FunctionFormat(Frozen):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/-]{1,128}$")]
    parameters: dict[str, Any]


class CallFormat(Frozen):
    """Calls of these functions; one only unless `parallel`."""

    syntax: ToolSyntax
    functions: tuple[FunctionFormat, ...]
    parallel: bool = True


class ReplyFormat(Settings):
    """The format of an answer; a thought before it is free.

    "json_schema" and "lark" have their schema or grammar in `text`, "regex" an expression that must
    match the whole answer, "choice" its texts in `choices`; for "calls" `text` is a `CallFormat`.
    """

    kind: Literal["json_schema", "json", "regex", "choice", "lark", "calls"]
    text: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""
    choices: Annotated[tuple[Choice, ...], Field(max_length=MOST_CHOICES)] = ()
