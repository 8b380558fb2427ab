"""`/v1/responses` through OpenAI's own client, against a scripted engine."""

from __future__ import annotations

import base64
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from core.api.chat import AssistantMessage, ImagePart, SystemMessage, UserMessage
from core.api.errors import InternalError
from core.api.events import Failed
from core.server import endpoint
from tests.server.serving import ScriptedEngine, Served, refused, serving

PNG = base64.b64encode(b"\x89PNG and more").decode()


def test_a_response_as_a_whole(served: Served, engine: ScriptedEngine) -> None:
    response = served.openai().responses.create(
        model="any", input="Hello", instructions="Be brief.", max_output_tokens=9,
        reasoning={"effort": "none"}, text={"format": {"type": "json_object"}}, store=True,
        metadata={"a": "b"}, prompt_cache_key="k",
    )  # fmt: skip
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert (response.output_text, response.status) == ("A fine day.", "completed")
    # The client fills in nothing that is missing.
    usage = type(response).model_validate(response.model_dump()).usage
    assert usage is not None and usage.input_tokens_details.cached_tokens == 7
    command = engine.commands[0]
    assert command.conversation.messages[0] == SystemMessage(text="Be brief.")
    assert (command.thinking, command.sampling.max_tokens) == (False, 9)
    assert command.format is not None and command.format.kind == "json"


def test_a_response_as_a_stream(served: Served) -> None:
    """The client's own accumulation of the events is the whole response."""
    with served.openai().responses.stream(model="any", input="Hello") as stream:
        events = list(stream)
        response = stream.get_final_response()
    assert response.output_text == "A fine day." and response.status == "completed"
    thought = response.output[0]
    assert thought.type == "reasoning" and thought.content is not None
    assert thought.content[0].text == "I see"
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))


def test_A3_a_stream_that_waits_has_events_for_codex(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "SILENCE_S", 0.01)
    with serving(ScriptedEngine(None).connect, tmp_path) as served:
        create: Any = served.openai().responses.create
        with create(model="any", input="Hello", stream=True) as stream:
            events = list(itertools.islice(stream, 12))
    # One at the start, and those of a text are four.
    assert [event.type for event in events].count("response.in_progress") >= 8
    assert [event.sequence_number for event in events] == list(range(12))


def test_items_of_all_kinds(served: Served, engine: ScriptedEngine) -> None:
    """A response's own output comes back as input, with what was said next."""
    client = served.openai()
    items: Any = [
        {"role": "user", "content": [
            {"type": "input_text", "text": "Look."},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        ]}
    ]  # fmt: skip
    first = client.responses.create(model="any", input=items)
    items += [item.model_dump() for item in first.output]
    items.append({"type": "message", "role": "user", "content": "And?"})
    client.responses.create(model="any", input=items)
    look, reply, _ = engine.commands[1].conversation.messages
    assert isinstance(look, UserMessage) and isinstance(look.content[1], ImagePart)
    assert isinstance(reply, AssistantMessage) and reply.ids is not None
    assert (reply.text, reply.reasoning) == ("A fine day.", "I see")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"input": []}, "input"),
        ({"input": 7}, "input"),
        ({"input": [7]}, "input.0"),
        ({"input": [{"type": "function_call_output"}]}, "input"),
        ({"input": [{"type": "item_reference", "id": "i"}]}, "input.0.type"),
        ({"input": [{"type": "reasoning", "content": 7}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
         "input.0.content.0.type"),
        ({"instructions": 7}, "instructions"),
        ({"previous_response_id": "r"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"tools": [{"type": "function"}]}, "tools.0"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)  # fmt: skip
def test_A3_a_responses_error_names_the_field(
    served: Served, fields: dict[str, object], field: str
) -> None:
    body = json.dumps({"input": "Hello", **fields}).encode()
    status, answer = served.raw("/v1/responses", body)
    assert (status, json.loads(answer)["error"]["param"]) == (400, field)


def test_A3_an_error_before_a_stream_has_its_status(tmp_path: Path) -> None:
    engine = ScriptedEngine(Failed(request=0, error=InternalError("Oops.").info()))
    with serving(engine.connect, tmp_path) as served:
        create: Any = served.openai().responses.create
        error = refused(lambda: create(model="any", input="Hello", stream=True))
    assert error.status_code == 500
