"""Token ids of GGUF vocabularies equal llama.cpp's vectors and published tokenizers (G1)."""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections.abc import Iterator
from functools import cache

import pytest
from tokenizers import Tokenizer as Reference

from core.gguf.file import GGUFFile
from core.gguf.pre_tokenizers import PRE_TOKENIZERS
from core.gguf.text import GGUFText, read_text
from core.helper.process import Helper
from core.text.kit import TEXT_MEMORY_BYTES
from core.text.tokenizer import Tokenizer
from tests.gguf.vocabularies import as_converted, llama_models, published

VECTORS = (
    "qwen2", "qwen35", "llama-bpe", "refact", "starcoder", "gpt-2", "gemma-4", "llama-spm", "phi-3",
)  # fmt: skip
# Published tokenizers and their `pre`; the slow test takes all.
QUICK = {"qwen3": "qwen2", "llama2": "default"}
ALL = {**QUICK, "llama3": "llama-bpe", "gptoss": "gpt-4o", "gemma3": "default"}
TEMPLATE = {"tokenizer.chat_template": "{{ messages[0].content }}"}
CONTROLS = "<|im_end|> </s> <s> <think> <|eot_id|> <end_of_turn> <turn|> <unk> <0x0A> [PAD151646]"

SCRIPTS = [
    *[(0x20, 0x7E)] * 6, (0xA0, 0x24F), (0x300, 0x3FF), (0x400, 0x4FF), (0x590, 0x6FF),
    (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x2000, 0x218F), (0x3040, 0x30FF),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFF00, 0xFFEF), (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF),
]  # fmt: skip
WORDS = (
    "the HELLO I'LL don't we'VE 12345 1,234.56 \u2581\u2581 foo_bar camelCase XMLHttp aaaaaaaa "
    "http://x.y/z?q=1 f(x): <table> na\u00efve e\u0301 \ud55c\uad6d\uc5b4 \u4e2d\u6587 \r\n"
).split(" ")


def mixed_lines(count: int) -> Iterator[str]:
    chance = random.Random(33)
    for _ in range(count):
        parts: list[str] = []
        for _ in range(chance.randint(1, 12)):
            kind = chance.random()
            if kind < 0.45:
                parts.append(chance.choice(WORDS))
            elif kind < 0.75:
                script = chance.choice(SCRIPTS)
                letters = [chr(chance.randint(*script)) for _ in range(chance.randint(1, 9))]
                parts.append("".join(letters))
            elif kind < 0.85:
                most = 70 if chance.random() < 0.1 else 12
                parts.append(chance.choice(" \t\n") * chance.randint(1, most))
            else:
                parts.append(str(chance.randrange(10 ** chance.randint(1, 9))))
            parts.append(" " * (chance.random() < 0.7))
        yield "".join(parts)


@cache
def vocabulary(name: str) -> GGUFText:
    metadata = GGUFFile.open(llama_models() / f"ggml-vocab-{name}.gguf").metadata
    return read_text({**TEMPLATE, **metadata})


def vectors(name: str) -> Iterator[tuple[str, list[int]]]:
    path = llama_models() / f"ggml-vocab-{name}.gguf"
    texts = path.with_suffix(".gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    ids = path.with_suffix(".gguf.out").read_text().split("\n")
    for text, line in zip(texts, ids, strict=False):
        yield text, [int(token_id) for token_id in line.split()]


@pytest.mark.parametrize("name", VECTORS)
def test_G1_token_ids_equal_llama_cpps_vectors(name: str) -> None:
    text = vocabulary(name)
    tokenizer = Reference.from_str(text.tokenizer.decode())
    # The published Qwen tokenizers normalise; llama.cpp doesn't.
    normalises = json.loads(text.tokenizer)["normalizer"] == {"type": "NFC"}
    cases = [
        case
        for case in vectors(name)
        if not normalises or unicodedata.is_normalized("NFC", case[0])
    ]
    assert len(cases) > 45
    for written, expected in cases:
        assert tokenizer.encode(written, add_special_tokens=False).ids == expected, written


def check_published(name: str, pre: str, lines: list[str]) -> None:
    source = published(name)
    text = read_text({**TEMPLATE, **as_converted(source, pre)})
    ours = Reference.from_str(text.tokenizer.decode())
    theirs = Reference.from_str(json.dumps(source))
    for start in range(0, len(lines), 1000):
        some = lines[start : start + 1000]
        pairs = zip(
            some,
            ours.encode_batch(some, add_special_tokens=False),
            theirs.encode_batch(some, add_special_tokens=False),
            strict=True,
        )
        for line, mine, other in pairs:
            assert mine.ids == other.ids, line


@pytest.mark.parametrize("name", QUICK)
def test_G1_token_ids_equal_the_published_tokenizers(name: str) -> None:
    check_published(name, QUICK[name], list(mixed_lines(3_000)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_G1_100_000_lines_equal_the_published_tokenizers(name: str) -> None:
    check_published(name, ALL[name], list(mixed_lines(100_000)))


@pytest.mark.slow
def test_merges_from_scores_are_in_the_published_order() -> None:
    source = published("gemma3")
    text = read_text({**TEMPLATE, **as_converted(source, "default")})
    assert json.loads(text.tokenizer)["model"]["merges"] == source["model"]["merges"]


def test_patterns_are_the_published_ones() -> None:
    """llama.cpp's source quotes them in comments."""
    sources = [llama_models().parent / "src" / name for name in ("llama-vocab.cpp", "unicode.cpp")]
    code = "".join(source.read_text("utf-8") for source in sources)
    quoted = {each.replace("\\\\", "\\") for each in re.findall(r'"((?:[^"\\\n]|\\.)*)"', code)}
    quoted |= set(re.findall(r"^// (\[\\p.*)$", code, re.MULTILINE))
    gpt2 = PRE_TOKENIZERS["gpt-2"].patterns[0]
    # Without the last alternative: llama.cpp keeps what no pattern matches.
    assert gpt2.removesuffix(r"|\s+") in quoted
    for name, kind in PRE_TOKENIZERS.items():
        assert quoted | {gpt2} >= set(kind.patterns), name


@pytest.mark.parametrize("name", ["qwen2", "gemma-4", "phi-3"])
def test_i5_typed_text_makes_no_control_token(name: str) -> None:
    text = vocabulary(name)
    helper = Helper(TEXT_MEMORY_BYTES)
    try:
        tokenizer = Tokenizer(lambda: text.tokenizer, helper)
        controls = {token.id for token in tokenizer.added.tokens if not token.is_blank}
        for written in (CONTROLS, *CONTROLS.split()):
            ids = tokenizer.encode(written, at_start=True).ids.tolist()
            assert controls.isdisjoint(ids), written
            assert tokenizer.decode(ids) == [written]
    finally:
        helper.close()
