"""GGUF files open with their values, and whatever is wrong with one is named (G3)."""

from __future__ import annotations

import os
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.api.errors import (
    BrokenWeightsError,
    GgufError,
    MissingFileError,
    RequestCancelled,
    UnsupportedQuantisationError,
    WaymarkError,
)
from core.gguf.file import GGUFFile
from core.gguf.header import MOST_HEADER_BYTES
from kernels.blocks.types import TYPES, GGUFType
from tests.gguf.files import Tensor, gguf, key, text, write

F32_ROW = Tensor("a.weight", (2, 32))
VALUES: dict[str, tuple[str, Any]] = {
    "general.architecture": ("text", "qwen35"), "a.u8": ("u8", 255), "a.i8": ("i8", -1),
    "a.u16": ("u16", 65535), "a.i16": ("i16", -2), "a.u32": ("u32", 2**32 - 1),
    "a.i32": ("i32", -3), "a.f32": ("f32", 0.5), "a.no": ("bool", 0), "a.yes": ("bool", 1),
    "a.u64": ("u64", 2**64 - 1), "a.i64": ("i64", -(2**63)), "a.f64": ("f64", 1e300),
    "a.empty": ("text", ""), "a.texts": ("[text]", ["", "ü", "x" * 300, "\n"]),
    "a.none": ("[text]", []), "a.numbers": ("[i32]", [1, -2]), "a.flags": ("[bool]", [1, 0]),
    "a.floats": ("[f32]", [0.25, float("inf")]),
}  # fmt: skip


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("version", [2, 3])
def test_values_and_tensors(tmp_path: Path, version: int) -> None:
    tensors = [F32_ROW, Tensor("b", (3, 4, 256), 12), Tensor("one", ()), Tensor("none", (0, 32))]
    file = GGUFFile.open(write(tmp_path / "sha256-ab", VALUES, tensors, version=version))
    assert list(file.metadata) == list(VALUES)
    assert {name: plain(value) for name, value in file.metadata.items()} == {
        name: bool(value) if kind == "bool" else value for name, (kind, value) in VALUES.items()
    }
    assert file.metadata["a.yes"] is True
    found = [(each.name, each.type, each.shape, each.num_bytes) for each in file.tensors.values()]
    assert found == [
        ("a.weight", GGUFType.F32, (2, 32), 256), ("b", GGUFType.Q4_K, (3, 4, 256), 12 * 144),
        ("one", GGUFType.F32, (), 4), ("none", GGUFType.F32, (0, 32), 0),
    ]  # fmt: skip
    assert file.tensors["b"].row_bytes == 144 and file.tensors["b"].offset % 32 == 0
    assert file.parts[0].num_bytes == (tmp_path / "sha256-ab").stat().st_size


def test_G1_the_package_reads_the_same(tmp_path: Path) -> None:
    """Its writer's files give its reader's values, places and sizes."""
    package = pytest.importorskip("gguf")
    writer = package.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_custom_alignment(64)
    writer.add_token_list(["a", "ß"])
    writer.add_token_scores([0.5, -1.0])
    writer.add_rope_freq_base(1e6)
    for type in GGUFType:
        if type.name.startswith(("I8", "I1", "I3", "I6", "F")):
            writer.add_tensor(
                type.name, np.zeros((3, 5), f"{type.name[0]}{type.block_bytes}".lower())
            )
        else:
            raw = np.zeros((3, type.block_bytes), np.uint8)
            writer.add_tensor(type.name, raw, raw_dtype=package.GGMLQuantizationType[type.name])
    for step in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, step)()
    read = package.GGUFReader(tmp_path / "model.gguf")
    file = GGUFFile.open(tmp_path / "model.gguf")
    fields = {name: field for name, field in read.fields.items() if not name.startswith("GGUF.")}
    assert {name: plain(value) for name, value in file.metadata.items()} == {
        name: field.contents() for name, field in fields.items()
    }
    assert [
        (each.name, each.type.id, each.shape, each.offset, each.num_bytes)
        for each in file.tensors.values()
    ] == [
        (each.name, int(each.tensor_type), tuple(reversed(each.shape.tolist())), each.data_offset,
         each.n_bytes)
        for each in read.tensors
    ]  # fmt: skip
    sizes = {type.id: (type.block_values, type.block_bytes) for type in GGUFType}
    assert sizes == {each: package.GGML_QUANT_SIZES[each] for each in TYPES}


