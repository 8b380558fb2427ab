"""What the engine is doing, as one value the window can show, and the words for it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from core.api.model_info import ModelInfo, folder_name
from desktop.store.folders import DEMO_MODEL
from desktop.widgets.plain_text import shortened
from desktop.words import frame as words
from desktop.words.settings import DEMO

LONGEST_NAME = 60


class Phase(enum.Enum):
    """`EMPTY`: the engine runs and has no model."""

    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    EMPTY = "empty"
    RESTARTING = "restarting"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """`trouble` is what went wrong last, in words; it stays until a model is loaded. A `silent`
    engine has not answered for a while. `cancelled`: the user ended the last load."""

    phase: Phase = Phase.STARTING
    model: ModelInfo | None = None
    done: int = 0
    total: int = 0
    trouble: str = ""
    silent: bool = False
    cancelled: bool = False

    @property
    def runs(self) -> bool:
        """Whether the engine takes commands."""
        return self.phase in (Phase.LOADING, Phase.READY, Phase.EMPTY)

    def words(self) -> str:
        """One short line for the header."""
        if self.silent:
            return words.SILENT
        match self.phase:
            case Phase.STARTING:
                return words.STARTING
            case Phase.LOADING if self.total:
                return words.loading_words(100 * self.done // self.total)
            case Phase.LOADING:
                return words.LOADING
            case Phase.READY if self.model:
                return f"{self.model.device}, {self.model.precision}"
            case Phase.EMPTY | Phase.READY if self.cancelled:
                return words.LOAD_CANCELLED
            case Phase.EMPTY | Phase.READY:
                return words.NO_MODEL
            case Phase.RESTARTING:
                return words.RESTARTING
            case Phase.FAILED:
                return words.FAILED
            case Phase.CLOSED:
                return words.CLOSING

    def waiting_words(self) -> str:
        """What a message sent now waits for."""
        if self.phase in (Phase.EMPTY, Phase.FAILED):
            return words.WAITING_FOR_CHOICE
        return words.waiting_words(self.words())


def model_name(model: ModelInfo) -> str:
    """The display name of a loaded model."""
    return DEMO if model.path == str(DEMO_MODEL) else model.name


def shown_name(path: str) -> str:
    """The name of the model in a folder; '' is the demo model."""
    if path in ("", str(DEMO_MODEL)):
        return DEMO
    return shortened(folder_name(path), LONGEST_NAME)
