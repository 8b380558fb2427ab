"""Text files made from metadata: small vocabularies, and what is refused (G3)."""

from __future__ import annotations

import contextlib
import json
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers.pre_tokenizers import ByteLevel

from core.api.errors import (
    BrokenConfigError,
    BrokenTokenizerError,
    MissingFileError,
    UnknownTokenizerError,
    WaymarkError,
)
from core.gguf.text import GGUFText, read_text
from core.helper.process import Helper
from core.model_files import TEMPLATE_BYTES
from core.text.chat_text import ChatText
from core.text.files import TextFiles, sampling_defaults
from core.text.kit import TEXT_MEMORY_BYTES, ChatTemplate
from tests.gguf.vocabularies import as_converted, llama_models
from tests.text.chats import GRID, chat
from tests.text.tiny_tokenizer import write_text_folder

GGML = "tokenizer.ggml."
LETTERS = sorted(ByteLevel.alphabet())
END = len(LETTERS) + 1  # <|im_end|>
BYTE_LEVEL: dict[str, Any] = {
    GGML + "model": "gpt2",
    GGML + "pre": "llama-bpe",
    GGML + "tokens": [*LETTERS, "<s>", "<|im_end|>", "<think>", "he", "[PAD260]", "", "odd"],
    GGML + "token_type": np.array([1] * len(LETTERS) + [3, 3, 4, 1, 1, 1, 5], np.int32),
    GGML + "merges": ["h e"],
    GGML + "bos_token_id": len(LETTERS),
    GGML + "eos_token_id": END,
    "tokenizer.chat_template": "{{ bos_token }}{{ messages[0].content }}",
}
WITH_SCORES: dict[str, Any] = {
    GGML + "model": "llama",
    GGML + "tokens": ["<unk>", "<s>", "</s>", "  ", "\u2581a", "\u2581", "a", "b", "ab"],
    GGML + "token_type": np.array([2, 3, 3, 4, 1, 1, 1, 1, 1], np.int32),
    GGML + "scores": np.array([0, 0, 0, -1000, 0, -3, -4, -5, -1], np.float32),
    "tokenizer.chat_template": "{{ messages[0].content }}",
}


def read(base: dict[str, Any] = BYTE_LEVEL, **changes: Any) -> GGUFText:
    """`base` with other values under `tokenizer.ggml.`; None takes a key out."""
    metadata = {**base, **{GGML + name: value for name, value in changes.items()}}
    return read_text({key: value for key, value in metadata.items() if value is not None})


def added(text: GGUFText) -> dict[str, bool]:
    """Added tokens, and if they are special."""
    return {each["content"]: each["special"] for each in json.loads(text.tokenizer)["added_tokens"]}


@pytest.mark.parametrize("family", ["chatml", "chatml_thinking", "llama3"])
def test_a_folder_and_its_metadata_give_the_same_prompts(tmp_path: Path, family: str) -> None:
    folder = write_text_folder(tmp_path, family)
    source = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    names = {each["content"]: each["id"] for each in source["added_tokens"]}
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    metadata = as_converted(source, "qwen35") | {
        f"{GGML}{name}_token_id": names[settings[f"{name}_token"]]
        for name in ("bos", "eos")
        if settings.get(f"{name}_token")
    }
    template = (folder / "chat_template.jinja").read_text("utf-8")
    text = read_text({**metadata, "tokenizer.chat_template": template})
    config = json.loads((folder / "config.json").read_text())
    files = TextFiles(
        folder, lambda: text.tokenizer, sha256(text.tokenizer).digest(), text.tokenizer_config,
        config, text.generation_config, text.template, "",
    )  # fmt: skip
    ours, theirs = ChatText(files), ChatText.open(folder)
    said = "Hello <|im_end|> e\u0301 <think>\n\n\n 12345 \u4f60\u597d"
    mine, other = (each.render(chat(said), (), None, GRID).prompt for each in (ours, theirs))
    assert (mine.segments, mine.pauses) == (other.segments, other.pauses)
    assert ours.end_of_turn_ids >= theirs.end_of_turn_ids
    assert ours.thinking == theirs.thinking


def test_tokens_have_the_roles_of_their_types() -> None:
    text = read()
    assert added(text) == {"<s>": True, "<|im_end|>": True, "<think>": False}
    # Padding has no text, so no reply shows it and no text becomes it.
    assert not {"[PAD260]", "", "odd"} & text.ids.keys()
    assert text.tokenizer_config["bos_token"] == "<s>"
    assert text.tokenizer_config["eos_token"] == "<|im_end|>"
    # A token that ends a turn is a control token, even if the file doesn't say so.
    types = [1] * len(BYTE_LEVEL[GGML + "tokens"])
    assert added(read(token_type=types)) == {"<s>": True, "<|im_end|>": True}


