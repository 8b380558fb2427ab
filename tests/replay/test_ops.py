"""Replay's steps beyond talking: restarts, forks, forgetting, side requests, other settings."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from core.replay.player import EMPTY_LINE, chat_key
from tests.oracle.checkpoints import VOCABULARY
from tests.promises.fixtures import FolderOf, PictureOf
from tests.promises.machine import last_end, words
from tests.replays import Run, play

Step = dict[str, Any]
Played = Callable[..., Run]


def send(content: Any, chat: str = "a", **more: Any) -> Step:
    return {"op": "send", "chat": chat, "content": content, **more}


def settle(chat: str = "a") -> Step:
    return {"op": "settle", "chat": chat}


@pytest.fixture
def hybrid(tmp_path: Path, folder_of: FolderOf) -> Played:
    """Plays steps on the hybrid model, beside a picture, in one data folder."""

    def played(steps: list[Step], *options: object) -> Run:
        fixed = ("--model", folder_of("hybrid"), "--dtype", "float32", "--grid", 64)
        run = play(tmp_path, steps, *fixed, "--data", tmp_path / "data", *options)
        assert [list(line) for line in run.lines] == [list(EMPTY_LINE)] * len(steps)
        return run

    return played


def one_before_last_end(line: dict[str, Any]) -> int:
    """Index at which the newest message begins: right after the reply before it."""
    ids = line["prompt_ids"]
    return last_end(ids[: last_end(ids) - 1])


def test_D1_replay_restart_reads_only_the_new_message(
    tmp_path: Path, hybrid: Played, picture: PictureOf
) -> None:
    shutil.copy(picture(3, "wide").path, tmp_path / "one.png")
    talk = [send([{"image": "one.png"}, {"text": words(60)}]), settle(), send("And then?")]
    steps = [*talk[:2], {"op": "restart", "kill": True}, talk[2], settle(), {"op": "restart"}]
    done = hybrid([*steps, send("Why?")])
    assert done.code == 0 and done.lines[1]["settled_tokens"] > 0
    restarted, again = done.lines[3], done.lines[6]
    for line in (restarted, again):
        assert line["restored_from"] == "disk" and line["images_encoded"] == 0
        assert line["reused_tokens"] == one_before_last_end(line) and line["miss"] is None
    assert done.lines[1]["bytes"]["disk"] > 0
    assert done.lines[2]["chat"] is None and done.lines[2]["bytes"] is None
    # To the bit what one process says that has read everything itself.
    alone = hybrid([*talk, send("Why?")], "--no-cache")
    assert [line["reply_ids"] for line in alone.answers] == [
        line["reply_ids"] for line in done.answers
    ]


def test_a_closed_replay_has_written_what_the_next_one_needs(hybrid: Played) -> None:
    first = hybrid([send(words(60))])
    again = hybrid([send(words(60))]).lines[0]
    assert again["reused_tokens"] == last_end(first.lines[0]["prompt_ids"])
    assert again["restored_from"] == "disk"
    nothing = hybrid([send(words(60))], "--disk-bytes", 0).lines[0]
    assert (nothing["reused_tokens"], nothing["bytes"]["disk"]) == (0, 0)


@pytest.mark.slow
def test_M2_replay_forget_leaves_nothing_of_the_chat(tmp_path: Path, hybrid: Played) -> None:
    other = [send(words(70, "b"), "b"), settle("b")]
    alone = hybrid(other).lines[1]["bytes"]["disk"]
    shutil.rmtree(tmp_path / "data")
    talk = [send(words(60)), settle()]
    done = hybrid([*other, *talk, {"op": "forget", "chat": "a"}, *other[1:], *talk])
    assert done.code == 0
    assert done.lines[3]["bytes"]["disk"] > alone
    # Only what the other chat uses is left, to the byte, and its keys name it no more.
    assert done.lines[5]["bytes"]["disk"] == alone
    assert done.lines[6]["reused_tokens"] == 0
    hybrid([{"op": "forget", "chat": "a"}])
    logs = [path.name for path in (tmp_path / "data" / "contexts").rglob("*") if path.is_file()]
    assert not any(chat_key("a") in name for name in logs)


def test_S9_replay_fork_and_both_branches_read_nothing_again(hybrid: Played) -> None:
    steps = [
        send(words(60)),
        {"op": "regenerate", "chat": "a", "sampling": {"temperature": 2, "seed": 3}},
        {"op": "swipe", "chat": "a", "reply": 0},
        settle(),
        {"op": "fork", "chat": "a", "to": "b/2 ☂", "message": 1},
        send("Left?"),
        send("Right?", "b/2 ☂"),
        {"op": "forget", "chat": "b/2 ☂"},
        {"op": "fork", "chat": "a", "to": "b/2 ☂", "message": 0},
        {"op": "regenerate", "chat": "b/2 ☂"},
    ]
    done = hybrid(steps)
    assert done.code == 0
    left, right, last = done.lines[5], done.lines[6], done.lines[9]
    start = one_before_last_end(left)
    assert left["reused_tokens"] == right["reused_tokens"] == start
    assert left["prompt_ids"][:start] == right["prompt_ids"][:start]
    assert last["prompt_ids"] == done.lines[0]["prompt_ids"]
    assert last["reply_ids"] == done.lines[0]["reply_ids"]


def test_M5_replay_side_leaves_the_chat_alone(hybrid: Played) -> None:
    side = {"op": "side", "chat": "a", "content": "A title?", "sampling": {"max_tokens": 2}}
    with_side = hybrid([send(words(60)), settle(), side, send("And?")])
    assert with_side.code == 0
    aside, after = with_side.lines[2], with_side.lines[3]
    assert aside["reply"] is not None and len(aside["reply_ids"]) == 2
    assert aside["reused_tokens"] == one_before_last_end(aside)
    assert after["reused_tokens"] == one_before_last_end(after)
    without = hybrid([send(words(60)), settle(), send("And?")], "--no-cache")
    assert without.lines[2]["prompt_ids"] == after["prompt_ids"]
    assert without.lines[2]["reply_ids"] == after["reply_ids"]


def test_S12_replay_settings_act_on_the_next_step(hybrid: Played) -> None:
    steps = [
        send(words(100)),
        {"op": "settings", "checkpoints": 1, "interval": 64},
        {"op": "regenerate", "chat": "a"},
        {"op": "settings", "host_bytes": 1},
        {"op": "regenerate", "chat": "a"},
        {"op": "settings", "host_bytes": None},
        {"op": "regenerate", "chat": "a"},
    ]
    done = hybrid(steps)
    assert len(done.lines[0]["checkpoints"]) > 1 == len(done.lines[2]["checkpoints"])
    assert done.code == 1 and done.lines[4]["error"]["name"] == "BudgetTooSmallError"
    # The one state that is left is the message's end.
    assert done.lines[6]["reused_tokens"] == last_end(done.lines[6]["prompt_ids"])
    assert done.lines[6]["reply_ids"] == done.lines[0]["reply_ids"]


def test_M6_replay_stops_a_prefill_at_a_cut_or_before_it_begins(hybrid: Played) -> None:
    again = {"op": "regenerate", "chat": "a"}
    none: Step = {"cancel_prefill_after_tokens": 0}
    steps = [send(words(100), **none), {**again, **none}]
    steps += [send(words(100), "b", cancel_prefill_after_tokens=70), {**again, "chat": "b"}]
    *unbegun, stopped, after = hybrid(steps).lines
    for line in unbegun:
        assert (line["finish_reason"], line["evaluated_tokens"]) == ("cancelled", 0)
        assert line["prompt_tokens"] > 100 and line["reply_ids"] == []
    assert stopped["finish_reason"] == "cancelled" and stopped["reply_ids"] == []
    assert stopped["evaluated_tokens"] == 128 == after["reused_tokens"]


def test_X1_replay_logits_of_every_answering_step(tmp_path: Path, hybrid: Played) -> None:
    """Whatever restored it, the row is the one from which the step's first token was drawn."""
    steps = [
        send(words(60)),
        {"op": "regenerate", "chat": "a"},
        {"op": "continue", "chat": "a"},
        settle(),
        {"op": "side", "chat": "a", "content": "A title?"},
        {"op": "draft", "chat": "a", "content": words(200)},
        {"op": "edit", "chat": "a", "message": 0, "content": "Hi"},
        send("x" * 9_000),
        send("y", cancel_prefill_after_tokens=0),
    ]
    done = hybrid(steps, "--logits", tmp_path / "warm", "--context", 2_000)
    cold = hybrid(steps, "--logits", tmp_path / "cold", "--context", 2_000, "--no-cache")
    assert [line["reply_ids"] for line in done.lines] == [line["reply_ids"] for line in cold.lines]
    warm_rows, cold_rows = (load_file(tmp_path / name) for name in ("warm", "cold"))
    assert set(warm_rows) == set(cold_rows) == {f"step.{step}.logits" for step in (0, 1, 2, 4, 6)}
    for name, row in warm_rows.items():
        assert torch.equal(row, cold_rows[name])
        assert (row.dtype, row.shape) == (torch.float32, (VOCABULARY,))
        # Greedy, without penalties: the first token is the largest.
        assert int(row.argmax()) == done.lines[int(name.split(".")[1])]["reply_ids"][0]
    assert not torch.equal(warm_rows["step.1.logits"], warm_rows["step.2.logits"])


