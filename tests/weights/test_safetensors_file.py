"""Headers: what is proper is read, everything else is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from core.api.errors import BrokenWeightsError, MissingFileError
from core.weights.safetensors_file import read_header
from tests.weights.files import entry, write_raw


def test_a_file_of_the_official_writer_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {
        "one": torch.arange(6.0).view(2, 3),
        "two": torch.ones(5, dtype=torch.bfloat16),
        "none": torch.empty(0, 4),
        "scalar": torch.tensor(3.0),
    }
    save_file(tensors, str(path), metadata={"format": "pt"})
    file = read_header(path)
    assert file.num_bytes == path.stat().st_size
    assert {name: (each.dtype, each.shape) for name, each in file.tensors.items()} == {
        "one": ("F32", (2, 3)),
        "two": ("BF16", (5,)),
        "none": ("F32", (0, 4)),
        "scalar": ("F32", ()),
    }
    one = file.tensors["one"]
    stored = torch.frombuffer(
        bytearray(path.read_bytes()[one.start : one.end]), dtype=torch.float32
    )
    assert stored.tolist() == [0, 1, 2, 3, 4, 5]


GOOD = entry("F32", (2, 3), 0)
LIES: dict[str, tuple[Any, str]] = {
    "not-json": (b"{oops", "not proper JSON"),
    "not-text": (b"\xff\xfe\x00", "not proper JSON"),
    "deep": (b"[" * 100_000, "not proper JSON"),
    "deeper-than-200": (b'{"__metadata__":' + b"[" * 300 + b"]" * 300 + b"}", "not proper JSON"),
    "twice": (b'{"a": {}, "a": {}}', "not proper JSON"),
    "utf-16": (json.dumps({}).encode("utf-16"), "not proper JSON"),
    "byte-order-mark": (b"\xef\xbb\xbf{}", "not proper JSON"),
    "half-a-character": (b'{"\xed\xa0\x80": {}}', "not proper JSON"),
    "deep-objects": (b'{"a":' * 100_000, "not proper JSON"),
    "endless-number": (b'{"a": {"shape": [' + b"9" * 5000 + b"]}}", "not proper JSON"),
    "twice-inside": (b'{"a": {"dtype": "F32", "dtype": "U8"}}', "not proper JSON"),
    "space-first": (b" {}", "not an object"),
    "list": ([], "not an object"),
    "no-fields": ({"a": {}}, "a has an unknown type"),
    "null": ({"a": None}, "a has an unknown type"),
    "nested": ({"a": {"a": GOOD}}, "a has an unknown type"),
    "no-object": ({"a": 3}, "a has an unknown type"),
    "unknown-type": ({"a": GOOD | {"dtype": "F33"}}, r"a has an unknown type \(F33\)"),
    "type-is-list": ({"a": GOOD | {"dtype": []}}, "a has an unknown type"),
    "negative-shape": ({"a": GOOD | {"shape": [-2, -3]}}, "a has no proper shape"),
    "boolean-shape": ({"a": GOOD | {"shape": [True, 6]}}, "a has no proper shape"),
    "fraction-shape": ({"a": GOOD | {"shape": [2.0, 3]}}, "a has no proper shape"),
    "giant-shape": ({"a": GOOD | {"shape": [2**64]}}, "a has no proper shape"),
    "infinite-shape": (b'{"a": {"dtype": "F32", "shape": [1e999]}}', "a has no proper shape"),
    "text-shape": ({"a": GOOD | {"shape": "23"}}, "a has no proper shape"),
    "shape-of-shapes": ({"a": GOOD | {"shape": [[2, 3]]}}, "a has no proper shape"),
    "product-past-64-bits": (
        {"a": GOOD | {"shape": [2**62, 2**62], "data_offsets": [0, 0]}},
        "in F32 takes 85,070,591,730,234,615,865,843,651,857,942,052,864 bytes, its entry has 0",
    ),
    "many-dimensions": ({"a": GOOD | {"shape": [1] * 1000}}, "a has no proper shape"),
    "one-offset": ({"a": GOOD | {"data_offsets": [0]}}, "a has no proper place"),
    "three-offsets": ({"a": GOOD | {"data_offsets": [0, 12, 24]}}, "a has no proper place"),
    "boolean-offset": ({"a": GOOD | {"data_offsets": [False, 24]}}, "a has no proper place"),
    "fraction-offset": ({"a": GOOD | {"data_offsets": [0.0, 24.0]}}, "a has no proper place"),
    "giant-offset": ({"a": GOOD | {"data_offsets": [0, 2**62]}}, "a reaches from byte"),
    "negative-offset": ({"a": GOOD | {"data_offsets": [-24, 0]}}, "a has no proper place"),
    "backwards": ({"a": GOOD | {"data_offsets": [24, 0]}}, "a reaches from byte"),
    "past-the-end": ({"a": GOOD | {"data_offsets": [8, 32]}}, "a reaches from byte"),
    "too-few-bytes": (
        {"a": GOOD | {"data_offsets": [0, 20]}},
        r"a: \[2, 3\] in F32 takes 24 bytes",
    ),
    "overlap": (
        {"a": GOOD, "b": GOOD | {"shape": [1], "data_offsets": [20, 24]}},
        "a and b overlap",
    ),
    "same-place": ({"a": GOOD, "b": GOOD}, "a and b overlap"),
    "nothing-inside-another": (
        {"a": GOOD, "b": GOOD | {"shape": [0], "data_offsets": [8, 8]}},
        "a and b overlap",
    ),
    "hole-before": ({"a": GOOD | {"shape": [5], "data_offsets": [4, 24]}}, "belong to no tensor"),
    "hole-between": (
        {"a": entry("F32", (2,), 0), "b": entry("F32", (2,), 16)},
        "belong to no tensor",
    ),
    "more-behind": ({"a": entry("F32", (5,), 0)}, "belong to no tensor"),
    "no-tensor-at-all": ({"__metadata__": {}}, "belong to no tensor"),
}


@pytest.mark.parametrize(("header", "words"), LIES.values(), ids=LIES.keys())
def test_lies_are_named(tmp_path: Path, header: Any, words: str) -> None:
    path = write_raw(tmp_path / "model.safetensors", header, bytes(24))
    with pytest.raises(BrokenWeightsError, match=words) as caught:
        read_header(path)
    assert "model.safetensors" in caught.value.message


@pytest.mark.parametrize("length", [0, 7, 2**63, 2**64 - 1, 26])
def test_a_lying_length_is_refused(tmp_path: Path, length: int) -> None:
    path = write_raw(tmp_path / "model.safetensors", {"a": 1}, b"", length)
    with pytest.raises(BrokenWeightsError):
        read_header(path)


def test_a_giant_header_is_refused_unread(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "model.safetensors", b"", b"", 100_000_001)
    with path.open("r+b") as file:
        file.truncate(200_000_000)
    with pytest.raises(BrokenWeightsError, match="claims 100,000,001 bytes"):
        read_header(path)


@pytest.mark.parametrize("content", [b"", b"\x01", b"\x08\0\0\0\0\0\0\0"])
def test_a_stump_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(BrokenWeightsError):
        read_header(path)


@pytest.mark.parametrize("name", ["x" * 10**6, "two\nlines", "\ud800", "\u202etxt.exe", "\0"])
def test_a_hostile_name_is_shown_short_and_whole(tmp_path: Path, name: str) -> None:
    path = write_raw(tmp_path / "model.safetensors", {name: GOOD | {"dtype": "F33"}}, bytes(24))
    with pytest.raises(BrokenWeightsError) as caught:
        read_header(path)
    message = caught.value.info().message
    assert message.isprintable() and len(message) < 300


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"gone\.safetensors"):
        read_header(tmp_path / "gone.safetensors")


@given(cut=st.integers(0, 200), place=st.integers(0, 120), byte=st.integers(0, 255))
def test_damage_never_passes_as_another_error(
    tmp_path_factory: pytest.TempPathFactory, cut: int, place: int, byte: int
) -> None:
    """Any one byte changed and any end cut off: read as checked, or refused as broken."""
    header = json.dumps({"a": entry("F32", (2, 3), 0), "b": entry("BF16", (4,), 24)}).encode()
    content = bytearray(len(header).to_bytes(8, "little") + header + bytes(32))
    content[min(place, len(content) - 1)] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    path.write_bytes(content[: max(0, len(content) - cut)])
    try:
        file = read_header(path)
    except BrokenWeightsError:
        return
    for each in file.tensors.values():
        assert each.start <= each.end <= file.num_bytes
