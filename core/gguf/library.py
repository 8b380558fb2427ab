"""GGUF models that other programs have downloaded, and the vision tower that goes with a model.

Only small JSON files of these programs are opened; folders that can't be read count as empty. The
window imports this module: it needs neither numpy nor torch.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from core.api.errors import BrokenConfigError, WaymarkError
from core.api.model_info import published_name
from core.model_files import read_object, read_small

SUFFIX = ".gguf"
PART_NAME = re.compile(r"(.+-)(\d{5})(-of-)(\d{5})(\.gguf)", re.IGNORECASE)
TOWER = "mmproj"
# Names looked at in the folders of one program.
MOST_ENTRIES = 20_000
MOST_TOWERS = 32
# Two changes of a folder may have one time.
_SETTLED_NS = 2 * 10**9
_DEPTH = 6
_SMALL = 2**20
# Parts of names of files that are no model: towers, drafting heads, statistics for quantising.
_NO_MODEL = re.compile(rf"{TOWER}|^mtp-|imatrix", re.IGNORECASE)
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_OLLAMA_KIND = "application/vnd.ollama.image."
# Of several towers of one model the most exact is taken.
_PRECISIONS = ("f32", "bf16", "f16", "q8_0")
_PRECISION = re.compile(r"(b?f|[it]?q)\d.*|(mx|nv)fp4.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FoundModel:
    """`path` is the first file of a split model."""

    path: Path
    name: str
    program: str


def found_models(
    home: Path | None = None, environment: Mapping[str, str] = os.environ
) -> list[FoundModel]:
    home = home or Path.home()
    found = [
        *_in_folders("LM Studio", lm_studio_folders(home)),
        *_in_ollama(ollama_folders(home, environment)),
        *_in_folders("Hugging Face", hub_folders(home, environment)),
    ]
    return _each_once(found)


def models_below(folder: Path) -> list[FoundModel]:
    return _each_once([*_in_folders("", [folder]), *_in_ollama([folder])])


def ollama_name(path: Path) -> str:
    """'' for a file that is no blob of Ollama's."""
    if path.parent.name != "blobs":
        return ""
    models = _in_ollama([path.parent.parent])
    return next((each.name for each in models if each.path.name == path.name), "")


def is_model(name: str) -> bool:
    """No tower, and no later part of a split model."""
    part = PART_NAME.fullmatch(name)
    later = part is not None and int(part[2]) != 1
    return name.lower().endswith(SUFFIX) and not later and not _NO_MODEL.search(name)


def _each_once(found: list[FoundModel]) -> list[FoundModel]:
    unique = {(each.program, os.path.realpath(each.path)): each for each in reversed(found)}
    return sorted(unique.values(), key=lambda model: (model.program, model.name.lower()))


def find_towers(path: Path) -> list[Path]:
    """Files that may be the vision tower (`mmproj`) of a model, next to it or named by Ollama, the
    likeliest first: the closest name, then the most exact precision."""
    if path.parent.name == "blobs":
        models = _with_towers([path.parent.parent])
        towers = (tower for model, tower in models if model.path.name == path.name and tower)
        return list(islice(towers, 1))
    return towers_for(path, _towers_in)


def towers_for(path: Path, towers_in: Callable[[Path], list[Path]]) -> list[Path]:
    folders = [path.parent]
    if any(_PRECISION.fullmatch(word) for word in _words(path.parent.name)):
        folders.append(path.parent.parent)  # repositories have a folder for each precision
    for folder in folders:
        towers = sorted(towers_in(folder), key=lambda tower: _rank(tower, path))
        if towers:
            return towers
    return []


def _towers_in(folder: Path) -> list[Path]:
    """A folder that hasn't changed for a while is read once."""
    try:
        changed_ns = folder.stat().st_mtime_ns
    except OSError:
        return []
    settled = time.time_ns() - changed_ns > _SETTLED_NS
    read = _towers_then if settled else _towers_then.__wrapped__
    return list(read(folder, changed_ns))


@lru_cache(maxsize=64)
def _towers_then(folder: Path, changed_ns: int) -> tuple[Path, ...]:
    towers = (each for each in _files(folder, 1) if TOWER in each.name.lower())
    return tuple(islice(towers, MOST_TOWERS))


def _rank(tower: Path, model: Path) -> tuple[int, int, str]:
    wanted, given = _words(model.stem), _words(tower.stem)
    own = [word for word in given if word != TOWER and not _PRECISION.fullmatch(word)]
    common = 0
    while common < min(len(wanted), len(own)) and wanted[common] == own[common]:
        common += 1
    exact = [place for place, each in enumerate(_PRECISIONS) if each in given]
    return -common, exact[0] if exact else len(_PRECISIONS), tower.name


