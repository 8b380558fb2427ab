"""A reply's format as a grammar for llguidance; a tool call keeps the model's own syntax."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from llguidance import LLMatcher

from core.api.json_text import parse_json
from core.api.reply_format import (
    INNER_MARKS,
    MARKS,
    SHORT_ID,
    CallFormat,
    FunctionFormat,
    ReplyFormat,
)

# A space, or a line end with an indent. Models often repeat unlimited blanks for ever.
BLANKS = r" |\n( {0,20}|\t{1,10})"
JSON_OPTIONS = {
    "whitespace_flexible": True,
    "whitespace_pattern": BLANKS,
    "lenient": False,
    "coerce_one_of": False,
}
# Most templates leave an empty line between a thought and the answer.
_AFTER_THOUGHT = "start: /\\n{0,2}/ form\nform: "


def grammar(
    form: ReplyFormat, after_thought: bool = False, control: Mapping[str, int] | None = None
) -> str:
    """`form` is one that `core.formats.check` has accepted.

    After a thought JSON may begin with the usual empty line. `control` are ids, by spelling, of
    tokens that tool calls may have around them.
    """
    if form.kind == "regex":
        return LLMatcher.grammar_from_regex(form.text)
    if form.kind == "lark":
        return LLMatcher.grammar_from_lark(form.text)
    if form.kind == "choice":
        return LLMatcher.grammar_from_lark("start: " + " | ".join(map(json.dumps, form.choices)))
    start = _AFTER_THOUGHT if after_thought else "start: "
    if form.kind == "calls":
        calls = CallFormat.model_validate_json(form.text)
        return LLMatcher.grammar_from_lark(call_grammar(calls, control or {}, start))
    schema = schema_of(form)
    settled = json.dumps(
        (schema if isinstance(schema, dict) else {}) | {"x-guidance": JSON_OPTIONS}
    )
    return LLMatcher.grammar_from_lark(f"{start}%json {settled}")


# A reply of gpt-oss is messages (core/text/channels.py): thoughts, and the last one.
_THOUGHT = """
thought: <|channel|> "analysis" <|message|> text <|end|> <|start|> "assistant"
text: /(?s:.*)/
"""
_FINAL = 'answer: <|channel|> "final" <|message|> @form'


def message_grammar(form: ReplyFormat, thinks: bool) -> str:
    start = "start: thought* answer" if thinks else "start: answer"
    if form.kind == "calls":
        functions = CallFormat.model_validate_json(form.text).functions
        calls = [_Writer(f"call_{at}", each, ()) for at, each in enumerate(functions)]
        rules = [f"answer: {' | '.join(f'call_{at}' for at in range(len(calls)))}"]
        rules += [rule for call in calls for rule in call.message()]
        return LLMatcher.grammar_from_lark(start + _THOUGHT + "\n".join(rules))
    inner = grammar(form)
    if not inner.startswith("{"):
        inner = json.dumps({"grammars": [{"lark_grammar": inner}]})
    (named,) = json.loads(inner)["grammars"]
    whole = {"lark_grammar": f"{start}{_THOUGHT}{_FINAL}"}
    return json.dumps({"grammars": [whole, named | {"name": "form"}]})


def schema_of(form: ReplyFormat) -> Any:
    """Raises ValueError, as `parse_json` does."""
    return parse_json(form.text) if form.kind == "json_schema" else {}


def call_grammar(form: CallFormat, control: Mapping[str, int], start: str) -> str:
    """`start` opens the first rule."""
    begin, end = (_mark(mark, control) for mark in MARKS[form.syntax])
    inner = [_mark(mark, control) for mark in INNER_MARKS.get(form.syntax, ())]
    lines = [f"call: {' | '.join(f'call_{at}' for at in range(len(form.functions)))}"]
    for at, function in enumerate(form.functions):
        writer = _Writer(f"call_{at}", function, inner)
        lines += getattr(writer, form.syntax)(begin, end)
    more = {
        "lfm2": '(", " call)*',
        "mistral_list": '(", " call)*',
        "hermes": '("\\n" call)*',
        "xml": '("\\n" call)*',
        "gemma4": "call*",
        "mistral": "call*",
        "mistral_ids": "call*",
    }
    rest = more.get(form.syntax, "") if form.parallel else ""
    whole = f"call {rest}"
    if form.syntax in ("lfm2", "mistral_list"):
        # Mistral 7B v0.3 writes a space before the list.
        space = '" "?' if form.syntax == "mistral_list" else ""
        whole = f'{begin} {space} "[" {whole} "]" {end}'
    return "\n".join((f"{start}{whole}", *lines))


def _mark(spelling: str, control: Mapping[str, int]) -> str:
    return f"<[{control[spelling]}]>" if spelling in control else json.dumps(spelling)


class _Writer:
    def __init__(self, rule: str, function: FunctionFormat, inner: Sequence[str]) -> None:
        self._rule, self._name, self._inner = rule, function.name, inner
        self._schema = function.parameters
        properties = self._schema.get("properties")
        self._properties: dict[str, Any] = properties if isinstance(properties, dict) else {}
        required = self._schema.get("required")
        self._required = set(required) if isinstance(required, list) else set()

    def hermes(self, begin: str, end: str) -> list[str]:
        head = self._named("arguments", before="\n")
        return self._around_json(f"{begin} {head}", f'"}}\\n" {end}')

    def harmony(self, begin: str, end: str) -> list[str]:
        return self._around_json(f"{begin} {json.dumps(f'{self._name}<|message|>')}", end)

    def mistral(self, begin: str, _end: str) -> list[str]:
        inner = f" /{SHORT_ID}/ ".join(self._inner)
        return self._around_json(f"{begin} {json.dumps(self._name)} {inner}")

    mistral_ids = mistral

    def mistral_list(self, _begin: str, _end: str) -> list[str]:
        return self._around_json(self._named("arguments"), '"}"')

    def message(self) -> list[str]:
        head = json.dumps(f"commentary to=functions.{self._name} json")
        return self._around_json(f"<|channel|> {head} <|message|>")

    def llama3(self, _begin: str, _end: str) -> list[str]:
        return self._around_json(self._named("parameters"), '"}"')

    def _named(self, arguments: str, before: str = "") -> str:
        return json.dumps(f'{before}{{"name": {json.dumps(self._name)}, "{arguments}": ')

    def _around_json(self, head: str, tail: str = "") -> list[str]:
        return [
            f"{self._rule}: {head} {self._rule}_args {tail}",
            f"{self._rule}_args: {self._json(self._schema)}",
        ]

    def xml(self, begin: str, end: str) -> Iterator[str]:
        head = json.dumps(f"\n<function={self._name}>\n")
        parts = []
        for at, (name, schema) in enumerate(self._properties.items()):
            rule = f"{self._rule}_{at}"
            parts.append(rule if name in self._required else f"{rule}?")
            yield from self._parameter(rule, name, schema)
        yield f'{self._rule}: {begin} {head} {" ".join(parts)} "</function>\\n" {end}'

    def _parameter(self, rule: str, name: str, schema: Any) -> Iterator[str]:
        head, tail = json.dumps(f"<parameter={name}>\n"), "\n</parameter>\n"
        if not _is_text(schema):
            yield f"{rule}: {head} {self._json(schema)} {json.dumps(tail)}"
        elif choices := _choices(schema):
            texts = " | ".join(map(json.dumps, choices))
            yield f"{rule}: {head} ({texts}) {json.dumps(tail)}"
        else:
            yield f"{rule}: {head} {rule}_text"
            yield f"{rule}_text[suffix={json.dumps(tail)}]: /(?s:.*)/"

    def lfm2(self, _begin: str, _end: str) -> Iterator[str]:
        yield f'{self._rule}: {json.dumps(self._name + "(")} {self._rule}_f0 ")"'
        written = {
            name: f"{json.dumps(f'{name}=')} {self._python(schema)}"
            for name, schema in self._properties.items()
        }
        yield from members(self._rule, written, self._required, '", "')

    def gemma4(self, begin: str, end: str) -> Iterator[str]:
        values = MarkedValues(f"{self._rule}_v", self._schema, *self._inner)
        head = json.dumps(f"call:{self._name}")
        yield f"{self._rule}: {begin} {head} {values.whole} {end}"
        yield from values.lines

    def _python(self, schema: Any) -> str:
        kind = schema.get("type") if isinstance(schema, dict) else None
        words = {"boolean": '("True" | "False")', "null": '"None"'}
        return words[kind] if isinstance(kind, str) and kind in words else self._json(schema)

    def _json(self, schema: Any) -> str:
        """A schema's part keeps what its references lead to."""
        whole = dict(schema) if isinstance(schema, dict) else {}
        for name in ("$defs", "definitions"):
            if name in self._schema:
                whole.setdefault(name, self._schema[name])
        return f"%json {json.dumps(whole | {'x-guidance': JSON_OPTIONS})}"


