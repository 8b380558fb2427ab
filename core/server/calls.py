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
from core.server.marked_calls import PYTHON_WORDS, read_marked

Piece = str | ToolCall
_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>")
_PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>\n?")
_PARAMETER_END = "</parameter>"
# A string of Python's, or a name that a "=" or "(" follows.
_NAMED = re.compile(
    r""""(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|([^\s\[\](){},="']+)(?=\s*[=(])""", re.DOTALL
)
_WORDS = {"true": True, "false": False, "null": None}
# The first characters of a call; anything else after the mark says at once that it is none.
_OPENINGS: dict[ToolSyntax, str] = {
    "hermes": "{", "xml": "<function=", "lfm2": "", "llama3": "{", "gemma4": "call:",
    "harmony": "",
}  # fmt: skip
_MOST_BLANKS = 64


class CallReader:
    """Reads one reply. Whitespace next to a call belongs to no text."""

    def __init__(self, syntax: ToolSyntax, tools: Sequence[Tool]) -> None:
        self._begin, self._end = MARKS[syntax]
        self._opening = _OPENINGS[syntax]
        self._parse = _PARSERS[syntax]
        self._schemas = {tool.name: _properties(tool) for tool in tools}
        # Text that may still become a call, and whitespace that may precede one.
        self._held = ""
        self._blank = ""
        self._after_call = self._inside = False
        # No end is before this place of a call.
        self._searched = 0
        self._bare = syntax == "llama3"

    def push(self, text: str) -> Iterator[Piece]:
        self._held += text
        while self._held:
            if self._bare:
                if not self._held.strip() or self._held.lstrip()[0] == "{":
                    return
                self._bare = False
            if self._inside:
                pieces = self._complete()
                if pieces is None:
                    return
                yield from pieces
                continue
            at = self._held.find(self._begin) if self._begin else -1
            if at < 0:
                yield from self._say(self._take(len(self._held) - self._possible_start()))
                return
            yield from self._say(self._take(at))
            self._inside, self._searched = True, 0

    def close(self) -> Iterator[Piece]:
        rest, self._held = self._held, ""
        if self._bare and (calls := self._parse(rest, self._schemas)):
            yield from calls
        elif (text := self._blank + rest) and (not self._after_call or text.strip()):
            yield text.lstrip() if self._after_call else text

    def _complete(self) -> list[Piece] | None:
        """The calls up to a mark that ends them, or the text that is none; None while it may become
        a call. A mark may also be in an argument."""
        start = len(self._begin)
        if not self._may_begin(self._held[start : start + _MOST_BLANKS].lstrip()):
            return self._give_up(start)
        end = self._held.find(self._end, max(start, self._searched))
        while end >= 0:
            calls = self._parse(self._held[start:end], self._schemas)
            if calls:
                self._take(end + len(self._end))
                self._inside, self._after_call, self._blank = False, True, ""
                return [*calls]
            if calls is not None:
                return self._give_up(self._held.find(self._end, start) + len(self._end))
            end = self._held.find(self._end, end + 1)
        self._searched = max(start, len(self._held) - len(self._end) + 1)
        return None

    def _may_begin(self, text: str) -> bool:
        return text.startswith(self._opening) or self._opening.startswith(text)

    def _give_up(self, length: int) -> list[Piece]:
        self._inside = False
        return [*self._say(self._take(length))]

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
    try:
        # JSON has no NaN, and a number may be too long to be written.
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return None
    # Python's strings may have the halves of a surrogate pair as two characters.
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return ToolCall(name=name, arguments=whole, id=new_id())


def _of_json(text: str, _schemas: _Schemas) -> list[ToolCall] | None:
    try:
        value = parse_json(text.encode("utf-8", "replace"))
    except json.JSONDecodeError as error:
        return None if error.msg.startswith("Unterminated string") else []
    except ValueError:
        return []
    if not isinstance(value, dict):
        return []
    arguments = value.get("arguments", value.get("parameters", {}))
    found = _call(value.get("name"), arguments)
    return [found] if found is not None else []


