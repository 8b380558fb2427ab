"""Tool calls in a reply's text as it arrives, argument by argument; a call that can't be read is
text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from core.api.chat import AssistantMessage, Tool, ToolCall
from core.api.events import AnswerToken
from core.api.reply_format import MARKS, ToolSyntax
from core.server.call_syntaxes import SYNTAXES, first_item_end, new_id, written
from core.server.requests.ask import Delta


class CallPart(NamedTuple):
    """A call whose `arguments` end after the last complete one; those of the whole call begin with
    them."""

    call: ToolCall


Piece = str | CallPart | ToolCall
_MOST_BLANKS = 64


class CallReader:
    """Whitespace next to a call belongs to no text."""

    def __init__(self, syntax: ToolSyntax, tools: Sequence[Tool]) -> None:
        self._begin, end = MARKS[syntax]
        self._end, self._end_length = end or self._begin, len(end)
        self._opening, self._parse, self._closed, self._listed = SYNTAXES[syntax]
        self._schemas = {tool.name: _properties(tool) for tool in tools}
        # Text that may still become a call, and whitespace that may precede one.
        self._held = ""
        self._blank = ""
        self._after_call = self._inside = False
        # The end of the last text that was said, and of what was looked at, in all of the text.
        self.said_to = self._num_taken = 0
        # No end is before this place of a call.
        self._searched = 0
        # What was told of a call, and the length of text from which it is looked at again.
        self._told: ToolCall | None = None
        self._look_at = 0
        self._ids = set[str]()
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
                ended = self._held.find(self._end, max(len(self._begin), self._searched)) >= 0
                if ended or len(self._held) >= self._look_at:
                    yield from self._first_of_list()
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
        if self._inside:
            yield from self._first_of_list()
        rest = self._take(len(self._held))
        may_end = self._bare or (self._inside and not self._end_length)
        if may_end and (calls := self._parse(rest[len(self._begin) :], self._schemas)):
            yield from self._as_told(calls)
        elif (text := self._blank + rest) and (not self._after_call or text.strip()):
            self.said_to = self._num_taken
            yield text.lstrip() if self._after_call else text

    def _complete(self) -> list[Piece] | None:
        """The calls up to a mark that ends them, or the text that is none; None while it may become
        a call."""
        start = len(self._begin)
        if not self._may_begin(self._held[start : start + _MOST_BLANKS].lstrip()):
            return self._give_up(start)
        end = self._held.find(self._end, max(start, self._searched))
        while end >= 0:
            calls = self._parse(self._held[start:end], self._schemas)
            if calls:
                self._take(end + self._end_length)
                self._inside, self._after_call, self._blank = False, True, ""
                return [*self._as_told(calls)]
            if calls is not None:
                return self._give_up(self._held.find(self._end, start) + self._end_length)
            end = self._held.find(self._end, end + 1)
        self._searched = max(start, len(self._held) - len(self._end) + 1)
        return None

    def _first_of_list(self) -> Iterator[ToolCall]:
        """The calls that others follow; then the list goes on as if it began after them."""
        start = len(self._begin)
        while self._listed and (end := first_item_end(self._held[start:])):
            calls = self._parse(f"{self._held[start : start + end]}]", self._schemas)
            if not calls:
                return
            yield from self._as_told(calls)
            self._held = f"{self._begin}[{self._held[start + end + 1 :]}"
            self._num_taken += end
            self._searched, self._after_call, self._blank = 0, True, ""

    def _tell(self, text: str) -> Iterator[CallPart]:
        if len(self._held) < self._look_at:
            return
        # A long argument isn't read again for each of its tokens.
        self._look_at = len(self._held) * 17 // 16 + 1
        calls = self._parse(self._closed(text), self._schemas)
        if not calls or calls[0].name not in self._schemas:
            return
        told, begun = self._told, calls[0].arguments.removesuffix("}")
        begun = "" if begun == "{" else begun
        if told is None or (begun != told.arguments and begun.startswith(told.arguments)):
            call_id = told.id if told is not None else calls[0].id
            if told is None and call_id in self._ids:
                call_id = new_id()
            self._told = calls[0].model_copy(update={"arguments": begun, "id": call_id})
            yield CallPart(self._told)

    def _as_told(self, calls: Sequence[ToolCall]) -> Iterator[ToolCall]:
        first, told = calls[0], self._told
        self._told, self._look_at = None, 0
        if told is not None:
            arguments = first.arguments
            if not arguments.startswith(told.arguments):
                # An argument came twice; the first one was told.
                known = json.loads(f"{told.arguments}}}")
                arguments = written({**known, **json.loads(arguments), **known})
            # Of a name that came twice, too.
            update = {"id": told.id, "name": told.name, "arguments": arguments}
            first = first.model_copy(update=update)
        for call in (first, *calls[1:]):
            # A model may write the same id for two calls.
            again = call.id in self._ids
            yield call.model_copy(update={"id": new_id()}) if again else call
            self._ids.add(call.id)

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


class Said:
    def __init__(self, reader: CallReader | None) -> None:
        self._reader = reader
        self._texts: list[str] = []
        self.calls: list[ToolCall] = []
        self.logprobs: list[AnswerToken] = []
        # Tokens of text that isn't said yet.
        self._tokens: list[AnswerToken] = []

    def push(self, answer: str, tokens: Sequence[AnswerToken]) -> Iterator[Delta]:
        if self._reader is None:
            self.logprobs += tokens
            if answer:
                yield Delta(answer, logprobs=tokens)
            return
        self._tokens += tokens
        yield from self._deltas(self._reader.push(answer))

    def close(self) -> Iterator[Delta]:
        if self._reader is not None:
            yield from self._deltas(self._reader.close())

    def named(self, reply: AssistantMessage) -> AssistantMessage:
        """The reply as clients send it back."""
        if not self.calls:
            return reply
        text = "".join(self._texts)
        return reply.model_copy(update={"text": text, "calls": tuple(self.calls)})

    def _deltas(self, pieces: Iterable[Piece]) -> Iterator[Delta]:
        for piece in pieces:
            if isinstance(piece, str):
                self._texts.append(piece)
                yield Delta(piece, logprobs=self._tokens_of(piece))
            elif isinstance(piece, CallPart):
                yield Delta(call=piece.call, whole=False)
            else:
                self.calls.append(piece)
                yield Delta(call=piece)

    def _tokens_of(self, piece: str) -> list[AnswerToken]:
        """The tokens with a part in the text said last."""
        if not self._tokens or self._reader is None:
            return []
        end = self._reader.said_to
        said = [each for each in self._tokens if each.start < end and each.end > end - len(piece)]
        self._tokens = [each for each in self._tokens if each.start >= end]
        self.logprobs += said
        return said


def _properties(tool: Tool) -> Mapping[str, Any]:
    function = json.loads(tool.definition).get("function", {})
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return properties if isinstance(properties, dict) else {}
