"""`/v1/completions` and `/tokenize`: prompts without a template."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from core.api.chat import Conversation
from core.client.programs import RESOURCES
from tests.server.serving import ScriptedEngine, Served, serving, serving_model

PROMPT = "def add(a, b):\n"
DEMO = RESOURCES / "models" / "demo"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    engine = ScriptedEngine(then="Hm. |return a + b")
    with serving(engine.connect, tmp_path_factory.mktemp("server")) as served:
        yield served


@pytest.mark.parametrize("prompt", [PROMPT, [PROMPT]])
def test_a_completion_as_a_whole(served: Served, engine: ScriptedEngine, prompt: Any) -> None:
    done = served.openai().completions.create(model="any", prompt=prompt, stop=["\n\n"])
    assert (done.choices[0].text, done.choices[0].finish_reason) == ("Hm. return a + b", "stop")
    assert done.usage is not None and done.usage.prompt_tokens == 10
    command = engine.commands[0]
    assert command.conversation.raw == PROMPT and command.conversation.messages == ()
    assert (command.sampling.max_tokens, command.sampling.stop) == (16, ("\n\n",))


def test_a_completion_as_a_stream(served: Served) -> None:
    chunks = list(
        served.openai().completions.create(
            model="any",
            prompt=PROMPT,
            stream=True,
            stream_options={"include_usage": True},
            max_tokens=99,
        )
    )
    text = "".join(choice.text for chunk in chunks for choice in chunk.choices)
    assert text == "Hm. return a + b"
    assert chunks[-1].usage is not None and chunks[-2].choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"echo": True}, "echo"),
        ({"suffix": "}"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"n": 2}, "n"),
        ({"logprobs": 6}, "logprobs"),
    ],
)
def test_A3_a_completions_error_names_the_field(
    served: Served, fields: dict[str, object], field: str
) -> None:
    body = json.dumps({"prompt": PROMPT, **fields}).encode()
    status, answer = served.raw("/v1/completions", body)
    assert (status, json.loads(answer)["error"]["param"]) == (400, field)


def tokens(served: Served, **body: object) -> tuple[int, dict[str, Any]]:
    status, answer = served.raw("/tokenize", json.dumps(body).encode())
    return status, json.loads(answer)


@pytest.mark.parametrize(
    ("body", "conversation"),
    [
        ({"content": "a"}, Conversation(messages=(), raw="a")),
        ({"prompt": "b"}, Conversation(messages=(), raw="b")),
    ],
)
def test_tokens_are_counted(
    served: Served, engine: ScriptedEngine, body: dict[str, object], conversation: Conversation
) -> None:
    assert tokens(served, **body) == (200, {"count": 3, "tokens": [5, 6, 7], "max_model_len": 100})
    assert engine.counted[-1].conversation == conversation
    assert tokens(served)[0] == 400 and tokens(served, prompt=7)[0] == 400


def test_a_real_models_tokens_and_completions(tmp_path: Path) -> None:
    """Ids equal the tokenizer's own, control tokens included; a longer prompt is reused."""
    text = "<|im_start|>user\nHello, what do you see?<|im_end|>\n<|im_start|>assistant\n"
    oracle = Tokenizer.from_file(str(DEMO / "tokenizer.json"))
    with serving_model(DEMO, tmp_path) as served:
        found = tokens(served, prompt=text)[1]
        assert found["tokens"] == oracle.encode(text).ids
        messages = [{"role": "user", "content": "Hello, what do you see?"}]
        chat = tokens(served, messages=messages, reasoning_effort="none")[1]
        assert chat["tokens"][: found["count"]] == found["tokens"]
        complete: Callable[..., Any] = served.openai().completions.create
        first = complete(model="any", prompt=text * 20, temperature=0, max_tokens=8)
        again = complete(model="any", prompt=text * 21, temperature=0, max_tokens=8)
        alone = complete(model="any", prompt=text * 20, temperature=0, max_tokens=8)
        assert again.timings["cache_n"] > 0.9 * first.usage.prompt_tokens
        # The longer prompt goes on from the last message's end.
        assert alone.timings["prompt_n"] < 10 and alone.choices == first.choices
        assert tokens(served, prompt="")[0] == 400
