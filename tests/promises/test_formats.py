"""P3: a reply has the form that was asked for, whatever is drafted and taken back."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from core.api.chat import Message
from core.api.errors import ReplyFormatError
from core.api.params import DraftSettings, SamplingParams
from core.api.reply_format import ReplyFormat
from core.client.codec import Fields
from core.engine.loaded import LoadedModel
from core.formats import check
from core.formats.check import fault
from core.helper.__main__ import Tasks
from tests.kernels.native.here import NEEDS_COMPILER
from tests.oracle.checkpoints import token_id
from tests.promises.fixtures import LoadedOf
from tests.promises.machine import Answer, Machine, same, user, words
from tests.promises.schemas import REFUSED, schemas
from tests.promises.test_speculation import OFF, drafts, knows

CHAT: list[Message] = [user("What is it? " + words(4))]
FORMATS = FormatChecker(["ipv4", "ipv6", "uuid"])


@pytest.fixture
def compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process for each of many grammars would take most of the time."""
    tasks = Tasks()

    class Here:
        def __init__(self, _: int) -> None: ...

        def ask(self, task: str, fields: Fields, attached: bytes, **_: object) -> object:
            return tasks[task](fields, attached)

        def close(self) -> None: ...

    monkeypatch.setattr(check, "Helper", Here)


def of_schema(schema: Any) -> ReplyFormat:
    return ReplyFormat(kind="json_schema", text=json.dumps(schema))


def ask(loaded: LoadedModel, form: ReplyFormat, draft: DraftSettings, **more: Any) -> Answer:
    settings = {"temperature": 1.0, "seed": 3, "max_tokens": 120, **more.pop("sampling", {})}
    more = {"thinking": False, **more}
    sampling = SamplingParams(**settings)
    return Machine(loaded).ask(CHAT, sampling=sampling, draft=draft, format=form, **more)


def read(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


@NEEDS_COMPILER
@pytest.mark.usefixtures("compiled_here")
@pytest.mark.parametrize(
    "numbers", [range(30), pytest.param(range(30, 200), marks=pytest.mark.slow)], ids=str
)
def test_P3_200_schemas_hold_with_right_and_wrong_drafts(
    loaded_of: LoadedOf, monkeypatch: pytest.MonkeyPatch, numbers: range
) -> None:
    loaded = loaded_of("hybrid", "int8")
    stopped = drafted = accepted = 0
    given = schemas(numbers.stop)
    for number in numbers:
        schema = given[number]
        form = of_schema(schema)
        plain = ask(loaded, form, OFF, sampling={"seed": number})
        for noise in (0.0, 0.5, 1.0):
            with monkeypatch.context() as context:
                knows(context, plain)
                answer = ask(loaded, form, drafts(5, noise), sampling={"seed": number})
            same(answer, plain)
            counts = answer.stats.draft
            drafted, accepted = drafted + counts.drafted, accepted + counts.accepted
        if plain.finished.reason == "stop":
            stopped += 1
            assert fault(form, plain.reply.text) == "", (schema, plain.reply.text)
            validator = Draft202012Validator(read(form.text), format_checker=FORMATS)
            validator.validate(read(plain.reply.text))
    assert stopped >= len(numbers) / 2
    assert drafted > accepted > 0, "some drafts were right, and some wrong"


@pytest.mark.usefixtures("compiled_here")
@pytest.mark.parametrize(("schema", "keyword"), REFUSED)
def test_P3_a_refused_schema_is_refused_by_name_before_anything_is_read(
    machine: Machine, schema: Any, keyword: str
) -> None:
    with pytest.raises(ReplyFormatError) as raised:
        machine.ask(CHAT, format=of_schema(schema))
    assert keyword in raised.value.message
    assert machine.model.fed == []


@NEEDS_COMPILER
def test_P3_forced_tokens_are_drafted_and_right(loaded_of: LoadedOf) -> None:
    """Tokens that the schema leaves no choice about are not computed one by one."""
    fields = {f"a long name {number}": {"const": "and a long value"} for number in range(3)}
    form = of_schema(
        {
            "type": "object",
            "properties": fields,
            "required": [*fields],
            "additionalProperties": False,
        }
    )
    loaded = loaded_of("hybrid", "int8")
    plain = ask(loaded, form, OFF, sampling={"max_tokens": 400})
    answer = ask(loaded, form, drafts(7), sampling={"max_tokens": 400})
    same(answer, plain)
    assert answer.finished.reason == "stop"
    assert answer.stats.draft.accepted > answer.stats.draft.cycles


@NEEDS_COMPILER
@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (ReplyFormat(kind="choice", choices=("yes", "no", "not at all", "\n n\u00e9e")), None),
        (ReplyFormat(kind="regex", text=r"[a-z]{2,4}-[0-9]{1,2}"), r"[a-z]{2,4}-[0-9]{1,2}"),
        (ReplyFormat(kind="regex", text=r"\s[ab]"), r"\s[ab]"),
        (ReplyFormat(kind="lark", text='start: "(" (start | X) ")"\nX: /[xyz]/'), r"\(+[xyz]\)+"),
        (ReplyFormat(kind="json"), None),
    ],
)
def test_P3_every_kind_of_form_holds_in_every_state_of_thought(
    loaded_of: LoadedOf, form: ReplyFormat, expected: str | None
) -> None:
    think, close = token_id("<think>"), token_id("</think>")
    for name, said in (("hybrid", []), ("hybrid", [think, 70, close]), ("thinking", [70, close])):
        for seed in range(4):
            settings = {"seed": seed, "max_tokens": 80}
            asked = {"thinking": True, "say": said, "sampling": settings}
            plain = ask(loaded_of(name, "int8"), form, OFF, **asked)
            answer = ask(loaded_of(name, "int8"), form, drafts(7, 0.3), **asked)
            assert answer.ids == plain.ids
            assert bool(plain.reply.reasoning) == bool(said) or not said
            if plain.finished.reason == "stop":
                text = plain.reply.text
                assert fault(form, text) == ""
                assert expected is None or re.fullmatch(expected, text)
                assert text in form.choices or not form.choices


