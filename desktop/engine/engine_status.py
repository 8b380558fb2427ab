"""The state of the engine as the window shows it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from core.api.model_info import ModelInfo, published_name
from desktop.i18n import tr
from desktop.numbers import precision_name
from desktop.store.folders import DEMO_MODEL
from desktop.widgets.plain_text import shortened

LONGEST_NAME = 60
# Ollama names its files by a digest, of which this many digits tell two models apart.
BLOB_PREFIX = "sha256-"
DIGEST_DIGITS = 8
# Names of model files whose path doesn't tell them, learnt from lists of models and from loads.
_names: dict[str, str] = {}
# Names that the user gave.
_given: dict[str, str] = {}


class Phase(enum.Enum):
    """`EMPTY`: the engine runs without a model; `COMPARING`: it is lent to a comparison."""

    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    EMPTY = "empty"
    COMPARING = "comparing"
    RESTARTING = "restarting"
    FAILED = "failed"
    CLOSED = "closed"


# A model is on its way, or may be.
COMING = (Phase.STARTING, Phase.LOADING, Phase.RESTARTING, Phase.COMPARING)


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """`trouble` is the last error, until a model is loaded; `silent`: the engine doesn't answer;
    `cancelled`: the user cancelled the last load; `asleep`: unloaded after idle time."""

    phase: Phase = Phase.STARTING
    model: ModelInfo | None = None
    done: int = 0
    total: int = 0
    trouble: str = ""
    silent: bool = False
    cancelled: bool = False
    asleep: bool = False

    @property
    def runs(self) -> bool:
        return self.phase in (Phase.LOADING, Phase.READY, Phase.EMPTY, Phase.COMPARING)

    def words(self) -> str:
        if self.silent:
            return tr("The engine isn't responding")
        match self.phase:
            case Phase.STARTING:
                return tr("Starting the engine")
            case Phase.LOADING if self.total:
                percent = 100 * self.done // self.total
                return tr("Loading the model: {percent} %").format(percent=percent)
            case Phase.LOADING:
                return tr("Loading the model")
            case Phase.READY if self.model:
                return f"{self.model.device}, {precision_name(self.model.precision)}"
            case Phase.EMPTY if self.asleep:
                return tr("The model sleeps")
            case Phase.EMPTY | Phase.READY if self.cancelled:
                return tr("Loading was cancelled")
            case Phase.EMPTY | Phase.READY:
                return tr("No model is loaded")
            case Phase.COMPARING:
                return tr("Comparing two models")
            case Phase.RESTARTING:
                return tr("The engine stopped; restarting it")
            case Phase.FAILED:
                return tr("The engine could not be started")
            case Phase.CLOSED:
                return tr("Closing")

    def waiting_words(self) -> str:
        if self.phase in (Phase.EMPTY, Phase.FAILED):
            return tr("Waiting for a model: choose one under Model & settings.")
        return tr("Waiting for the model. {state} …").format(state=self.words())


def model_name(model: ModelInfo) -> str:
    if model.path == str(DEMO_MODEL) or model.path in _given:
        return shown_name(model.path)
    return model.name


def remember_names(names: Mapping[str, str]) -> None:
    """For files of Ollama; the keys are paths."""
    _names.update({path: name for path, name in names.items() if _digest(path)})


def rename_models(names: Mapping[str, str]) -> None:
    """The user's own names by paths."""
    _given.clear()
    _given.update(names)


def shown_name(path: str) -> str:
    """'' is the demo model."""
    path = "" if path == str(DEMO_MODEL) else path
    if path in _given:
        return shortened(_given[path], LONGEST_NAME)
    if not path:
        return tr("The demo model")
    if path in _names:
        return shortened(_names[path], LONGEST_NAME)
    if digest := _digest(path):
        return tr("Ollama model {digest}").format(digest=digest[:DIGEST_DIGITS])
    return shortened(published_name(path), LONGEST_NAME)


@lru_cache(maxsize=4_096)
def _digest(path: str) -> str:
    """Returns '' unless the file is Ollama's."""
    name = Path(path).name
    return name.removeprefix(BLOB_PREFIX) if name.startswith(BLOB_PREFIX) else ""
