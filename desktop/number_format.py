"""Writes and reads numbers in the user's locale."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

from PySide6.QtCore import QLocale

# Spaces that group digits, and characters that stand for a minus or an apostrophe.
_SAME = str.maketrans(
    {
        "\N{NO-BREAK SPACE}": " ",
        "\N{NARROW NO-BREAK SPACE}": " ",
        "\N{THIN SPACE}": " ",
        "\N{MINUS SIGN}": "-",
        "\N{RIGHT SINGLE QUOTATION MARK}": "'",
        # Some locales put these invisible marks around a sign.
        "\N{LEFT-TO-RIGHT MARK}": None,
        "\N{RIGHT-TO-LEFT MARK}": None,
        "\N{ARABIC LETTER MARK}": None,
    }
)
_SEPARATORS = ".,' \N{ARABIC DECIMAL SEPARATOR}\N{ARABIC THOUSANDS SEPARATOR}"
_NUMBER_LIKE = re.compile(rf"-?[0-9{re.escape(_SEPARATORS)}]*")


class NotANumberError(ValueError): ...


class UnclearNumberError(NotANumberError):
    """Separators are out of place in this locale."""


def locale() -> QLocale:
    """Digits are grouped in the C locale too."""
    found = QLocale()
    if found.language() == QLocale.Language.C:
        found.setNumberOptions(QLocale.NumberOption.DefaultNumberOptions)
    return found


def number(value: float, decimals: int | None = None) -> str:
    """By default with as many decimals as it needs."""
    if decimals is None:
        exact = f"{Decimal(repr(value)).normalize():f}"
        decimals = len(exact.partition(".")[2])
        if not decimals and abs(value) < 2**63:
            return locale().toString(int(value))
    return locale().toString(round(float(value), decimals), "f", decimals)


def parse_number(text: str) -> Decimal:
    """Raises UnclearNumberError ('0,7' if a comma groups thousands) or NotANumberError; exponents
    are no numbers."""
    plain = _plain(text.strip())
    used = locale()
    digits, point, fraction = plain.removeprefix("-").partition(_plain(used.decimalPoint()))
    joined = _joined(digits, _plain(used.groupSeparator()))
    if joined is not None and (not point or re.fullmatch("[0-9]*", fraction)) and joined + fraction:
        sign = "-" if plain.startswith("-") else ""
        return Decimal(f"{sign}{joined or 0}.{fraction or 0}")
    if re.search("[0-9]", plain) and _NUMBER_LIKE.fullmatch(plain):
        raise UnclearNumberError(text)
    raise NotANumberError(text)


def whole_number(value: Decimal) -> int:
    """Raises NotANumberError for a fraction."""
    if value != value.to_integral_value():
        raise NotANumberError(str(value))
    return int(value)


def _joined(digits: str, group: str) -> str | None:
    """None if separators are out of place."""
    for separator in (group, " "):
        joined = digits.replace(separator, "")
        if not re.fullmatch("[0-9]*", joined):
            continue
        regular = re.fullmatch(rf"[0-9]{{1,3}}({re.escape(separator)}[0-9]{{3}})+", digits)
        if joined == digits or regular:
            return joined
        # India groups by two.
        if _plain(locale().toString(int(joined))) == digits.replace(separator, group):
            return joined
    return None


def _plain(text: str) -> str:
    """ASCII digits, spaces, apostrophes and minus signs."""
    return "".join(
        str(unicodedata.decimal(each)) if each.isdecimal() else each
        for each in text.translate(_SAME)
    )
