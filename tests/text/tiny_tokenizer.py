"""Small models' text folders: tokenizers of three kinds, trained in a moment, with any template.

`chatml`, `llama3` and `kimi` are byte-level BPEs as Qwen's, `instruct` and `gemma` are BPEs with
word spaces and byte fallback, whose control tokens are in the vocabulary too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from tests.gguf.vocabularies import llama_models

TEMPLATES = Path(__file__).parent / "templates"

CORPUS = [
    "Hello there, what is in the picture? It shows two red dots and a blue line.",
    "The system is brief.\nIt answers in one line, and never twice.\n\n- one\n- two",
    "assistant user system model [INST] [/INST] <<SYS>> <</SYS>> say what does this mean",
    "I think it's 12 or 345; they'd say \"so\" & <b>more</b>. Caf\u00e9 \u4f60\u597d \u4e16\u754c.",
]

_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHATML_CONTROL = (
    "<|endoftext|> <|im_start|> <|im_end|> <|vision_start|> <|vision_end|> <|image_pad|>"
).split()
CHATML_MARKS = "<tool_response> </tool_response> <think> </think>".split()
LLAMA3_CONTROL = (
    "<|begin_of_text|> <|end_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|>"
).split()
KIMI_CONTROL = (
    "[BOS] [EOS] <|im_end|> <|im_user|> <|im_assistant|> <|im_system|> <|im_middle|>"
).split()
MISTRAL_CONTROL = (
    "<unk> <s> </s> [INST] [/INST] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [IMG] [THINK] [/THINK] "
    "[AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [CALL_ID] [ARGS] [TOOL_RESULTS] "
    "[TOOL_CONTENT] [/TOOL_RESULTS]"
).split()
CALL_MARKS = "<tool_call> </tool_call>".split()
LFM2_CONTROL = [
    *CHATML_CONTROL,
    *(
        f"<|tool_{part}_{edge}|>"
        for part in ("list", "call", "response")
        for edge in ("start", "end")
    ),
]
HARMONY_CONTROL = (
    "<|startoftext|> <|endoftext|> <|return|> <|constrain|> <|channel|> <|start|> <|end|> "
    "<|message|> <|call|>"
).split()
INSTRUCT_CONTROL = "<unk> <s> </s>".split()
GEMMA_CONTROL = (
    "<pad> <eos> <bos> <unk> <start_of_turn> <end_of_turn> <start_of_image> <end_of_image>"
).split()
GEMMA_MARKS = ("\n\n", "<table>", "<image_soft_token>")
GEMMA4_CONTROL = "<pad> <eos> <bos> <unk> <|turn> <turn|> <|channel> <channel|> <|think|>".split()
GEMMA4_CALLS = (
    '<|tool> <tool|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> <|"|>'
).split()
GEMMA4_LAST = "<|image> <|image|> <image|>".split()
GEMMA4_MARKS = ("\n\n", "<table>")

# Which tokenizer goes with which template.
KIND = {
    "chatml": "chatml",
    "chatml_thinking": "chatml",
    "chatml_keeps_thoughts": "chatml",
    "instruct": "instruct",
    "instruct_once": "instruct",
    "llama3": "llama3",
    "gemma": "gemma",
    "gemma3": "gemma",
    "gemma4": "gemma4",
    "harmony": "harmony",
    "kimi": "kimi",
}
# Those without a template here.
OTHERS = {"lfm2": "lfm2"}
FAMILIES = tuple(KIND)
# Templates with tools.
CALLING = {
    "chatml_tools": "chatml_calls",
    "chatml_xml": "chatml_calls",
    "lfm2_tools": "lfm2",
    "llama3_tools": "llama3",
    "harmony": "harmony",
    "gemma4_tools": "gemma4_calls",
    "mistral": "mistral",
    "mistral_ids": "mistral",
    "mistral_list": "mistral",
    "mistral_spaced": "mistral",
}
# Templates of llama.cpp's source package, which has them as they were published.
PUBLISHED = {
    "gemma4_tools": "google-gemma-4-31B-it",
    "mistral": "mistralai-Ministral-3-14B-Reasoning-2512",
    "mistral_ids": "Mistral-Small-3.2-24B-Instruct-2506",
    "mistral_list": "mistralai-Mistral-Nemo-Instruct-2407",
    "mistral_spaced": "mistralai-Mistral-Nemo-Instruct-2407",
}
SIGHTED = tuple(family for family, kind in KIND.items() if kind in ("chatml", "gemma", "gemma4"))


def _byte_level(control: Sequence[str], marks: Sequence[str]) -> Tokenizer:
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_only])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=420, show_progress=False, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(CORPUS * 2, trainer)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in control])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in marks])
    return tokenizer


def _word_spaces(
    control: Sequence[str], marks: Sequence[str], last: Sequence[str] = ()
) -> tuple[Tokenizer, list[str]]:
    """A BPE over words with their space in front, unknown characters as bytes; the tokens `last`
    have the last ids."""
    tokenizer = Tokenizer(BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    hexes = [f"<0x{byte:02X}>" for byte in range(256)]
    special = [*control, *marks, *hexes]
    trainer = BpeTrainer(vocab_size=650, show_progress=False, special_tokens=special)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=True)
    # The words of a template, so that they take few tokens as in the published tokenizer.
    words = ["thought\n user\n model\n"] * 9 if last else []
    tokenizer.train_from_iterator(CORPUS * 2 + words, trainer)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in last])
    fallback = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(fallback)
    return tokenizer, hexes


def _description(
    tokenizer: Tokenizer, hexes: Sequence[str], marks: Sequence[str]
) -> dict[str, Any]:
    """tokenizer.json without the bytes among its added tokens, and `marks` no longer special."""
    description: dict[str, Any] = json.loads(tokenizer.to_str())
    kept = [entry for entry in description["added_tokens"] if entry["content"] not in hexes]
    for entry in kept:
        entry["special"] = entry["content"] not in marks
    description["added_tokens"] = kept
    return description


@cache
def tokenizer_json(kind: str) -> str:
    if kind == "chatml":
        return str(_byte_level(CHATML_CONTROL, CHATML_MARKS).to_str())
    if kind == "chatml_calls":
        return str(_byte_level(CHATML_CONTROL, CHATML_MARKS + CALL_MARKS).to_str())
    if kind == "lfm2":
        return str(_byte_level(LFM2_CONTROL, CHATML_MARKS).to_str())
    if kind == "llama3":
        return str(_byte_level(LLAMA3_CONTROL, ()).to_str())
    if kind == "harmony":
        return str(_byte_level(HARMONY_CONTROL, ()).to_str())
    if kind == "kimi":
        return str(_byte_level(KIMI_CONTROL, ()).to_str())
    if kind == "mistral":
        return str(_byte_level(MISTRAL_CONTROL, ()).to_str())
    if kind == "instruct":
        tokenizer, hexes = _word_spaces(INSTRUCT_CONTROL, ())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
        )
        return json.dumps(_description(tokenizer, hexes, ()))
    marks = GEMMA4_MARKS if kind.startswith("gemma4") else GEMMA_MARKS
    if kind.startswith("gemma4"):
        control = GEMMA4_CONTROL + (GEMMA4_CALLS if kind == "gemma4_calls" else [])
        tokenizer, hexes = _word_spaces(control, marks, GEMMA4_LAST)
    else:
        tokenizer, hexes = _word_spaces(GEMMA_CONTROL, marks)
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", behavior="merged_with_previous")
    return json.dumps(_description(tokenizer, hexes, marks))


def write_text_folder(folder: Path, family: str, template: str | None = None) -> Path:
    """Write the text files of a model of `family`, with its own or another template."""
    kind = (KIND | CALLING | OTHERS)[family]
    text = tokenizer_json(kind)
    tokenizer = Tokenizer.from_str(text)
    special = _special_tokens(kind)
    (folder / "tokenizer.json").write_text(text, "utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    source = template_of(family) if template is None else template
    (folder / "chat_template.jinja").write_text(source, "utf-8")
    image = {
        "chatml": "<|image_pad|>",
        "gemma": "<image_soft_token>",
        "gemma4": "<|image|>",
    }.get(kind)
    config: dict[str, Any] = {"vocab_size": tokenizer.get_vocab_size()}
    if image is not None:
        config["image_token_id"] = tokenizer.token_to_id(image)
    if family == "gemma3":
        config = {"model_type": "gemma3", "text_config": config, **gemma3_image_ids()}
    if family == "gemma4":
        config = {"model_type": "gemma4", "text_config": config, **gemma4_image_ids()}
    (folder / "config.json").write_text(json.dumps(config))
    end = tokenizer.token_to_id(special["eos_token"])
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    return folder


def template_of(family: str) -> str:
    if family in PUBLISHED:
        path = llama_models() / "templates" / f"{PUBLISHED[family]}.jinja"
    else:
        path = TEMPLATES / f"{family}.jinja"
    text = path.read_text("utf-8")
    if family == "mistral_spaced":  # as Mistral 7B v0.3 has it
        text = text.replace("[TOOL_CALLS][", "[TOOL_CALLS] [")
    return text


def gemma3_image_ids() -> dict[str, int]:
    return _ids_of(
        "gemma",
        boi_token_index="<start_of_image>",
        image_token_index="<image_soft_token>",
        eoi_token_index="<end_of_image>",
    )


def gemma4_image_ids() -> dict[str, int]:
    return _ids_of(
        "gemma4", boi_token_id="<|image>", image_token_id="<|image|>", eoi_token_id="<image|>"
    )


def _ids_of(kind: str, **spellings: str) -> dict[str, int]:
    tokenizer = Tokenizer.from_str(tokenizer_json(kind))
    ids = {name: tokenizer.token_to_id(spelling) for name, spelling in spellings.items()}
    return {name: found for name, found in ids.items() if found is not None}


def _special_tokens(kind: str) -> dict[str, str]:
    if kind in ("chatml", "chatml_calls", "lfm2"):
        return {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    if kind == "llama3":
        return {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
    if kind == "harmony":
        return {"eos_token": "<|return|>", "pad_token": "<|endoftext|>"}
    if kind == "kimi":
        return {"bos_token": "[BOS]", "eos_token": "<|im_end|>"}
    if kind in ("instruct", "mistral"):
        return {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}
