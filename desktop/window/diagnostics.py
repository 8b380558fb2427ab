"""What runs here, in lines a person can send: versions, processor, kernels, model.

Holds nothing of any chat, no names of files and no paths. Asks packages for their versions without
importing them: the window's process never loads torch.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata

from desktop.engine.engine_status import EngineStatus
from desktop.numbers import format_count
from desktop.words import frame as words
from desktop.words.licences import LICENCES


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Names and values, and the licence of each package."""

    facts: tuple[tuple[str, str], ...]
    licences: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """What is copied."""
        return "\n".join(f"{name}: {value}" for name, value in self.facts)


def diagnostics(status: EngineStatus) -> Diagnostics:
    """What is known now."""
    model = status.model
    load = model.load if model else None
    facts = [
        ("Waymark", version("waymark")),
        ("Python", platform.python_version()),
        ("Qt", version("PySide6_Essentials")),
        ("torch", version("torch")),
        ("System", platform.platform()),
        ("Processor level", (load.processor if load else "") or words.UNKNOWN),
        ("Kernels", (load.kernels if load else "") or words.UNKNOWN),
        ("Engine", status.words()),
    ]
    if model is not None:
        size = f"{model.family}, {format_count(model.num_parameters)} parameters"
        facts.append(("Model", f"{size}, {format_count(model.context_length)} tokens of context"))
        if model.load.slowed_by:
            facts.append(("Slowed by", model.load.slowed_by))
    return Diagnostics(tuple(facts), tuple(LICENCES.items()))


def version(package: str) -> str:
    """A package's version, as its metadata has it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return words.UNKNOWN
