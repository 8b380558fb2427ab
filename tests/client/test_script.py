"""Scripts: what fits is read, what doesn't is refused with the place and the reason."""

import json
from pathlib import Path

import pytest

from core.api.chat import AssistantMessage, TextPart, UserMessage
from core.api.errors import InvalidRequestError
from core.client.script import Chat, Script, read_script


def read(tmp_path: Path, *steps: object, **top: object) -> Script:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"steps": steps, **top}))
    return read_script(path)


SEND = {"op": "send", "chat": "a", "content": "hello"}


def test_the_documented_script_is_read(tmp_path: Path) -> None:
    script = read(
        tmp_path,
        {"op": "system", "chat": "a", "content": "be brief"},
        {"op": "send", "chat": "a", "content": [{"image": "x.png"}, {"text": "What is it?"}]},
        {**SEND, "stop_after_tokens": 5, "thinking": False},
        {"op": "regenerate", "chat": "a", "sampling": {"temperature": 0.5, "stop": ["x"]}},
        {"op": "swipe", "chat": "a", "reply": 1},
        {"op": "edit", "chat": "a", "message": 0, "content": "..."},
        {"op": "delete", "chat": "a", "from": 1},
        {"op": "regenerate", "chat": "a"},
        sampling={"temperature": 0, "max_tokens": 32, "seed": 1},
    )
    assert [step.op for step in script.steps][:3] == ["system", "send", "send"]
    assert script.sampling.max_tokens == 32


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ({"op": "jump", "chat": "a"}, "steps.1"),
        ({"op": "send", "chat": "a"}, "steps.1.send.content"),
        ({"op": "send", "chat": "a", "content": "x", "speed": 1}, "steps.1.send.speed"),
        ({"op": "send", "chat": "a", "content": [{"video": "x"}]}, "steps.1"),
        ({"op": "edit", "chat": "a", "message": 1, "content": "x"}, "message 1 is no user"),
        ({"op": "edit", "chat": "a", "message": 9, "content": "x"}, "message 9 is no user"),
        ({"op": "delete", "chat": "a", "from": 2}, "no message 2"),
        ({"op": "swipe", "chat": "a", "reply": 1}, "no reply 1"),
        ({"op": "regenerate", "chat": "other"}, "no message to answer"),
        ({"op": "system", "chat": "a", "content": "late"}, "comes first"),
        ({**SEND, "sampling": {"temperature": -1}}, "temperature"),
        ({**SEND, "stop_after_tokens": 0}, "stop_after_tokens"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    tmp_path: Path, step: object, place: str
) -> None:
    with pytest.raises(InvalidRequestError, match=place):
        read(tmp_path, SEND, step)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100_000, b"\xff\xfe\x00\xd8"])
def test_what_is_no_script_is_refused(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "script.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidRequestError, match=r"script\.json"):
        read_script(path)


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="nowhere"):
        read_script(tmp_path / "nowhere.json")


def user(text: str) -> UserMessage:
    return UserMessage(content=(TextPart(text=text),))


def test_a_swipe_decides_what_the_next_turn_shows() -> None:
    chat = Chat()
    chat.ask(user("one"))
    for text in ("first", "second"):
        chat.open_reply().add(AssistantMessage(text=text))
    assert [message.role for message in chat.unanswered().messages] == ["user"]
    chat.swipe(0)
    chat.ask(user("two"))
    shown = chat.unanswered().messages
    assert [message.role for message in shown] == ["user", "assistant", "user"]
    assert shown[1] == AssistantMessage(text="first")
