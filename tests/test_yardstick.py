"""The field's five-turn conversation, on the demo model: what each turn has to read."""

from __future__ import annotations

import json
from pathlib import Path

from tests.replays import run

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "resources" / "models" / "demo"
# What others were measured on; the demo model's replies are not the same from training to training.
PROMPT_TOKENS = (57, 192, 305, 443, 603)
LEEWAY = 45


def test_S1_five_turn_yardstick_evaluates_only_the_new_message() -> None:
    end_of_turn = max(json.loads((DEMO / "generation_config.json").read_text())["eos_token_id"])
    script = ROOT / "tests" / "bench" / "five_turns.json"
    done = run(script, "--model", DEMO, "--device", "cpu", "--context", 1024)
    assert done.code == 0 and len(done.answers) == len(PROMPT_TOKENS)
    for line, about in zip(done.answers, PROMPT_TOKENS, strict=True):
        assert abs(line["prompt_tokens"] - about) <= LEEWAY
        assert line["reused_tokens"] + line["evaluated_tokens"] == line["prompt_tokens"]
    for line in done.answers[1:]:
        ends = [at + 1 for at, token in enumerate(line["prompt_ids"]) if token == end_of_turn]
        # Everything up to the last reply's end; what follows is the message and the glue.
        assert line["reused_tokens"] == ends[-2] and line["miss"] is None
    assert all(line["settled_tokens"] > 0 for line in done.lines if line["op"] == "settle")