def _of_tags(text: str, schemas: _Schemas) -> list[ToolCall] | None:
    head = _FUNCTION.match(text)
    if head is None:
        return []
    name, at, arguments = head[1].strip(), head.end(), dict[str, object]()
    known = schemas.get(name, {})
    while (begun := _PARAMETER.match(text, at)) is not None:
        end = text.find(_PARAMETER_END, begun.end())
        if end < 0:
            return None
        value = text[begun.end() : end].removesuffix("\n")
        arguments[begun[1]] = _typed(value, known.get(begun[1]))
        at = end + len(_PARAMETER_END)
    call = _call(name, arguments) if text[at:].strip() == "</function>" else None
    return [call] if call is not None else []


def _typed(text: str, schema: object) -> object:
    """A parameter's text as its schema has it; text unless that is something else."""
    kinds = _kinds(schema)
    if kinds == {"string"}:
        return text
    try:
        value = parse_json(text.strip().encode("utf-8", "replace"))
    except ValueError:
        value = PYTHON_WORDS.get(text.strip(), text)
    return text if "string" in kinds and not kinds & _kinds_of(value) else value


def _kinds(schema: object) -> set[str]:
    """The types that a schema names; none if it leaves them open."""
    if not isinstance(schema, dict):
        return {"string"}
    named = schema.get("type")
    found = {named} if isinstance(named, str) else set[str]()
    found |= {each for each in named if isinstance(each, str)} if isinstance(named, list) else set()
    for name in ("anyOf", "oneOf"):
        among = schema.get(name)
        kinds = [_kinds(each) for each in among] if isinstance(among, list) else []
        found |= set().union(*kinds) if all(kinds) else set()
    if not found and isinstance(choices := schema.get("enum"), list):
        found = set().union(*map(_kinds_of, choices))
    return found


def _kinds_of(value: object) -> set[str]:
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"number"}
        case str():
            return {"string"}
    return {"array"} if isinstance(value, list) else {"object"}


def _of_python(text: str, _schemas: _Schemas) -> list[ToolCall] | None:
    """A list of calls with literals as named arguments, whose names need not be Python's."""
    names, source = list[str](), text.strip()

    def numbered(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        names.append(found[1])
        return f"_{len(names) - 1}"

    try:
        tree = ast.parse(_NAMED.sub(numbered, source), mode="eval").body
        return [_python_call(each, names) for each in getattr(tree, "elts", [tree])]
    except SyntaxError as error:
        unfinished = error.msg.startswith("unterminated string")
        return None if unfinished and error.lineno == source.count("\n") + 1 else []
    except (ValueError, RecursionError, MemoryError):
        return []


def _python_call(node: ast.expr, names: Sequence[str]) -> ToolCall:
    if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name):
        raise ValueError("not a call with named arguments")
    arguments = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("an argument without a name")
        arguments[names[int(keyword.arg[1:])]] = _literal(keyword.value)
    call = _call(names[int(node.func.id[1:])], arguments)
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


def _of_marked(text: str, _schemas: _Schemas) -> list[ToolCall] | None:
    try:
        call = _call(*read_marked(text))
    except EOFError:
        return None
    except (ValueError, RecursionError):
        return []
    return [call] if call is not None else []


def _of_message(text: str, _schemas: _Schemas) -> list[ToolCall] | None:
    """A function's name, and its arguments as a message."""
    name, _, written = text.partition("<|message|>")
    try:
        call = _call(name, parse_json(written.encode("utf-8", "replace")))
    except json.JSONDecodeError as error:
        return None if error.msg.startswith("Unterminated string") else []
    except ValueError:
        return []
    return [call] if call is not None else []


def _of_bare(text: str, schemas: _Schemas) -> list[ToolCall]:
    """Only calls of known functions: any other object is an answer in JSON."""
    calls = _of_json(text, schemas) or ()
    return [each for each in calls if each.name in schemas]


# The calls in a text, none if it is malformed; None if it ends within an argument.
_PARSERS: dict[ToolSyntax, Callable[[str, _Schemas], list[ToolCall] | None]] = {
    "hermes": _of_json,
    "xml": _of_tags,
    "lfm2": _of_python,
    "llama3": _of_bare,
    "gemma4": _of_marked,
    "harmony": _of_message,
}


def _properties(tool: Tool) -> Mapping[str, Any]:
    function = json.loads(tool.definition).get("function", {})
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return properties if isinstance(properties, dict) else {}