def test_spaces_of_user_defined_pieces_are_restored() -> None:
    model = json.loads(read(WITH_SCORES).tokenizer)["model"]
    assert model["vocab"]["\u2581\u2581"] == 3
    # Pieces of score 0 come first, the one with more characters on the left before the other.
    assert model["merges"] == [["\u2581", "\u2581"], ["\u2581", "a"], ["a", "b"]]


@pytest.mark.parametrize(
    ("base", "changes", "ends"),
    [
        (BYTE_LEVEL, {"eos_token_id": 0}, {0, END}),
        (BYTE_LEVEL, {"eot_token_id": 1, "eom_token_id": 2}, {1, 2, END}),
        (BYTE_LEVEL, {"eos_token_id": None}, {END}),
        (WITH_SCORES, {}, {2}),  # SentencePiece's own
    ],
)
def test_replies_end_at_all_named_tokens(
    base: dict[str, Any], changes: dict[str, Any], ends: set[int]
) -> None:
    assert set(read(base, **changes).generation_config["eos_token_id"]) == ends


def test_in_harmony_replies_end_once() -> None:
    tokens = ["<|end|>", "<|return|>", "<|call|>"]
    changes: dict[str, Any] = {
        "tokens": tokens,
        "token_type": [3, 3, 3],
        "merges": [],
        "bos_token_id": None,
    }
    assert read(**changes, eos_token_id=1).generation_config["eos_token_id"] == [1, 2]


@pytest.mark.parametrize(
    ("add_bos", "template", "expected"),
    [
        (True, "{{ bos_token }}x", "{{ bos_token }}x"),
        (True, "<s>x", "<s>x"),
        (True, "x", "{{ bos_token }}x"),
        (None, "x", "{{ bos_token }}x"),  # as files with this `pre` mean it
        (False, "x", "x"),
    ],
)
def test_a_prompt_begins_with_one_bos(add_bos: bool | None, template: str, expected: str) -> None:
    base = {**BYTE_LEVEL, "tokenizer.chat_template": template}
    assert read(base, add_bos_token=add_bos).template == expected


@pytest.mark.parametrize(
    "name",
    [
        "meta-llama-Llama-3.1-8B-Instruct", "google-gemma-4-31B-it", "LFM2-8B-A1B", "Qwen3.5-4B",
        "LFM2.5-8B-A1B", "ibm-granite-granite-4.0", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    ],
)  # fmt: skip
def test_published_templates_render_with_one_bos(name: str) -> None:
    source = (llama_models() / "templates" / f"{name}.jinja").read_text("utf-8")
    text = read({**BYTE_LEVEL, "tokenizer.chat_template": source})
    helper = Helper(TEXT_MEMORY_BYTES)
    try:
        special = {"bos_token": "<s>", "eos_token": "<|im_end|>"}
        template = ChatTemplate(text.template, special, helper)
        rendered = template.render([{"role": "user", "content": "Hi there"}], None, 0.0)
    finally:
        helper.close()
    assert rendered.startswith("<s>") and rendered.count("<s>") == 1 and "Hi there" in rendered


@pytest.mark.parametrize(
    ("templates", "expected"),
    [
        ({"": "a", ".rag": "b"}, "a"),
        ({".rag": "b", ".default": "c"}, "c"),
        ({".tool_use": "b", "s": ["tool_use"]}, "b"),
    ],
)
def test_one_template_is_chosen(templates: dict[str, Any], expected: str) -> None:
    base = {key: value for key, value in BYTE_LEVEL.items() if "template" not in key}
    named = {f"tokenizer.chat_template{name}": value for name, value in templates.items()}
    assert read({**base, **named}, add_bos_token=False).template == expected


def test_sampling_settings_are_those_of_a_folder() -> None:
    base = {f"general.sampling.{name}": value for name, value in
            (("temp", 0.7), ("top_k", 20), ("penalty_repeat", 1.5), ("mirostat", 1))}  # fmt: skip
    found = sampling_defaults(read({**BYTE_LEVEL, **base}).generation_config)
    assert (found.temperature, found.top_k, found.repetition_penalty) == (0.7, 20, 1.5)
    assert sampling_defaults(read().generation_config).temperature == 0
    with pytest.raises(BrokenConfigError):
        sampling_defaults(read({**BYTE_LEVEL, "general.sampling.top_p": 7.0}).generation_config)


