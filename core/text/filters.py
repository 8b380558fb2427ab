"""jinja2's filters within limits: what a filter would make is reckoned before it is made.

Knows which filters a chat template may use and what each can cost; `limits.py` says how much is too
much, `sandbox.py` is where they run.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.runtime import Context

from core.text import limits

Filter = Callable[..., Any]
CurrentBudget = Callable[[], limits.Budget]
"""The budget of the rendering that runs."""
_Check = Callable[[limits.Budget, tuple[Any, ...]], None]

# Filters with no use in a chat and a way to cost much, or with another answer every time (T4).
_BANNED_FILTERS = (
    "random",
    "urlize",
    "xmlattr",
    "pprint",
    "wordwrap",
    "striptags",
    "filesizeformat",
)
# Filters that write their argument out as text, whatever it is.
_WRITING_FILTERS = (
    "string",
    "upper",
    "lower",
    "title",
    "capitalize",
    "trim",
    "escape",
    "e",
    "forceescape",
    "urlencode",
    "center",
    "indent",
    "format",
    "replace",
    "truncate",
    "wordcount",
    "tojson",
    "safe",
    "int",
    "float",
)


def checked_filters(filters: Mapping[str, Filter], budget: CurrentBudget) -> dict[str, Filter]:
    """The filters a template may use, each of which charges `budget`."""
    allowed = {name: each for name, each in filters.items() if name not in _BANNED_FILTERS}
    for name, check in _CHECKS.items():
        allowed[name] = _checked_before(allowed[name], check, budget)
    allowed["join"] = _checked_join(allowed["join"], budget)
    allowed["tojson"] = _to_json
    for name in _WRITING_FILTERS:
        allowed[name] = _checked_before(allowed[name], _check_shown, budget)
    return allowed


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as models were trained on it: no HTML escapes, which jinja2's own filter adds."""
    limits.check_width(indent)
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _after_context(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """A filter's own arguments, without the context or environment that jinja2 puts first."""
    first = args[0] if args else None
    passed = isinstance(first, (Context, jinja2.Environment, nodes.EvalContext))
    return args[1:] if passed else args


def _checked_before(original: Filter, check: _Check, budget: CurrentBudget) -> Filter:
    @functools.wraps(original)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check(budget(), (*_after_context(args), *kwargs.values()))
        return budget().charge_result(original(*args, **kwargs))

    return checked


def _checked_join(original: Filter, budget: CurrentBudget) -> Filter:
    @functools.wraps(original)
    def checked(first: Any, value: Any, separator: Any = "", attribute: Any = None) -> Any:
        value = list(value)
        limits.check_shown((*value, separator), budget())
        listed = limits.checked_join(value, str(separator), budget())
        return budget().charge_result(original(first, listed, separator, attribute))

    return checked


def _check_nothing(budget: limits.Budget, args: tuple[Any, ...]) -> None:
    """Its result is charged, and that is all."""


def _check_shown(budget: limits.Budget, args: tuple[Any, ...]) -> None:
    limits.check_shown(args, budget)


def _check_sum(budget: limits.Budget, args: tuple[Any, ...]) -> None:
    """Adding lists copies the sum so far for each of them, so their number counts twice."""
    parts = args[0]
    if isinstance(parts, (list, tuple)):
        for part in parts:
            size = len(part) if isinstance(part, (list, tuple)) else 0
            budget.charge(size * len(parts))


def _check_widths(budget: limits.Budget, args: tuple[Any, ...]) -> None:
    for width in args[1:]:
        limits.check_width(width)


def _check_indent(budget: limits.Budget, args: tuple[Any, ...]) -> None:
    _check_widths(budget, args)
    width = args[1] if len(args) > 1 else 4
    step = len(width) if isinstance(width, str) else int(width)
    budget.charge(len(str(args[0])) + str(args[0]).count("\n") * step)


def _check_format(budget: limits.Budget, args: tuple[Any, ...]) -> None:
    limits.check_percent_format(str(args[0]))


def _check_replace(budget: limits.Budget, args: tuple[Any, ...]) -> None:
    if len(args) >= 3:
        limits.check_replace(str(args[0]), str(args[1]), str(args[2]), budget)


_CHECKS: dict[str, _Check] = {
    "list": _check_nothing,
    "center": _check_widths,
    "round": _check_widths,
    "batch": _check_widths,
    "slice": _check_widths,
    "sum": _check_sum,
    "indent": _check_indent,
    "format": _check_format,
    "replace": _check_replace,
}
