"""Tasks on a chat template: compile it, render conversations with it.

Templates run in jinja2's immutable sandbox, which keeps them from Python.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from core.api.errors import TemplateError, TemplateTooLargeError
from core.client.codec import Fields
from core.helper import MAX_OUTPUT_CHARACTERS, TEXT_ERRORS

_SHORTEST_QUOTE = 3


class TemplateTasks:
    def __init__(self) -> None:
        self._environment = TemplateEnvironment()
        self._compiled: jinja2.Template | None = None

    def compile(self, _: Fields, source: bytes) -> tuple[Fields, bytes]:
        text = source.decode("utf-8", TEXT_ERRORS)
        with _named_errors():
            self._compiled = self._environment.from_string(text)
        return {}, b""

    def render(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        template = self._compiled
        assert template is not None
        self._environment.created = fields["created"]
        variables: dict[str, Any] = fields["variables"]
        try:
            with _named_errors():
                text = _joined(template.generate(**variables))
        except TemplateError as error:
            if _quotes(error.message, variables.get("messages")):
                raise TemplateError("The template failed on a message's text.") from None
            raise
        return {}, text.encode("utf-8", TEXT_ERRORS)


def _quotes(words: str, value: object) -> bool:
    """True if an error quotes the conversation, which belongs in no dialog and no log."""
    if isinstance(value, str):
        return len(value) >= _SHORTEST_QUOTE and value in words
    if isinstance(value, dict):
        inner = [each for name, each in value.items() if name not in {"role", "type"}]
        return any(_quotes(words, each) for each in inner)
    return isinstance(value, list) and any(_quotes(words, each) for each in value)


def _joined(pieces: Iterable[str]) -> str:
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


@contextlib.contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except (TemplateError, MemoryError):
        raise
    except RaisedByTemplate as error:
        raise TemplateError(f"The model's chat template says: {error}") from None
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"Line {error.lineno} of the template: {error.message}") from None
    except jinja2.UndefinedError as error:
        raise TemplateError(f"The template needs a value it was not given: {error}.") from None
    except RecursionError:
        raise TemplateError("The template calls itself without end.") from None
    except Exception as error:
        raise TemplateError(f"The template stopped with {type(error).__name__}.") from error


class RaisedByTemplate(jinja2.TemplateError): ...


class GenerationBlock(Extension):
    """`{% generation %}` marks replies for training; here its body passes through."""

    tags = {"generation"}  # noqa: RUF012 - as the base class does

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """`created` (seconds, UTC) is templates' only clock."""

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
        )
        self.created = 0.0
        # Random results would make every prompt a new one.
        del self.filters["random"]
        del self.globals["lipsum"]
        self.filters["tojson"] = _to_json
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = self._strftime_now
        self.globals["namespace"] = _PlainNamespace
        self.globals["dict"] = _new_dict

    def _strftime_now(self, pattern: str) -> str:
        try:
            return datetime.fromtimestamp(self.created, UTC).strftime(pattern)
        except (ValueError, OverflowError, OSError) as error:
            raise TemplateError("The conversation's creation time can't be written.") from error


class _PlainNamespace(Namespace):
    """Names can't reach into Python's own (`__class__` and kin)."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        # As jinja2 does it, so that a template may name an attribute `self`.
        for name in dict(*args[1:], **kwargs):
            _check_name(name)
        Namespace.__init__(*args, **kwargs)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"the name {name!r} is not allowed")


def _new_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Without the HTML escapes of jinja2's filter, as in training."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: object) -> None:
    raise RaisedByTemplate(str(message))
