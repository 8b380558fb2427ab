"""A reply's format as a grammar that llguidance reads."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from llguidance import LLMatcher

from core.api.json_text import parse_json
from core.api.reply_format import CallFormat, ReplyFormat
from core.formats.calls import call_grammar

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


def grammar(form: ReplyFormat, after_thought: bool = False, control: Collection[str] = ()) -> str:
    """The grammar of an answer, which `core.formats.check` must have accepted.

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
        return LLMatcher.grammar_from_lark(call_grammar(calls, JSON_OPTIONS, control, start))
    schema = schema_of(form)
    settled = json.dumps(
        (schema if isinstance(schema, dict) else {}) | {"x-guidance": JSON_OPTIONS}
    )
    return LLMatcher.grammar_from_lark(f"{start}%json {settled}")


def schema_of(form: ReplyFormat) -> Any:
    """The schema of a JSON format. Raises ValueError, as `parse_json` does."""
    return parse_json(form.text) if form.kind == "json_schema" else {}