@NEEDS_COMPILER
def test_P3_the_end_of_a_thought_inside_a_draft_begins_the_form(
    loaded_of: LoadedOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grammar that is a token behind writes its first character twice."""
    loaded, close = loaded_of("thinking", "int8"), token_id("</think>")
    form = of_schema({"properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "maxProperties": 1})
    asked = {"thinking": True, "say": [70, 71, 72, close]}
    plain = ask(loaded, form, OFF, **asked)
    assert plain.finished.reason == "stop" and plain.reply.reasoning == "ghi"
    for tokens in range(1, 8):
        knows(monkeypatch, plain)
        answer = ask(loaded, form, drafts(tokens), **asked)
        same(answer, plain)
        assert answer.stats.draft.accepted == answer.stats.draft.drafted > 0


def test_P3_a_thought_does_not_end_the_reply(loaded_of: LoadedOf) -> None:
    loaded = loaded_of("thinking")
    form = ReplyFormat(kind="choice", choices=("yes", "no"))
    ended = 0
    for seed in range(12):
        # So hot that every token is as likely as any other.
        hot = SamplingParams(temperature=100.0, seed=seed, max_tokens=120)
        free = Machine(loaded).ask(CHAT, sampling=hot, thinking=True)
        ended += free.finished.reason == "stop" and not free.reply.text
        kept = Machine(loaded).ask(CHAT, sampling=hot, thinking=True, format=form)
        assert kept.finished.reason == "length" or kept.reply.text in form.choices
    assert ended, "without a format thoughts do end replies"


def test_P3_a_limit_or_a_stop_string_cuts_a_reply_and_it_is_not_valid(loaded_of: LoadedOf) -> None:
    loaded = loaded_of("hybrid")
    form = of_schema(
        {"type": "object", "properties": {"key": {"const": "value"}}, "required": ["key"]}
    )
    cut = ask(loaded, form, OFF, sampling={"max_tokens": 4})
    assert cut.finished.reason == "length" and "It isn't JSON" in fault(form, cut.reply.text)
    stopped = ask(loaded, form, OFF, sampling={"stop": ("key",)})
    assert stopped.finished.reason == "stop" and fault(form, stopped.reply.text)
    assert "key" not in stopped.reply.text


def test_P3_a_reply_that_is_gone_on_with_keeps_its_form(machine: Machine) -> None:
    form = of_schema(
        {"type": "array", "items": {"enum": ["one", "two"]}, "minItems": 9, "maxItems": 9}
    )
    sampling = SamplingParams(temperature=1.0, seed=1, max_tokens=500)
    asked: dict[str, Any] = {"sampling": sampling, "format": form, "thinking": False}
    begun = machine.ask(CHAT, stop_after_tokens=7, **asked)
    whole = machine.ask([*CHAT, begun.reply], **asked)
    assert begun.finished.reason == "cancelled" and whole.finished.reason == "stop"
    assert whole.reply.text.startswith(begun.reply.text) and fault(form, whole.reply.text) == ""
    other = ReplyFormat(kind="choice", choices=("something else",))
    with pytest.raises(ReplyFormatError, match="not in this format"):
        machine.ask([*CHAT, begun.reply], format=other)


def test_P3_control_tokens_are_no_text(loaded_of: LoadedOf) -> None:
    """Text may spell them; the tokens themselves control."""
    loaded = loaded_of("hybrid")
    form = ReplyFormat(kind="choice", choices=("<|im_start|></think>",))
    answer = ask(loaded, form, OFF)
    assert answer.reply.text == "<|im_start|></think>"
    controls = {token_id("<|im_start|>"), token_id("</think>")}
    assert not controls & set(answer.ids)
    for grammar in ('start: <|im_start|> "a"', "start: <[5]>"):
        with pytest.raises(ReplyFormatError, match="control tokens"):
            ask(loaded, ReplyFormat(kind="lark", text=grammar), OFF)
