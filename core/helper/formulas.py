"""Tasks on formulas: LaTeX to SVG of paths alone.

Formulas that the libraries don't know entirely are refused: they would draw a part, or a command's
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any
from xml.etree import ElementTree

from latex2mathml import commands
from latex2mathml.symbols_parser import SYMBOLS
from ziamath.config import config
from ziamath.zmath import Latex

from core.client.codec import Fields

# Shapes where they are used: Qt draws no symbols.
config.svg2 = False
# The size of the letters in an SVG; the window scales it.
EM = 16.0
LONGEST = 2_000
DEEPEST = 40
ENVIRONMENTS = frozenset(
    """
    matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix smallmatrix array cases align align* aligned
    alignat alignat* alignedat gather gather* gathered split equation equation* multline multline*
    """.split()
)
# Macros, addresses, styles, and what would be drawn in part.
REFUSED = frozenset(
    r"""
    \newcommand \newenvironment \renewcommand \def \DeclareMathOperator \href \class \style \verb
    \mathchoice \require \label \ref \mathop \hline \hdashline \not
    """.split()
)
# Commands that the libraries lack, or number lines for.
_REPLACED = {
    r"\nonumber": "",
    r"\notag": "",
    r"\bm": r"\boldsymbol",
    r"\bmod": r"\;\text{mod}\;",
    r"\argmax": r"\operatorname{argmax}",
    r"\argmin": r"\operatorname{argmin}",
    r"\implies": r"\Longrightarrow",
    r"\impliedby": r"\Longleftarrow",
    r"\iff": r"\Longleftrightarrow",
    r"\lbrack": "[",
    r"\rbrack": "]",
}
_COMMAND = re.compile(r"\\([A-Za-z]+\*?|.)", re.DOTALL)
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{([^{}]*)\}")
_TEXT = re.compile(r"(\\(?:text\w*|mbox|tag\*?)\s*)\{([^{}]*)\}")
_TAG = re.compile(r"\\tag\*?\s*\{([^{}]*)\}")
_NAMED_OPERATOR = re.compile(
    r"\\(?:mathop\s*\{\s*\\(?:mathrm|text|rm)|operatorname(\*?))\s*\{([^{}]*)\}\s*(\})?"
)
_NUMBERED = re.compile(r"\\(begin|end)\{(align|alignat|gather|multline|equation)\}")
_NEGATED = {r"\not=": r"\ne ", r"\not\in": r"\notin ", r"\not\subset": r"\nsubset "}
_LINED = re.compile(r"\\begin\{array\}\s*(?:\[\w\])?\s*\{[^{}]*[|:!@>][^{}]*\}")
_SHAPES = {
    "path": ("d", "fill", "stroke", "stroke-width", "transform"),
    "rect": ("x", "y", "width", "height", "fill", "stroke", "stroke-width", "transform"),
    "line": ("x1", "y1", "x2", "y2", "stroke", "stroke-width", "transform"),
    "polyline": ("points", "fill", "stroke", "stroke-width", "transform"),
    "g": ("transform", "fill", "stroke"),
}
_VALUE = re.compile(r"[\w\s.,#()+-]*", re.ASCII)


class UnknownFormulaError(ValueError): ...


class FormulaTasks:
    def render(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        """A list of (source, is display) to (width, ascent, descent) in `EM`, or None, for each,
        and their SVGs between zeros."""
        sizes: list[tuple[float, float, float] | None] = []
        drawings: list[str] = []
        for source, display in fields["formulas"]:
            try:
                size, drawing = render(source, display)
            except Exception:
                sizes.append(None)
                continue
            sizes.append(size)
            drawings.append(drawing)
        return {"sizes": sizes}, "\0".join(drawings).encode()


def render(source: str, display: bool) -> tuple[tuple[float, float, float], str]:
    """Width, ascent and descent, and the SVG."""
    if len(source) > LONGEST:
        raise UnknownFormulaError("too long")
    source = _prepared(source)
    _check(source)
    drawn = Latex(source, size=EM, inline=not display)
    _check_letters(drawn)
    svg = drawn.svgxml()
    _left, top, width, height = map(float, svg.attrib["viewBox"].split())
    shapes = "".join(_drawn(child) for child in svg)
    if not shapes or not (0 < width < 1e5 and 0 < height < 1e5):
        raise UnknownFormulaError("nothing to see")
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="{svg.attrib["viewBox"]}">{shapes}</svg>'
    )
    return (width, -top, height + top), drawing


def _check(source: str) -> None:
    depth = deepest = 0
    open_ones: list[str] = []
    for found in re.finditer(
        r"\\begin\s*\{[^{}]*\}|\\end\s*\{[^{}]*\}|\\.|[{}]", source, re.DOTALL
    ):
        environment = _ENVIRONMENT.fullmatch(found[0])
        if environment:
            _nest(open_ones, *environment.groups())
        depth += (found[0] == "{") - (found[0] == "}")
        deepest = max(deepest, depth + len(open_ones))
        if depth < 0:
            raise UnknownFormulaError("unbalanced")
    if depth or open_ones or deepest > DEEPEST:
        raise UnknownFormulaError("unbalanced or nested too deeply")
    if _LINED.search(source) or any("$" in found[2] for found in _TEXT.finditer(source)):
        raise UnknownFormulaError("rules between columns, or a formula in text")
    for command in _COMMAND.finditer(_TEXT.sub("", source)):
        if command[0] in REFUSED or not (command[0] in KNOWN or command[0].rstrip("*") in KNOWN):
            raise UnknownFormulaError(command[0])


def _nest(open_ones: list[str], kind: str, name: str) -> None:
    if name not in ENVIRONMENTS:
        raise UnknownFormulaError(name)
    if kind == "begin":
        open_ones.append(name)
    elif not open_ones or open_ones.pop() != name:
        raise UnknownFormulaError(name)


def _prepared(source: str) -> str:
    source = _TAG.sub(r"\\qquad\\text{(\1)}", source)
    for command, plain in _NEGATED.items():
        source = source.replace(command, plain)
    source = _NAMED_OPERATOR.sub(_operator, source)
    source = _NUMBERED.sub(r"\\\1{\2*}", source)
    # The libraries write text into XML as it is.
    source = _TEXT.sub(lambda found: f"{found[1]}{{{_entities(found[2])}}}", source)
    return _COMMAND.sub(lambda found: _replacement(found[0]), source).strip()


def _operator(found: re.Match[str]) -> str:
    """`\\operatorname` with letters and spaces alone."""
    is_mathop = found[0].startswith(r"\mathop")
    # Else the brace belongs to what surrounds it.
    closing = "" if is_mathop else found[3] or ""
    star = "*" if found[1] or is_mathop else ""
    name = re.sub(r"\\[,;:! ]|~", " ", found[2])
    return rf"\operatorname{star}{{{name}}}{closing}"


def _replacement(command: str) -> str:
    other = _REPLACED.get(command)
    return command if other is None else f"{other} " if other[-1:].isalpha() else other


def _entities(text: str) -> str:
    plain = re.sub(r"\\([%#&_])", r"\1", text)
    return re.sub(r"[<>&]", lambda found: f"&#x{ord(found[0]):05X};", plain)


def _check_letters(drawn: Any) -> None:
    """Refuse what would be drawn as an empty box or a command's name."""
    for element in drawn.mathml.iter():
        for letter in (element.text or "").strip():
            if letter == "\\" or (not letter.isspace() and not _has_glyph(drawn.font, letter)):
                raise UnknownFormulaError(letter)


def _has_glyph(font: Any, letter: str) -> bool:
    # Invisible operators have no glyph.
    return "\u2061" <= letter <= "\u2064" or font.glyphindex(letter) != 0


def _drawn(element: ElementTree.Element) -> str:
    kind = element.tag.rpartition("}")[2]
    if kind not in _SHAPES:
        raise UnknownFormulaError(kind)
    attributes = ""
    for name, value in element.attrib.items():
        if name not in _SHAPES[kind] or not _VALUE.fullmatch(value):
            raise UnknownFormulaError(name)
        attributes += f' {name}="{escape(value)}"'
    inside = "".join(_drawn(child) for child in element)
    return f"<{kind}{attributes}>{inside}</{kind}>" if inside else f"<{kind}{attributes}/>"


def _names(value: object) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("\\"):
        yield value
    elif isinstance(value, tuple | list | set | frozenset | dict):
        for each in value:
            yield from _names(each)


KNOWN = (
    frozenset(name for value in vars(commands).values() for name in _names(value))
    | frozenset(SYMBOLS)
    | frozenset(_REPLACED)
    | frozenset(rf"\{each}" for each in "\\{}|,:;!> _%#$&\n")
) - {r"\hskip", r"\kern", r"\mkern"}
