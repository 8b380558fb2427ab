"""D3: stored files that were cut, flipped, swapped or forged are never trusted."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from core.cache.disk.segment import Label, SegmentDamagedError, SegmentId, SegmentKind, pack, unpack
from core.cache.disk.store import SegmentStore
from tests.cache.disk.worlds import (
    EMBEDDING,
    FINGERPRINT,
    KV,
    STATE,
    WINDOW,
    check_integrity,
    file_of,
    get,
    key,
    open_store,
    place,
    put_chain,
    same,
    tensors,
)

LABEL = Label(FINGERPRINT, SegmentId(KV, key(0)), None)
# Three runs in a row, each with its state, whose window has rows of the run before, and a picture:
# damage must take only what needs it.
EACH = KV, STATE, WINDOW
EVERYTHING = [(kind, number) for number in range(3) for kind in EACH] + [(EMBEDDING, 9)]


def make(folder: Path) -> SegmentStore:
    store = open_store(folder)
    for number in range(3):
        window = [number, number - 1] if number else [0]
        put_chain(store, [number], "chat", number - 1 if number else None, window)
    store.put(EMBEDDING, key(9), None, tensors(9), ["chat"])
    return store


def lost_with(kind: SegmentKind, number: int) -> set[tuple[SegmentKind, int]]:
    """Segments that can't be restored, or serve nothing, once segment (kind, number) is gone."""
    if kind is KV:
        return {each for each in EVERYTHING if each[0] is not EMBEDDING and each[1] >= number}
    if (kind, number) == (STATE, 2):
        return {(each, 2) for each in EACH}
    if (kind, number) == (WINDOW, 1):
        return {(each, left) for each in EACH for left in (1, 2)}
    return {(kind, number)}


def expect_damage(store: SegmentStore, kind: SegmentKind, number: int) -> str:
    """Reading says what is wrong, once; all that doesn't need it is still there."""
    with pytest.raises(SegmentDamagedError) as raised:
        store.get(*place(kind, number))
    assert store.get(*place(kind, number)) is None
    lost = lost_with(kind, number)
    for each in EVERYTHING:
        assert get(store, *each) is (each not in lost)
        assert file_of(store, *each).exists() is (each not in lost)
    check_integrity(store)
    return raised.value.reason


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize(
    ("kind", "number"), [(KV, 1), (STATE, 1), (STATE, 2), (WINDOW, 1), (EMBEDDING, 9)]
)
def test_D3_a_cut_or_grown_segment_is_dropped_with_what_needs_it(
    tmp_path: Path, kind: SegmentKind, number: int, reopened: bool
) -> None:
    store = make(tmp_path / "whole")
    num_bytes = file_of(store, kind, number).stat().st_size
    store.blobs.close()
    for length in (0, 1, 7, 8, 9, 100, num_bytes // 2, num_bytes - 1, num_bytes + 1, 3 * num_bytes):
        folder = tmp_path / str(length)
        shutil.copytree(tmp_path / "whole", folder)
        store = open_store(folder)
        os.truncate(file_of(store, kind, number), length)
        expect_damage(open_store(folder) if reopened else store, kind, number)


def test_D3_every_single_bit_of_a_file_counts() -> None:
    raw = bytearray(b"".join(pack(LABEL, tensors(1, 4)).parts()))
    assert same(unpack(LABEL, raw), tensors(1, 4))
    for bit in range(8 * len(raw)):
        flipped = raw.copy()
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SegmentDamagedError):
            unpack(LABEL, flipped)


# -- whole files in the wrong place


def test_D3_a_file_under_another_name_is_not_that_segment(tmp_path: Path) -> None:
    swaps = [
        ((STATE, 2), (STATE, 1)),
        ((STATE, 1), (KV, 1)),
        ((KV, 2), (KV, 1)),
        ((WINDOW, 2), (WINDOW, 1)),
    ]
    for number, (source, target) in enumerate(swaps):
        store = make(tmp_path / str(number))
        shutil.copyfile(file_of(store, *source), file_of(store, *target))
        reason = expect_damage(open_store(store.blobs.folder), *target)
        if source[0] is target[0]:  # else their sizes differ already
            assert reason == "It holds something else than its name says."


def test_D3_a_file_of_another_model_is_not_used(tmp_path: Path) -> None:
    store = make(tmp_path / "one")
    other = open_store(tmp_path / "other", fingerprint=FINGERPRINT[::-1])
    put_chain(other, [0, 1], "chat")
    shutil.copyfile(file_of(other, KV, 1), file_of(store, KV, 1))
    reason = expect_damage(open_store(store.blobs.folder), KV, 1)
    assert reason == "It belongs to another model, or to other settings of it."


def test_D3_a_run_after_another_text_is_not_used(tmp_path: Path) -> None:
    store = make(tmp_path / "one")
    other = open_store(tmp_path / "other")
    put_chain(other, [7, 1], "chat")
    shutil.copyfile(file_of(other, KV, 1), file_of(store, KV, 1))
    assert expect_damage(store, KV, 1) == "It follows another text than expected."


