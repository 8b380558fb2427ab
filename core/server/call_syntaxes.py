"""The syntaxes of tool calls: from a call's text, also an unfinished one, to calls."""

from __future__ import annotations

import ast
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from core.api.chat import ToolCall
from core.api.json_text import parse_json
from core.api.reply_format import ARGUMENTS_MARK, ID_MARK, SHORT_ID, TEXT_MARK, ToolSyntax

Schemas = Mapping[str, Mapping[str, Any]]


class Syntax(NamedTuple):
    """`opening` are a call's first characters after its mark. `read` returns a text's calls, none
    if it is malformed, None if it ends within an argument. `closed` ends an unfinished call after
    its last complete argument; "" before the arguments. `listed`: calls are items of a list."""

    opening: str
    read: Callable[[str, Schemas], list[ToolCall] | None]
    closed: Callable[[str], str]
    listed: bool = False


def new_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _call(name: object, arguments: object, call_id: object = None) -> ToolCall | None:
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    try:
        known = isinstance(call_id, str) and re.fullmatch(SHORT_ID, call_id)
        return ToolCall(
            name=name, arguments=written(arguments), id=str(call_id) if known else new_id()
        )
    except ValueError:
        return None


def written(arguments: dict[Any, Any]) -> str:
    """Raises ValueError for NaN, and for a number that is too long to be written."""
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    # Python's strings may have the halves of a surrogate pair as two characters.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# ------------------------------------------------------------------ calls that are being written

_CLOSING = {"(": ")", "[": "]", "{": "}"}
# Python's with three quotes come first; JSON has none.
_TRIPLE = "|".join(rf"{each}(?:\\.|[^\\])*?(?:{each}|\Z)" for each in ('"""', "'''"))
_STRING = rf"""{_TRIPLE}|"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?"""
_MARK = re.escape(TEXT_MARK)
# Strings, in which brackets and commas mean nothing, and these.
_STEP = re.compile(rf"{_STRING}|[\[\](){{}},]", re.DOTALL)
_MARKED_STEP = re.compile(rf"{_MARK}.*?(?:{_MARK}|\Z)|[\[\]{{}},]", re.DOTALL)


def _closed(text: str, steps: re.Pattern[str] = _STEP, opening: str = "{") -> str:
    """The arguments begin with the last bracket of `opening`."""
    brackets, depth, end = list[str](), 0, 0
    for found in steps.finditer(text):
        step = found[0]
        if step in _CLOSING:
            brackets.append(step)
            if step == opening[0] and not depth and brackets.count(step) == len(opening):
                depth, end = len(brackets), found.end()
        elif depth and len(brackets) == depth and step in ",)]}":
            # A number may go on, but not after one of these.
            end = found.start()
            if step != ",":
                break
        elif brackets and step == _CLOSING[brackets[-1]]:
            brackets.pop()
    closing = reversed(brackets[:depth])
    return text[:end] + "".join(_CLOSING[each] for each in closing) if depth else ""


def first_item_end(text: str) -> int:
    """The place of the comma after a list's first item; 0 if there is none yet."""
    depth = 0
    for found in _STEP.finditer(text) if text.lstrip().startswith("[") else ():
        if found[0] == "," and depth == 1:
            return found.start()
        depth += (found[0] in _CLOSING) - (found[0] in _CLOSING.values())
    return 0


# ------------------------------------------------------------------ JSON


def _of_json(text: str, _schemas: Schemas) -> list[ToolCall] | None:
    try:
        value = parse_json(text.encode("utf-8", "replace"))
    except json.JSONDecodeError as error:
        return None if error.msg.startswith("Unterminated string") else []
    except ValueError:
        return []
    items = value if isinstance(value, list) else [value]
    objects = [each for each in items if isinstance(each, dict)]
    calls = [
        _call(each.get("name"), each.get("arguments", each.get("parameters", {})))
        for each in objects
    ]
    found = [each for each in calls if each is not None]
    return found if len(found) == len(items) else []


def _of_bare(text: str, schemas: Schemas) -> list[ToolCall]:
    """Any object but a call of a known function is an answer in JSON."""
    calls = _of_json(text, schemas) or ()
    return [each for each in calls if each.name in schemas]


def _of_named(text: str, _schemas: Schemas, mark: str = "<|message|>") -> list[ToolCall] | None:
    """A function's name, perhaps an id, and the arguments after the mark."""
    head, _, arguments = text.partition(mark)
    name, _, call_id = head.partition(ID_MARK)
    try:
        call = _call(name, parse_json(arguments.encode("utf-8", "replace")), call_id)
    except json.JSONDecodeError as error:
        return None if error.msg.startswith("Unterminated string") else []
    except ValueError:
        return []
    return [call] if call is not None else []


# ------------------------------------------------------------------ tags

_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>")
_PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>\n?")
_FUNCTION_END = "</function>"
# A value may have the tag that ends it: only these follow the one that does.
_NEXT = r"</parameter>(?=\s*<parameter=[^>\n]+>)"
_ENDED = re.compile(rf"{_NEXT}|</parameter>(?=\s*</function>\s*\Z)")
# The call before has no end.
_ANOTHER = re.compile(r"</tool_call>\s*<tool_call>\s*<function=")
_PYTHON_WORDS = {"True": True, "False": False, "None": None}


