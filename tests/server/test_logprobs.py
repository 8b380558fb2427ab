"""Log probabilities of tokens: of the model's own logits, and only of the answer's text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.api.chat import Tool
from core.api.events import AnswerToken, Generated
from core.api.params import DraftSettings, SamplingParams
from core.api.reply_format import ReplyFormat
from core.engine import reply, sampling
from core.server.calls import CallReader, Said
from core.server.requests.ask import Delta
from core.text.tokenizer import byte_alphabet
from tests.oracle.checkpoints import token_id, tokenizer
from tests.promises.machine import Answer, Machine, load, user
from tests.server.serving import Served, serving_model

FolderOf = Callable[[str], Path]
HELLO = "one two three one two three one two"
MESSAGES: Any = [{"role": "user", "content": HELLO}]
SAMPLING = SamplingParams(temperature=0, max_tokens=12)
Logits = list[np.ndarray[Any, Any]]


def log_softmax(logits: Any) -> Any:
    values = np.asarray(logits, np.float64)
    shifted = values - values.max()
    return shifted - np.log(np.exp(shifted).sum())


def tokens_of(answer: Answer) -> list[AnswerToken]:
    events = (each for each in answer.events if isinstance(each, Generated))
    return [token for each in events for token in each.logprobs]


def text_of(tokens: Sequence[AnswerToken]) -> str:
    return b"".join(each.bytes for each in tokens).decode(errors="replace")


def is_shown(token: int) -> bool:
    return bool(tokenizer().decode([token]))


def ids_of(text: str) -> list[int]:
    return list(tokenizer().encode(text).ids)


@dataclass
class World:
    served: Served
    answer: Answer

    def expected(self, num_top: int) -> list[tuple[float, list[float]]]:
        """The log probability of each shown token, and the highest ones in its place."""
        rows = [log_softmax(row) for row in self.answer.rows]
        return [
            (float(row[token]), np.sort(row)[::-1][:num_top].tolist())
            for row, token in zip(rows, self.answer.ids, strict=True)
            if is_shown(token)
        ]

    def check(self, tokens: Sequence[Any], num_top: int) -> None:
        for token, (logprob, top) in zip(tokens, self.expected(num_top), strict=True):
            assert token.logprob == pytest.approx(logprob, abs=1e-4)
            assert [each.logprob for each in token.top_logprobs] == pytest.approx(top, abs=1e-4)
            assert token.token == bytes(token.bytes).decode(errors="replace")


@pytest.fixture(scope="module")
def world(folder_of: FolderOf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = folder_of("hybrid")
    machine = Machine(load(folder, precision="auto", grid=512))
    answer = machine.ask([user(HELLO)], sampling=SAMPLING, thinking=False)
    assert answer.reply.text and not answer.reply.reasoning
    with serving_model(folder, tmp_path_factory.mktemp("server")) as served:
        yield World(served, answer)


def content_of(tokens: Sequence[Any]) -> str:
    return b"".join(bytes(each.bytes) for each in tokens).decode(errors="replace")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("num_top", [0, 3, 20])
def test_A3_a_chats_logprobs_are_the_log_softmax_of_the_logits(
    world: World, num_top: int, stream: bool
) -> None:
    create: Callable[..., Any] = world.served.openai().chat.completions.create
    options = {"temperature": 0, "max_tokens": 12, "reasoning_effort": "none", "stream": stream}
    asked: dict[str, Any] = {"logprobs": True, "top_logprobs": num_top, **options}
    done = create(model="any", messages=MESSAGES, **asked)
    if stream:
        choices = [chunk.choices[0] for chunk in done]
        text = "".join(choice.delta.content or "" for choice in choices)
        told = [each for choice in choices if choice.logprobs for each in choice.logprobs.content]
        assert choices[0].logprobs is None and choices[-1].logprobs is None
    else:
        text, told = done.choices[0].message.content, done.choices[0].logprobs.content
    world.check(told, num_top)
    assert content_of(told) == text


@pytest.mark.parametrize("stream", [False, True])
def test_A3_a_responses_logprobs_are_the_log_softmax_of_the_logits(
    world: World, stream: bool
) -> None:
    create: Callable[..., Any] = world.served.openai().responses.create
    asked: dict[str, Any] = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    options = {"temperature": 0, "max_output_tokens": 12, "stream": stream, **asked}
    done = create(model="any", input=HELLO, reasoning={"effort": "none"}, **options)
    if stream:
        events = list(done)
        deltas = [each for each in events if each.type == "response.output_text.delta"]
        world.check([token for each in deltas for token in each.logprobs], 2)
        (ended,) = (each for each in events if each.type == "response.output_text.done")
        world.check(ended.logprobs, 2)
        done = events[-1].response
    part = done.output[0].content[0]
    world.check(part.logprobs, 2)
    assert content_of(part.logprobs) == part.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("num_top", [0, 5])
def test_A3_a_completions_logprobs_have_offsets_in_its_text(
    world: World, num_top: int, stream: bool
) -> None:
    create: Callable[..., Any] = world.served.openai().completions.create
    options = {"temperature": 0, "max_tokens": 12, "logprobs": num_top, "stream": stream}
    prompt_ids = list(world.answer.finished.prompt_ids)
    prompt = tokenizer().decode(prompt_ids, skip_special_tokens=False)
    done = create(model="any", prompt=prompt, **options)
    choices = [chunk.choices[0] for chunk in done] if stream else done.choices
    text = "".join(choice.text for choice in choices)
    told = [choice.logprobs for choice in choices if choice.logprobs is not None]
    offsets = [offset for each in told for offset in each.text_offset]
    logprobs = [logprob for each in told for logprob in each.token_logprobs]
    expected = world.expected(num_top)
    assert logprobs == pytest.approx([each for each, _ in expected], abs=1e-4)
    assert offsets == sorted(offsets) and offsets[0] == 0 and offsets[-1] < len(text)
    tops = [top for each in told for top in each.top_logprobs]
    tokens = [token for each in told for token in each.tokens]
    # Texts of random tokens are often alike.
    assert all(1 <= len(top) <= num_top + 1 for top in tops)
    assert [top[token] for top, token in zip(tops, tokens, strict=True)] == logprobs
    if num_top:
        highest = [max(top.values()) for top in tops]
        assert highest == pytest.approx([top[0] for _, top in expected], abs=1e-4)


def test_A3_without_logprobs_there_are_none(world: World) -> None:
    client = world.served.openai()
    chat: Any = client.chat.completions.create(model="any", messages=MESSAGES, max_tokens=2)
    told: Any = client.responses.create(
        model="any", input=HELLO, max_output_tokens=2, reasoning={"effort": "none"}
    )
    assert chat.choices[0].logprobs is None and told.output[0].content[0].logprobs == []


@pytest.fixture(scope="module")
def machine(folder_of: FolderOf) -> Machine:
    return Machine(load(folder_of("hybrid")))


def test_nothing_is_computed_unless_asked_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[int]()
    original = sampling.log_probabilities

    def counted(logits: Any, token: int, num_top: int) -> Any:
        calls.append(token)
        return original(logits, token, num_top)

    monkeypatch.setattr(reply, "log_probabilities", counted)
    assert tokens_of(machine.ask([user("Hi")])) == [] and calls == []
    answer = machine.ask([user("Hi")], logprobs=1)
    assert tuple(calls) == answer.ids


def test_A3_logprobs_are_equal_with_drafts_and_however_the_prompt_was_restored(
    machine: Machine,
) -> None:
    settings = SamplingParams(temperature=0.7, seed=3, repetition_penalty=1.3, max_tokens=40)
    asked: dict[str, Any] = {"sampling": settings, "logprobs": 4}
    chat = [user("one two three one two three one two")]
    cold = machine.cold(chat, draft=DraftSettings(mode="off"), **asked)
    for draft in (DraftSettings(mode="off"), DraftSettings(mode="lookup", tokens=5)):
        for _ in range(2):
            assert tokens_of(machine.ask(chat, draft=draft, **asked)) == tokens_of(cold)
    rows = zip(cold.rows, cold.ids, strict=True)
    expected = [float(log_softmax(row)[token]) for row, token in rows if is_shown(token)]
    assert [each.logprob for each in tokens_of(cold)] == pytest.approx(expected, abs=1e-6)
    assert len(expected) > 20


def test_a_formats_mask_is_left_out(machine: Machine) -> None:
    schema = ReplyFormat(kind="json_schema", text='{"enum": [12345]}')
    settings = SamplingParams(temperature=0)
    answer = machine.ask([user("Hi")], sampling=settings, format=schema, thinking=False, logprobs=2)
    told = tokens_of(answer)
    assert text_of(told) == answer.reply.text == "12345"
    assert min(each.logprob for each in told) < -1 and all(len(each.top) == 2 for each in told)


def test_only_tokens_of_the_visible_answer_are_reported(machine: Machine) -> None:
    think, close, end = map(token_id, ("<think>", "</think>", "<|im_end|>"))
    said = [think, *ids_of("so"), close, *ids_of("\n\nthe quick é fox"), end]
    unbound = SamplingParams(temperature=0)
    answer = machine.ask([user("Hi")], sampling=unbound, say=said, thinking=True, logprobs=0)
    told = tokens_of(answer)
    assert answer.reply.reasoning == "so" and text_of(told).strip() == answer.reply.text
    assert told[0].start == 0 and told[-1].end == len(answer.reply.text)
    stopped = machine.ask(
        [user("Hi")],
        sampling=SamplingParams(temperature=0, stop=("fox",)),
        say=[*ids_of("the quick é fox and more"), end],
        logprobs=0,
    )
    assert stopped.reply.text == "the quick é "
    assert [each.start for each in tokens_of(stopped)] == sorted(
        each.start for each in tokens_of(stopped)
    )
    assert all(each.start < len(stopped.reply.text) for each in tokens_of(stopped))
    assert text_of(tokens_of(stopped)).startswith(stopped.reply.text)


def test_a_character_of_several_tokens_and_one_that_breaks_off(machine: Machine) -> None:
    pieces = [ids_of(each)[0] for each in ("a", "b")]
    snow = [token for byte in "☃".encode() for token in [_id_of_byte(byte)]]
    said = [pieces[0], *snow, pieces[1], snow[0]]
    settings = SamplingParams(temperature=0, max_tokens=len(said))
    answer = machine.ask([user("Hi")], sampling=settings, say=said, logprobs=0)
    told = tokens_of(answer)
    assert answer.reply.text == "a☃b\ufffd" and len(told) == len(said)
    assert [each.start for each in told] == [0, 1, 1, 1, 2, 3]


def _id_of_byte(byte: int) -> int:
    letter = next(letter for letter, value in byte_alphabet().items() if value == byte)
    return token_id(letter)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_tokens_of_tool_calls_are_left_out(size: int) -> None:
    tools = (Tool(name="f", definition='{"type": "function", "function": {"name": "f"}}'),)
    call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    text = f"Sure. Look:\n{call}\n{call} ok <tool_call> no"
    said = Said(CallReader("hermes", tools))
    deltas = list[Delta]()
    for at in range(0, len(text), size):
        piece = text[at : at + size]
        tokens = [
            AnswerToken(bytes=each.encode(), logprob=-1.0, start=at + index, end=at + index + 1)
            for index, each in enumerate(piece)
        ]
        deltas += said.push(piece, tokens)
    deltas += said.close()
    assert len(said.calls) == 2
    for delta in deltas:
        assert text_of(list(delta.logprobs)) == delta.answer
    assert text_of(said.logprobs) == "".join(each.answer for each in deltas)
    assert text_of(said.logprobs).startswith("Sure. Look:")
