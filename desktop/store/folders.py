"""The data and settings folders."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from core.client.programs import RESOURCES
from core.system.private_files import private_folder

DATA_VARIABLE = "WAYMARK_DATA"
DEMO_MODEL = RESOURCES / "models" / "demo"
SAMPLE_PICTURES = RESOURCES / "samples"


@dataclass(frozen=True, slots=True)
class Folders:
    data: Path
    settings: Path

    @classmethod
    def choose(cls, given: str | None = None) -> Folders:
        """A folder given by hand or by WAYMARK_DATA holds everything."""
        wanted = given or os.environ.get(DATA_VARIABLE)
        if wanted:
            folder = Path(wanted).expanduser().resolve()
            return cls(folder, folder)
        return cls(
            platformdirs.user_data_path("waymark", appauthor=False),
            platformdirs.user_config_path("waymark", appauthor=False),
        )

    @property
    def database(self) -> Path:
        return self.data / "chats.db"

    @property
    def search_index(self) -> Path:
        return self.data / "search.db"

    @property
    def pictures(self) -> Path:
        return self.data / "pictures"

    @property
    def contexts(self) -> Path:
        return self.data / "contexts"

    @property
    def engine_log(self) -> Path:
        return self.data / "logs" / "engine.log"

    @property
    def window_log(self) -> Path:
        return self.data / "logs" / "window.log"

    @property
    def settings_file(self) -> Path:
        return self.settings / "settings.json"

    @property
    def geometry_file(self) -> Path:
        return self.settings / "window.ini"

    def create(self) -> None:
        """Raises OSError, or NotPrivateError if others could write into one or replace it."""
        for folder in (self.data, self.settings):
            private_folder(folder, given=True)
        for folder in (self.pictures, self.contexts, self.engine_log.parent):
            private_folder(folder)
