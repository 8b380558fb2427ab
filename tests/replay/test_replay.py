"""The headless runner as its users meet it: scripts in, lines out, a worker between."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from core.client.lock import DataFolderLock
from core.replay.player import EMPTY_LINE
from tests.promises.fixtures import FolderOf, PictureOf
from tests.promises.machine import last_end, words
from tests.replays import Run, run

Played = Callable[..., Run]
SCRIPT: dict[str, Any] = {
    "sampling": {"temperature": 1.2, "top_p": 0.9, "seed": 5, "max_tokens": 6},
    "steps": [
        {"op": "system", "chat": "a", "content": "Be brief."},
        {"op": "send", "chat": "a", "content": [{"image": "one.png"}, {"text": words(60)}]},
        {"op": "send", "chat": "a", "content": "And then?", "stop_after_tokens": 2},
        {"op": "regenerate", "chat": "a", "sampling": {"temperature": 0, "max_tokens": 3}},
        {"op": "swipe", "chat": "a", "reply": 0},
        {"op": "send", "chat": "a", "content": [{"text": "This?"}, {"image": "two.png"}]},
        {"op": "send", "chat": "b", "content": words(100)},
        {"op": "edit", "chat": "a", "message": 2, "content": "Or so?"},
        {"op": "delete", "chat": "a", "from": 2},
        {"op": "regenerate", "chat": "a"},
    ],
}
ANSWERED = [1, 2, 3, 5, 6, 7, 9]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory, picture: PictureOf) -> Path:
    folder = tmp_path_factory.mktemp("script")
    for seed, name in enumerate(("one.png", "two.png")):
        shutil.copy(picture(seed, "wide").path, folder / name)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    return folder / "script.json"


@pytest.fixture(scope="module")
def played(script: Path, folder_of: FolderOf) -> Played:
    """The script with some options, played once for all tests that ask for them."""
    fixed = ("--model", folder_of("hybrid"), "--device", "cpu", "--dtype", "float32")

    @cache
    def play(*options: object) -> Run:
        return run(script, *fixed, "--grid", 64, *options)

    return play


@pytest.fixture(scope="module")
def logits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logits")


@pytest.fixture(scope="module")
def cached(played: Played, logits: Path) -> Run:
    return played("--logits", logits / "cached", "--data", logits / "data")


def test_every_line_has_every_key(cached: Run) -> None:
    assert cached.code == 0 and len(cached.lines) == len(SCRIPT["steps"])
    for index, (line, step) in enumerate(zip(cached.lines, SCRIPT["steps"], strict=True)):
        assert list(line) == list(EMPTY_LINE)
        assert (line["step"], line["op"], line["chat"]) == (index, step["op"], step["chat"])
        assert line["error"] is None
    assert [line["step"] for line in cached.answers] == ANSWERED


def test_the_lines_tell_what_was_read(cached: Run) -> None:
    lines = cached.lines
    for line in cached.answers:
        assert line["reused_tokens"] + line["evaluated_tokens"] == line["prompt_tokens"]
        assert line["prompt_tokens"] == len(line["prompt_ids"])
    assert [line["images_encoded"] for line in cached.answers] == [1, 0, 0, 1, 0, 0, 0]
    # The reply before it was cut off, so its prompt's end is resumed.
    assert lines[2]["reused_tokens"] == len(lines[1]["prompt_ids"])
    assert lines[3]["evaluated_tokens"] == 0
    # Two messages were sent since, so only the end of the message itself is still held.
    assert lines[9]["reused_tokens"] == last_end(lines[9]["prompt_ids"])
    assert lines[9]["restored_from"] == "slab"
    assert lines[2]["finish_reason"] == "cancelled" and len(lines[2]["reply_ids"]) == 2
    assert lines[3]["finish_reason"] == "length" and len(lines[3]["reply_ids"]) == 3
    # The edit shows the chat as it was before message 2, which is the second question.
    assert (
        lines[7]["prompt_ids"][: last_end(lines[1]["prompt_ids"])]
        == (lines[1]["prompt_ids"][: last_end(lines[1]["prompt_ids"])])
    )
    assert all(line["seed"] == 5 for line in cached.answers if line["step"] != 3)


def test_X2_X3_the_same_script_gives_the_same_replies(played: Played, cached: Run) -> None:
    other = played("--checkpoints", 1)
    assert other.code == 0
    assert [line["reply_ids"] for line in other.answers] == [
        line["reply_ids"] for line in cached.answers
    ]
    assert max(len(line["checkpoints"]) for line in other.answers) == 1


def test_the_data_folder_is_kept_and_locked(cached: Run, logits: Path, played: Played) -> None:
    data = logits / "data"
    assert cached.code == 0 and len(list((data / "images").glob("*/*"))) == 2
    assert (data / "worker.log").exists() and not list(data.glob("*.logits"))
    lock = DataFolderLock(data)
    try:
        busy = played("--data", data)
    finally:
        lock.release()
    assert busy.code == 1 and busy.lines == [] and "already open" in busy.errors


def test_a_step_that_fails_is_a_line_and_the_next_steps_go_on(
    tmp_path: Path, folder_of: FolderOf
) -> None:
    (tmp_path / "broken.png").write_bytes(b"no picture")
    sampling = {"temperature": 0, "max_tokens": 2}
    steps = [
        {"op": "send", "chat": "a", "content": "Hi"},
        {"op": "send", "chat": "a", "content": [{"image": "nowhere.png"}, {"text": "?"}]},
        {"op": "send", "chat": "a", "content": [{"image": "broken.png"}, {"text": "?"}]},
        {"op": "send", "chat": "a", "content": "x" * 400},
        {"op": "send", "chat": "a", "content": "Still there?"},
    ]
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"sampling": sampling, "steps": steps}))
    model = ("--model", folder_of("hybrid"), "--dtype", "float32", "--grid", 64)
    done = run(path, *model, "--device", "cpu", "--context", 128)
    assert done.code == 1 and len(done.lines) == 5
    names = [line["error"] and line["error"]["name"] for line in done.lines]
    assert names == [
        None,
        "ImageUnreadableError",
        "ImageUnreadableError",
        "PromptTooLongError",
        None,
    ]
    assert [line["finish_reason"] for line in done.lines] == ["length", *["error"] * 3, "length"]
    assert "nowhere.png" in done.lines[1]["error"]["message"]
    assert done.lines[1]["reply"] is None and list(done.lines[1]) == list(EMPTY_LINE)
    # The first reply was cut off, so the next prompt resumes where that one ended.
    assert done.lines[4]["reused_tokens"] == len(done.lines[0]["prompt_ids"])


def test_a_model_that_cannot_be_loaded_is_exit_code_1(script: Path, tmp_path: Path) -> None:
    done = run(script, "--model", tmp_path, "--device", "cpu")
    assert done.code == 1 and done.lines == []
    assert done.errors == f"This folder holds no model: {tmp_path} has no config.json.\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--checkpoints", -1), "count"),
        (("--checkpoints", 257), "count"),
        (("--interval", 0), "interval"),
        (("--grid", 63), "grid"),
        (("--context", 1), "context_length"),
    ],
)
def test_options_that_do_not_fit_are_exit_code_2(
    script: Path, options: tuple[object, ...], words: str
) -> None:
    done = run(script, "--model", "x", *options)
    assert done.code == 2 and done.lines == [] and words in done.errors


def test_a_place_that_cannot_be_written_is_said_in_words(
    tmp_path: Path, script: Path, played: Played
) -> None:
    (tmp_path / "file").write_text("in the way")
    done = played("--data", tmp_path / "file" / "data")
    assert done.code == 1 and done.lines == [] and "can't be written" in done.errors
    lost = played("--logits", tmp_path / "nowhere" / "logits")
    assert lost.code == 1 and len(lost.lines) == len(SCRIPT["steps"])
    assert "nowhere" in lost.errors


def test_a_script_that_does_not_fit_is_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"steps": [{"op": "regenerate", "chat": "a"}]}))
    done = run(path, "--model", "x")
    assert done.code == 2 and "steps.0" in done.errors
    with pytest.raises(SystemExit) as caught:
        run(path)
    assert caught.value.code == 2
