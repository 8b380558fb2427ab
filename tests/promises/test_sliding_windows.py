"""The promises where a context is so long that windows drop what they have passed: answers are
those of a cache that keeps every row, and less is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from core.api import model_info
from core.api.chat import Message
from core.api.params import CacheSettings, DraftSettings, SamplingParams
from core.engine import debug
from core.engine.loaded import LoadedModel
from core.engine.passes.captured import StepCapture
from tests.engine.place import Place
from tests.kernels.native.here import NEEDS_COMPILER
from tests.promises.fixtures import LONG, SLIDING, LoadedOf, PictureOf
from tests.promises.machine import (
    Answer,
    CountdownFlag,
    Drafts,
    Machine,
    last_end,
    same,
    same_from_every_checkpoint,
    system,
    user,
    words,
)
from tests.sweeps import thinned

pytestmark = NEEDS_COMPILER

SHORT = SamplingParams(temperature=0, max_tokens=8, frequency_penalty=0.3)
SPARSE = CacheSettings(count=32, interval=512)
# Every family in one precision, and one in all that compute differently.
EACH = [
    *((name, "bfloat16") for name in SLIDING),
    ("gemma3_long", "float32"),
    ("lfm3_long", "int8"),
]


def asked(base: LoadedModel, picture: PictureOf, count: int = 390) -> list[Message]:
    """A chat that is longer than the buffer of a window."""
    shown = [picture(1, "wide")] if base.info.vision else []
    return [system("Be brief."), user(words(count), *shown, words(25, "b"), "Compare.")]


def keeping(base: LoadedModel, monkeypatch: pytest.MonkeyPatch, chat: list[Message]) -> Answer:
    """The answer of an engine that has read nothing and keeps every row."""
    with monkeypatch.context() as patched:
        patched.setattr(model_info, "WINDOW_SAVING", 100)
        machine = Machine(base)
        assert not machine.cache.kv_buffer.windowed
        return machine.ask(chat, sampling=SHORT)


@pytest.mark.parametrize(("name", "precision"), thinned(EACH, {EACH[0], EACH[1], EACH[-1]}))
def test_X1_D1_S7_S9_I8_windows_that_slide_give_the_bits_of_all_rows(
    loaded_of: LoadedOf,
    picture: PictureOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    precision: str,
) -> None:
    base = loaded_of(name, precision)
    machine, chat = Machine(base, tmp_path / "cache"), asked(base, picture)
    expected = keeping(base, monkeypatch, chat)
    cold = machine.ask(chat, sampling=SHORT)
    assert machine.cache.kv_buffer.base() > 0, "the window has moved on"
    same(cold, expected)
    again = machine.ask(chat, sampling=SHORT)
    assert again.fed == () and again.stats.restored_from == "slab"
    same(again, cold)
    edited = [chat[0], user(words(380), "Otherwise.")]
    changed = machine.ask(edited, sampling=SHORT)
    assert changed.reused > 1_000
    same(changed, keeping(base, monkeypatch, edited))
    back = machine.ask(chat, sampling=SHORT)
    assert back.fed == () and back.stats.restored_from == "memory"
    same(back, cold)
    machine.reopen()
    reopened = machine.ask(chat, sampling=SHORT)
    assert reopened.stats.restored_from == "disk"
    assert reopened.reused == last_end(cold.finished.prompt_ids, base.text.end_of_turn_ids)
    same(reopened, cold)
    longer = [*chat, cold.reply, user(words(20, "c"))]
    same(machine.ask(longer, sampling=SHORT), keeping(base, monkeypatch, longer))


@pytest.mark.parametrize("name", thinned(SLIDING, {"lfm3_long", "granite_swa_long"}))
def test_X1_S4_every_checkpoint_has_its_windows(
    loaded_of: LoadedOf, picture: PictureOf, name: str
) -> None:
    base = loaded_of(name, "bfloat16")
    # In the KV buffer a pure transformer goes on without a checkpoint.
    ways = (False, True) if name == "lfm3_long" else (True,)
    cold = same_from_every_checkpoint(base, asked(base, picture, 264), SHORT, ways)
    assert cold.stats.prompt_tokens > 1_024 and len(cold.stats.checkpoints) > 15


@pytest.mark.parametrize("name", SLIDING)
def test_P1_P2_drafts_are_rolled_back_where_a_window_moves_on(
    loaded_of: LoadedOf, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    base = loaded_of(name, "bfloat16")
    machine = Machine(base)
    chats: list[list[Message]] = [[user(words(count))] for count in range(230, 400)]
    chat = next(each for each in chats if machine.prompt(each).num_tokens > 1_000)
    seeds = (
        SamplingParams(temperature=0.8, presence_penalty=0.2, seed=seed, max_tokens=100)
        for seed in range(100)
    )
    off = DraftSettings(mode="off")
    long = next(each for each in seeds if len(machine.ask(chat, sampling=each, draft=off).ids) > 40)
    plain = machine.ask(chat, sampling=long, draft=off)
    assert plain.stats.prompt_tokens < 1_024 - 8
    monkeypatch.setenv("WAYMARK_DEBUG", "integrity")
    monkeypatch.setattr(debug, "check", lambda *_: None)  # whose forwards would be counted
    for tokens, noise in ((1, 0.0), (4, 0.5), (7, 0.3), (7, 1.0)):
        drafted = Drafts(mode="lookup", tokens=tokens, draft_noise=noise)
        same(machine.ask(chat, sampling=long, draft=drafted), plain)
        assert machine.cache.kv_buffer.base() > 0


@pytest.mark.parametrize("name", SLIDING)
def test_captured_steps_have_the_bits_of_others_where_a_window_moves_on(
    loaded_of: LoadedOf, name: str
) -> None:
    loaded = loaded_of(name, "bfloat16")
    place = Place(loaded, 1_000, limit=LONG)
    expected = place.logits(StepCapture(None), 40)
    assert place.kv_buffer.base() > 0
    replayed = Place(loaded, 1_000, limit=LONG)
    assert all(map(torch.equal, replayed.logits(loaded.steps, 40), expected))
    assert loaded.steps.step(replayed.model, replayed.kv_buffer).num_traces == 1


@pytest.mark.parametrize("looks", [3, 9, 14, 25])
def test_M6_S3_a_prefill_that_was_stopped_leaves_whole_windows(
    loaded_of: LoadedOf, picture: PictureOf, looks: int
) -> None:
    base = loaded_of("gemma3_long", "bfloat16")
    machine, chat = Machine(base), asked(base, picture)
    machine.ask(chat, cache=SPARSE, sampling=SHORT, flag=CountdownFlag(looks))
    same(machine.ask(chat, cache=SPARSE, sampling=SHORT), Machine(base).ask(chat, sampling=SHORT))


def test_S12_without_checkpoints_a_pure_transformer_reuses_what_its_windows_hold(
    loaded_of: LoadedOf, picture: PictureOf
) -> None:
    base = loaded_of("gemma3_long", "bfloat16")
    machine, chat, off = Machine(base), asked(base, picture), CacheSettings(count=0, interval=1)
    cold = machine.ask(chat, cache=off, sampling=SHORT)
    assert cold.stats.bytes.checkpoints == 0
    again = machine.ask(chat, cache=off, sampling=SHORT)
    assert cold.stats.prompt_tokens - 64 <= again.reused < cold.stats.prompt_tokens
    same(again, cold)
    early = [chat[0], user(words(100), "Otherwise.")]
    passed = machine.ask(early, cache=off, sampling=SHORT)
    assert passed.reused == 0, "the window before the edit is gone"
    same(passed, Machine(base).ask(early, sampling=SHORT))


def test_X3_M1_checkpoints_share_the_rows_of_their_windows(
    loaded_of: LoadedOf, picture: PictureOf
) -> None:
    base = loaded_of("gemma3_long", "bfloat16")
    machine, chat = Machine(base), asked(base, picture)
    cold = machine.ask(chat, sampling=SHORT)
    tails = [node.tail for node in machine.cache.tree if node.tail is not None]
    rows = sum(tail.num_tokens for tail in tails)
    assert rows == cold.stats.prompt_tokens, "each row is held once"
    assert cold.stats.bytes.checkpoints == rows * base.info.window_bytes_per_token
    size, spare = machine.cache.smallest.host, base.info.checkpoint_bytes
    for host in (size + 9 * spare, size + 2 * spare, size):
        settings = CacheSettings(count=32, interval=1, host_bytes=host)
        same(machine.ask(chat, cache=settings, sampling=SHORT), cold)


def test_D2_D3_S3_a_turn_writes_its_new_rows_of_windows_and_damage_costs_the_later_ones(
    loaded_of: LoadedOf, picture: PictureOf, tmp_path: Path
) -> None:
    base = loaded_of("gemma3_long", "bfloat16")
    machine, chat = Machine(base, tmp_path), asked(base, picture)
    end_of_turn = base.text.end_of_turn_ids
    cold = machine.ask(chat, sampling=SHORT)
    machine.write()
    written, end = parts(tmp_path), last_end(cold.finished.prompt_ids, end_of_turn)
    assert len(written) > 1
    longer = [*chat, cold.reply, user(words(20, "c"))]
    next_turn = machine.ask(longer, sampling=SHORT)
    machine.write()
    added = parts(tmp_path).items() - written.items()
    new_end = last_end(next_turn.finished.prompt_ids, end_of_turn)
    assert sum(rows for _, rows in added) == new_end - end < base.info.window - 1
    expected = Machine(base).ask(longer, sampling=SHORT)
    machine.restart()
    again = machine.ask(longer, sampling=SHORT)
    assert again.stats.restored_from == "disk" and again.reused == new_end
    same(again, expected)
    # The reply's rows, the most, are needed by all new checkpoints, and not by the one before.
    replied, _ = max(added, key=lambda each: each[1])
    flip(next(tmp_path.rglob(replied)), 1_000)
    machine.restart()
    damaged = machine.ask(longer, sampling=SHORT)
    assert damaged.reused == end
    same(damaged, expected)
    machine.write()
    for path in tmp_path.rglob("window-*"):
        flip(path, 1_000)
    machine.restart()
    lost = machine.ask(longer, sampling=SHORT)
    assert lost.reused == 0 and lost.stats.miss.reason in ("restore_failed", "cold")
    same(lost, expected)
    machine.forget(None)
    assert not parts(tmp_path)


def parts(folder: Path) -> dict[str, int]:
    """The files of windows' rows, and how many each has."""
    return {path.name: int(path.stem.rpartition("-")[2]) for path in folder.rglob("window-*")}


def flip(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)
