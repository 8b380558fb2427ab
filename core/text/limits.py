"""How much a chat template may build: caps on every operation that can turn little into much.

The time limit (`watchdog.py`) can't interrupt one huge C call, so whatever could make one is
checked before it runs. Sizes are counted in characters or list items. Nothing here knows jinja2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from core.api.errors import TemplateError, TemplateTooLargeError

MAX_OUTPUT_CHARACTERS = 16 * 2**20
# All that a rendering builds on its way, dead copies included: what it could hold at once at worst.
MAX_WORK = 16 * MAX_OUTPUT_CHARACTERS
MAX_LIST_ITEMS = 2**20
MAX_WIDTH = 4096
MAX_INTEGER_BITS = 4096

_WIDE_FORMAT = re.compile(r"%[^A-Za-z%]*?(?:\d{5,}|\*)")
_WIDE_BRACES = re.compile(r"\d{5,}|\{[^{}]*\{")


class Budget:
    """What one rendering may still build; shared by all its operations."""

    def __init__(self) -> None:
        self.left = MAX_WORK

    def charge(self, size: int) -> None:
        """Take `size` characters or items off the budget. Raises TemplateTooLargeError."""
        self.left -= size
        if size > MAX_OUTPUT_CHARACTERS or self.left < 0:
            raise too_large()

    def charge_result(self, value: Any) -> Any:
        """Charge for a string or collection that was just built, and pass it on."""
        if isinstance(value, (str, bytes, list, tuple, dict)):
            self.charge(len(value))
        return value


def check_shown(values: Iterable[Any], budget: Budget) -> None:
    """Size of all `values` written out, before anything writes one.

    A list that holds the same list twice, and that one again, is small in memory and endless on
    paper. Each container is measured once, however often it occurs.
    """
    measured: dict[int, int] = {}
    for value in values:
        if isinstance(value, (list, tuple, dict, set, frozenset)):
            budget.charge(_shown_size(value, measured))


def _shown_size(value: Any, measured: dict[int, int]) -> int:
    """Characters of `value` written out, no fewer than half. Raises TemplateTooLargeError early."""
    if isinstance(value, str):
        return len(value) + 2
    if not isinstance(value, (list, tuple, dict, set, frozenset)):
        return 4
    known = measured.get(id(value))
    if known is not None:
        return known
    size = 2
    for item in value:
        size += 2 + _shown_size(item, measured)
        if isinstance(value, dict):
            size += 2 + _shown_size(value[item], measured)
        if size > MAX_OUTPUT_CHARACTERS:
            raise too_large()
    measured[id(value)] = size
    return size


def too_large() -> TemplateTooLargeError:
    """The error for a template that builds more than any conversation needs."""
    limit = MAX_OUTPUT_CHARACTERS // 2**20
    return TemplateTooLargeError(
        f"The template tried to write more than {limit} million characters."
    )


def check_width(width: Any) -> None:
    """Refuse paddings and precisions that no conversation needs."""
    if isinstance(width, (int, float)) and abs(width) > MAX_WIDTH:
        raise too_large()
    if isinstance(width, str) and len(width) > MAX_WIDTH:
        raise too_large()


def check_percent_format(pattern: Any) -> None:
    """Refuse `'%099999999d'` and `'%*d'`: one small string that pads to gigabytes."""
    if isinstance(pattern, (str, bytes)):
        text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
        if _WIDE_FORMAT.search(text):
            raise too_large()


def check_brace_format(pattern: str) -> None:
    """Refuse `'{:99999999}'` and widths that come from an argument, `'{:{}}'`."""
    if _WIDE_BRACES.search(pattern):
        raise too_large()


def check_product(left: Any, right: Any, budget: Budget) -> None:
    """Size of `left * right` before it is computed: repetition of a sequence, or a big integer."""
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, (str, bytes, list, tuple)) and isinstance(times, int):
            budget.charge(len(sequence) * max(times, 0))
            if not isinstance(sequence, (str, bytes)) and len(sequence) * times > MAX_LIST_ITEMS:
                raise too_large()
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())


def check_power(base: Any, exponent: Any) -> None:
    """Size of `base ** exponent` before it is computed."""
    if isinstance(base, int) and isinstance(exponent, int):
        _check_bits(base.bit_length() * max(exponent, 0))


def check_sum(left: Any, right: Any, budget: Budget) -> None:
    """Size of `left + right` where both are sequences."""
    sequences = (str, bytes, list, tuple)
    if isinstance(left, sequences) and isinstance(right, sequences):
        total = len(left) + len(right)
        budget.charge(total)
        if not isinstance(left, (str, bytes)) and total > MAX_LIST_ITEMS:
            raise too_large()


def checked_join(pieces: Iterable[Any], separator: str, budget: Budget) -> list[Any]:
    """The pieces as a list, once their joint length is known to be allowed."""
    listed = []
    for piece in pieces:
        listed.append(piece)
        budget.charge(len(separator) + (len(piece) if isinstance(piece, str) else 1))
    budget.charge(sum(len(piece) for piece in listed if isinstance(piece, str)))
    return listed


def check_replace(text: str, old: str, new: str, budget: Budget) -> None:
    """Size of `text.replace(old, new)` before it is computed."""
    budget.charge(len(text) + text.count(old) * len(new))


def _check_bits(bits: int) -> None:
    if bits > MAX_INTEGER_BITS:
        raise TemplateError("The template computes with numbers that are far too large.")


def check_text_method(text: str, name: str, args: tuple[Any, ...], budget: Budget) -> None:
    """Check a call of `text.name(*args)`; unknown methods cost the length of their text."""
    check = _TEXT_METHODS.get(name)
    if check is not None:
        check(text, args, budget)
    else:
        budget.charge(len(text))


def _check_padding(text: str, args: tuple[Any, ...], budget: Budget) -> None:
    check_width(args[0] if args else 0)
    budget.charge(len(text))


def _check_replace_call(text: str, args: tuple[Any, ...], budget: Budget) -> None:
    if len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
        check_replace(text, args[0], args[1], budget)


def _check_tabs(text: str, args: tuple[Any, ...], budget: Budget) -> None:
    size = args[0] if args else 8
    check_width(size)
    if isinstance(size, int):
        budget.charge(len(text) + text.count("\t") * max(size, 0))


def _refuse(text: str, args: tuple[Any, ...], budget: Budget) -> None:
    raise TemplateError("The template uses a text operation that Waymark doesn't allow.")


_TEXT_METHODS: Mapping[str, Callable[[str, tuple[Any, ...], Budget], None]] = {
    "ljust": _check_padding,
    "rjust": _check_padding,
    "center": _check_padding,
    "zfill": _check_padding,
    "expandtabs": _check_tabs,
    "replace": _check_replace_call,
    # One character can stand for a whole page in its table.
    "translate": _refuse,
    "maketrans": _refuse,
}
