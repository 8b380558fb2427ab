"""Scripts: what fits is read, what doesn't is refused with the place and the reason."""

import json
from pathlib import Path

import pytest

from core.api.chat import AssistantMessage, TextPart, UserMessage
from core.api.errors import InvalidRequestError
from core.api.params import CacheSettings
from core.replay.chats import Chat, read_script
from core.replay.steps import Script, SettingsStep


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


def test_the_steps_around_chats_are_read(tmp_path: Path) -> None:
    script = read(
        tmp_path,
        {**SEND, "cancel_prefill_after_tokens": 0},
        {"op": "side", "chat": "a", "content": "A title?", "sampling": {"max_tokens": 2}},
        {"op": "fork", "chat": "a", "to": "b", "message": 1},
        {"op": "settle", "chat": "b"},
        {"op": "forget", "chat": "b"},
        {"op": "fork", "chat": "a", "to": "b", "message": 0},
        {"op": "regenerate", "chat": "b"},
        {"op": "restart"},
        {"op": "restart", "kill": True},
        {"op": "load", "model": "../other"},
        {"op": "settings", "checkpoints": 3, "interval": 64, "disk_bytes": 0},
        {"op": "settings", "count": 4, "disk_bytes": None},
    )
    three, four = (step for step in script.steps if isinstance(step, SettingsStep))
    changed = three.applied_to(CacheSettings(host_bytes=9))
    assert changed == CacheSettings(count=3, interval=64, disk_bytes=0, host_bytes=9)
    assert four.applied_to(changed) == CacheSettings(count=4, interval=64, host_bytes=9)


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ({"op": "jump", "chat": "a"}, "steps.1"),
        ({"op": "send", "chat": "a"}, "steps.1.send.content"),
        ({"op": "send", "chat": "a", "content": "x", "speed": 1}, "steps.1.send.speed"),
        ({"op": "send", "chat": "a", "content": [{"video": "x"}]}, "steps.1"),
        ({"op": "edit", "chat": "a", "message": 1, "content": "x"}, "message 1 isn't a user"),
        ({"op": "edit", "chat": "a", "message": 9, "content": "x"}, "message 9 isn't a user"),
        ({"op": "delete", "chat": "a", "from": 2}, "no message 2"),
        ({"op": "swipe", "chat": "a", "reply": 1}, "no reply 1"),
        ({"op": "regenerate", "chat": "other"}, "no message to answer"),
        ({"op": "system", "chat": "a", "content": "late"}, "comes first"),
        ({**SEND, "sampling": {"temperature": -1}}, "temperature"),
        ({**SEND, "sampling": {"seed": True}}, r"steps\.1\.send\.sampling\.seed"),
        ({**SEND, "sampling": {"stop": "x"}}, r"sampling\.stop"),
        ({**SEND, "sampling": {"max_tokens": "5"}}, r"sampling\.max_tokens"),
        ({**SEND, "thinking": "on"}, r"steps\.1\.send\.thinking"),
        ({**SEND, "stop_after_tokens": 0}, "stop_after_tokens"),
        ({**SEND, "cancel_prefill_after_tokens": -1}, "cancel_prefill_after_tokens"),
        ({"op": "fork", "chat": "a", "to": "b", "message": 2}, r"steps\.1: there is no message 2"),
        ({"op": "fork", "chat": "a", "to": "a", "message": 0}, "has begun already"),
        ({"op": "fork", "chat": "a", "message": 0}, r"steps\.1\.fork\.to"),
        ({"op": "side", "chat": "a"}, r"side\.content"),
        ({"op": "restart", "chat": "a"}, r"steps\.1\.restart\.chat"),
        ({"op": "restart", "kill": "perhaps"}, r"steps\.1\.restart\.kill"),
        ({"op": "load"}, r"load\.model"),
        ({"op": "settings"}, "no setting is named"),
        ({"op": "settings", "count": 257}, "count"),
        ({"op": "settings", "host_bytes": -1}, "host_bytes"),
        ({"op": "settings", "chat": "a", "count": 1}, r"settings\.chat"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    tmp_path: Path, step: object, place: str
) -> None:
    with pytest.raises(InvalidRequestError, match=place):
        read(tmp_path, SEND, step)


def test_what_was_forgotten_is_gone_for_the_script_too(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"steps\.2: there is no message to answer"):
        read(tmp_path, SEND, {"op": "forget", "chat": "a"}, {"op": "regenerate", "chat": "a"})


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


def test_a_fork_shows_what_is_selected_and_goes_its_own_way() -> None:
    chat = Chat()
    chat.ask(user("one"))
    for text in ("first", "second"):
        chat.open_reply().add(AssistantMessage(text=text))
    chat.swipe(0)
    fork = chat.fork(1)
    chat.swipe(1)
    fork.ask(user("two"))
    assert [message.role for message in fork.unanswered().messages] == ["user", "assistant", "user"]
    assert fork.unanswered().messages[1] == AssistantMessage(text="first")
    assert len(chat.messages) == 2
