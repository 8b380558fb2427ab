"""Opens what a person chose as a model: a model folder, or a GGUF file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from core.gguf.library import is_model
from core.gguf.models.model import GGUFModel
from core.text.files import TextFiles, gguf_text_files, read_text_files
from core.vision.configs import PublishedSettings, Source
from core.weights.container import Container
from core.weights.gguf_container import GGUFContainer
from core.weights.published.folder import CONFIG, MOST_ENTRIES, ModelFolder


@dataclass(frozen=True, slots=True)
class ModelFiles:
    container: Container
    text: Callable[[], TextFiles]
    pictures: Source


def open_files(path: Path, check: Callable[[], None] = lambda: None) -> ModelFiles:
    """Check the files without loading anything; a folder may hold one GGUF model. Raises a
    WaymarkError."""
    path = _only_gguf(path) or path
    if not path.is_file():
        return ModelFiles(ModelFolder.open(path, check), lambda: read_text_files(path), path)
    model = GGUFModel.open(path, check)
    settings = PublishedSettings(path.name, model.processor or {})
    return ModelFiles(GGUFContainer(path, model), lambda: gguf_text_files(path, model), settings)


def _only_gguf(folder: Path) -> Path | None:
    try:
        if not folder.is_dir() or (folder / CONFIG).exists():
            return None
        entries = sorted(islice(folder.iterdir(), MOST_ENTRIES))
    except OSError:  # opening the folder reports it
        return None
    models = [each for each in entries if is_model(each.name)]
    return models[0] if len(models) == 1 else None