def start(tensors: int, keys: int, *more: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + b"".join(more)


def info(name: bytes, *numbers: int, offset: int = 0) -> bytes:
    """A tensor: dimensions, then their sizes, then the type."""
    count, *sizes, type = numbers
    packed = struct.pack("<I", count) + b"".join(struct.pack("<Q", size) for size in sizes)
    return text(name) + packed + struct.pack("<IQ", type, offset)


def array(items: int, count: int, data: bytes = b"") -> bytes:
    return start(0, 1, text("a"), struct.pack("<IIQ", 9, items, count), data)


BIG = 2**60
HOSTILE: dict[str, tuple[bytes, type[WaymarkError], str]] = {
    "empty": (b"", BrokenWeightsError, "ends inside its header, at 0 bytes"),
    "other": (b"PK\3\4" + bytes(99), BrokenWeightsError, "doesn't start with GGUF"),
    "older": (b"tjgg" + bytes(99), GgufError, "older format"),
    "version 1": (gguf(version=1), GgufError, "version 1 of"),
    "version 4": (gguf(version=4), GgufError, "version 4 of"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), GgufError, "big-endian"),
    "tensors": (start(BIG, 0), BrokenWeightsError, "claims to have .* tensors"),
    "keys": (start(0, BIG), BrokenWeightsError, "claims to have .* keys"),
    "long key": (start(0, 1, struct.pack("<Q", BIG)), BrokenWeightsError, "name of a key has"),
    "no key": (start(0, 1, bytes(99)), BrokenWeightsError, "name of a key has 0"),
    "bad key": (start(0, 1, text(b"\xff"), bytes(9)), BrokenWeightsError, "key isn't text"),
    "kind": (start(0, 1, text("a"), b"\x0d" + bytes(9)), BrokenWeightsError, "unknown kind \\(13"),
    "cut": (start(0, 1, text("a"), b"\0"), BrokenWeightsError, "ends inside its header"),
    "twice": (
        start(0, 2, key("a", "u8", 1), key("a", "u8", 1)), BrokenWeightsError, "a occurs twice"),
    "bool": (start(0, 1, key("a", "bool", 2)), BrokenWeightsError, "neither true nor false"),
    "nested": (array(9, 1), BrokenWeightsError, "array of arrays"),
    "numbers": (array(10, BIG), BrokenWeightsError, "ends inside its header"),
    "texts": (array(8, BIG), BrokenWeightsError, "ends inside its header"),
    "long text": (array(8, 1, struct.pack("<Q", BIG)), BrokenWeightsError, "ends inside"),
    "far text": (array(8, 2, struct.pack("<Q", 2**64 - 8)), BrokenWeightsError, "ends inside"),
    "name": (start(1, 0, info(b"a" * 65, 1, 1, 0)), BrokenWeightsError, "tensor has 65 bytes"),
    "dimensions": (start(1, 0, info(b"a", 5, 0)), BrokenWeightsError, "5 dimensions"),
    "shape": (start(1, 0, info(b"a", 2, BIG, BIG, 0)), BrokenWeightsError, "impossible shape"),
    "type": (
        start(1, 0, info(b"a", 1, 1, 9)), UnsupportedQuantisationError, "has the type Q8_1"),
    "strange type": (
        start(1, 0, info(b"a", 1, 1, 999)), UnsupportedQuantisationError, "type number 999"),
    "row": (gguf({}, [Tensor("a", (1, 33), 2)]), BrokenWeightsError, "33 values, no whole blocks"),
    "misaligned": (gguf({}, [Tensor("a", (8,), 0, 8)]), BrokenWeightsError, "isn't aligned to 32"),
    "overlap": (
        gguf({}, [F32_ROW, Tensor("b", (8,), 0, 224)]), BrokenWeightsError, "a.weight and b over"),
    "outside": (gguf({}, [Tensor("a", (8,), 0, 2**63)]), BrokenWeightsError, "its tensors need"),
    "same tensor": (gguf({}, [F32_ROW, F32_ROW]), BrokenWeightsError, "a.weight occurs twice"),
    "alignment": (
        gguf({"general.alignment": ("u32", 48)}), BrokenWeightsError, "isn't a power of two"),
    "alignment 0": (gguf({"general.alignment": ("u32", 0)}), BrokenWeightsError, "a power of two"),
    "its type": (gguf({"general.alignment": ("u64", 32)}), BrokenWeightsError, "a power of two"),
    "split": (
        gguf({"split.no": ("u16", 2), "split.count": ("u16", 2)}), BrokenWeightsError, "part 3 of"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_G3_a_fault_is_named_before_anything_large_is_allocated(tmp_path: Path, case: str) -> None:
    data, error, fault = HOSTILE[case]
    (tmp_path / "m.gguf").write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(error, match=fault):
            GGUFFile.open(tmp_path / "m.gguf")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [("tokenizer.ggml.tokens", "[i32]", [1]), ("tokenizer.ggml.tokens", "text", "a"),
     ("tokenizer.ggml.scores", "[text]", ["a"]), ("tokenizer.ggml.bos_token_id", "f32", 1.0),
     ("tokenizer.ggml.add_bos_token", "u8", 1), ("tokenizer.chat_template", "[text]", ["a"]),
     ("general.architecture", "u32", 1), ("split.count", "bool", 1)],
)  # fmt: skip
def test_G3_a_known_key_of_another_kind_is_named(
    tmp_path: Path, name: str, kind: str, value: Any
) -> None:
    with pytest.raises(BrokenWeightsError, match=f"the value of {name} must be of type "):
        GGUFFile.open(write(tmp_path / "m.gguf", {name: (kind, value)}))


def test_G3_a_text_that_is_none_is_named_on_access(tmp_path: Path) -> None:
    file = GGUFFile.open(write(tmp_path / "m.gguf", {"a": ("[text]", [b"\xff"])}))
    with pytest.raises(BrokenWeightsError, match="the value of a isn't text"):
        file.metadata["a"]


def test_G3_every_truncation_is_named(tmp_path: Path) -> None:
    data = gguf(VALUES, [F32_ROW, Tensor("b", (1, 32), 8)])
    end = len(data) - 30  # after the last tensor comes padding, which may be missing
    for length in range(end):
        (tmp_path / "m.gguf").write_bytes(data[:length])
        with pytest.raises(BrokenWeightsError):
            GGUFFile.open(tmp_path / "m.gguf")
    (tmp_path / "m.gguf").write_bytes(data[:end])
    GGUFFile.open(tmp_path / "m.gguf")


def test_G3_a_header_has_a_limit(tmp_path: Path) -> None:
    size = MOST_HEADER_BYTES
    with (tmp_path / "m.gguf").open("wb") as file:
        file.write(array(0, size))
        file.truncate(2 * size)
    with pytest.raises(BrokenWeightsError, match="header takes more than 64 MiB"):
        GGUFFile.open(tmp_path / "m.gguf")


def test_G3_many_entries_take_linear_time(tmp_path: Path) -> None:
    """The largest allowed numbers of keys, texts and tensors take seconds, not minutes."""
    count = 2**16
    keys = {f"k{i}": ("u8", 1) for i in range(count - 1)} | {"texts": ("[text]", [""] * 2**20)}
    path = tmp_path / "m.gguf"
    names = [info(b"t%d" % i, 1, 8, 0, offset=32 * i) for i in reversed(range(count))]
    head = start(count, count, *(key(name, *value) for name, value in keys.items()), *names)
    path.write_bytes(head + bytes(-len(head) % 32 + 32 * count))
    began = time.process_time()
    file = GGUFFile.open(path)
    assert len(file.tensors) == count and len(file.metadata) == count
    assert time.process_time() - began < 10


PARTS: tuple[list[Tensor], ...] = ([], [F32_ROW], [Tensor("b", (8,)), Tensor("c", (8,))])


def split(folder: Path, key: str = "", value: int = 0) -> list[Path]:
    """A model in three parts; `key` of the third has the given value."""
    folder.mkdir(exist_ok=True)
    paths = []
    for number, tensors in enumerate(PARTS):
        numbers = {"split.no": number, "split.count": 3, "split.tensors.count": 3}
        if key and number == 2:
            numbers[key] = value
        keys: dict[str, tuple[str, Any]] = {name: ("u16", each) for name, each in numbers.items()}
        if number == 0:
            keys["general.name"] = ("text", "whole")
        paths.append(write(folder / f"m-0000{number + 1}-of-00003.gguf", keys, tensors))
    return paths


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_any_part_of_a_split_model_opens_it(tmp_path: Path, chosen: int) -> None:
    """Through links, too: the Hugging Face cache has blobs of other names."""
    (tmp_path / "cache").mkdir()
    for path in split(tmp_path / "blobs"):
        blob = path.rename(path.with_name(f"blob{path.name[6]}"))
        (tmp_path / "cache" / path.name).symlink_to(blob)
    file = GGUFFile.open(tmp_path / "cache" / f"m-0000{chosen + 1}-of-00003.gguf")
    assert file.metadata["general.name"] == "whole"
    assert {name: each.path.name[6] for name, each in file.tensors.items()} == {
        "a.weight": "2", "b": "3", "c": "3"
    }  # fmt: skip
    assert [part.path.name[6] for part in file.parts] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("change", "error", "fault"),
    [(lambda paths: paths[2].unlink(), MissingFileError, "00003-of-00003.gguf can't be read"),
     (lambda paths: paths[0].rename(paths[0].with_name("m.gguf")), MissingFileError, "part 1 of"),
     (lambda paths: os.replace(paths[1], paths[2]), BrokenWeightsError, "another|can't be read"),
     (lambda paths: split(paths[0].parent, "split.no", 1), BrokenWeightsError, "part 3"),
     (lambda paths: split(paths[0].parent, "split.count", 4), BrokenWeightsError, "part 3"),
     (lambda paths: split(paths[0].parent, "split.tensors.count", 4), BrokenWeightsError, "says 4"),
     (lambda paths: paths[2].write_bytes(paths[2].read_bytes()[:-64]), BrokenWeightsError, "need")],
)  # fmt: skip
def test_G3_parts_that_do_not_belong_together(
    tmp_path: Path, change: Callable[[list[Path]], Any], error: type[WaymarkError], fault: str
) -> None:
    paths = split(tmp_path)
    change(paths)
    with pytest.raises((error, MissingFileError), match=fault):
        GGUFFile.open(paths[0] if paths[0].exists() else tmp_path / "m.gguf")


def test_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing.gguf", "pipe", "."):
        with pytest.raises(MissingFileError, match="can't be read"):
            GGUFFile.open(tmp_path / name)


def test_it_can_be_cancelled(tmp_path: Path) -> None:
    def check() -> None:
        raise RequestCancelled("")

    with pytest.raises(RequestCancelled):
        GGUFFile.open(write(tmp_path / "m.gguf", VALUES), check)


def test_a_large_vocabulary_opens_at_once(tmp_path: Path) -> None:
    """The issue's bound is 0.3 s on an idle machine; this one may be busy."""
    keys: dict[str, tuple[str, Any]] = {
        "tokenizer.ggml.tokens": ("[text]", [f"token {i}" for i in range(248_320)]),
        "tokenizer.ggml.merges": ("[text]", [f"a{i} b{i}" for i in range(247_587)]),
    }
    path = write(tmp_path / "m.gguf", keys)
    began = time.process_time()
    file = GGUFFile.open(path)
    assert time.process_time() - began < 0.6
    assert {name: ("[text]", file.metadata[name]) for name in keys} == keys