def _of_tags(text: str, schemas: Schemas) -> list[ToolCall] | None:
    head = _FUNCTION.match(text)
    if head is None or _ANOTHER.search(text):
        return []
    name, at, arguments = head[1].strip(), head.end(), dict[str, object]()
    known = schemas.get(name, {})
    while (begun := _PARAMETER.match(text, at)) is not None:
        ended = _ENDED.search(text, begun.end())
        if ended is None:
            return None
        value = text[begun.end() : ended.start()].removesuffix("\n")
        arguments.setdefault(begun[1], _typed(value, known.get(begun[1])))
        at = ended.end()
    call = _call(name, arguments) if text[at:].strip() == _FUNCTION_END else None
    return [call] if call is not None else []


def _closed_tags(text: str) -> str:
    head = _FUNCTION.match(text)
    if head is None:
        return ""
    ends = [head.end(), *(found.end() for found in re.finditer(_NEXT, text))]
    return text[: ends[-1]] + _FUNCTION_END


def _typed(text: str, schema: object) -> object:
    """A parameter's text as its schema has it, by default as text."""
    kinds = _kinds(schema)
    if kinds == {"string"}:
        return text
    try:
        value = parse_json(text.strip().encode("utf-8", "replace"))
    except ValueError:
        value = _PYTHON_WORDS.get(text.strip(), text)
    return text if "string" in kinds and not kinds & _kinds_of(value) else value


def _kinds(schema: object) -> set[str]:
    """Empty if the schema leaves its types open."""
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


# ------------------------------------------------------------------ Python

_LETTER = r"""[^\s\[\](){},="']"""
# A string, or a name that a "=" or "(" follows. A word that is none is looked at once.
_NAMED = re.compile(rf"{_STRING}|(?<!{_LETTER})({_LETTER}++)(?=\s*[=(])", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}


def _of_python(text: str, _schemas: Schemas) -> list[ToolCall] | None:
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
        unfinished = unfinished and error.lineno == source.count("\n") + 1
        return None if unfinished or error.msg.startswith("unterminated triple") else []
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


# ------------------------------------------------------------------ marked texts

_HEAD = re.compile(r"\s*call:([^\s{]+)\s*(?=\{)")
_NAME = re.compile(r"\s*([^\s:{}\[\],][^:{}\[\],]*):")
_WORD = re.compile(r"\s*([^\s,{}\[\]]+)")


def _of_marked(text: str, _schemas: Schemas) -> list[ToolCall] | None:
    try:
        call = _call(*_read_marked(text))
    except EOFError:
        return None
    except (ValueError, RecursionError):
        return []
    return [call] if call is not None else []


def _read_marked(text: str) -> tuple[str, object]:
    """Raises EOFError if the text ends within a marked one, ValueError and RecursionError if it is
    malformed."""
    head = _HEAD.match(text)
    if head is None:
        raise ValueError("no call")
    values = _Values(text, head.end())
    arguments = values.read()
    if text[values.at :].strip():
        raise ValueError("more than a call")
    return head[1], arguments


class _Values:
    """Reads values from `at` on. Raises as `_read_marked`."""

    def __init__(self, text: str, at: int) -> None:
        self._text, self.at = text, at

    def read(self) -> object:
        if self._takes(TEXT_MARK):
            return self._rest_of_text()
        if self._takes("{"):
            return dict(self._items("}", self._member))
        if self._takes("["):
            return list(self._items("]", self.read))
        word = self._match(_WORD)
        return _PYTHON_WORDS[word] if word in _PYTHON_WORDS else parse_json(word.encode())

    def _items(self, end: str, item: Callable[[], Any]) -> Iterator[Any]:
        if self._takes(end):
            return
        while True:
            yield item()
            if self._takes(end):
                return
            if not self._takes(","):
                raise ValueError("no comma between items")

    def _member(self) -> tuple[str, object]:
        if not self._takes(TEXT_MARK):
            return self._match(_NAME), self.read()
        name = self._rest_of_text()
        if not self._takes(":"):
            raise ValueError("a name without a value")
        return name, self.read()

    def _rest_of_text(self) -> str:
        start, end = self.at, self._text.find(TEXT_MARK, self.at)
        if end < 0:
            raise EOFError
        self.at = end + len(TEXT_MARK)
        return self._text[start:end]

    def _takes(self, part: str) -> bool:
        start = self.at
        while self._text[start : start + 1].isspace():
            start += 1
        found = self._text.startswith(part, start)
        self.at = start + len(part) if found else self.at
        return found

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self.at)
        if found is None:
            raise ValueError("no value")
        self.at = found.end()
        return found[1]


SYNTAXES: dict[ToolSyntax, Syntax] = {
    "hermes": Syntax("{", _of_json, partial(_closed, opening="{{")),
    "xml": Syntax("<function=", _of_tags, _closed_tags),
    "lfm2": Syntax("", _of_python, partial(_closed, opening="("), listed=True),
    "llama3": Syntax("{", _of_bare, partial(_closed, opening="{{")),
    "gemma4": Syntax("call:", _of_marked, partial(_closed, steps=_MARKED_STEP)),
    "harmony": Syntax("", _of_named, _closed),
    "mistral": Syntax("", partial(_of_named, mark=ARGUMENTS_MARK), _closed),
    "mistral_ids": Syntax("", partial(_of_named, mark=ARGUMENTS_MARK), _closed),
    "mistral_list": Syntax("[", _of_json, partial(_closed, opening="{{"), listed=True),
}