def _is_text(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "string"


def _choices(schema: Any) -> Sequence[str]:
    found = [schema["const"]] if "const" in schema else schema.get("enum", ())
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else ()


def members(
    rule: str, written: Mapping[str, str], required: Collection[str], comma: str
) -> Iterator[str]:
    """The lines of `{rule}_f0`: members in this order, optional ones possibly left out."""
    for at, (name, member) in enumerate(written.items()):
        rest = f"{rule}_r{at + 1}"
        yield f"{rule}_a{at}: {member}"
        left_out = (f" | {rule}_f{at + 1}", f" | {rest}") if name not in required else ("", "")
        yield f"{rule}_f{at}: {rule}_a{at} {rest}{left_out[0]}"
        yield f"{rule}_r{at}: {comma} {rule}_a{at} {rest}{left_out[1]}"
    yield f'{rule}_f{len(written)}: ""'
    yield f'{rule}_r{len(written)}: ""'


_BARE = ("number", "integer", "boolean", "null")
_ALL = ("string", "object", "array", "number", "boolean", "null")


class MarkedValues:
    """Arguments in Gemma 4's form. Names come in the order of its template, which sorts them;
    patterns of texts are not enforced.

    `whole` is the rule of a schema's values, among `lines`. `mark`, around texts, is a token's
    spelling or a quoted text.
    """

    def __init__(self, rule: str, schema: Mapping[str, Any], mark: str) -> None:
        self._rule, self._schema = rule, schema
        self._mark, self._quoted = mark, mark.startswith('"')
        self.lines: list[str] = []
        self._named: dict[str, str] = {}
        self._number = 0
        self.whole = self._value({**schema, "type": "object"})

    def _value(self, schema: object) -> str:
        given: dict[str, Any] = schema if isinstance(schema, dict) else {}
        reference = given.get("$ref")
        if isinstance(reference, str):
            return self._referred(reference)
        rule = self._new()
        self.lines.append(f"{rule}: {self._choices(given)}")
        return rule

    def _choices(self, schema: dict[str, Any]) -> str:
        among = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(among, list) and among:
            return " | ".join(map(self._value, among))
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            return " | ".join(map(self._constant, values))
        kinds = schema.get("type", _ALL)
        listed = [kinds] if isinstance(kinds, str) else kinds
        return " | ".join(self._kind(each, schema) for each in listed if each in (*_ALL, *_BARE))

    def _kind(self, kind: str, schema: dict[str, Any]) -> str:
        if kind in _BARE:
            only = {key: each for key, each in schema.items() if key not in ("enum", "const")}
            return f"%json {json.dumps({**only, 'type': kind, 'x-guidance': JSON_OPTIONS})}"
        if kind == "string":
            return self._text(schema.get("minLength"), schema.get("maxLength"))
        if kind == "array":
            item = self._items(schema.get("items"))
            return f'"[" ({item} ("," {item})*)? "]"'
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            values = self._items(schema.get("additionalProperties"))
            member = f'/[^:{{}}\\[\\],<>\\s]+/ ":" {values}'
            return f'"{{" ({member} ("," {member})*)? "}}"'
        rule, required = self._new(), schema.get("required")
        written = {
            name: f"{json.dumps(f'{name}:')} {self._value(properties[name])}"
            for name in sorted(properties, key=str.lower)
        }
        self.lines += members(rule, written, required if isinstance(required, list) else (), '","')
        return f'"{{" {rule}_f0 "}}"'

    def _items(self, schema: object) -> str:
        return self._value(schema) if isinstance(schema, dict) and schema else self._any()

    def _any(self) -> str:
        return self._once("any", lambda: self._choices({}))

    def _referred(self, reference: str) -> str:
        found: Any = self._schema
        for name in reference.removeprefix("#/").split("/"):
            found = found.get(name) if isinstance(found, dict) else None
        # llguidance says what is wrong with a reference that leads nowhere.
        missing = f"%json {json.dumps({'$ref': reference})}"
        return self._once(reference, lambda: missing if found is None else self._value(found))

    def _text(self, least: object, most: object) -> str:
        low = least if isinstance(least, int) else 0
        length = f"{{{low},{most}}}" if isinstance(most, int) else f"{{{low},}}"
        # A quoted mark may begin with any character of the text before it.
        suffix, end = (f"[suffix={self._mark}]", "") if self._quoted else ("", f" {self._mark}")
        rule = self._once(length, lambda: f"/(?s:.{length})/", suffix)
        return f"{self._mark} {rule}{end}"

    def _constant(self, value: object) -> str:
        if isinstance(value, str):
            return " ".join((self._mark, json.dumps(value), self._mark))
        return self._any() if isinstance(value, list | dict) else json.dumps(json.dumps(value))

    def _once(self, name: str, definition: Callable[[], str], suffix: str = "") -> str:
        """A rule that is used again, also by itself."""
        if name not in self._named:
            self._named[name] = rule = self._new()
            self.lines.append(f"{rule}{suffix}: {definition()}")
        return self._named[name]

    def _new(self) -> str:
        self._number += 1
        return f"{self._rule}{self._number}"
