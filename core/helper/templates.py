"""Tasks on a chat template: compile it once, render conversations with it.

Knows how templates are called and how they fail. What stands in the messages (text, or marks that
stand for text) is the asking side's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import jinja2

from core.api.errors import TemplateError, TemplateTooLargeError
from core.helper.sandbox import RaisedByTemplate, TemplateEnvironment
from core.helper.wire import Fields, Task

MAX_OUTPUT_CHARACTERS = 16 * 2**20
_SHORTEST_QUOTE = 3
TEXT_ERRORS = "surrogatepass"
"""A conversation may hold half a surrogate pair, which goes through a template as it came."""

_T = TypeVar("_T")


class TemplateTasks:
    """One compiled template at a time."""

    def __init__(self) -> None:
        self._environment = TemplateEnvironment()
        self._compiled: jinja2.Template | None = None

    def handlers(self) -> Mapping[str, Task]:
        """The tasks by name."""
        return {"template.compile": self._compile, "template.render": self._render}

    def _compile(self, fields: Fields, source: bytes) -> tuple[Fields, bytes]:
        """Compile the attached source. Raises TemplateError."""
        text = source.decode("utf-8", TEXT_ERRORS)
        self._compiled = _named(lambda: self._environment.from_string(text))
        return {}, b""

    def _render(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        """The text for `variables` at the time `created`. Raises TemplateError and kin."""
        template = self._compiled
        assert template is not None
        self._environment.created = fields["created"]
        variables: dict[str, Any] = fields["variables"]
        try:
            text = _named(lambda: _joined(template.generate(**variables)))
        except TemplateError as error:
            if _quotes(error.message, variables.get("messages")):
                raise TemplateError("The template stopped at what a message says.") from None
            raise
        return {}, text.encode("utf-8", TEXT_ERRORS)


def _quotes(words: str, value: object) -> bool:
    """Whether an error's words hold a text of the conversation, which is for no dialog and no log.

    Names of roles and kinds are shorter than what is looked for, or stand in templates anyway.
    """
    if isinstance(value, str):
        return len(value) >= _SHORTEST_QUOTE and value in words
    if isinstance(value, dict):
        inner = [each for name, each in value.items() if name not in {"role", "type"}]
        return any(_quotes(words, each) for each in inner)
    return isinstance(value, list) and any(_quotes(words, each) for each in value)


def _joined(pieces: Iterable[str]) -> str:
    """Join the pieces as they come, so that an endless template stops at the size limit."""
    kept: list[str] = []
    size = 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size > MAX_OUTPUT_CHARACTERS:
            raise TemplateTooLargeError(
                f"The template wrote more than {MAX_OUTPUT_CHARACTERS // 2**20} million characters."
            )
    return "".join(kept)


def _named(work: Callable[[], _T]) -> _T:
    """Do `work`; whatever it raises becomes a TemplateError.

    The error's message names kinds of failure, never the text of a conversation.
    """
    try:
        return work()
    except (TemplateError, MemoryError):
        raise
    except RaisedByTemplate as error:
        raise TemplateError(f"The model's chat template says: {error}") from None
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"Line {error.lineno} of the template: {error.message}") from None
    except jinja2.UndefinedError as error:
        raise TemplateError(f"The template needs something it was not given: {error}.") from None
    except RecursionError:
        raise TemplateError("The template calls itself without end.") from None
    except Exception as error:
        raise TemplateError(f"The template stopped with {type(error).__name__}.") from error
