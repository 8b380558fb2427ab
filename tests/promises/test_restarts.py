"""I9, D1 to D3, M2, X4: a chat that outlives its process, and files that can't be trusted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from core.api.chat import Message, Tool
from core.api.commands import LoadModel
from core.api.params import ModelSettings
from core.api.prompt import CutKind
from core.cache.disk.segment import SegmentKind
from core.engine.cancel import CancelFlag
from core.engine.engine import Engine
from core.loading.precision import BFLOAT16, PRECISIONS
from core.storage.files import Files, Space
from tests.promises.fixtures import MAPPED, SEEING, FolderOf, LoadedOf, PictureOf
from tests.promises.machine import (
    Machine,
    chat_with_pictures,
    last_end,
    load,
    num_common,
    system,
    user,
    words,
)
from tests.storage.disks import PLENTY

# Families that see, and whose pictures come back from disk.
seeing = pytest.mark.parametrize(
    "kept",
    [
        *SEEING,
        *(pytest.param(each, marks=pytest.mark.slow) for each in MAPPED),
    ],
    indirect=True,
    ids=str,
)


def files(machine: Machine, kind: SegmentKind | None = None) -> list[Path]:
    assert machine.folder is not None
    found = machine.folder.rglob("*.safetensors")
    return sorted(path for path in found if kind is None or path.name.startswith(kind.value))


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *(("hybrid", each) for each in PRECISIONS),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in MAPPED),
    ],
)
def test_X4_what_is_stored_is_what_lived(
    loaded_of: LoadedOf, picture: PictureOf, tmp_path: Path, name: str, precision: str
) -> None:
    machine = Machine(loaded_of(name, precision), tmp_path / "cache")
    chat = chat_with_pictures(picture)
    machine.ask(chat)
    machine.write()
    cache, kept = machine.cache, PRECISIONS.get(precision, BFLOAT16).dtype
    store = cache.disk.store
    assert store is not None
    seen = set()
    for node in machine.held(chat):
        assert node.run is not None
        view = cache.kv_buffer.view(node.run.start.token.value, node.end.token.value)
        rows = cache.disk.rows(node)
        if rows is not None:
            seen.add("rows")
            for layer, pair in view.layers.items():
                assert all(map(torch.equal, pair, rows.layers[layer]))
                assert {part.dtype for part in rows.layers[layer]} == {kept}
        stored, _ = cache.disk.checkpoint(node.key)
        if stored is not None and node.checkpoint is not None:
            seen.add("state")
            assert stored.last_hidden.dtype == kept
            assert torch.equal(stored.last_hidden, node.checkpoint.last_hidden)
            for layer, (tail, state) in node.checkpoint.state.layers.items():
                assert (tail.dtype, state.dtype) == (kept, torch.float32)
                assert all(map(torch.equal, (tail, state), stored.state.layers[layer]))
    for image in machine.prompt(chat).images:
        embedding, held = cache.disk.embedding(image.key), cache.embeddings.get(image.key)
        assert embedding is not None and held is not None
        assert embedding.dtype == held.dtype == kept and torch.equal(embedding, held)
    assert seen == {"rows", "state"}


@seeing
def test_D1_I2_a_reopened_chat_with_pictures_reads_only_what_is_new(
    kept: Machine, picture: PictureOf
) -> None:
    chat: list[Message] = [system(words(20)), user(picture(1, "wide"), "What is it?")]
    for turn in range(3):
        answer = kept.same_as_cold(chat)
        chat.append(answer.reply)
        settled = kept.settle(chat).tokens + last_end(
            answer.finished.prompt_ids, kept.base.text.end_of_turn_ids
        )
        kept.reopen()
        chat.append(user(f"And {turn}?", *([picture(2, "tall")] if turn == 1 else [])))
        again = kept.same_as_cold(chat)
        assert again.reused == settled and again.stats.restored_from == "disk"
        assert again.stats.miss is None
        assert again.stats.images_encoded == (1 if turn == 1 else 0)


def test_D1_a_reply_that_the_next_turn_read_first_is_kept_once_it_is_asked_for(
    kept: Machine,
) -> None:
    chat: list[Message] = [user(words(40))]
    chat.append(kept.ask(chat).reply)
    asked = kept.ask([*chat, user("And?")])
    kept.settle(chat)
    kept.reopen()
    edited = kept.same_as_cold([*chat, user("But?")])
    assert edited.stats.restored_from == "disk"
    # All but the new question: its start is where the reply's turn ended.
    starts = asked.stats.message_starts
    assert edited.reused == last_end(asked.finished.prompt_ids[: starts[2]])


@seeing
def test_D1_an_embedding_comes_back_without_the_tower(kept: Machine, picture: PictureOf) -> None:
    kept.ask([user("What is it?", picture(1, "wide"))])
    kept.reopen()
    # The picture lies behind other words now: it is prefilled anew, but not encoded.
    other = kept.same_as_cold([user("Is it red?", picture(1, "wide"))])
    assert other.stats.images_encoded == 0 and other.reused == 0


def test_D2_what_is_written_is_proportional_to_what_is_new(
    kept: Machine, picture: PictureOf
) -> None:
    chat: list[Message] = [system(words(20))]
    per_token = kept.base.info.kv_bytes_per_token
    written, settled = 0, 0
    for turn in range(5):
        shown = [picture(turn + 1)] if turn in (0, 3) else []
        is_long = turn > 1
        chat.append(user(*shown, words(20 + 20 * turn if is_long else 8, f"t{turn}-")))
        answer = kept.ask(chat)
        chat.append(answer.reply)
        before = settled
        settled = kept.settle(chat).tokens + last_end(
            answer.finished.prompt_ids, kept.base.text.end_of_turn_ids
        )
        states = len(files(kept, SegmentKind.STATE))
        rows = sum(path.stat().st_size for path in files(kept, SegmentKind.KV))
        runs = len(files(kept, SegmentKind.KV))
        kept.write()
        # The settled reply's end, the last edge of a picture or long text, and once the system
        # prompt's end.
        new_states = len(files(kept, SegmentKind.STATE)) - states
        assert new_states == 1 + (bool(shown) or is_long) + (turn == 0)
        new_rows = sum(path.stat().st_size for path in files(kept, SegmentKind.KV)) - rows
        new_runs = len(files(kept, SegmentKind.KV)) - runs
        data = (settled - before) * per_token
        assert data < new_rows < data + 1_000 * new_runs
        written += data
    assert written == settled * per_token
    assert kept.write() == 0


def damaged(path: Path, how: str) -> None:
    raw = bytearray(path.read_bytes())
    if how == "flipped":
        raw[len(raw) * 2 // 3] ^= 4
    path.write_bytes(raw[: len(raw) // 2] if how == "truncated" else raw)


@pytest.mark.parametrize("how", ["truncated", "flipped"])
@pytest.mark.parametrize("kind", [kind for kind in SegmentKind if kind.value != "window"])
def test_D3_a_damaged_file_ends_in_a_right_answer_and_a_reason(
    kept: Machine, picture: PictureOf, kind: SegmentKind, how: str
) -> None:
    chat: list[Message] = [user(picture(1), words(30))]
    reply = kept.ask(chat).reply
    kept.write()
    assert files(kept, kind)
    for path in files(kept, kind):
        damaged(path, how)
    kept.restart()
    chat += [reply, user("More?")]
    answer = kept.same_as_cold(chat)
    if kind is SegmentKind.EMBEDDING:
        assert answer.reused > 0
        assert kept.same_as_cold([user("Hi", picture(1))]).stats.images_encoded == 1
        return
    assert answer.reused == 0
    assert answer.stats.miss.reason in ("restore_failed", "cold")
    # What didn't verify is gone; what was read in its place is kept as before.
    kept.reopen()
    assert kept.same_as_cold(chat).reused > 0


@pytest.mark.parametrize(
    "change",
    ["weights", "precision", pytest.param("blocks", marks=pytest.mark.slow), "template"],
)
def test_D3_another_model_on_the_same_folder_starts_clean(
    loaded_of: LoadedOf, tmp_path: Path, picture: PictureOf, change: str
) -> None:
    bases = {
        "weights": (loaded_of("hybrid"), loaded_of("other")),
        "precision": (loaded_of("hybrid"), loaded_of("hybrid", "bfloat16")),
        "blocks": (loaded_of("Q4_K", "published"), loaded_of("Q8_0", "published")),
        "template": (loaded_of("keeps_thoughts"), loaded_of("thinking")),
    }
    one, other = bases[change]
    chat: list[Message] = [user(picture(1), words(30))]
    machine = Machine(one, tmp_path / "cache")
    chat += [machine.ask(chat).reply, user("More?")]
    known = machine.ask(chat).finished.prompt_ids
    machine.write()
    machine.restart(other)
    answer = machine.same_as_cold(chat)
    if change == "template":
        # The weights are the same: what the two templates begin alike with is shared.
        assert 0 < answer.reused <= num_common(known, answer.finished.prompt_ids) < len(known)
    else:
        assert answer.reused == 0 and answer.stats.miss.reason == "cold"
    machine.restart(one)
    back = machine.same_as_cold(chat)
    assert back.stats.restored_from == "disk" and back.stats.images_encoded == 0


def test_M2_a_deleted_chat_leaves_what_was_never_its_own(
    loaded_of: LoadedOf, tmp_path: Path, picture: PictureOf
) -> None:
    rules = system(words(40))
    one: list[Message] = [rules, user(picture(1), words(30, "one"))]
    other: list[Message] = [rules, user(picture(2), words(30, "two"))]
    both = Machine(loaded_of("hybrid"), tmp_path / "both")
    for chat, name in ((one, "one"), (other, "two")):
        both.settle([*chat, both.ask(chat, chat=name).reply], chat=name)
        both.write()
    both.forget("one")
    alone = Machine(loaded_of("hybrid"), tmp_path / "alone")
    alone.settle([*other, alone.ask(other, chat="two").reply], chat="two")
    alone.write()
    for machine in (both, alone):
        assert files(machine)
    assert [path.name for path in files(both)] == [path.name for path in files(alone)]
    assert {node.key for node in both.cache.tree} == {node.key for node in alone.cache.tree}
    assert not list((tmp_path / "both").rglob("*one*"))
    assert both.cache.embeddings.num_bytes == alone.cache.embeddings.num_bytes
    both.restart()
    ends = (run for run in both.prompt(one).runs if run.ends(CutKind.MESSAGE_END))
    assert both.same_as_cold(one).reused == next(ends).end.token.value
    assert both.same_as_cold(other).stats.restored_from == "disk"


def test_M2_the_engine_forgets_what_it_remembers_of_texts(machine: Machine) -> None:
    machine.ask([user(words(30))])
    assert machine.engine.loaded is not None
    text = machine.engine.loaded.text
    remembered = text._kit.tokenizer.cached_ids, text._kit.tokenizer.cached_places
    assert all(each.num_bytes > 0 for each in remembered)
    machine.forget("chat")
    assert [each.num_bytes for each in remembered] == [0, 0]


def test_M2_the_engine_remembers_no_word_of_a_chats_tools(machine: Machine) -> None:
    loaded = machine.engine.loaded
    assert loaded is not None
    mail, diary = (Tool(name=name, definition="{}") for name in ("mail", "diary"))
    changes = [loaded.tools_changed("chat", tools) for tools in ((mail,), (mail,), (diary,))]
    assert changes == [False, False, True]
    assert "mail" not in repr(loaded._tools) and "diary" not in repr(loaded._tools)


@pytest.mark.parametrize("kept", ["hybrid", "qwen3_vl"], indirect=True)
def test_I9_the_offset_left_by_pictures_survives_everything(
    kept: Machine, picture: PictureOf
) -> None:
    chat: list[Message] = [user(picture(1, "wide"), picture(2, "tall"), "What?")]
    reply = kept.same_as_cold(chat).reply
    chat += [reply, user("Why?")]
    offset = (8 - 4) + (10 - 5)

    def goes_on(tier: str) -> None:
        answer = kept.same_as_cold([*chat[:-1], user("Why? " + tier)])
        place = answer.stats.restored_at
        assert answer.stats.restored_from == tier and answer.stats.images_encoded == 0
        assert place.token - place.position == offset
        assert answer.stats.prompt_tokens - answer.stats.prompt_positions == offset

    kept.settle(chat[:-1])
    goes_on("slab")
    kept.ask([user("Elsewhere.", picture(3))])
    goes_on("memory")
    kept.reopen()
    goes_on("disk")
    # Two branches behind the pictures, one gone on from after the other.
    for said in ("left", "right", "left"):
        branch = kept.same_as_cold([user(picture(1, "wide"), picture(2, "tall"), said)])
        place = branch.stats.restored_at
        assert place.token - place.position == offset


@pytest.mark.parametrize("name", ["hybrid", "lfm2_vl"])
def test_D1_I1_another_image_detail_reads_only_the_pictures_that_it_changes(
    name: str, loaded_of: LoadedOf, folder_of: FolderOf, picture: PictureOf, tmp_path: Path
) -> None:
    fine = loaded_of(name)
    assert fine.processor is not None
    small, large = (fine.processor.measure(side, side).tokens for side in (64, 256))
    coarse = load(folder_of(name), max_image_tokens=large // 2)
    assert small <= large // 2
    first: list[Message] = [user(picture(1), words(40))]
    machine = Machine(fine, tmp_path / "cache")
    first.append(machine.ask(first).reply)
    end = machine.settle(first).parts[-1].end
    machine.write()
    chat = [*first, user(picture(2, "large"), "And this?")]
    machine.settle([*chat, machine.ask(chat).reply])
    machine.write()
    machine.restart(coarse)
    again = machine.same_as_cold(chat)
    assert (again.stats.restored_from, again.reused) == ("disk", end)
    assert again.stats.images_encoded == 1
    answer = machine.same_as_cold([*first, user("Why?")])
    assert answer.reused == end and answer.stats.images_encoded == 0


def test_I9_I11_models_take_turns_on_one_folder(
    folder_of: FolderOf, picture: PictureOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Files, "free", lambda self, folder: Space(PLENTY, PLENTY))
    engine = Engine()

    def load(name: str) -> Machine:
        settings = ModelSettings(
            path=str(folder_of(name)),
            device="cpu",
            precision="float32",
            grid=64,
            max_image_tokens=0,
            cache_folder=str(tmp_path / "cache"),
        )
        engine.load(LoadModel(request=1, settings=settings), CancelFlag(), lambda event: None)
        assert engine.loaded is not None
        machine = Machine(engine.loaded)
        machine.engine.loaded = replace(engine.loaded, model=cast(Any, machine.model))
        return machine

    chat: list[Message] = [user(picture(1, "wide"), "What?")]
    answers = {name: load(name).ask(chat) for name in ("hybrid", "other")}
    # The model that goes writes what is computed before the other comes.
    for name in ("hybrid", "other", "hybrid", "hybrid"):
        back = load(name).same_as_cold([*chat, answers[name].reply, user(f"And {name}?")])
        place = back.stats.restored_at
        assert back.stats.restored_from == "disk" and place.token - place.position == 4
        assert back.stats.images_encoded == 0
    assert len([path for path in (tmp_path / "cache").iterdir() if path.is_dir()]) == 2