def _words(name: str) -> list[str]:
    return re.split(r"[-. ]+", name.lower())


def _files(folder: Path, depth: int) -> Iterator[Path]:
    """The nearest first, at most `depth` folders down, through links."""
    folders, left = [(folder, 1)], MOST_ENTRIES
    for where, level in folders:
        entries: list[os.DirEntry[str]] = []
        with contextlib.suppress(OSError), os.scandir(where) as found:
            entries = sorted(islice(found, left), key=lambda entry: entry.name)
        left -= len(entries) + 1
        for entry in entries:
            # A link to itself raises.
            with contextlib.suppress(OSError):
                if entry.is_dir() and level < depth:
                    folders.append((where / entry.name, level + 1))
                elif entry.name.lower().endswith(SUFFIX) and entry.is_file():
                    yield where / entry.name
        if left <= 0:
            return


def _in_folders(program: str, roots: list[Path]) -> Iterator[FoundModel]:
    for root in roots:
        for path in _files(root, _DEPTH):
            if is_model(path.name):
                name = _name(path.relative_to(root).parent / published_name(path.name))
                yield FoundModel(path, name, program)


def _name(path: Path) -> str:
    """`models--owner--name/snapshots/revision/file` of the Hugging Face cache without its parts."""
    first, *rest = path.parts
    if first.startswith("models--") and rest[:1] == ["snapshots"]:
        return "/".join((*first.split("--")[1:], *rest[2:]))
    return path.as_posix()


def lm_studio_folders(home: Path) -> list[Path]:
    homes = [home / ".lmstudio", home / ".cache" / "lm-studio"]
    pointer = _small_text(home / ".lmstudio-home-pointer")
    if pointer:
        homes.insert(0, Path(pointer))
    folders = [each / "models" for each in homes]
    for each in homes:
        chosen = _object(each / "settings.json").get("downloadsFolder")
        if isinstance(chosen, str):
            folders.append(Path(chosen))
    return _existing(folders)


def ollama_folders(home: Path, environment: Mapping[str, str]) -> list[Path]:
    chosen = environment.get("OLLAMA_MODELS")
    service = Path("/usr/share/ollama/.ollama/models")
    return _existing([*([Path(chosen)] if chosen else []), home / ".ollama" / "models", service])


def hub_folders(home: Path, environment: Mapping[str, str]) -> list[Path]:
    """Existing caches of the Hugging Face libraries, the one in use first."""
    folders = [home / ".cache" / "huggingface" / "hub"]
    for name, inside in (("XDG_CACHE_HOME", "huggingface/hub"), ("HF_HOME", "hub"),
                         ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HUB_CACHE", "")):  # fmt: skip
        if environment.get(name):
            folders.insert(0, Path(environment[name]) / inside)
    return _existing(folders)


def _existing(folders: list[Path]) -> list[Path]:
    return [each for each in dict.fromkeys(folders) if each.is_absolute() and os.path.isdir(each)]


def _in_ollama(roots: list[Path]) -> Iterator[FoundModel]:
    return (model for model, _ in _with_towers(roots))


def _with_towers(roots: list[Path]) -> Iterator[tuple[FoundModel, Path | None]]:
    """Ollama's manifests name the blobs of a model: `manifests/registry/owner/model/tag`."""
    for root in roots:
        manifests = root / "manifests"
        for path in sorted(islice(manifests.glob("*/*/*/*"), MOST_ENTRIES)):
            layers = _object(path).get("layers")
            model, tower = (_blob(root, layers, kind) for kind in ("model", "projector"))
            if model:
                owner, name = path.parts[-3:-1]
                named = name if owner == "library" else f"{owner}/{name}"
                yield FoundModel(model, f"{named}:{path.name}", "Ollama"), tower


def _blob(root: Path, layers: Any, kind: str) -> Path | None:
    for layer in layers if isinstance(layers, list) else []:
        if isinstance(layer, dict) and layer.get("mediaType") == _OLLAMA_KIND + kind:
            digest = _DIGEST.fullmatch(str(layer.get("digest")))
            path = root / "blobs" / f"sha256-{digest[1]}" if digest else None
            return path if path and os.path.isfile(path) else None
    return None


def _object(path: Path) -> dict[str, Any]:
    try:
        return read_object(path, BrokenConfigError, _SMALL)
    except WaymarkError:
        return {}


def _small_text(path: Path) -> str:
    try:
        return read_small(path, _SMALL, BrokenConfigError).decode("utf-8", "replace").strip()
    except WaymarkError:
        return ""
