"""What runs here, in lines a person can send: versions, processor, kernels, model.

Holds nothing of any chat, no names of files and no paths. Asks packages for their versions without
importing them: the window's process never loads torch.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata

from desktop.presentation.engine_status import EngineStatus
from desktop.presentation.plain_text import shortened
from desktop.words import frame as words
from desktop.words.numbers import format_count

# What Waymark is built on, and what it is licensed under where its metadata doesn't say.
PACKAGES = (
    "PySide6_Essentials",
    "torch",
    "numpy",
    "safetensors",
    "tokenizers",
    "pillow",
    "jinja2",
    "pydantic",
    "markdown-it-py",
    "pygments",
    "qasync",
    "platformdirs",
    "psutil",
)

LONGEST_LICENCE = 200


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
    licences = tuple((name, licence(name)) for name in ("waymark", *PACKAGES))
    return Diagnostics(tuple(facts), licences)


def version(package: str) -> str:
    """A package's version, as its metadata has it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return words.UNKNOWN


def licence(package: str) -> str:
    """A package's licence in a few words, as its metadata has it."""
    try:
        found = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        return words.UNKNOWN
    expression = _said(found, "License-Expression")
    # Older metadata may hold the whole text of a licence here.
    said = _said(found, "License")
    short = said if "\n" not in said else ""
    kinds = [each for each in found.get_all("Classifier") or () if each.startswith("License")]
    named = kinds[0].rpartition(" :: ")[2] if kinds else ""
    return shortened(expression or short or named, LONGEST_LICENCE) or words.UNKNOWN


def _said(found: metadata.PackageMetadata, field: str) -> str:
    return ", ".join(found.get_all(field) or ())
