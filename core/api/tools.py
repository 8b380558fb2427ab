"""The forms in which models write tool calls, and the marks around them."""

from __future__ import annotations

from typing import Literal

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
