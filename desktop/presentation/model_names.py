"""How a model's folder is called in the window."""

from __future__ import annotations

from core.api.model_names import folder_name
from desktop.presentation.plain_text import shortened
from desktop.store.folders import DEMO_MODEL
from desktop.words.settings import DEMO

LONGEST_NAME = 60


def shown_name(path: str) -> str:
    """The name of the model in a folder; '' is the demo model."""
    if path in ("", str(DEMO_MODEL)):
        return DEMO
    return shortened(folder_name(path), LONGEST_NAME)
