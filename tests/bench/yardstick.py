"""Tokens that are prefilled again in yardstick conversations, and where Waymark differs.

Nothing is timed. `possible` is the share of a prompt that was, token for token, in an earlier
prompt or a settled reply; `reused` is the share that was not read again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from core.api.chat import AssistantMessage, Message, SystemMessage
from tests.bench.folders import DEMO
from tests.bench.rig import Rig
from tests.bench.words import Words, picture

FIVE_TURNS = Path(__file__).parent / "five_turns.json"
END_OF_TURN = 1012  # <|im_end|> of the demo model's tokenizer


@dataclass(frozen=True)
class Turn:
    """One request: its prompt, tokens read before the reply, tokens of the new message with the
    template's glue, and tokens read when idle after it (of a draft: before it)."""

    name: str
    prompt: int
    evaluated: int
    new: int
    idle: int = 0

    @property
    def reused(self) -> float:
        """Percent of the prompt that was not read for this request."""
        return 100 * (self.prompt - self.evaluated) / self.prompt

    @property
    def possible(self) -> float:
        return 100 * (self.prompt - self.new) / self.prompt


def five_turns() -> list[Turn]:
    """The script through a real worker process with the demo model; counts are the replay's."""
    ran = subprocess.run(
        [sys.executable, "-m", "core.replay", str(FIVE_TURNS), "--model", str(DEMO)],
        capture_output=True,
        text=True,
        check=True,
    )
    turns: list[Turn] = []
    for line in map(json.loads, ran.stdout.splitlines()):
        if line["op"] == "settle":
            turns[-1] = replace(turns[-1], idle=line["settled_tokens"])
            continue
        ids = line["prompt_ids"]
        ends = [index + 1 for index, token_id in enumerate(ids) if token_id == END_OF_TURN]
        new = len(ids) - (ends[-2] if len(ends) > 1 else 0)
        turns.append(Turn(f"turn {len(turns) + 1}", len(ids), line["evaluated_tokens"], new))
    return turns


def long_turns(rig: Rig, words: Words, tokens: int = 300, reply: int = 60) -> list[Turn]:
    """Five turns of `tokens` after a system message as long, with settled replies."""
    rig.clear()
    chat: list[Message] = [SystemMessage(text=words.text(tokens, 100))]
    turns: list[Turn] = []
    for number in range(5):
        chat.append(words.user(tokens, 110 + number))
        turn = _turn(rig, f"turn {number + 1}", chat)
        chat.append(words.reply(reply, 120 + number))
        turns.append(replace(turn, idle=rig.settle(chat).tokens))
    return turns


def late_edit(rig: Rig, words: Words, turns: int = 40, first: int = 300) -> Turn:
    """Message 2 edited after `turns` short turns; the first message is two thirds of what is
    left."""
    rig.clear()
    chat: list[Message] = [words.user(first, 130), words.reply(20, 131)]
    rig.ask(chat[:1])
    rig.settle(chat)
    rig.write()
    for number in range(turns):
        chat += [words.user(20, 140 + number), words.reply(20, 240 + number)]
        rig.ask(chat[:-1])
        rig.settle(chat)
        rig.write()
    edited = [*chat[:2], words.user(first // 2, 132)]
    return _turn(rig, f"message 2 edited after {turns} turns", edited)


def differences(rig: Rig, words: Words, folder: Path, picture_size: int) -> list[Turn]:
    """Places where other servers read again, each after a chat of four short turns."""
    scenarios: tuple[Callable[[], Turn], ...] = (
        lambda: _edit_far_back(rig, words),
        lambda: _swiped(rig, words),
        lambda: _shared(rig, words),
        lambda: _thought(rig, words),
        lambda: _restarted(rig, words),
        lambda: _dropped(rig, words, folder, picture_size),
    )
    rows = []
    for scenario in scenarios:
        rig.clear()
        rows.append(scenario())
    return rows


def _turn(rig: Rig, name: str, messages: list[Message]) -> Turn:
    reading = rig.ask(messages)
    return Turn(name, reading.stats.prompt_tokens, reading.evaluated, rig.num_new(messages))


def _chat(rig: Rig, words: Words, turns: int = 4) -> list[Message]:
    chat: list[Message] = [SystemMessage(text=words.text(24, 200))]
    for number in range(turns):
        chat += [words.user(24, 201 + number), words.reply(12, 221 + number)]
        rig.ask(chat[:-1])
        rig.settle(chat)
    return chat


def _edit_far_back(rig: Rig, words: Words) -> Turn:
    chat = _chat(rig, words, turns=8)
    return _turn(rig, "first message edited after 8 turns", [chat[0], words.user(24, 299)])


def _swiped(rig: Rig, words: Words) -> Turn:
    chat = _chat(rig, words)
    replies = [words.reply(12, 300 + number) for number in range(3)]
    for reply in replies:
        rig.ask(chat[:-1])
        rig.settle([*chat[:-1], reply])
    messages = [*chat[:-1], replies[0], words.user(24, 303)]
    return _turn(rig, "back to the first of three replies, and on", messages)


def _shared(rig: Rig, words: Words) -> Turn:
    chat = _chat(rig, words)
    return _turn(rig, "a second chat with the same system prompt", [chat[0], words.user(24, 310)])


def _thought(rig: Rig, words: Words) -> Turn:
    """The template shows no thought of an earlier turn, so the reply stands where nothing stood."""
    chat = [*_chat(rig, words), words.user(24, 320)]
    rig.ask(chat, thinking=True)
    reply = AssistantMessage(text=words.text(12, 321), reasoning=words.text(30, 322))
    chat.append(reply)
    idle = rig.settle(chat).tokens
    turn = _turn(rig, "after a reply whose thought is left out", [*chat, words.user(24, 323)])
    return replace(turn, idle=idle)


def _restarted(rig: Rig, words: Words) -> Turn:
    chat = _chat(rig, words)
    rig.write()
    rig.reopen()
    return _turn(rig, "after a restart", [*chat, words.user(24, 330)])


def _dropped(rig: Rig, words: Words, folder: Path, picture_size: int) -> Turn:
    chat = _chat(rig, words)
    dropped = picture(folder, 340, picture_size)
    idle = rig.read_ahead([*chat, words.user(1, 341, dropped)])
    messages = [*chat, words.user(24, 342, dropped)]
    reading = rig.ask(messages)
    assert (idle.encoded, reading.stats.images_encoded) == (1, 0)
    turn = Turn(
        "a picture dropped while typing",
        reading.stats.prompt_tokens,
        reading.evaluated,
        rig.num_new(messages),
    )
    return replace(turn, idle=idle.tokens)
