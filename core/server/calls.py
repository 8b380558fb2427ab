"""Tool calls in a reply's text as it arrives: what is said, and each call when it is complete.

What looks like a call and can't be read is text, so that nothing is lost.
"""

from __future__ import annotations

import ast
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from core.api.chat import Tool, ToolCall
from core.api.json_text import parse_json
from core.api.tools import MARKS, ToolSyntax

Piece = str | ToolCall
_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}


class CallReader:
    """Reads one reply. Whitespace next to a call belongs to no text."""

    def __init__(self, syntax: ToolSyntax, tools: Sequence[Tool]) -> None:
        self._begin, self._end = MARKS[syntax]
        self._parse = _PARSERS[syntax]
        self._schemas = {tool.name: _properties(tool) for tool in tools}
        # Text that may still become a call, and whitespace that may precede one.
        self._held = ""
        self._blank = ""
        self._after_call = False
        self._inside = syntax == "llama3"
        self._bare = syntax == "llama3"

    def push(self, text: str) -> Iterator[Piece]:
        self._held += text
        while True:
            if self._bare:
                if not self._held.strip() or self._held.lstrip()[0] == "{":
                    return
                self._bare = self._inside = False
            if self._inside:
                calls = self._complete()
                if calls is None:
                    return
                yield from calls
                continue
            if not self._begin:
                yield from self._say(self._take(len(self._held)))
                return
            at = self._held.find(self._begin)
            if at < 0:
                yield from self._say(self._take(len(self._held) - self._possible_start()))
                return
            yield from self._say(self._take(at))
            self._inside = True

    def close(self) -> Iterator[Piece]:
        """The rest, once the reply has ended."""
        rest, self._held = self._held, ""
        if self._bare and (calls := self._parse(rest, self._schemas)):
            yield from calls
        elif (text := self._blank + rest) and (not self._after_call or text.strip()):
            yield text.lstrip() if self._after_call else text

    def _complete(self) -> list[ToolCall] | None:
        """The calls up to a mark that ends them; the first ones may be in their arguments."""
        start = len(self._begin)
        end = self._held.find(self._end, start)
        while end >= 0:
            calls = self._parse(self._held[start:end], self._schemas)
            if calls:
                self._take(end + len(self._end))
                self._inside, self._after_call, self._blank = False, True, ""
                return calls
            end = self._held.find(self._end, end + 1)
        return None

    def _say(self, text: str) -> Iterator[str]:
        if self._after_call:
            text = text.lstrip()
        shown = text.rstrip()
        if shown:
            self._after_call = False
            yield self._blank + shown
            self._blank = text[len(shown) :]
        else:
            self._blank += text

    def _take(self, length: int) -> str:
        taken, self._held = self._held[:length], self._held[length:]
        return taken

    def _possible_start(self) -> int:
        sizes = range(min(len(self._begin) - 1, len(self._held)), 0, -1)
        return next((size for size in sizes if self._begin.startswith(self._held[-size:])), 0)


_Schemas = Mapping[str, Mapping[str, Any]]


def new_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _call(name: object, arguments: object) -> ToolCall | None:
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    return ToolCall(name=name, arguments=json.dumps(arguments, ensure_ascii=False), id=new_id())


def _of_json(text: str, _schemas: _Schemas) -> list[ToolCall]:
    try:
        value = parse_json(text.encode("utf-8", "replace"))
    except ValueError:
        return []
    if not isinstance(value, dict):
        return []
    arguments = value.get("arguments", value.get("parameters", {}))
    found = _call(value.get("name"), arguments)
    return [found] if found is not None else []


def _of_tags(text: str, schemas: _Schemas) -> list[ToolCall]:
    found = _FUNCTION.fullmatch(text)
    if found is None:
        return []
    name = found[1].strip()
    known = schemas.get(name, {})
    arguments = {key: _typed(value, known.get(key)) for key, value in _PARAMETER.findall(found[2])}
    call = _call(name, arguments)
    return [call] if call is not None else []


def _typed(text: str, schema: object) -> object:
    """A parameter's text as its schema has it; text unless that is something else."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or kind == "string":
        return text
    try:
        return parse_json(text.strip().encode("utf-8", "replace"))
    except ValueError:
        return text


def _of_python(text: str, _schemas: _Schemas) -> list[ToolCall]:
    """A list of calls with literals as named arguments."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return [_python_call(each) for each in getattr(tree, "elts", [tree])]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _python_call(node: ast.expr) -> ToolCall:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("not a call with named arguments")
    arguments = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("an argument without a name")
        arguments[keyword.arg] = _literal(keyword.value)
    call = _call(ast.unparse(node.func), arguments)
    if call is None:
        raise ValueError("a call without a name")
    return call


def _literal(node: ast.expr) -> object:
    match node:
        case ast.Name(id=name) if name in _WORDS:
            return _WORDS[name]
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_literal(each) for each in parts]
        case ast.Dict(keys=keys, values=values):
            named = (_literal(key) for key in keys if key is not None)
            return {str(key): _literal(value) for key, value in zip(named, values, strict=True)}
    value = ast.literal_eval(node)
    if not isinstance(value, str | int | float | bool | None):
        raise ValueError("not a value of JSON")
    return value


def _of_bare(text: str, schemas: _Schemas) -> list[ToolCall]:
    """Only calls of known functions: any other object is an answer in JSON."""
    calls = _of_json(text, schemas)
    return [each for each in calls if each.name in schemas]


_PARSERS: dict[ToolSyntax, Callable[[str, _Schemas], list[ToolCall]]] = {
    "hermes": _of_json,
    "xml": _of_tags,
    "lfm2": _of_python,
    "llama3": _of_bare,
}


def _properties(tool: Tool) -> Mapping[str, Any]:
    function = json.loads(tool.definition).get("function", {})
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return properties if isinstance(properties, dict) else {}
