"""Errors for clients: an HTTP status, a message, and the field that is wrong."""

from __future__ import annotations

from pydantic import ValidationError

from core.api.errors import ErrorInfo, WaymarkError, first_fault

# Errors of the engine that the request itself causes; the rest is the server's trouble.
_OF_REQUEST = frozenset({
    "EmptyConversationError", "ImageAspectError", "ImageEmptyError", "ImageError",
    "ImageTooLargeError", "ImageUnreadableError", "InvalidRequestError", "NoToolsError",
    "NoVisionError", "PromptTooLongError", "ReplyFormatError", "TemplateError",
    "TemplateTimeoutError", "TemplateTooLargeError",
})  # fmt: skip
# A client that tries again later may succeed.
_PASSING = frozenset({
    "BudgetTooSmallError", "EngineDiedError", "NoModelError", "NotEnoughMemoryError",
    "RequestCancelled",
})  # fmt: skip
_RETRY_S = 5


class Refusal(WaymarkError, title="The request was refused"):
    """`field` is a path as in `messages.0.content`; `code` is for programs."""

    def __init__(
        self,
        message: str,
        field: str = "",
        status: int = 400,
        code: str = "",
        retry_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.field, self.status, self.code, self.retry_s = field, status, code, retry_s

    @classmethod
    def of(
        cls, info: ErrorInfo, prompt_field: str = "", format_field: str = "", context: int = 0
    ) -> Refusal:
        if info.name == "PromptTooLongError":
            # Agents look for these words of Anthropic's and OpenAI's, and then shorten the chat.
            counted = f"{info.tokens} tokens > {context} maximum." if info.tokens else info.message
            limit = f"This model's maximum context length is {context} tokens."
            words = f"Prompt is too long: {counted} {limit}"
            return cls(words, prompt_field, 400, "context_length_exceeded")
        if info.name == "ReplyFormatError":
            return cls(info.message, format_field)
        if info.name in _OF_REQUEST:
            return cls(f"{info.title}: {info.message}", prompt_field)
        if info.name in _PASSING:
            return cls(f"{info.title}: {info.message}", status=503, retry_s=_RETRY_S)
        return cls(f"{info.title}: {info.message}", status=500)

    @classmethod
    def of_value(cls, error: ValidationError, names: dict[str, str]) -> Refusal:
        """`names` are the client's names of our fields."""
        place, words = first_fault(error)
        ours, dot, inner = place.partition(".")
        return cls(f"{words}.", f"{names.get(ours, ours)}{dot}{inner}")