def test_D3_another_format_is_not_read() -> None:
    raw = forged({}, b"", format="waymark-segment-0")
    with pytest.raises(SegmentDamagedError, match="another format"):
        unpack(LABEL, raw)


def test_D3_a_huge_file_is_not_even_read(tmp_path: Path) -> None:
    store = make(tmp_path)
    os.truncate(file_of(store, STATE, 2), 2**40)
    assert "instead of" in expect_damage(store, STATE, 2)
    os.truncate(file_of(store, EMBEDDING, 9), 2**40)
    store = open_store(tmp_path, cap=2**30)
    with pytest.raises(SegmentDamagedError, match="instead of"):
        store.get(EMBEDDING, key(9))
    assert not store.has(EMBEDDING, key(9)) and get(store, STATE, 1)
    check_integrity(store)


# -- forged headers


def forged(entries: dict[str, Any], data: bytes, **metadata: str) -> bytearray:
    """A file whose checksum is right, whatever its header says."""
    facts = {**LABEL.metadata(), **metadata}
    digest = hashlib.blake2b(spelled({"__metadata__": facts, **entries}), digest_size=32)
    digest.update(data)
    facts["checksum"] = digest.hexdigest()
    header = spelled({"__metadata__": facts, **entries})
    return bytearray(len(header).to_bytes(8, "little") + header + data)


def spelled(header: dict[str, Any]) -> bytes:
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def entry(shape: object, start: object, end: object, dtype: object = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


FORGED_ENTRIES: dict[str, dict[str, Any]] = {
    "larger than the file": {"x": entry([2**40], 0, 2**42)},
    "more than memory": {"x": entry([2**62, 4], 0, 8)},
    "empty and endless": {"x": entry([0, 2**63], 0, 0), "y": entry([2], 0, 8)},
    "negative": {"x": entry([-2], 0, 8)},
    "not counts": {"x": entry([2.0], 0, 8)},
    "true for one": {"x": entry([True, 2], 0, 8)},
    "overlapping": {"x": entry([2], 0, 8), "y": entry([1], 4, 8)},
    "with a gap": {"x": entry([1], 4, 8)},
    "backwards": {"x": entry([2], 8, 0)},
    "of no known type": {"x": entry([2], 0, 8, "F8_E4M3")},
    "of an odd type": {"x": entry([2], 0, 8, ["F32"])},
    "not an entry": {"x": 5},
    "no entries": {},
    "half an entry": {"x": {"dtype": "F32"}},
}


@pytest.mark.parametrize("entries", FORGED_ENTRIES.values(), ids=FORGED_ENTRIES)
def test_D3_a_forged_header_makes_no_tensor_beyond_the_file(
    entries: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = forged(entries, bytes(8))
    real = torch.empty

    def counting(shape: Any, dtype: torch.dtype) -> torch.Tensor:
        made = real(shape, dtype=dtype, device="meta")
        assert made.nbytes <= len(raw)
        return real(shape, dtype=dtype)

    monkeypatch.setattr(torch, "empty", counting)
    with pytest.raises(SegmentDamagedError):
        unpack(LABEL, raw)


def test_forging_works_where_nothing_is_wrong() -> None:
    found = unpack(LABEL, forged({"x": entry([2], 0, 8)}, bytes(8)))
    assert same(found, {"x": torch.zeros(2)})


def test_D3_a_header_that_says_the_same_in_other_words_is_refused() -> None:
    raw = forged({"x": entry([2], 0, 8)}, bytes(8))
    length = int.from_bytes(raw[:8], "little")
    wider = (length + 8).to_bytes(8, "little") + raw[8 : 8 + length] + b" " * 8 + raw[8 + length :]
    with pytest.raises(SegmentDamagedError, match="not one that Waymark writes"):
        unpack(LABEL, bytearray(wider))


@pytest.mark.parametrize(
    "raw",
    [
        (2**63).to_bytes(8, "little") + b"{}",
        (2**64 - 1).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (8).to_bytes(8, "little") + b'{"a":1}',
        (60_000).to_bytes(8, "little") + b"[" * 60_000,
        (60_000).to_bytes(8, "little") + b"9" * 60_000,
        (2**21).to_bytes(8, "little") + b" " * 2**21,
        (24).to_bytes(8, "little") + b'{"__metadata__":"text"} ',
        (4).to_bytes(8, "little") + b"\xff\xfe\xfd\xfc",
        b"",
    ],
    ids=range(11),
)
def test_D3_what_is_no_header_is_refused(raw: bytes) -> None:
    with pytest.raises(SegmentDamagedError):
        unpack(LABEL, bytearray(raw))


def test_other_readers_of_safetensors_open_a_segment(tmp_path: Path) -> None:
    content = {
        "a": torch.arange(3, dtype=torch.uint8),
        "b": torch.arange(5, dtype=torch.bfloat16),
        "c": torch.arange(7.0),
        "d": torch.empty(0, 2),
    }
    store = open_store(tmp_path)
    store.put(EMBEDDING, key(0), None, content, ["chat"])
    found = safetensors.torch.load(file_of(store, EMBEDDING, 0).read_bytes())
    assert same(found, content)
