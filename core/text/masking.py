"""A conversation as a template gets it: marks of private-use characters in place of texts.

Templates are arbitrary code: whether one keeps, drops or repeats a mark shows what it does with a
text. Whitespace around a text stays, to be trimmed as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from core.api.chat import AssistantMessage, Message, ToolCall
from core.api.errors import TemplateError
from core.api.reply_format import ARGUMENTS_MARK, ID_MARK, MARKS, ToolSyntax
from core.text.reply_parts import SampledReply
from core.text.template_messages import (
    NO_ID,
    ContentStyle,
    SlotKind,
    TemplateMessage,
    assistant_fields,
    call_fields,
    joined_messages,
    template_message,
)

# The texts that a template writes around a sampled reply in place of a call.
AROUND_REPLY: dict[ToolSyntax, tuple[str, str]] = {
    "gemma4": (f"{MARKS['gemma4'][0]}call:", f"{{}}{MARKS['gemma4'][1]}"),
    "mistral": (MARKS["mistral"][0], f"{ARGUMENTS_MARK}{{}}"),
    "mistral_ids": (MARKS["mistral"][0], f'{ID_MARK}{NO_ID}{ARGUMENTS_MARK}""'),
    "mistral_list": (
        f'{MARKS["mistral"][0]}[{{"name": "',
        f'", "arguments": "", "id": "{NO_ID}"}}]',
    ),
}


_MOST_DIGITS = 9  # of a mark's number: a context holds fewer texts


@dataclass(frozen=True, slots=True)
class Slot:
    """A mark's text, in message number `message` (None: the tools' definitions), or the sampled ids
    of `reply`. A "tool" slot is an added token's spelling in a call, result or definition, which
    templates escape."""

    message: int | None
    kind: SlotKind
    text: str
    reply: SampledReply | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """Two characters that occur nowhere else; a mark is a number between them."""

    left: str
    right: str

    @classmethod
    def absent_from(cls, texts: Iterable[str]) -> Marks:
        used = set().union(*texts)
        private = map(chr, chain(range(0xE000, 0xF900), range(0xF0000, 0xFFFFE)))
        free = (each for each in private if each not in used)
        left, right = next(free, None), next(free, None)
        if left is None or right is None:
            raise TemplateError(
                "The conversation and the template use every character of Unicode's private use "
                "areas, and two of them must be free."
            )
        return cls(left, right)

    def write(self, number: int) -> str:
        return f"{self.left}{number}{self.right}"

    def split(self, text: str) -> tuple[list[str | int], bool]:
        numbers: list[int] = []
        texts: list[list[str]] = [[]]
        torn = False
        for index, part in enumerate(text.split(self.left)):
            rest = part
            if index:
                number, right, after = part.partition(self.right)
                if right and _is_number(number):
                    numbers.append(int(number))
                    texts.append([])
                    rest = after
                else:
                    torn = True
            torn = torn or self.right in rest
            texts[-1].append(rest.replace(self.right, ""))
        pieces: list[str | int] = ["".join(texts[0])]
        for mark, following in zip(numbers, texts[1:], strict=True):
            pieces += (mark, "".join(following))
        return pieces, torn


def _is_number(text: str) -> bool:
    return len(text) <= _MOST_DIGITS and text.isascii() and text.isdigit()


SampledOf = Callable[[AssistantMessage], SampledReply | None]


@dataclass
class Masks:
    marks: Marks
    find: Callable[[str], list[tuple[int, int]]] = lambda _: []
    slots: list[Slot] = field(default_factory=list)

    def text(self, message: int | None, text: str, kind: SlotKind) -> str:
        if kind == "tool":
            return hidden(text, self.find, lambda found: self.mark(Slot(message, kind, found)))
        core = text.strip()
        if not core:
            return text
        start = len(text) - len(text.lstrip())
        return text[:start] + self.mark(Slot(message, kind, core)) + text[start + len(core) :]

    def reply(self, message: int, reply: SampledReply) -> tuple[str, str]:
        thought = self.mark(Slot(message, "thought", "", reply)) if reply.thinks else ""
        answer = self.mark(Slot(message, "answer", "", reply)) if reply.answer else ""
        return thought, answer

    def mark(self, slot: Slot) -> str:
        self.slots.append(slot)
        return self.marks.write(len(self.slots) - 1)


def mask(
    messages: Sequence[Message], style: ContentStyle, masks: Masks, sampled: SampledOf
) -> list[TemplateMessage]:
    masked = []
    for index, message in enumerate(messages):
        reply = sampled(message) if isinstance(message, AssistantMessage) else None
        given = message.calls if isinstance(message, AssistantMessage) else ()
        if reply is not None and reply.call and len(given) == 1 and not masks.find(given[0].name):
            masked.append(_calling(index, given[0], reply, masks))
            continue
        if reply is None or (style.calls_apart and given):
            masked.append(template_message(index, message, style, masks.text))
            continue
        thought, answer = masks.reply(index, reply)
        if style.results_in_calls and given:
            function = {"name": answer, "arguments": ""}
            no_id = NO_ID if style.short_ids else ""
            shown = assistant_fields(thought, "", style)
            shown["tool_calls"] = [{"type": "function", "id": no_id, "function": function}]
            masked.append(shown)
        else:
            masked.append(assistant_fields(thought, answer, style))
    return joined_messages(masked, style)


def _calling(index: int, call: ToolCall, reply: SampledReply, masks: Masks) -> TemplateMessage:
    thought = masks.mark(Slot(index, "thought", "", reply)) if reply.thinks else ""
    shown = assistant_fields(thought, "", ContentStyle())
    arguments = masks.mark(Slot(index, "call", "", reply))
    shown["tool_calls"] = [call_fields(call, index, masks.text, call.id)]
    shown["tool_calls"][0]["function"]["arguments"] = arguments
    return shown


def hidden(
    text: str, find: Callable[[str], list[tuple[int, int]]], hide: Callable[[str], str]
) -> str:
    pieces, start = list[str](), 0
    for begin, end in find(text):
        pieces += (text[start:begin], hide(text[begin:end]))
        start = end
    return "".join((*pieces, text[start:]))
