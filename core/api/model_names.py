"""How a model's folder is called: by its own name, or as the Hugging Face cache spells it.

The cache keeps Org/Name in `models--Org--Name/snapshots/<hash>`, whose last part names nothing.
"""

from __future__ import annotations

from pathlib import Path

HUB_PREFIX = "models--"
SNAPSHOTS = "snapshots"


def hub_name(folder_name: str) -> str:
    """Org/Name of a folder's name in the hub cache; '' for any other folder."""
    if not folder_name.startswith(HUB_PREFIX):
        return ""
    return folder_name.removeprefix(HUB_PREFIX).replace("--", "/", 1)


def folder_name(path: str) -> str:
    """The name of the model in a folder: Org/Name in the hub cache, else the folder's own name."""
    folder = Path(path)
    if folder.parent.name == SNAPSHOTS:
        return hub_name(folder.parent.parent.name) or folder.name
    return hub_name(folder.name) or folder.name
