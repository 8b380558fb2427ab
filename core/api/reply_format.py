"""The format of a reply that programs read, and the syntaxes of tool calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from core.api.params import Frozen, Settings

ToolSyntax = Literal[
    "hermes", "xml", "lfm2", "llama3", "gemma4", "harmony", "mistral", "mistral_ids", "mistral_list"
]
"""JSON in <tool_call>, functions and parameters in tags (Qwen3.5, Qwen3-Coder), a list of Python
calls (LFM2), a bare JSON object (Llama 3), names and values with marked texts (Gemma 4), a message
to a function (gpt-oss), a name and JSON between marks (Ministral 3), also with the call's id
(Mistral Small 3.2), or a list of JSON objects (Mistral Nemo)."""

MARKS: dict[ToolSyntax, tuple[str, str]] = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "xml": ("<tool_call>", "</tool_call>"),
    "lfm2": ("<|tool_call_start|>", "<|tool_call_end|>"),
    "llama3": ("", ""),
    "gemma4": ("<|tool_call>", "<tool_call|>"),
    # Around the function and its arguments as a reply is read; a reply ends with the second.
    "harmony": ("<|call|>", "<|call|>"),
    # A call ends where the next one begins, or with the reply.
    "mistral": ("[TOOL_CALLS]", ""),
    "mistral_ids": ("[TOOL_CALLS]", ""),
    "mistral_list": ("[TOOL_CALLS]", ""),
}
ARGUMENTS_MARK = "[ARGS]"
"""Mistral's models write this mark between a function's name and the arguments."""
ID_MARK = "[CALL_ID]"
"""Some of them write this mark and the call's id in between."""
SHORT_ID = "[A-Za-z0-9]{9}"
"""The only ids that their templates take."""
TEXT_MARK = '<|"|>'
"""Gemma 4 writes this mark before and after each text in a call."""
RESULT_BEGIN = "<|tool_response>"
"""Gemma 4 writes it after its calls, and waits for their results."""
RESULT_ENDS = ("</tool_response>", "<tool_response|>")
"""The end of one of several results in a message of Qwen's and of Gemma 4's templates."""


INNER_MARKS: dict[ToolSyntax, tuple[str, ...]] = {
    "gemma4": (TEXT_MARK,),
    "mistral": (ARGUMENTS_MARK,),
    "mistral_ids": (ID_MARK, ARGUMENTS_MARK),
}


def marks_of(syntax: ToolSyntax) -> tuple[str, ...]:
    """Spellings around and within calls that may be single tokens."""
    return tuple(filter(None, (*MARKS[syntax], *INNER_MARKS.get(syntax, ()))))


LONGEST_TEXT = 256 * 2**10
LONGEST_CHOICE = MOST_CHOICES = 1024

Choice = Annotated[str, Field(min_length=1, max_length=LONGEST_CHOICE)]


class FunctionFormat(Frozen):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/-]{1,128}$")]
    parameters: dict[str, Any]


class CallFormat(Frozen):
    """Only one call unless `parallel`."""

    syntax: ToolSyntax
    functions: tuple[FunctionFormat, ...]
    parallel: bool = True


class ReplyFormat(Settings):
    """An answer's format; a thought before it is free.

    `text` is the schema, grammar or expression that matches the whole answer; for "calls" a
    `CallFormat`. "choice" has its texts in `choices`.
    """

    kind: Literal["json_schema", "json", "regex", "choice", "lark", "calls"]
    text: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""
    choices: Annotated[tuple[Choice, ...], Field(max_length=MOST_CHOICES)] = ()