def test_replay_loads_another_model_and_comes_back(
    tmp_path: Path, hybrid: Played, folder_of: FolderOf
) -> None:
    text, same = (os.path.relpath(folder_of(name), tmp_path) for name in ("text", "hybrid"))
    steps = [
        send(words(60)),
        settle(),
        {"op": "load", "model": text},
        {"op": "load", "model": "nowhere"},
        send("And?"),
        {"op": "load", "model": same},
        {"op": "edit", "chat": "a", "message": 2, "content": "And?"},
    ]
    done = hybrid(steps)
    assert done.code == 1 and done.lines[3]["error"]["name"] == "MissingFileError"
    assert done.lines[4]["reused_tokens"] == 0 and done.lines[4]["error"] is None
    back = done.lines[6]
    assert back["restored_from"] == "disk" and back["reused_tokens"] == one_before_last_end(back)


def test_W1_the_log_has_a_line_for_each_request_and_no_word_of_it(
    tmp_path: Path, hybrid: Played
) -> None:
    done = hybrid([send("A secret."), settle(), {"op": "forget", "chat": "a"}])
    text = (tmp_path / "data" / "worker.log").read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    ops = [line["op"] for line in lines]
    assert ops == ["load_model", "generate", "prefill_reply", "flush", "forget", "flush"]
    assert lines[1]["evaluated_tokens"] == done.lines[0]["evaluated_tokens"]
    assert lines[2]["settled_tokens"] == done.lines[1]["settled_tokens"]
    # One name for the chat, which no store has.
    assert len({line["chat"] for line in lines[1:3]}) == 1 and chat_key("a") not in text
    assert "secret" not in text and str(tmp_path) not in text
