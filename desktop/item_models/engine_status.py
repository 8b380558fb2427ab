"""What the engine is doing, as one value the window can show, and the words for it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from core.api.events import ModelInfo


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
    engine has not answered for a while."""

    phase: Phase = Phase.STARTING
    model: ModelInfo | None = None
    done: int = 0
    total: int = 0
    trouble: str = ""
    silent: bool = False

    @property
    def runs(self) -> bool:
        """Whether the engine takes commands."""
        return self.phase in (Phase.LOADING, Phase.READY, Phase.EMPTY)

    def words(self) -> str:
        """One short line for the header."""
        if self.silent:
            return "The engine is not answering"
        match self.phase:
            case Phase.STARTING:
                return "Starting the engine"
            case Phase.LOADING if self.total:
                return f"Loading the model: {100 * self.done // self.total}%"
            case Phase.LOADING:
                return "Loading the model"
            case Phase.READY if self.model:
                return f"{self.model.device}, {self.model.precision}"
            case Phase.EMPTY | Phase.READY:
                return "No model is loaded"
            case Phase.RESTARTING:
                return "The engine stopped; starting it again"
            case Phase.FAILED:
                return "The engine does not start"
            case Phase.CLOSED:
                return "Closing"

    def waiting_words(self) -> str:
        """What a message sent now waits for."""
        if self.phase in (Phase.EMPTY, Phase.FAILED):
            return "Waiting for a model: choose one under Model & settings."
        return f"Waiting for the model. {self.words()} \N{HORIZONTAL ELLIPSIS}"
