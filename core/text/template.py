"""A model's chat template: compiled once, rendered with a time and a size limit.

Knows how templates are called and how they fail. What stands in the messages it is given (text, or
marks that stand for text) is `masking.py`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jinja2

from core.api.errors import TemplateError, TemplateTimeoutError
from core.text import limits
from core.text.sandbox import RaisedByTemplate, TemplateEnvironment
from core.text.watchdog import OutOfTime, run_limited

TIME_LIMIT_S = 2.0
# The longest published template is a hundredth of this.
MAX_SOURCE_CHARACTERS = 2**20

TemplateMessage = Mapping[str, Any]

_T = TypeVar("_T")


class ChatTemplate:
    """One compiled template. `special_tokens` are spellings by name (`bos_token` ...)."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        """Compile `source`. Raises TemplateError."""
        if len(source) > MAX_SOURCE_CHARACTERS:
            raise limits.too_large()
        self.source = source
        self._special_tokens = dict(special_tokens)
        self._environment = TemplateEnvironment()
        self._compiled = _guarded(lambda: self._environment.from_string(source))

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
        return _guarded(lambda: self._render(variables, created))

    def _render(self, variables: Mapping[str, Any], created: float) -> str:
        """Join the pieces as they come, so that an endless template stops at the size limit."""
        self._environment.begin(created)
        pieces: list[str] = []
        size = 0
        for piece in self._compiled.generate(**variables):
            pieces.append(piece)
            size += len(piece)
            if size > limits.MAX_OUTPUT_CHARACTERS:
                raise limits.too_large()
        return "".join(pieces)


def _guarded(work: Callable[[], _T]) -> _T:
    """Run `work` within the time limit; whatever it raises becomes a TemplateError.

    The error's message names kinds of failure, never the text of a conversation.
    """
    last_words = "TemplateTimeoutError: the model's chat template never ends; the engine stops."
    try:
        return run_limited(work, TIME_LIMIT_S, last_words)
    except TemplateError:
        raise
    except OutOfTime:
        raise TemplateTimeoutError(
            f"The template was still running after {TIME_LIMIT_S:.0f} seconds, so it was stopped."
        ) from None
    except RaisedByTemplate as error:
        raise TemplateError(f"The model's chat template says: {error}") from None
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"Line {error.lineno} of the template: {error.message}") from None
    except jinja2.UndefinedError as error:
        raise TemplateError(f"The template needs something it was not given: {error}.") from None
    except RecursionError:
        raise TemplateError("The template calls itself without end.") from None
    except MemoryError:
        raise limits.too_large() from None
    except Exception as error:
        raise TemplateError(f"The template stopped with {type(error).__name__}.") from error
