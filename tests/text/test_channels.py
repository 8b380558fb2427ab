"""Replies in several messages, read and shown again; turns of the published template of gpt-oss."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from core.api.chat import AssistantMessage, Conversation, Tool, ToolCall, ToolMessage
from core.api.params import Thinking
from core.api.reply_format import ReplyFormat
from core.engine.sampling import Constraint
from core.server.calls import CallPart, CallReader
from core.text.chat_text import ChatText, RenderedPrompt
from tests.gguf.vocabularies import llama_models
from tests.text.chats import GRID, TextOf, added_id, chat, sampled, system, user, words
from tests.text.tiny_tokenizer import write_text_folder

FUNCTION = {
    "type": "function",
    "function": {
        "name": "weather", "description": "The weather.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
    },
}  # fmt: skip
TOOLS = (Tool(name="weather", definition=json.dumps(FUNCTION)),)
THOUGHT = "<|channel|>analysis<|message|>It shows two.<|end|><|start|>assistant"
FINAL = "<|channel|>final<|message|>Two red dots"
CALL = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> ChatText:
    source = llama_models() / "templates" / "openai-gpt-oss-120b.jinja"
    folder = tmp_path_factory.mktemp("published")
    return ChatText.open(write_text_folder(folder, "harmony", source.read_text("utf-8")))


def ids_of(text: ChatText, written: str) -> list[int]:
    return text._kit.tokenizer.encode_published(written)


def read(text: ChatText, written: str, calls: bool = False, end: str = "") -> tuple[str, str]:
    """Answer and thought of a reply, each token for itself."""
    reader = text.reply_reader(text.render(chat("a"), [], None, GRID), (), calls=calls)
    answer = thought = ""
    for token_id in [*ids_of(text, written), *([added_id(text, end)] if end else [])]:
        delta = reader.push(token_id)
        answer, thought = answer + delta.answer, thought + delta.reasoning
    assert reader.finished == bool(end)
    last = reader.close()
    assert reader.reply_ids() == ids_of(text, written)
    assert (answer + last.answer, thought + last.reasoning) == (reader.answer, reader.reasoning)
    return reader.answer, reader.reasoning


@pytest.mark.parametrize(
    ("written", "answer", "thought"),
    [
        (FINAL, "Two red dots", ""),
        (f"{THOUGHT}{FINAL}", "Two red dots", "It shows two."),
        (THOUGHT, "", "It shows two."),
        ("<|channel|>analysis<|message|>It", "", "It"),
        ("<|channel|>analysis", "", ""),
        (f"{THOUGHT}{THOUGHT}{FINAL}", "Two red dots", "It shows two.\n\nIt shows two."),
        ("<|channel|>commentary<|message|>I look.<|end|><|start|>assistant" + FINAL,
         "I look.\n\nTwo red dots", ""),
        ("<|channel|>final <|constrain|>json<|message|>{}", "{}", ""),
        # What is in no message is not lost.
        ("Two red dots", "Two red dots", ""),
        (" to the end", " to the end", ""),
        (" to", " to", ""),
        (" to=functions.weather<|channel|>commentary json<|message|>{}", "{}", ""),
        ("<|message|>Two", "Two", ""),
        ("", "", ""),
    ],
)  # fmt: skip
def test_a_reply_is_read_message_by_message(
    text_of: TextOf, written: str, answer: str, thought: str
) -> None:
    text = text_of("harmony")
    for end in ("", "<|return|>"):
        assert read(text, written, end=end) == (answer, thought)


def test_a_header_that_never_ends_is_text(text_of: TextOf) -> None:
    words = "no header is so long " * 40
    answer, _ = read(text_of("harmony"), f"<|channel|>{words}")
    assert words.endswith(answer) and len(answer) > 100


@pytest.mark.parametrize(
    "header", [CALL, " to=functions.weather<|channel|>commentary json<|message|>"]
)
def test_a_call_is_found_in_either_header(text_of: TextOf, header: str) -> None:
    text = text_of("harmony")
    asked = THOUGHT + header + '{"town": "Caf\u00e9 <|call|>"}'
    answer, thought = read(text, asked.replace("<|call|>", "-"), calls=True, end="<|call|>")
    assert thought == "It shows two."
    reader = CallReader("harmony", TOOLS)
    pieces = [*reader.push(answer), *reader.close()]
    (call,) = pieces
    assert isinstance(call, ToolCall) and call.name == "weather"
    assert json.loads(call.arguments) == {"town": "Caf\u00e9 -"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('<|call|>weather<|message|>{"town', True),
        ("<|call|>weather<|call|>", False),
        ("<|call|><|call|>", False),
    ],
)
def test_a_call_that_is_cut_off_is_text(text: str, named: bool) -> None:
    """The name of a call is told as soon as it is complete."""
    reader = CallReader("harmony", TOOLS)
    pieces = [*reader.push(text), *reader.close()]
    assert "".join(each for each in pieces if isinstance(each, str)) == text
    started = [each.call.name for each in pieces if isinstance(each, CallPart)]
    assert started == (["weather"] if named else [])
    assert not any(isinstance(each, ToolCall) for each in pieces)


def turns(
    text: ChatText, replies: Sequence[AssistantMessage], thinking: Thinking
) -> RenderedPrompt:
    said = [message for reply in replies for message in (reply, user("And then?"))]
    return text.render(chat(system("Be brief."), "Why?", *said), [], thinking, GRID)


@pytest.mark.parametrize("thinking", [None, False, "high"])
def test_T1_three_turns_of_the_published_template(published: ChatText, thinking: Thinking) -> None:
    """Thoughts are gone on the next turn, and everything else is spliced in."""
    assert published.spliced and published.has_thinking_switch and published.tools == "harmony"
    answer = AssistantMessage(text="Two red dots", reasoning="It shows two.")
    ids = ids_of(published, THOUGHT + FINAL)
    reply = answer.model_copy(update={"ids": sampled(published, ids).ids})
    before: list[int] = []
    for count in range(3):
        spliced = turns(published, [reply] * count, thinking).prompt
        assert spliced.ids(0) == turns(published, [answer] * count, thinking).prompt.ids(0)
        shown = words(published, spliced.ids(0))
        assert shown.count("<|channel|>final<|message|>Two red dots<|end|>") == count
        effort = thinking or ("low" if thinking is False else "medium")
        assert f"Reasoning: {effort}\n" in shown and "It shows" not in shown
        assert "<|start|>developer<|message|># Instructions\n\nBe brief.\n\n<|end|>" in shown
        assert spliced.ids(0)[: len(before)] == before
        assert len(before) in {0, *(cut.token.value for cut in spliced.cuts)}
        # All but the role, with which the next message begins as well.
        before = spliced.ids(0)[: -len(ids_of(published, "<|start|>assistant"))]


def test_T3_a_reply_goes_on_where_it_stopped(published: ChatText) -> None:
    asked = turns(published, [], None).prompt.ids(0)
    for written in (THOUGHT[:40], THOUGHT, THOUGHT + FINAL):
        ids = ids_of(published, written)
        reply = AssistantMessage(text="", ids=sampled(published, ids).ids)
        conversation = chat(system("Be brief."), "Why?", reply)
        rendered = published.render(conversation, [], None, GRID)
        assert rendered.prompt.ids(0) == asked + ids
        reader = published.reply_reader(rendered, ())
        for token_id in ids_of(published, "." if written.endswith("dots") else ""):
            assert reader.push(token_id).answer == "."
    other = AssistantMessage(text="Two red dots")
    rendered = published.render(chat(system("Be brief."), "Why?", other), [], None, GRID)
    assert rendered.prompt.ids(0) == asked + ids_of(published, FINAL)


def test_T2_an_edited_answer_keeps_its_header_and_thought(published: ChatText) -> None:
    ids = ids_of(published, THOUGHT + FINAL)
    packed = sampled(published, ids).ids
    reply = AssistantMessage(text="Two red dots", reasoning="It shows two.", ids=packed)
    for edited in ("Two blue dots", "One"):
        found = published.edited_ids(reply, edited)
        assert found is not None
        assert words(published, found.unpack()) == THOUGHT + FINAL.replace("Two red dots", edited)


def test_T2_a_call_stays_as_it_was_sampled(published: ChatText) -> None:
    ids = ids_of(published, THOUGHT + CALL + '{"town":  "a"}')
    call = ToolCall(name="weather", arguments='{"town": "a"}', id="1")
    reply = sampled(published, ids).model_copy(update={"calls": (call,), "reasoning": "It shows"})
    result = ToolMessage(text='It "rains"', call="1", name="weather")
    answer = sampled(published, ids_of(published, FINAL), answer="Two red dots")

    def shown(*messages: object) -> list[int]:
        conversation = Conversation.model_validate(
            {"messages": [user("How?"), *messages], "tools": TOOLS}
        )
        return published.render(conversation, [], None, GRID).prompt.ids(0)

    asked, after = shown(), shown(reply, result)
    assert after[: len(asked) + len(ids)] == [*asked, *ids]
    rest = words(published, after[len(asked) + len(ids) :])
    assert rest == (
        '<|call|><|start|>functions.weather to=assistant<|channel|>commentary<|message|>"It '
        '\\"rains\\""<|end|><|start|>assistant'
    )
    # Once it is answered, the template drops the thought.
    done = words(published, shown(reply, result, answer, user("Why?"))[len(asked) :])
    assert done.startswith(CALL + '{"town":  "a"}<|call|><|start|>functions.weather')
    assert "It shows" not in done and "Two red dots<|end|>" in done


def test_a_template_of_other_channels_is_no_harmony(tmp_path: Path) -> None:
    template = "{% for m in messages %}<|start|>{{ m.content }}<|end|>{% endfor %}"
    text = ChatText.open(write_text_folder(tmp_path, "harmony", template))
    assert not text.in_messages and text.stop_ids == text.end_of_turn_ids


@pytest.mark.parametrize("thinking", [None, False])
def test_P3_the_last_message_is_held_to_a_format(published: ChatText, thinking: Thinking) -> None:
    rendered = published.render(chat("a"), [], thinking, GRID)
    form = ReplyFormat(kind="choice", choices=("Two", "One"))
    constraint = Constraint(form, published, rendered, thinking)
    size = published.vocab_size

    def allowed() -> set[int]:
        row = constraint.limit(torch.zeros(size))
        return set((row == 0).nonzero().flatten().tolist())

    assert allowed() == {added_id(published, "<|channel|>")}
    header = "<|channel|>final<|message|>"
    for token_id in ids_of(published, header if thinking is False else THOUGHT + header):
        assert token_id in allowed() and not allowed() & published.stop_ids
        constraint.accept(token_id)
    shown = "".join(published._kit.tokens.text([each]) for each in allowed())
    assert shown and set(shown) <= set("TwoOne")
    for letter in ids_of(published, "One"):
        constraint.accept(letter)
    assert allowed() == published.stop_ids
