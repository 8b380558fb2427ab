"""A model in GGUF files, translated into what a model folder holds; its vision tower (mmproj) is a
file next to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.api.errors import BrokenWeightsError, GgufError, UnknownArchitectureError, shown
from core.gguf.file import GGUFFile, GGUFPart
from core.gguf.header import Metadata
from core.gguf.library import find_towers
from core.gguf.models.attention import (
    GPT_OSS,
    LFM2,
    LFM2_MOE,
    LLAMA,
    MISTRAL3,
    QWEN3,
    QWEN3_NEXT,
    QWEN3_VL,
    QWEN35,
)
from core.gguf.models.gemma import GEMMA3, GEMMA4
from core.gguf.models.kimi_linear import KIMI_LINEAR
from core.gguf.models.mamba import FALCON_H1, GRANITE_HYBRID, GRANITE_SWA, JAMBA, NEMOTRON_H
from core.gguf.models.recipe import Recipe
from core.gguf.models.rules import Architecture, Recipes, rule
from core.gguf.models.settings import Config, Settings
from core.gguf.models.towers import PROJECTORS
from core.gguf.models.vision import CLIP, Projector, projector_type, tower_recipes

_KIND = "general.architecture"
ARCHITECTURES = {
    "qwen35": QWEN35,
    "qwen35moe": QWEN35,
    "qwen3next": QWEN3_NEXT,
    "qwen3": QWEN3,
    "qwen3moe": QWEN3,
    "qwen3vl": QWEN3_VL,
    "qwen3vlmoe": QWEN3_VL,
    "llama": LLAMA,
    "mistral3": MISTRAL3,
    "gemma3": GEMMA3,
    "gemma4": GEMMA4,
    "gpt-oss": GPT_OSS,
    "lfm2": LFM2,
    "lfm2moe": LFM2_MOE,
    "falcon-h1": FALCON_H1,
    "granite": GRANITE_HYBRID,
    "granitemoe": GRANITE_HYBRID,
    "granitehybrid": GRANITE_HYBRID,
    "granite_swa": GRANITE_SWA,
    "jamba": JAMBA,
    "nemotron_h": NEMOTRON_H,
    "nemotron_h_moe": NEMOTRON_H,
    "kimi-linear": KIMI_LINEAR,
}


@dataclass(frozen=True, slots=True)
class GGUFModel:
    """`config` is what config.json holds; `processor` what preprocessor_config.json does, None
    without vision. `recipes` are by published name; `missing` names GGUF tensors that others
    need."""

    files: tuple[GGUFPart, ...]
    metadata: Metadata
    config: Config
    processor: Config | None
    recipes: Mapping[str, Recipe]
    missing: Mapping[str, str]

    @staticmethod
    def open(path: Path, check: Callable[[], None] = lambda: None) -> GGUFModel:
        """Reads headers alone; `check` may raise. Raises a WaymarkError."""
        file = GGUFFile.open(path, check)
        architecture = _architecture_of(file, path.name)
        kind = str(file.metadata[_KIND])
        settings = Settings(path.name, kind, file.metadata, file.tensors)
        config, scope, processor = architecture.config(settings), architecture.scope, None
        files = file.parts
        recipes: dict[str, Recipe] = {}
        tower = _open_tower(path, config, check)
        missing: dict[str, str] = {}
        if tower is not None:
            seen, clip, projector = tower
            scope = projector.text_scope or scope
            config = projector.config(clip, config) | _token_ids(projector, file.metadata)
            processor = projector.processor(clip)
            of_tower = tower_recipes(clip, projector)
            recipes |= of_tower
            missing |= of_tower.missing
            files += seen.parts
        of_text = _text_recipes(architecture, settings, scope)
        recipes |= of_text
        missing |= of_text.missing
        return GGUFModel(files, file.metadata, config, processor, recipes, missing)


def _token_ids(projector: Projector, metadata: Metadata) -> Config:
    tokens = metadata.get("tokenizer.ggml.tokens")
    listed = tokens if isinstance(tokens, list) else []
    named = projector.tokens.items()
    return {key: listed.index(token) for key, token in named if token in listed}


def _open_tower(
    path: Path, config: Config, check: Callable[[], None]
) -> tuple[GGUFFile, Settings, Projector] | None:
    """The likeliest vision tower that fits the text stack of `config`. Raises the error of a file
    that can't be opened if no other is one."""
    damaged = None
    sees = any(config["model_type"] in projector.texts for projector in PROJECTORS.values())
    for each in find_towers(path) if sees else ():
        try:
            file = GGUFFile.open(each, check)
        except (BrokenWeightsError, GgufError) as error:
            damaged = damaged or error
            continue
        clip = Settings(each.name, CLIP, file.metadata, file.tensors)
        projector = _projector_of(clip, config) if file.metadata.get(_KIND) == CLIP else None
        if projector is not None:
            return file, clip, projector
    if damaged is not None:
        raise damaged
    return None


def _projector_of(clip: Settings, text: Config) -> Projector | None:
    """None for a tower of another text stack."""
    found = PROJECTORS.get(projector_type(clip))
    if found is None or text["model_type"] not in found.texts:
        return None
    width = text.get("text_config", text)["hidden_size"]
    return found if clip.count("vision.projection_dim", 0) == width else None


def _architecture_of(file: GGUFFile, name: str) -> Architecture:
    """Raises UnknownArchitectureError."""
    kind = file.metadata.get(_KIND)
    found = ARCHITECTURES.get(kind) if isinstance(kind, str) else None
    if found is not None:
        return found
    if kind == CLIP:
        raise UnknownArchitectureError(
            f"{name} is the part of a model that sees pictures. Choose the model's file; this one "
            "is found next to it."
        )
    named = f'"{shown(kind)}"' if isinstance(kind, str) else "not named"
    raise UnknownArchitectureError(
        f"The architecture of {name} is {named}. Of GGUF files Waymark runs: "
        f"{', '.join(ARCHITECTURES)}."
    )


def _text_recipes(architecture: Architecture, settings: Settings, scope: str) -> Recipes:
    """Raises WrongShapeError, UnsupportedQuantisationError."""
    recipes, layers = Recipes(settings), settings.num_layers
    recipes.add(scope, "", architecture.stack)
    recipes.add("", "", {"lm_head.weight": rule("output.weight")})
    for layer in range(layers):
        recipes.add(f"{scope}layers.{layer}.", f"blk.{layer}.", architecture.layer)
    if architecture.head:
        for extra in range(settings.count("nextn_predict_layers", 0)):
            ours = f"blk.{layers + extra}."
            recipes.add("mtp.", ours, architecture.head)
            recipes.add(f"mtp.layers.{extra}.", ours, architecture.layer)
    return recipes
