"""What the window says of the form that replies must have, and of replies that are data."""

from __future__ import annotations

from core.api.reply_format import LONGEST_TEXT, ReplyFormat
from desktop.numbers import count_of, format_count

# The composer.
FORMAT = "Form of the replies"
FREE, JSON, BY_SCHEMA = "Free text", "JSON", "JSON by a schema\N{HORIZONTAL ELLIPSIS}"
FREE_AGAIN = "Let replies be free text again"
CHANGE = "Change the form of the replies"

# The schema.
SCHEMA = "JSON by a schema"
SCHEMA_SPOKEN = "JSON Schema for the replies"
SCHEMA_NOTE = (
    "From the next message on, replies of this chat are JSON that this JSON Schema allows. "
    "A thought before them stays free."
)
SCHEMA_PLACEHOLDER = "Paste or write a JSON Schema"
CHECKING = "Checking\N{HORIZONTAL ELLIPSIS}"
USABLE = "The schema can be used."
TOO_LONG = f"The schema is longer than {format_count(LONGEST_TEXT)} characters."
INSERT_EXAMPLE = "Insert an example"
CANCEL, USE = "Cancel", "Use the schema"
EXAMPLE = """\
{
  "type": "array",
  "maxItems": 8,
  "items": {
    "type": "object",
    "properties": {
      "shape": {"enum": ["circle", "square", "triangle", "star", "diamond", "cross", "other"]},
      "colour": {"enum": ["red", "yellow", "green", "blue", "other"]},
      "count": {"type": "integer", "minimum": 1, "maximum": 20}
    },
    "required": ["shape", "colour", "count"],
    "additionalProperties": false
  }
}
"""

# A reply that is data.
TABLE, TREE, SOURCE = "Table", "Tree", "Source"
TABLE_SPOKEN, TREE_SPOKEN = "The reply as a table", "The reply as a tree"
SOURCE_SPOKEN = "The reply as it was written"
NAME, VALUE = "Name", "Value"
COPY_JSON = "Copy as JSON, indented"
VALID = {"json": "Valid JSON.", "json_schema": "Valid by the schema."}


def format_words(reply_format: ReplyFormat) -> str:
    """The form in force, beside the message field."""
    names = {"json": "JSON", "json_schema": "JSON by a schema"}
    return f"Replies: {names.get(reply_format.kind, 'of a given form')}"


def validity_words(reply_format: ReplyFormat, fault: str, unchecked: str) -> str:
    """The verdict on a finished reply's format, or why there is none."""
    if unchecked:
        return f"Not checked: {unchecked}"
    return f"Not valid: {fault}" if fault else VALID.get(reply_format.kind, "")


def size_words(count: int, named: bool) -> str:
    """What stands for an object or a list in a tree."""
    return count_of(count, "field" if named else "item")


def more_items_words(count: int) -> str:
    """Stands for values that are not shown."""
    return f"\N{HORIZONTAL ELLIPSIS} {format_count(count)} more"


def more_columns_words(count: int) -> str:
    """Stands for columns that are not shown."""
    return f"\N{HORIZONTAL ELLIPSIS} {count_of(count, 'more column')}"
