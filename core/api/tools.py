"""The forms in which models write tool calls, and the marks around them."""

from __future__ import annotations

from typing import Literal

ToolSyntax = Literal["hermes", "xml", "lfm2", "llama3", "gemma4", "harmony"]
"""JSON in <tool_call>, functions and parameters in tags (Qwen3.5, Qwen3-Coder), a list of Python
calls (LFM2), a bare JSON object (Llama 3), names and values with marked texts (Gemma 4), or a
message to a function (gpt-oss)."""

MARKS: dict[ToolSyntax, tuple[str, str]] = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "xml": ("<tool_call>", "</tool_call>"),
    "lfm2": ("<|tool_call_start|>", "<|tool_call_end|>"),
    "llama3": ("", ""),
    "gemma4": ("<|tool_call>", "<tool_call|>"),
    # Around the function and its arguments as a reply is read; a reply ends with the second.
    "harmony": ("<|call|>", "<|call|>"),
}
TEXT_MARK = '<|"|>'
"""Gemma 4 writes this mark before and after each text in a call."""
RESULT_BEGIN = "<|tool_response>"
"""Gemma 4 writes it after its calls, and waits for their results."""
RESULT_ENDS = ("</tool_response>", "<tool_response|>")
"""The end of one of several results in a message of Qwen's and of Gemma 4's templates."""


def marks_of(syntax: ToolSyntax) -> tuple[str, ...]:
    """The spellings around calls and within them that may be single tokens."""
    return (*MARKS[syntax], TEXT_MARK) if syntax == "gemma4" else MARKS[syntax]
