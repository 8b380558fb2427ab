"""Tool calls in a reply's text as it arrives: what is said, and each call argument by argument.

What looks like a call and can't be read is text, so that nothing is lost.
"""

from __future__ import annotations

import ast
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from core.api.chat import Tool, ToolCall
from core.api.json_text import parse_json
from core.api.reply_format import MARKS, ToolSyntax
from core.server.marked_calls import PYTHON_WORDS, read_marked


class CallPart(NamedTuple):
    """A call that is being written: its `arguments` are JSON up to the last one that is complete,
    with which those of the whole call begin."""

    call: ToolCall


Piece = str | CallPart | ToolCall
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
_DECODER = json.JSONDecoder()
_JSON_STRING = r'("(?:[^"\\]|\\.)*+")'
_JSON_HEAD = re.compile(
    rf'\s*\{{\s*"name"\s*:\s*{_JSON_STRING}\s*,\s*"(?:arguments|parameters)"\s*:\s*\{{'
)
_JSON_KEY = re.compile(rf"\s*,?\s*{_JSON_STRING}\s*:\s*")
# A number may go on.
_JSON_NEXT = re.compile(r"\s*[,}]")


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
        # The end of the last text that was said, and of what was looked at, in all of the text.
        self.said_to = self._num_taken = 0
        # No end is before this place of a call.
        self._searched = 0
        self._so_far = _SO_FAR.get(syntax)
        # What was told of a call, and the length of text from which it is looked at again.
        self._told: ToolCall | None = None
        self._look_at = 0
        self._bare = syntax == "llama3"

    def push(self, text: str) -> Iterator[Piece]:
        self._held += text
        while self._held:
            if self._bare:
                if not self._held.strip() or self._held.lstrip()[0] == "{":
                    yield from self._tell(self._held)
                    return
                self._bare = False
            if self._inside:
                pieces = self._complete()
                if pieces is None:
                    yield from self._tell(self._held[len(self._begin) :])
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
        rest = self._take(len(self._held))
        if self._bare and (calls := self._parse(rest, self._schemas)):
            yield from self._as_told(calls)
        elif (text := self._blank + rest) and (not self._after_call or text.strip()):
            self.said_to = self._num_taken
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
                return [*self._as_told(calls)]
            if calls is not None:
                return self._give_up(self._held.find(self._end, start) + len(self._end))
            end = self._held.find(self._end, end + 1)
        self._searched = max(start, len(self._held) - len(self._end) + 1)
        return None

    def _tell(self, text: str) -> Iterator[CallPart]:
        if self._so_far is None or len(self._held) < self._look_at:
            return
        # A long argument isn't read again for each of its tokens.
        self._look_at = len(self._held) * 17 // 16 + 1
        found = self._so_far(text, self._schemas)
        if found is None or found[0] not in self._schemas:
            return
        name, arguments = found
        try:
            written = _written(arguments).removesuffix("}") if arguments else ""
        except ValueError:
            return
        told = self._told
        if told is None or written != told.arguments:
            call_id = new_id() if told is None else told.id
            self._told = ToolCall(name=name, arguments=written, id=call_id)
            yield CallPart(self._told)

    def _as_told(self, calls: Sequence[ToolCall]) -> Iterator[ToolCall]:
        """The calls, of which the first may have been told in part."""
        first, told = calls[0], self._told
        self._told, self._look_at = None, 0
        if told is not None:
            arguments = first.arguments
            if not arguments.startswith(told.arguments):
                # An argument came twice; the first one was told.
                known = json.loads(f"{told.arguments}}}")
                arguments = _written({**known, **json.loads(arguments), **known})
            # Of a name that came twice, too.
            update = {"id": told.id, "name": told.name, "arguments": arguments}
            first = first.model_copy(update=update)
        yield first
        yield from calls[1:]

    def _may_begin(self, text: str) -> bool:
        return text.startswith(self._opening) or self._opening.startswith(text)

    def _give_up(self, length: int) -> list[Piece]:
        self._inside, self._told, self._look_at = False, None, 0
        return [*self._say(self._take(length))]

    def _say(self, text: str) -> Iterator[str]:
        if self._after_call:
            text = text.lstrip()
        shown = text.rstrip()
        if shown:
            self._after_call = False
            self.said_to = self._num_taken - len(text) + len(shown)
            yield self._blank + shown
            self._blank = text[len(shown) :]
        else:
            self._blank += text

    def _take(self, length: int) -> str:
        taken, self._held = self._held[:length], self._held[length:]
        self._num_taken += len(taken)
        return taken

    def _possible_start(self) -> int:
        sizes = range(min(len(self._begin) - 1, len(self._held)), 0, -1)
        return next((size for size in sizes if self._begin.startswith(self._held[-size:])), 0)


_Schemas = Mapping[str, Mapping[str, Any]]
_SoFar = tuple[str, dict[str, object]]


def new_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _call(name: object, arguments: object) -> ToolCall | None:
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    try:
        return ToolCall(name=name, arguments=_written(arguments), id=new_id())
    except ValueError:
        return None


def _written(arguments: dict[Any, Any]) -> str:
    """Raises ValueError: JSON has no NaN, and a number may be too long to be written."""
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    # Python's strings may have the halves of a surrogate pair as two characters.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


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


def _json_so_far(text: str, _schemas: _Schemas) -> _SoFar | None:
    head = _JSON_HEAD.match(text)
    if head is None:
        return None
    name, at, arguments = "", head.end(), dict[str, object]()
    try:
        name = json.loads(head[1])
        while (key := _JSON_KEY.match(text, at)) is not None:
            value, at = _DECODER.raw_decode(text, key.end())
            if _JSON_NEXT.match(text, at) is None:
                break
            arguments.setdefault(json.loads(key[1]), value)
    except (ValueError, RecursionError):
        # The last one isn't complete.
        pass
    return name, arguments


def _of_tags(text: str, schemas: _Schemas) -> list[ToolCall] | None:
    found = _tags(text, schemas)
    if found is None:
        return []
    name, arguments, rest = found
    if _PARAMETER.match(rest) is not None:
        return None
    call = _call(name, arguments) if rest.strip() == "</function>" else None
    return [call] if call is not None else []


def _tags_so_far(text: str, schemas: _Schemas) -> _SoFar | None:
    found = _tags(text, schemas)
    return None if found is None else found[:2]


def _tags(text: str, schemas: _Schemas) -> tuple[str, dict[str, object], str] | None:
    """The name, the parameters that are complete, and the text after them."""
    head = _FUNCTION.match(text)
    if head is None:
        return None
    name, at, arguments = head[1].strip(), head.end(), dict[str, object]()
    known = schemas.get(name, {})
    while (begun := _PARAMETER.match(text, at)) is not None:
        end = text.find(_PARAMETER_END, begun.end())
        if end < 0:
            break
        value = text[begun.end() : end].removesuffix("\n")
        arguments.setdefault(begun[1], _typed(value, known.get(begun[1])))
        at = end + len(_PARAMETER_END)
    return name, arguments, text[at:]


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
    """None if the schema leaves its types open."""
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
    except (TypeError, ValueError, RecursionError, MemoryError):
        # A TypeError is a set's, of values that have no hash.
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
# The name and the complete arguments of a call that is being written.
_SO_FAR: dict[ToolSyntax, Callable[[str, _Schemas], _SoFar | None]] = {
    "hermes": _json_so_far,
    "xml": _tags_so_far,
    "llama3": _json_so_far,
}


def _properties(tool: Tool) -> Mapping[str, Any]:
    function = json.loads(tool.definition).get("function", {})
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return properties if isinstance(properties, dict) else {}
