"""P3: a reply has the form that was asked for, whatever is drafted and taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from core.api.chat import Message
from core.api.errors import ReplyFormatError
from core.api.params import DraftSettings, SamplingParams
from core.api.reply_format import ReplyFormat
from core.engine.loaded import LoadedModel
from core.formats import check
from core.formats.check import fault
from core.helper.grammars import GrammarTasks
from tests.kernels.native.here import NEEDS_COMPILER
from tests.promises.machine import Answer, Machine, same, user, words
from tests.promises.schemas import REFUSED, schemas
from tests.promises.test_speculation import OFF, drafts, knows

CHAT: list[Message] = [user("What is it? " + words(4))]
FORMATS = FormatChecker(["ipv4", "ipv6", "uuid"])
NUM_SCHEMAS = 200


@pytest.fixture
def compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process for each of many grammars would take most of the time."""
    task = GrammarTasks().handlers()["grammar.compile"]
    monkeypatch.setattr(check, "_broken", lambda text: task({}, text.encode())[0]["broken"])


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
def test_P3_200_schemas_hold_with_right_and_wrong_drafts(
    loaded_of: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = loaded_of("hybrid", "int8")
    stopped = drafted = accepted = 0
    for number, schema in enumerate(schemas(NUM_SCHEMAS)):
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
    assert stopped >= NUM_SCHEMAS / 2
    assert drafted > accepted > 0, "some drafts were right, and some wrong"


@pytest.mark.parametrize(("schema", "keyword"), REFUSED)
def test_P3_a_refused_schema_is_refused_by_name_before_anything_is_read(
    loaded_of: Callable[..., LoadedModel], schema: Any, keyword: str
) -> None:
    machine = Machine(loaded_of("hybrid"))
    with pytest.raises(ReplyFormatError) as raised:
        machine.ask(CHAT, format=of_schema(schema))
    assert keyword in raised.value.message
    assert machine.model.fed == []
