"""S10, M1, M3, M5, M7, M8, I11: what the cache may hold, what goes first, and what reading
costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.api.chat import Message
from core.api.errors import NoRoomBesideError, PromptTooLongError
from core.api.params import CacheSettings, SamplingParams
from core.cache.kv_buffer import KVBuffer, KVRows
from core.cache.ledger import Held
from tests.cache.worlds import traces
from tests.promises.fixtures import FolderOf, LoadedOf, PictureOf
from tests.promises.machine import DEFAULT, Machine, last_end, load, same, system, user, words

EIGHT = SamplingParams(temperature=0, max_tokens=8, frequency_penalty=0.3)


def kv_buffer_bytes(machine: Machine) -> int:
    return machine.base.info.kv_bytes_per_token * machine.base.info.context_length


def beside(
    machine: Machine, num_bytes: int, count: int = 32, disk: int | None = None
) -> CacheSettings:
    """A budget of the KV buffer and so many bytes beside it."""
    host = kv_buffer_bytes(machine) + num_bytes
    return CacheSettings(count=count, interval=1, host_bytes=host, disk_bytes=disk)


@pytest.mark.parametrize("short", ["count", "bytes"])
def test_S10_ten_short_turns_never_push_out_the_anchor_of_a_long_text(
    machine: Machine, short: str
) -> None:
    state = machine.base.info.checkpoint_bytes + 128
    room = kv_buffer_bytes(machine) + 8 * state + 1_600 * machine.base.info.kv_bytes_per_token
    few = CacheSettings(count=8, interval=32_768)
    if short == "bytes":
        few = CacheSettings(count=256, interval=32_768, host_bytes=room)
    document: list[Message] = [user(words(400) + " What is it?")]
    anchor = machine.ask(document, cache=few)
    end = last_end(anchor.finished.prompt_ids)
    assert end > 1_000
    chat: list[Message] = [user("Hi")]
    for turn in range(10):
        answer = machine.ask(chat, cache=few)
        chat += [answer.reply, user(f"And {turn}?")]
    back = machine.ask([*document, anchor.reply, user("More.")], cache=few)
    assert back.reused >= end


def test_M1_room_is_made_before_anything_is_taken(
    machine: Machine, picture: PictureOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = machine.base.info.checkpoint_bytes + 128
    ledger, log = machine.cache.ledger, []
    reserve = ledger.reserve

    def noted(held: Held, num_bytes: int) -> None:
        log.append((held, num_bytes, ledger.room(held)))
        reserve(held, num_bytes)

    monkeypatch.setattr(ledger, "reserve", noted)
    tight = beside(machine, 4 * state)
    for salt in "abc":
        machine.ask([user(words(90, salt), picture(ord(salt) % 3))], cache=tight)
    assert {held for held, _, _ in log} >= {Held.KV_BUFFER, Held.STATES, Held.ROWS, Held.EMBEDDINGS}
    assert all(num_bytes <= room for _, num_bytes, room in log)


@pytest.mark.parametrize("kept", ["hybrid", "qwen3_vl"], indirect=True)
def test_M3_the_bytes_shown_are_the_bytes_held(kept: Machine, picture: PictureOf) -> None:
    kept.ask([user(words(60), picture(1))])
    chat: list[Message] = [user(words(80, "other"), picture(2, "wide"))]
    kept.ask(chat)
    kept.write()
    shown, tree = kept.ask(chat).stats.bytes, kept.cache.tree
    rows = [node.rows for node in tree if node.rows is not None]
    embedding = kept.base.model.image_width * 4
    assert rows and shown.kv - shown.slab == sum(held.num_bytes for held in rows)
    assert shown.slab == kept.cache.kv_buffer.capacity * kept.base.info.kv_bytes_per_token
    assert shown.checkpoints == len(tree.checkpoints()) * kept.base.info.checkpoint_bytes
    assert shown.embeddings == (4 + 8) * embedding
    assert kept.folder is not None
    on_disk = [path.stat().st_size for path in kept.folder.rglob("*.safetensors")]
    assert shown.disk == sum(on_disk) > 0 and shown.in_flight == 0


@pytest.mark.parametrize("with_picture", [False, True])
def test_M5_a_side_request_leaves_everything_as_it_was(
    kept: Machine, picture: PictureOf, with_picture: bool
) -> None:
    chat: list[Message] = [system(words(20)), user(picture(1), "What is it?")]
    first = kept.ask(chat, chat="a")
    kept.ask([user("Elsewhere, " + words(30))], chat="b")
    before = traces(kept.cache)
    new = [picture(7, "wide")] if with_picture else []
    # From memory, from the KV buffer, from nothing, and under other settings than the chat's.
    for asked in (
        [*chat, first.reply, user(*new, "A title.")],
        [user("Elsewhere, " + words(30))],
        [user(*new, words(40, "new"))],
    ):
        title = kept.ask(asked, sampling=EIGHT, side=True, chat="a", cache=CacheSettings(count=1))
        same(title, kept.cold(asked, sampling=EIGHT))
        assert traces(kept.cache) == before
    goes_on = kept.same_as_cold([*chat, first.reply, user("Go on.")], chat="a")
    assert goes_on.reused == last_end(first.finished.prompt_ids)


def test_M5_a_stopped_side_request_leaves_everything_too(
    machine: Machine, picture: PictureOf
) -> None:
    chat: list[Message] = [user("Hi")]
    machine.ask(chat)
    before = traces(machine.cache)
    title = [user(picture(1), words(120))]
    for tokens in (0, 64):
        stopped = machine.ask(title, side=True, cancel_prefill_after_tokens=tokens)
        assert stopped.finished.reason == "cancelled"
        assert traces(machine.cache) == before


def test_M5_without_room_beside_it_says_so_and_evicts_nothing(machine: Machine) -> None:
    chat: list[Message] = [user(words(60))]
    tight = beside(machine, 200_000)
    machine.ask(chat, cache=tight)
    before = traces(machine.cache)
    with pytest.raises(NoRoomBesideError, match=r"\d+ tokens.*room for [\d,]+"):
        machine.ask([user(words(400))], cache=tight, side=True)
    assert traces(machine.cache) == before
    assert machine.ask(chat, cache=tight).fed == ()


def test_M7_the_cache_costs_a_cold_request_nothing_but_its_states(
    loaded_of: LoadedOf, picture: PictureOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat: list[Message] = [system(words(30)), user(words(90), picture(1, "wide"), "What?")]
    copied: list[int] = []
    copy_out = KVBuffer.copy_out

    def counted(self: KVBuffer, start: int, end: int) -> KVRows:
        rows = copy_out(self, start, end)
        copied.append(rows.num_bytes)
        return rows

    monkeypatch.setattr(KVBuffer, "copy_out", counted)
    off = Machine(loaded_of("hybrid")).ask(chat, cache=CacheSettings(count=0))
    machine = Machine(loaded_of("hybrid"), tmp_path / "cache")
    on = machine.ask(chat)
    same(on, off)
    assert on.fed == off.fed and on.stats.images_encoded == off.stats.images_encoded == 1
    planned = machine.cache.planned(machine.prompt(chat), DEFAULT)
    assert on.stats.checkpoints_held == len(planned)
    assert on.stats.bytes.checkpoints == len(planned) * machine.base.info.checkpoint_bytes
    # No row is copied while the path is alive, and nothing is written while somebody waits.
    assert copied == [] and on.stats.bytes.disk == 0
    assert on.stats.bytes.kv == on.stats.bytes.slab == off.stats.bytes.slab


def test_M8_past_the_limit_it_says_so_and_a_shorter_chat_goes_on(folder_of: FolderOf) -> None:
    machine = Machine(load(folder_of("hybrid"), context_length=768))
    rules = system(words(20))
    chat: list[Message] = [rules]
    refused, before = "", traces(machine.cache)
    while not refused:
        chat.append(user(words(8, f"turn{len(chat)}-")))
        before = traces(machine.cache)
        try:
            chat.append(machine.ask(chat).reply)
        except PromptTooLongError as error:
            refused = error.message
    length = machine.prompt(chat).num_tokens
    assert f"{length:,} tokens" in refused and "holds 768" in refused and length > 768
    # Nothing was cut off, nothing was read, nothing was lost.
    assert machine.model.fed == [] and traces(machine.cache) == before
    assert machine.ask(chat[:-2]).fed == ()
    # The oldest turns dropped, down to half the limit: that costs itself once, then nothing.
    shorter = [rules, *chat[-3:]]
    once = machine.same_as_cold(shorter)
    assert once.stats.prompt_tokens <= 768 // 2
    assert 0 < once.reused < once.stats.prompt_tokens
    for turn in range(2):
        shorter.append(once.reply)
        machine.settle(shorter)
        shorter.append(user(f"And {turn}?"))
        once = machine.same_as_cold(shorter)
        assert once.stats.miss is None and once.evaluated < 40


def test_I11_a_vision_tower_costs_a_text_chat_nothing(
    loaded_of: LoadedOf, picture: PictureOf
) -> None:
    told = []
    for name in ("hybrid", "text"):
        machine = Machine(loaded_of(name))
        if name == "hybrid":
            machine.ask([user(picture(1), "Another chat.")])
        chat: list[Message] = [system(words(30)), user(words(50))]
        for _ in range(3):
            answer = machine.ask(chat, say=[65, 66, 67, 68])
            told.append((name, answer.reused, answer.fed, len(answer.stats.checkpoints)))
            assert answer.stats.images_encoded == 0
            chat += [answer.reply, user("More.")]
        machine.settle(chat[:-1])
        told.append((name, machine.ask(chat, say=[65, 66, 67, 68]).reused, (), 0))
    half = len(told) // 2
    assert [one[1:] for one in told[:half]] == [other[1:] for other in told[half:]]
