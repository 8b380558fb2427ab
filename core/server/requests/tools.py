"""A request's tools, and whether it must call one, under all protocols' names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from core.api.chat import Tool
from core.api.json_text import parse_json
from core.api.reply_format import CallFormat, FunctionFormat, ReplyFormat, ToolSyntax
from core.server.requests.refusals import Refusal

# Of all definitions together; agents send up to 100 KB.
MOST_CHARACTERS = 2**20
_EMPTY = {"type": "object", "properties": {}}
_MUST = ("required", "any")


@dataclass(frozen=True, slots=True)
class Tools:
    """`must`: the reply has to be calls, of `only` if it is named."""

    offered: tuple[Tool, ...] = ()
    must: bool = False
    only: str = ""
    parallel: bool = True

    def format(self, syntax: ToolSyntax | None) -> ReplyFormat | None:
        """The format of a reply that has to be calls. Raises Refusal."""
        if not self.must or syntax is None:
            return None
        functions = [
            FunctionFormat.model_construct(
                name=tool.name,
                parameters=json.loads(tool.definition)["function"].get("parameters", _EMPTY),
            )
            for tool in self.offered
            if self.only in ("", tool.name)
        ]
        if not functions:
            raise Refusal(f"There is no tool named {self.only!r}.", "tool_choice")
        calls = CallFormat.model_construct(
            syntax=syntax, functions=tuple(functions), parallel=self.parallel
        )
        try:
            return ReplyFormat(kind="calls", text=calls.model_dump_json())
        except ValidationError:
            raise Refusal("The tools' parameters are too long to be enforced.", "tools") from None


NO_TOOLS = Tools()


def tools_of(body: dict[str, Any]) -> Tools:
    """Leaves out what a hosted service would run itself (a web search). Raises Refusal."""
    choice = body.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else choice
    listed = body.get("tools")
    if not listed or kind == "none":
        return NO_TOOLS
    if not isinstance(listed, list):
        raise Refusal("Tools must be a list.", "tools")
    found = [_tool(each, f"tools.{index}") for index, each in enumerate(listed)]
    offered = tuple(each for each in found if each is not None)
    if sum(len(each.definition) for each in offered) > MOST_CHARACTERS:
        raise Refusal("The definitions of the tools are too long.", "tools")
    only = _named(choice)
    parallel = body.get("parallel_tool_calls") is not False
    if isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True:
        parallel = False
    must = bool(only) or kind in _MUST
    if must and not offered:
        raise Refusal("There is no tool to call.", "tool_choice")
    return Tools(offered, must, only, parallel)


def _named(choice: object) -> str:
    if not isinstance(choice, dict):
        return ""
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else choice.get("name")
    return name if isinstance(name, str) else ""


def _tool(tool: object, field: str) -> Tool | None:
    if not isinstance(tool, dict):
        raise Refusal("A tool must be an object.", field)
    if tool.get("type") not in (None, "function", "custom"):
        return None
    inner = tool.get("function")
    function = inner if isinstance(inner, dict) else tool
    name: Any = function.get("name")
    parameters = function.get("parameters", function.get("input_schema"))
    if parameters is None and tool.get("type") == "custom":
        return None
    try:
        FunctionFormat(name=name, parameters=parameters or _EMPTY)
    except ValidationError:
        words = "A tool has a name of letters, digits, '_', '-' and '.', and a schema."
        raise Refusal(words, field) from None
    shown: dict[str, Any] = {"name": name}
    if isinstance(description := function.get("description"), str):
        shown["description"] = description
    shown["parameters"] = parameters or _EMPTY
    definition = {"type": "function", "function": shown}
    # Half a surrogate pair becomes a question mark: a format can't be written with it.
    text = json.dumps(definition, ensure_ascii=False).encode(errors="replace").decode()
    return Tool(name=str(name), definition=text)


def arguments_of(given: object, field: str) -> str:
    """A call's arguments, sent back as a JSON object or as its text."""
    value = given
    if isinstance(given, str):
        try:
            value = parse_json(given or "{}")
        except ValueError:
            value = None
        if not isinstance(value, dict):
            # The call broke off. Anthropic's documentation advises this form.
            value = {"INVALID_JSON": given}
    if not isinstance(value, dict):
        raise Refusal("Arguments must be a JSON object.", field)
    return json.dumps(value, ensure_ascii=False)
