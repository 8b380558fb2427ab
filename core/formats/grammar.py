"""A reply's format as a grammar that llguidance reads; a tool call keeps the model's own syntax."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from llguidance import LLMatcher

from core.api.json_text import parse_json
from core.api.reply_format import CallFormat, FunctionFormat, ReplyFormat
from core.api.tools import MARKS, TEXT_MARK
from core.formats.marked_values import JSON_OPTIONS, MarkedValues, members

# Most templates leave an empty line between a thought and the answer.
_AFTER_THOUGHT = "start: /\\n{0,2}/ form\nform: "


def grammar(form: ReplyFormat, after_thought: bool = False, control: Collection[str] = ()) -> str:
    """Return the grammar of a form that `core.formats.check` has accepted.

    After a thought JSON may begin with the empty line that belongs there. `control` are the
    spellings of single tokens that tool calls may have around them.
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
        return LLMatcher.grammar_from_lark(call_grammar(calls, control, start))
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
    """The grammar of a reply in messages, with its thoughts if it `thinks`."""
    start = "start: thought* answer" if thinks else "start: answer"
    if form.kind == "calls":
        functions = CallFormat.model_validate_json(form.text).functions
        calls = [_Writer(f"call_{at}", each, "") for at, each in enumerate(functions)]
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


_DEFINITIONS = ("$defs", "definitions")


def call_grammar(form: CallFormat, control: Collection[str], start: str) -> str:
    """`start` opens the first rule."""
    begin, end = (_mark(mark, control) for mark in MARKS[form.syntax])
    text_mark = _mark(TEXT_MARK, control)
    lines = [f"call: {' | '.join(f'call_{at}' for at in range(len(form.functions)))}"]
    for at, function in enumerate(form.functions):
        writer = _Writer(f"call_{at}", function, text_mark)
        lines += getattr(writer, form.syntax)(begin, end)
    more = {
        "lfm2": '(", " call)*',
        "hermes": '("\\n" call)*',
        "xml": '("\\n" call)*',
        "gemma4": "call*",
    }
    rest = more.get(form.syntax, "") if form.parallel else ""
    whole = f'{begin} "[" call {rest} "]" {end}' if form.syntax == "lfm2" else f"call {rest}"
    return "\n".join((f"{start}{whole}", *lines))


def _mark(spelling: str, control: Collection[str]) -> str:
    return spelling if spelling in control else json.dumps(spelling)


class _Writer:
    def __init__(self, rule: str, function: FunctionFormat, text_mark: str) -> None:
        self._rule, self._name, self._text_mark = rule, function.name, text_mark
        self._schema = function.parameters
        properties = self._schema.get("properties")
        self._properties: dict[str, Any] = properties if isinstance(properties, dict) else {}
        required = self._schema.get("required")
        self._required = set(required) if isinstance(required, list) else set()

    def hermes(self, begin: str, end: str) -> Iterator[str]:
        head = json.dumps(f'\n{{"name": {json.dumps(self._name)}, "arguments": ')
        yield f'{self._rule}: {begin} {head} {self._rule}_args "}}\\n" {end}'
        yield f"{self._rule}_args: {self._json(self._schema)}"

    def harmony(self, begin: str, end: str) -> Iterator[str]:
        head = json.dumps(f"{self._name}<|message|>")
        yield f"{self._rule}: {begin} {head} {self._rule}_args {end}"
        yield f"{self._rule}_args: {self._json(self._schema)}"

    def message(self) -> Iterator[str]:
        head = json.dumps(f"commentary to=functions.{self._name} json")
        yield f"{self._rule}: <|channel|> {head} <|message|> {self._rule}_args"
        yield f"{self._rule}_args: {self._json(self._schema)}"

    def llama3(self, _begin: str, _end: str) -> Iterator[str]:
        head = json.dumps(f'{{"name": {json.dumps(self._name)}, "parameters": ')
        yield f'{self._rule}: {head} {self._rule}_args "}}"'
        yield f"{self._rule}_args: {self._json(self._schema)}"

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
        values = MarkedValues(f"{self._rule}_v", self._schema, self._text_mark)
        head = json.dumps(f"call:{self._name}")
        yield f"{self._rule}: {begin} {head} {values.whole} {end}"
        yield from values.lines

    def _python(self, schema: Any) -> str:
        kind = schema.get("type") if isinstance(schema, dict) else None
        words = {"boolean": '("True" | "False")', "null": '"None"'}
        return (
            words.get(kind, "") if isinstance(kind, str) and kind in words else self._json(schema)
        )

    def _json(self, schema: Any) -> str:
        """A part of a schema keeps what its references lead to."""
        whole = dict(schema) if isinstance(schema, dict) else {}
        for name in _DEFINITIONS:
            if name in self._schema:
                whole.setdefault(name, self._schema[name])
        return f"%json {json.dumps(whole | {'x-guidance': JSON_OPTIONS})}"


def _is_text(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "string"


def _choices(schema: Any) -> Sequence[str]:
    found = [schema["const"]] if "const" in schema else schema.get("enum", ())
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else ()
