"""The user's settings as one frozen value, and the JSON file it lives in.

Bounds are declared in `core.api.params`, titles and descriptions in
`desktop.item_models.setting_rows`.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, field_validator

from core.api.params import CacheSettings, ModelSettings, SamplingParams, Settings
from desktop.store.folders import DEMO_MODEL

RECENT_MODELS = 8
# What the settings offer at least; the engine itself takes less.
SHORTEST_INTERVAL = 512


class AheadSettings(Settings):
    """What the engine may read in idle time, before it is asked to."""

    settle: bool = True
    read_ahead: bool = True


class AppSettings(Settings):
    """Everything a user may set. An empty model path means the demo model that comes along."""

    model: ModelSettings = ModelSettings(path="")
    recent_models: tuple[str, ...] = ()
    sampling: SamplingParams = SamplingParams()
    thinking: bool | None = None
    cache: Annotated[CacheSettings, Field(validate_default=True)] = CacheSettings()
    ahead: AheadSettings = AheadSettings()

    @field_validator("cache")
    @classmethod
    def _as_the_window_sends_it(cls, cache: CacheSettings) -> CacheSettings:
        """Someone waits for the answer, so it is read again where that is clearly quicker."""
        interval = max(SHORTEST_INTERVAL, cache.interval)
        return cache.model_copy(update={"restore": "when_faster", "interval": interval})

    def model_to_load(self, contexts: Path | None = None) -> ModelSettings:
        """The model settings with a real path; `contexts` is the folder that outlives a restart."""
        return self.model.model_copy(
            update={
                "path": self.model.path or str(DEMO_MODEL),
                "cache_folder": None if contexts is None else str(contexts),
                "measure_kernels": True,
            }
        )

    def with_model(self, model: ModelSettings) -> AppSettings:
        """These settings with another model, which becomes the first of the recent ones."""
        path = "" if model.path == str(DEMO_MODEL) else model.path
        recent = [path, *(other for other in self.recent_models if other != path)]
        return self.model_copy(
            update={
                "model": model.model_copy(update={"path": path}),
                "recent_models": tuple(known for known in recent if known)[:RECENT_MODELS],
            }
        )


class SettingsFile:
    """Reads and writes the settings. A file that can't be read is kept aside and said so."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> tuple[AppSettings, str]:
        """The settings, and words about what went wrong ('' when nothing did)."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return AppSettings(), ""
        except (OSError, UnicodeDecodeError) as error:
            return AppSettings(), self._kept_aside(str(error))
        try:
            return AppSettings.model_validate_json(text), ""
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            return AppSettings(), self._kept_aside(f"{first['msg']}{place and f' at {place}'}")

    def save(self, settings: AppSettings) -> None:
        """Write all of it or nothing. Raises OSError when the disk refuses."""
        # mkstemp makes the file 0600; the rename makes it appear whole.
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=".settings-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(settings.model_dump_json(indent=2) + "\n")
            Path(name).replace(self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _kept_aside(self, reason: str) -> str:
        words = f"The settings could not be read ({reason}); the defaults are used."
        kept = self._path.with_name(f"settings.damaged-{time.strftime('%Y%m%d-%H%M%S')}.json")
        try:
            self._path.replace(kept)
        except OSError:
            return words
        return f"{words} The old file is kept as {kept.name}."
