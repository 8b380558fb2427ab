"""A model's chat template, rendered in the helper: calls, limits, and what its failures mean.

What stands in the messages it is given (text, or marks that stand for text) is `masking.py`'s
business, what a template may use is `core.helper.sandbox`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.api.errors import TemplateError, TemplateTimeoutError, TemplateTooLargeError
from core.helper.process import Helper, HelperFailedError
from core.helper.templates import TEXT_ERRORS

TIME_LIMIT_S = 2.0

TemplateMessage = Mapping[str, Any]


class ChatTemplate:
    """One compiled template. `special_tokens` are spellings by name (`bos_token` ...)."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], helper: Helper) -> None:
        """Compile `source` in the helper. Raises TemplateError."""
        self.source = source
        self._special_tokens = dict(special_tokens)
        self._helper = helper
        self._compiled_in = -1
        self._compile()

    def render(
        self,
        messages: Sequence[TemplateMessage],
        thinking: bool | None,
        created: float,
        add_generation_prompt: bool = True,
    ) -> str:
        """The conversation as one string. `created` is the template's only clock (seconds, UTC).

        `thinking` None passes nothing, so that the template's own default holds. Raises
        TemplateError with the template's own words where it has any, TemplateTimeoutError,
        TemplateTooLargeError.
        """
        variables: dict[str, Any] = {
            **self._special_tokens,
            "messages": list(messages),
            "tools": None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        if thinking is not None:
            variables["enable_thinking"] = thinking
        if self._helper.pid != self._compiled_in:
            self._compile()
        return self._ask("template.render", {"variables": variables, "created": created})

    def _compile(self) -> None:
        self._ask("template.compile", {}, self.source.encode("utf-8", TEXT_ERRORS))
        self._compiled_in = self._helper.pid or -1

    def _ask(self, task: str, fields: dict[str, Any], source: bytes = b"") -> str:
        try:
            _, text = self._helper.ask(task, fields, source, seconds=TIME_LIMIT_S)
        except HelperFailedError as failure:
            raise _as_error(failure.reason) from None
        return text.decode("utf-8", TEXT_ERRORS)


def _as_error(reason: str) -> TemplateError:
    if reason == "time":
        return TemplateTimeoutError(
            f"The template was still running after {TIME_LIMIT_S:.0f} seconds, so it was stopped."
        )
    if reason == "memory":
        return TemplateTooLargeError(
            "The template needs more memory than any conversation does, so it was stopped."
        )
    words = {
        "raised": "The template stopped with an error that has no name.",
        "started": "The process that templates run in could not be started.",
    }
    return TemplateError(words.get(reason, "The template ended the process that it ran in."))
