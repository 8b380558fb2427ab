"""The jinja2 environment that chat templates run in: what published ones expect, and no way out.

A template comes from the internet with a model's weights. jinja2's immutable sandbox keeps it from
Python; how much memory and time it may take is bounded by the process around it (`limits`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from core.api.errors import TemplateError


class RaisedByTemplate(jinja2.TemplateError):
    """The template called raise_exception: the message is the template author's own."""


class GenerationBlock(Extension):
    """`{% generation %}` marks replies for training; here it only passes its body through."""

    tags = {"generation"}  # noqa: RUF012 - the base class's own way

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the block's body in place of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """One environment per template; `created` (seconds, UTC) is its only clock."""

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
        )
        self.created = 0.0
        # Another answer every time would make every prompt a new one.
        del self.filters["random"]
        del self.globals["lipsum"]
        self.filters["tojson"] = _to_json
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = self._strftime_now
        self.globals["namespace"] = _PlainNamespace
        self.globals["dict"] = _new_dict

    def _strftime_now(self, pattern: str) -> str:
        """Format the chat's creation time in UTC: the same text on every turn, anywhere."""
        try:
            return datetime.fromtimestamp(self.created, UTC).strftime(pattern)
        except (ValueError, OverflowError, OSError) as error:
            raise TemplateError("The conversation's creation time can't be written.") from error


class _PlainNamespace(Namespace):
    """A namespace whose names can't reach into Python's own (`__class__` and kin)."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        # jinja2's own way, so that a template may name an attribute `self`.
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
    """`dict(...)` without the class itself, whose methods could change what they are given."""
    return dict(*args, **kwargs)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as models were trained on it: no HTML escapes, which jinja2's own filter adds."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: object) -> None:
    raise RaisedByTemplate(str(message))
