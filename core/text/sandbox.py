"""The jinja2 environment that chat templates run in: what published ones expect, within limits.

A template comes from the internet with a model's weights. It runs in jinja2's immutable sandbox; on
top of that every operation that could eat memory is checked (`limits.py`). Time is `watchdog.py`'s
business, messages are `template.py`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from core.api.errors import TemplateError
from core.text import limits
from core.text.filters import checked_filters


class RaisedByTemplate(jinja2.TemplateError):
    """The template called raise_exception: the message is the template author's own."""


class GenerationBlock(Extension):
    """`{% generation %}` marks replies for training; here it only passes its body through."""

    tags = {"generation"}  # noqa: RUF012 - the base class's own way

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the block's body in place of the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _CheckedCode(CodeGenerator):
    """Compiles `a ~ b` to a call that can be checked; jinja2 has no hook for it."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.write("environment.join_checked((")
        for child in node.nodes:
            self.visit(child, frame)
            self.write(", ")
        self.write("))")


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """One environment per template; `begin` starts a rendering with a fresh budget."""

    intercepted_binops = frozenset({"*", "**", "%", "+"})
    code_generator_class = _CheckedCode

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
        )
        self.budget = limits.Budget()
        self._clock = 0.0
        self.concat = self.join_checked  # type: ignore[method-assign]
        self.finalize = self._checked_output
        self.filters = checked_filters(self.filters, lambda: self.budget)
        self._set_globals()

    def begin(self, created: float) -> None:
        """Start a rendering: a new budget, and `created` (seconds, UTC) as its only clock."""
        self.budget = limits.Budget()
        self._clock = created

    def _checked_output(self, value: Any) -> Any:
        """What is about to be written."""
        limits.check_shown((value,), self.budget)
        return value

    def join_checked(self, pieces: Iterable[Any]) -> str:
        """Concatenate, counting characters before they are copied."""
        pieces = list(pieces)
        limits.check_shown(pieces, self.budget)
        texts = [piece if isinstance(piece, str) else str(piece) for piece in pieces]
        self.budget.charge(sum(map(len, texts)))
        return "".join(texts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Check an operation whose result can be far larger than its operands."""
        if operator == "*":
            limits.check_product(left, right, self.budget)
        elif operator == "**":
            limits.check_power(left, right)
        elif operator == "+":
            limits.check_sum(left, right, self.budget)
        elif isinstance(left, (str, bytes)):
            limits.check_percent_format(left)
            limits.check_shown((right,), self.budget)
        return self.budget.charge_result(super().call_binop(context, operator, left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Check methods of strings; everything else passes through the sandbox."""
        owner = getattr(__obj, "__self__", None)
        name = getattr(__obj, "__name__", "")
        if isinstance(owner, str) and name == "join" and args:
            args = (limits.checked_join(args[0], owner, __self.budget), *args[1:])
        elif isinstance(owner, (str, bytes)) or owner is str:
            text = owner if isinstance(owner, str) else ""
            limits.check_text_method(text, name, (*args, *kwargs.values()), __self.budget)
        if __obj is _raise_exception:
            limits.check_shown((*args, *kwargs.values()), __self.budget)
        result = super().call(__context, __obj, *args, **kwargs)
        return __self.budget.charge_result(result)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`str.format` within limits, on top of the sandbox's own guard."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        limits.check_brace_format(value.__self__)

        def checked(*args: Any, **kwargs: Any) -> str:
            limits.check_shown((*args, *kwargs.values()), self.budget)
            return wrapped(*args, **kwargs)

        return checked

    def _set_globals(self) -> None:
        del self.globals["lipsum"]
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = self._strftime_now
        self.globals["namespace"] = _PlainNamespace
        self.globals["dict"] = _new_dict

    def _strftime_now(self, pattern: str) -> str:
        """Format the chat's creation time in UTC: the same text on every turn, anywhere."""
        if len(pattern) > 256 or re.search(r"\d{3,}", pattern):
            raise limits.too_large()
        try:
            return datetime.fromtimestamp(self._clock, UTC).strftime(pattern)
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


def _raise_exception(message: object) -> None:
    raise RaisedByTemplate(str(message))
