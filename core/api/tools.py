"""The forms in which models write tool calls, and the marks around them."""

from __future__ import annotations

from typing import Literal

ToolSyntax = Literal["hermes", "xml", "lfm2", "llama3", "harmony"]
"""JSON in <tool_call>, functions and parameters in tags (Qwen3.5, Qwen3-Coder), a list of Python
calls (LFM2), a bare JSON object (Llama 3), or a message to a function (gpt-oss)."""

MARKS: dict[ToolSyntax, tuple[str, str]] = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "xml": ("<tool_call>", "</tool_call>"),
    "lfm2": ("<|tool_call_start|>", "<|tool_call_end|>"),
    "llama3": ("", ""),
    # Around the function and its arguments as a reply is read; a reply ends with the second.
    "harmony": ("<|call|>", "<|call|>"),
}
RESULT_END = "</tool_response>"
"""The end of one of several results in a message of Qwen's templates."""
