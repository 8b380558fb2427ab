"""The format of a reply, and the syntaxes in which models write tool calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from core.api.params import Frozen, Settings

ToolSyntax = Literal["hermes", "xml", "lfm2", "llama3"]
"""JSON in <tool_call>, functions and parameters in tags (Qwen3.5, Qwen3-Coder), a list of Python
calls (LFM2), or a bare JSON object (Llama 3)."""

MARKS: dict[ToolSyntax, tuple[str, str]] = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "xml": ("<tool_call>", "</tool_call>"),
    "lfm2": ("<|tool_call_start|>", "<|tool_call_end|>"),
    "llama3": ("", ""),
}
RESULT_END = "</tool_response>"
"""The end of one of several results in a message of Qwen's templates."""


LONGEST_TEXT = 256 * 2**10

Choice = Annotated[str, Field(min_length=1, max_length=1024)]


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
    choices: Annotated[tuple[Choice, ...], Field(max_length=1024)] = ()
