"""A repository's models: its folder of safetensors and each of its GGUF files, by names and
sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from core.api.errors import HubAnswerError
from core.downloads.messages import Plan, RemoteFile, Repository
from core.downloads.names import checked_path
from core.gguf.library import MOST_TOWERS, PART_NAME, SUFFIX, TOWER, is_model, towers_for

# model_type of config.json, and general.architecture of GGUF files; compared with the registries by
# a test, since those import torch.
FAMILIES = frozenset({
    "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next", "llama", "qwen3",
    "qwen3_moe", "gemma3", "gemma3_text", "falcon_h1", "granitemoehybrid", "jamba", "nemotron_h",
    "qwen3_vl", "qwen3_vl_moe", "lfm2", "lfm2_moe", "lfm2_vl", "lfm3", "lfm3_vl", "olmo_hybrid",
    "gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text",
    "ministral3", "mistral3", "granite_swa", "granitemoe_swa", "kimi_linear",
    "minicpmv4_6", "minicpmv4_7", "nemotron_h_omni", "gpt_oss",
})  # fmt: skip
ARCHITECTURES = frozenset({
    "qwen35", "qwen35moe", "qwen3next", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "llama",
    "gemma3", "gemma4", "lfm2", "falcon-h1", "granitehybrid", "granite", "granitemoe", "jamba",
    "granite_swa", "nemotron_h", "nemotron_h_moe", "lfm2moe", "mistral3",
    "kimi-linear", "gpt-oss",
})  # fmt: skip
# What Waymark reads of a folder, and its licence. Never pickled weights, never code.
_FOLDER_FILE = re.compile(
    r"(?!consolidated)[^/]+\.safetensors|[^/]+\.json|[^/]+\.jinja|merges\.txt|tiktoken\.model|LICEN[CS]E[^/]*"
)
_QUANTISATION = re.compile(
    r"(?:^|[-._])((?:UD-)?(?:I?Q\d[A-Z0-9_]*|TQ\d_\d|BF16|F16|F32|MXFP4[A-Z0-9_]*|NVFP4))(?=$|[-._])",
    re.IGNORECASE,
)
# A file of more bits per weight takes longer to arrive, and its replies hardly differ.
_MOST_BITS = 9.0


def runs(family: str) -> bool:
    return family in FAMILIES or family in ARCHITECTURES


def choices(repository: Repository) -> tuple[Plan, ...]:
    """The smallest first. Raises HubAnswerError for a file name that isn't allowed."""
    files = {file.path: file for file in repository.files if _wanted(file.path)}
    names = [checked_path(path) for path in files]
    if len({str(name).casefold() for name in names}) < len(names):
        raise HubAnswerError("Two files of the model have the same name on some systems.")
    towers = _towers_by_folder(files)
    found = [
        Plan(
            repository=repository.name,
            commit=repository.commit,
            choice=_quantisation(path),
            opens=path,
            files=tuple(files[each] for each in (*_towers(path, towers), *reversed(parts))),
        )
        for path in files
        if is_model(Path(path).name) and (parts := _parts(path, files))
    ]
    folder = tuple(file for path, file in files.items() if _FOLDER_FILE.fullmatch(path))
    held = {file.path for file in folder}
    if "config.json" in held and any(path.endswith(".safetensors") for path in held):
        ordered = tuple(sorted(folder, key=lambda file: file.path == "config.json"))
        named = {"repository": repository.name, "commit": repository.commit, "opens": ""}
        found.append(Plan(**named, choice="safetensors", files=ordered))
    return tuple(sorted(found, key=lambda plan: plan.size))


def weights_bytes(plan: Plan) -> int:
    """Without a vision tower, which is small and not quantised."""
    weights = (file for file in plan.files if file.path.endswith((SUFFIX, ".safetensors")))
    return sum(file.size for file in weights if TOWER not in file.path.lower())


def suggested(plans: Sequence[Plan], parameters: int, memory: int) -> int:
    """The index of the most exact choice within `memory` bytes, or of the smallest."""
    fitting = [
        index
        for index, plan in enumerate(plans)
        if weights_bytes(plan) <= memory
        and (not parameters or 8 * weights_bytes(plan) <= _MOST_BITS * parameters)
    ]
    return fitting[-1] if fitting else 0


def _wanted(path: str) -> bool:
    """Hidden files are another program's."""
    if any(part.startswith(".") for part in path.split("/")):
        return False
    return path.lower().endswith(SUFFIX) or _FOLDER_FILE.fullmatch(path) is not None


def _parts(path: str, files: dict[str, RemoteFile]) -> list[str]:
    folder, _, name = path.rpartition("/")
    match = PART_NAME.fullmatch(name)
    if match is None:
        return [path]
    prefix = f"{folder}/" if folder else ""
    parts = [
        f"{prefix}{match[1]}{number:05d}{match[3]}{match[4]}{match[5]}"
        for number in range(1, min(int(match[4]), len(files)) + 1)
    ]
    whole = len(parts) == int(match[4]) and all(part in files for part in parts)
    return parts if whole else []


def _towers_by_folder(files: Iterable[str]) -> dict[Path, list[Path]]:
    found: dict[Path, list[Path]] = {}
    for path in map(Path, files):
        near = found.setdefault(path.parent, [])
        is_tower = path.suffix.lower() == SUFFIX and TOWER in path.name.lower()
        if is_tower and len(near) < MOST_TOWERS:
            near.append(path)
    return found


def _towers(path: str, towers: dict[Path, list[Path]]) -> list[str]:
    found = towers_for(Path(path), lambda folder: towers.get(folder, []))
    return [each.as_posix() for each in found[:1]]


def _quantisation(path: str) -> str:
    found = _QUANTISATION.findall(Path(path).stem)
    return found[-1].upper() if found else Path(path).stem
