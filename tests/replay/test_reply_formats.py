"""Steps that say what form their reply has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.api.errors import InvalidRequestError
from core.api.limits import FORMAT_TOKENS
from core.api.reply_format import ReplyFormat
from core.replay.chats import read_script
from core.replay.steps import Send
from desktop.chat.compose.format_dialog import SCHEMA
from tests.replays import run

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "resources" / "models" / "demo"


def send(form: object) -> dict[str, Any]:
    return {"op": "send", "chat": "a", "content": "Hello.", "format": form}


def write(folder: Path, *steps: object) -> Path:
    path = folder / "script.json"
    path.write_text(json.dumps({"steps": steps, "sampling": {"max_tokens": 4}}))
    return path


@pytest.mark.parametrize(
    ("form", "asked"),
    [
        ({"json": True}, ReplyFormat(kind="json")),
        (
            {"json_schema": {"type": "null"}},
            ReplyFormat(kind="json_schema", text='{"type": "null"}'),
        ),
        ({"regex": "a+"}, ReplyFormat(kind="regex", text="a+")),
        ({"choice": ["a", "b"]}, ReplyFormat(kind="choice", choices=("a", "b"))),
        ({"lark": 'start: "a"'}, ReplyFormat(kind="lark", text='start: "a"')),
    ],
)
def test_each_form_is_read(tmp_path: Path, form: object, asked: ReplyFormat) -> None:
    (step,) = read_script(write(tmp_path, send(form))).steps
    assert isinstance(step, Send) and step.format is not None
    assert step.format.asked_for() == asked


@pytest.mark.parametrize(
    "form",
    [{}, {"json": True, "regex": "a"}, {"json": False}, {"json": None}, {"yaml": True},
     {"choice": [""]}, {"choice": "a"}, {"regex": "a" * 300_000}],
)  # fmt: skip
def test_no_form_and_two_forms_are_refused_with_the_place(tmp_path: Path, form: object) -> None:
    with pytest.raises(InvalidRequestError, match=r"steps\.0\.send\.format"):
        read_script(write(tmp_path, send(form)))


@pytest.mark.slow
def test_P3_the_bench_script_is_held_to_its_forms() -> None:
    script = ROOT / "tests" / "bench" / "held_replies.json"
    plain, drafted = (
        run(script, "--model", DEMO, "--device", "cpu", "--dtype", "bfloat16", "--context", 1024,
            "--draft", *draft).answers
        for draft in (("off",), ("lookup", "--draft-tokens", 7, "--draft-noise", 0.3))
    )  # fmt: skip
    for line in plain[:4]:
        assert line["finish_reason"] == "stop" and line["format_valid"] is True
    assert json.loads(plain[0]["reply"]).keys() == {"shape", "colour", "size", "seen"}
    cut, free = plain[4:]
    assert cut["format_valid"] is (cut["finish_reason"] == "stop")
    assert free["format_valid"] is None
    assert [line["reply_ids"] for line in drafted] == [line["reply_ids"] for line in plain]
    assert any(line["draft"]["accepted"] for line in drafted)


def demo(folder: Path, schema: str, count: int) -> list[dict[str, Any]]:
    """Replies of the demo model to a question about a picture, by a schema."""
    form = {"json_schema": json.loads(schema)}
    picture = {"image": str(ROOT / "resources" / "samples" / "three-shapes.png")}
    steps = [
        {
            "op": "send",
            "chat": str(seed),
            "content": [picture, {"text": "List the shapes."}],
            "format": form,
            "sampling": {"seed": seed, "temperature": 1.0},
        }
        for seed in range(count)
    ]
    script = folder / "script.json"
    script.write_text(json.dumps({"steps": steps}))
    return run(script, "--model", DEMO, "--device", "cpu", "--context", 8192).answers


@pytest.mark.slow
def test_the_windows_example_schema_ends_and_is_valid_on_the_demo_model(tmp_path: Path) -> None:
    lines = demo(tmp_path, SCHEMA, 12)
    assert [(line["finish_reason"], line["format_valid"]) for line in lines] == [
        ("stop", True)
    ] * 12
    assert any(len(json.loads(line["reply"])) > 1 for line in lines)
    assert not any(line["reasoning"] for line in lines)


@pytest.mark.slow
def test_a_schema_without_an_end_does_not_fill_the_context(tmp_path: Path) -> None:
    endless = '{"type": "array", "items": {"type": "string"}, "minItems": 1000000}'
    for line in demo(tmp_path, endless, 1):
        assert line["finish_reason"] in ("repetition", "format_length")
        assert len(line["reply_ids"]) <= FORMAT_TOKENS


def test_a_format_that_cannot_be_used_is_the_steps_error(tmp_path: Path) -> None:
    script = write(tmp_path, send({"json_schema": {"uniqueItems": True}}), send({"regex": "(a"}))
    done = run(script, "--model", DEMO, "--device", "cpu", "--context", 256)
    assert done.code == 1
    for line, words in zip(done.lines, ("uniqueItems", "unclosed group"), strict=True):
        assert line["error"]["name"] == "ReplyFormatError" and words in line["error"]["message"]
        assert line["format_valid"] is None and line["finish_reason"] == "error"
