"""Replies go back to vLLM as the ids that it sampled, or as texts where that can't be right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from core.api.chat import (
    AssistantMessage,
    Conversation,
    ImagePart,
    ReplyIds,
    SystemMessage,
    TextPart,
    UserMessage,
)
from core.api.params import SamplingParams
from core.api.reply_format import ReplyFormat
from core.remote.body import PLACE
from core.remote.messages import Reply
from tests.remote.fake_server import Answer, Asked, FakeServer, as_json, delta, streamed
from tests.remote.talking import QUICK, Talk, asked, reply_of, talk

LONGEST = 4096
# Two letters in one id: the tokenizer of the tests writes one for each.
PAIR = 0xE000 + ord("e") - ord("a")


def spelled(ids: list[int]) -> str:
    return "".join("Y" + chr(each - 0xE000 + ord("a")) if each >= 0xE000 else chr(each)
                   for each in ids)  # fmt: skip


def tokenize(request: Asked) -> Answer:
    body = request.body
    text = body.get("prompt", "")
    for message in body.get("messages", ()):
        text += f"<{message['role'][0]}>{message['content']}</>"
    if body.get("add_generation_prompt"):
        text += "<a>"
    return as_json({"count": len(text), "max_model_len": LONGEST, "tokens": [*map(ord, text)]})


def detokenize(request: Asked) -> Answer:
    return as_json({"prompt": spelled(request.body["tokens"])})


def part(text: str, ids: list[Any], reason: str | None = None, **more: object) -> Any:
    choice = {"index": 0, "text": text, "token_ids": ids, "finish_reason": reason, **more}
    return {"model": "m", "choices": [choice]}


def vllm(server: FakeServer) -> None:
    server.tells |= {"/tokenize": tokenize, "/detokenize": detokenize}
    server.on("/v1/completions", streamed(part("No", [78, 111]), part("", [0], "stop")))
    server.chat(streamed(delta("Yes", reason="stop")))


def chat(server: FakeServer, **changes: Any) -> Reply:
    """The next question after a reply of the server's."""
    given = {"name": f"{server.address} m", "reply": "Yes", "first": "Is it?", **changes}
    ids = ReplyIds.pack(given.pop("ids", [PAIR, ord("s")]), given["name"], False)
    first = given.get("picture") or TextPart(text=given["first"])
    reply = AssistantMessage(text=given["reply"], reasoning=given.get("thought", ""), ids=ids)
    messages = (
        SystemMessage(text="Be short."), UserMessage(content=(first,)), reply,
        UserMessage(content=(TextPart(text="And now?"),)),
    )  # fmt: skip
    conversation = Conversation(messages=messages)
    more = {"thinking": given["thinking"]} if "thinking" in given else {}
    generate = asked(conversation=conversation, sampling=given.get("sampling", SamplingParams()),
                     format=given.get("format"), **more)  # fmt: skip
    return reply_of(server.address, generate, kind="vllm", key="secret")


def test_a_reply_goes_back_as_the_ids_that_were_sampled() -> None:
    form = ReplyFormat(kind="json")
    with FakeServer() as server:
        vllm(server)
        heard = talk(chat(server, sampling=SamplingParams(temperature=0.5), format=form))
    assert heard.text == "No"
    last = server.asked[-1]
    assert last.path == "/v1/completions" and "messages" not in last.body
    prompt = last.body["prompt"]
    assert spelled(prompt) == "<s>Be short.</><u>Is it?</><a>Yes</><u>And now?</><a>"
    assert prompt.count(PAIR) == 1 and ord("Y") not in prompt
    assert last.body["max_tokens"] == LONGEST - len(prompt)
    assert last.body["response_format"] == {"type": "json_object"}
    assert (last.body["temperature"], last.body["return_token_ids"]) == (0.5, True)
    assert {each.headers["authorization"] for each in server.asked} == {"Bearer secret"}
    reply = heard.finished.reply
    assert reply.ids is not None and reply.ids.unpack() == [78, 111]


def test_a_limit_of_the_users_is_kept() -> None:
    with FakeServer() as server:
        vllm(server)
        talk(chat(server, sampling=SamplingParams(max_tokens=7)))
    assert server.asked[-1].body["max_tokens"] == 7


Change = Callable[[FakeServer], None]
NO_TOKENS = as_json({"tokens": "none", "max_model_len": LONGEST})
BROKEN: dict[str, Change] = {
    "no such route": lambda server: server.tells.clear(),
    "no list": lambda server: server.tells.update({"/tokenize": lambda _: NO_TOKENS}),
    "no object": lambda server: server.tells.update({"/tokenize": lambda _: as_json([1])}),
    "another tokenizer": lambda server: server.tells.update(
        {"/detokenize": lambda _: as_json({"prompt": "Not"})}
    ),
    "no text": lambda server: server.tells.update({"/detokenize": lambda _: as_json([])}),
    "a restart": lambda server: server.tells.update({"/tokenize": lambda _: as_json({}, 503)}),
    "no end": lambda server: server.tells.update({"/tokenize": lambda _: Answer(end="hang")}),
    "ids refused": lambda server: server.on("/v1/completions", as_json({"error": "no"}, 400)),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_texts_are_sent_if_the_server_does_not_take_ids(change: Change) -> None:
    with FakeServer() as server:
        vllm(server)
        change(server)
        heard = talk(chat(server), replace(QUICK, look_s=0.5))
    assert heard.text == "Yes"
    assert server.asked[-1].body["messages"][2]["content"] == "Yes"


CHATS: dict[str, dict[str, Any]] = {
    "a thought": {"thought": "Hm."},
    "thinking": {"thinking": True},
    "a picture": {"picture": ImagePart(digest="0" * 64, path="", name="")},
    "another model": {"name": "http://other/v1 m"},
    "the place's own words": {"first": PLACE},
    "too long": {"ids": [PAIR] * LONGEST, "reply": "Ye" * LONGEST},
    "no ids": {"ids": []},
}


@pytest.mark.parametrize("changes", CHATS.values(), ids=CHATS)
def test_texts_are_sent_if_ids_are_not_the_whole_chat(changes: dict[str, Any]) -> None:
    with FakeServer() as server:
        vllm(server)
        heard: Talk = talk(chat(server, **changes))
    if "picture" in changes:
        assert heard.error == "ImageUnreadableError"
    else:
        assert heard.text == "Yes"
    assert "/v1/completions" not in {each.path for each in server.asked}


@pytest.mark.parametrize(("last", "kept"), [
    (part("", [0], "stop", stop_reason=None), [78, 111]),
    (part("", [0], "stop", stop_reason=0), [78, 111]),
    (part("", [3], "length", stop_reason=None), [78, 111, 3]),
    (part("", [3], "stop", stop_reason="END"), None),
    (part("x", [3.5], "stop"), None),
])  # fmt: skip
def test_the_ids_of_a_reply_are_those_of_its_text(last: Any, kept: list[int] | None) -> None:
    with FakeServer() as server:
        vllm(server)
        server.on("/v1/completions", streamed(part("No", [78, 111]), last))
        ids = talk(chat(server)).finished.reply.ids
    assert (ids.unpack() if ids else None) == kept


def test_A5_an_error_amid_a_reply_to_ids_is_not_asked_again() -> None:
    with FakeServer() as server:
        vllm(server)
        broken = streamed(part("No", [78, 111]), {"error": {"message": "out of memory"}})
        server.on("/v1/completions", broken)
        heard = talk(chat(server))
    assert (heard.text, heard.error) == ("No", "RemoteRefusedError")
    assert "/v1/chat/completions" not in {each.path for each in server.asked}