LONG = ["x" * size for size in range(1, 300)]
BROKEN = BrokenTokenizerError
REFUSED: list[tuple[dict[str, Any], dict[str, Any], type[WaymarkError], str]] = [
    (BYTE_LEVEL, {"model": None}, BROKEN, "no tokenizer"),
    (BYTE_LEVEL, {"model": "bert"}, UnknownTokenizerError, "is a bert"),
    (BYTE_LEVEL, {"pre": None}, UnknownTokenizerError, "old converter"),
    (BYTE_LEVEL, {"pre": "qwen9\n<b>"}, UnknownTokenizerError, "qwen9"),
    (BYTE_LEVEL, {"tokens": None}, BROKEN, "no tokenizer.ggml.tokens"),
    (BYTE_LEVEL, {"tokens": []}, BROKEN, "0 tokens"),
    (BYTE_LEVEL, {"tokens": [1, 2]}, BROKEN, "no tokenizer.ggml.tokens"),
    (BYTE_LEVEL, {"tokens": ["a"]}, BROKEN, "1 numbers in tokenizer.ggml.token_type"),
    (BYTE_LEVEL, {"tokens": ["a", "a"], "token_type": [1, 1]}, BROKEN, "token a twice"),
    (BYTE_LEVEL, {"token_type": None}, BROKEN, "token_type"),
    (BYTE_LEVEL, {"token_type": ["a"] * 263}, BROKEN, "token_type"),
    (BYTE_LEVEL, {"token_type": [0] * 263}, BROKEN, "unknown type"),
    (BYTE_LEVEL, {"token_type": [2**31] * 263}, BROKEN, "unknown type"),
    (BYTE_LEVEL, {"token_type": [1.5] * 263}, BROKEN, "unknown type"),
    (BYTE_LEVEL, {"merges": None}, BROKEN, "merges"),
    (BYTE_LEVEL, {"merges": ["h q"]}, BROKEN, "merge h q"),
    (BYTE_LEVEL, {"merges": ["he"]}, BROKEN, "merge he"),
    (BYTE_LEVEL, {"merges": ["o dd"]}, BROKEN, "merge o dd"),
    (BYTE_LEVEL, {"bos_token_id": 263}, BROKEN, "no token 263"),
    (BYTE_LEVEL, {"eos_token_id": -1}, BROKEN, "no token -1"),
    (BYTE_LEVEL, {"eot_token_id": 2**32 - 1}, BROKEN, "no token"),
    (BYTE_LEVEL, {"eos_token_id": "<s>"}, BROKEN, "no token"),
    (BYTE_LEVEL, {"tokens": [*LETTERS, "he", "\ud800", *"туфхц"]}, BROKEN, "isn't UTF-8"),
    (WITH_SCORES, {"scores": None}, BROKEN, "scores"),
    (WITH_SCORES, {"scores": [0.0] * 8}, BROKEN, "9 numbers in tokenizer.ggml.scores"),
    (WITH_SCORES, {"scores": [float("nan")] * 9}, BROKEN, "score"),
    (WITH_SCORES, {"scores": [-1000.0] * 9}, UnknownTokenizerError, "same score"),
    (WITH_SCORES, {"remove_extra_whitespaces": True}, UnknownTokenizerError, "drops spaces"),
    (
        WITH_SCORES,
        {"tokens": LONG, "token_type": [1] * len(LONG), "scores": list(range(len(LONG)))},
        BROKEN,
        "299 characters",
    ),
    ({**BYTE_LEVEL, "tokenizer.chat_template": 3}, {}, BrokenConfigError, "isn't text"),
    (
        {**BYTE_LEVEL, "tokenizer.chat_template": "x" * (TEMPLATE_BYTES + 1)},
        {},
        BrokenConfigError,
        "most allowed",
    ),
    (
        {key: value for key, value in BYTE_LEVEL.items() if "template" not in key},
        {},
        MissingFileError,
        "no chat template",
    ),
]


@pytest.mark.parametrize(("base", "changes", "error", "match"), REFUSED)
def test_G3_what_is_malformed_is_refused_by_name(
    base: dict[str, Any], changes: dict[str, Any], error: type[WaymarkError], match: str
) -> None:
    with pytest.raises(error, match=match) as raised:
        read(base, **changes)
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("base", [BYTE_LEVEL, WITH_SCORES], ids=["bytes", "scores"])
def test_G3_a_value_of_any_kind_costs_a_named_error_at_most(base: dict[str, Any]) -> None:
    values: list[Any] = [
        True, -1, 2**64 - 1, float("nan"), "", "a\0b", [], [""], ["a b"] * 9, np.arange(9),
        np.full(9, 2**64 - 1, np.uint64), np.array([], np.float32), np.array([True] * 263),
    ]  # fmt: skip
    extra = {
        GGML + "add_bos_token": 1, GGML + "add_space_prefix": 1, GGML + "unknown_token_id": 0,
        "tokenizer.chat_template.x": "", "general.sampling.temp": 1, "general.sampling.top_k": 1,
    }  # fmt: skip
    for key in {**base, **extra}:
        for value in values:
            with contextlib.suppress(WaymarkError):
                sampling_defaults(read_text({**base, key: value}).generation_config)


def test_a_large_vocabulary_takes_a_moment() -> None:
    size = 248_320
    words = [f"{LETTERS[n % 256]}{n:x}" for n in range(size - len(LETTERS))]
    began = time.process_time()
    text = read(
        tokens=[*LETTERS, *words], token_type=[1] * size, merges=[], bos_token_id=None,
        eos_token_id=None,
    )  # fmt: skip
    assert len(text.ids) == size
    assert time.process_time() - began < 5
