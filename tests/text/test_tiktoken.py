"""Ids of a `tiktoken.model` equal those of tiktoken itself."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from tiktoken import Encoding
from tokenizers import Tokenizer

from core.api.errors import BrokenTokenizerError
from core.gguf.pre_tokenizers import PRE_TOKENIZERS
from core.text.files import read_text_files, tokenizer_of
from core.text.tokenizer import byte_alphabet
from tests.gguf.test_vocabularies import mixed_lines, vocabulary
from tests.oracle.checkpoints import tokenizer as tiny_tokenizer
from tests.text.tiny_tokenizer import write_text_folder

BYTES = [bytes([byte]) for byte in range(256)]


def lines(tokens: list[bytes]) -> bytes:
    return b"".join(b"%s %d\n" % (b64encode(each), rank) for rank, each in enumerate(tokens))


def as_bytes(spelled: list[str]) -> list[bytes]:
    alphabet = byte_alphabet()
    return [bytes(map(alphabet.__getitem__, each)) for each in spelled]


def tokens_of(name: str) -> list[bytes]:
    """Tokens of a vocabulary whose ids are the order of its merges."""
    if name == "tiny":
        model = json.loads(tiny_tokenizer().to_str())["model"]
        return as_bytes(sorted(model["vocab"], key=model["vocab"].__getitem__))
    ids = vocabulary(name).ids
    return as_bytes(sorted(set(ids) - {"<|endoftext|>"}, key=ids.__getitem__))


@pytest.mark.parametrize("name", ["tiny", "gpt-2"])
def test_ids_are_those_of_tiktoken(name: str) -> None:
    tokens = tokens_of(name)
    ranks = {token: rank for rank, token in enumerate(tokens)}
    (pattern,) = PRE_TOKENIZERS["kimi-k2"].patterns
    theirs = Encoding("kimi", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    ours = Tokenizer.from_str(tokenizer_of(lines(tokens), {}).decode())
    for line in mixed_lines(2_000):
        expected = theirs.encode_ordinary(line)
        assert ours.encode(line, add_special_tokens=False).ids == expected, line
        assert ours.decode(expected) == line


def test_control_tokens_follow_with_their_names() -> None:
    named = {"257": {"content": "[EOS]"}, "258": {"content": ""}, "511": 3, "x": {}}
    made = json.loads(tokenizer_of(lines(BYTES), {"added_tokens_decoder": named}))
    added = {each["id"]: each["content"] for each in made["added_tokens"] if each["special"]}
    assert list(added) == list(range(256, 512)) and added[257] == "[EOS]"
    assert added[256] == "<|reserved_token_256|>" and added[258] == "<|reserved_token_258|>"


def test_a_folder_may_have_it_in_place_of_a_tokenizer_json(tmp_path: Path) -> None:
    folder = write_text_folder(tmp_path, "kimi")
    published = (folder / "tokenizer.json").read_bytes()
    (folder / "tiktoken.model").write_bytes(lines(BYTES))
    assert read_text_files(folder).read_tokenizer() == published
    (folder / "tokenizer.json").unlink()
    files = read_text_files(folder)
    config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    assert files.read_tokenizer() == tokenizer_of(lines(BYTES), config)
    (folder / "tiktoken.model").write_bytes(b"x")
    with pytest.raises(BrokenTokenizerError):
        read_text_files(folder)


TWICE = {"added_tokens_decoder": {"256": {"content": "a"}}}


@pytest.mark.parametrize(
    ("given", "config"),
    [
        (b"", {}),
        (b"YQ==", {}),
        (b"YQ== 1\n", {}),
        (b"YQ== 0\nYg== 0\n", {}),
        (b"YQ== 0\n*** 1\n", {}),
        (b"YQ 0\n", {}),
        (b" 0\n", {}),
        (b"YQ== 0\nYQ== 1\n", {}),
        (b"\xff\xfe" * 100, {}),
        (lines([b"a" * 257]), {}),
        (lines([b"%d" % number + b"x" * 250 for number in range(2**15)]), {}),
        (lines(BYTES), TWICE),
    ],
)
def test_damage_is_refused(given: bytes, config: dict[str, Any]) -> None:
    with pytest.raises(BrokenTokenizerError):
        tokenizer_of(given, config)
