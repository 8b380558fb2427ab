"""The user's settings as a frozen value; their bounds are in `core.api.params`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BeforeValidator, Field, ValidationError, field_validator

from core.api.params import (
    CacheSettings,
    DraftSettings,
    ModelSettings,
    Precision,
    SamplingParams,
    Settings,
)
from core.api.reply_format import ReplyFormat
from core.remote.messages import Place, RemoteServer
from desktop.store.folders import DEMO_MODEL
from desktop.store.tables.records import Begin

RECENT_MODELS = 8
# Models whose name and settings are remembered, the one used last first.
MOST_REMEMBERED = 500
# The smallest values that the settings offer; the engine accepts less.
SHORTEST_INTERVAL = 512

Read = TypeVar("Read", bound=Settings)


def valid_ones(kind: type[Read], values: object) -> tuple[Read, ...]:
    """Skip values that this version can't read."""
    found = []
    for each in values if isinstance(values, tuple) else ():
        with contextlib.suppress(ValidationError):
            found.append(kind.model_validate(each))
    return tuple(found)


class AheadSettings(Settings):
    settle: bool = True
    read_ahead: bool = True


class BackgroundSettings(Settings):
    titles: bool = True
    notify: bool = True
    stay_awake: bool = True
    when_closed: Literal["ask", "go_on", "stop"] = "ask"


class WindowSettings(Settings):
    theme: Literal["system", "light", "dark"] = "system"
    language: Literal["system", "en", "de"] = "system"
    # Of the usual size, in percent.
    text_size: Literal[85, 100, 115, 130, 150] = 100
    # True renders Markdown in the user's own messages.
    format_messages: bool = True
    folded: tuple[str, ...] = ()
    # Keys by the names of actions, for those that have others than the program's.
    shortcuts: dict[str, str] = Field(default_factory=dict)


class NetworkSettings(Settings):
    """Empty: `hub` is Hugging Face, `proxy` the system's, the folder next to the chats; 0 is no
    limit. `token_for` is the hub whose token is in the keyring."""

    allowed: bool = True
    hub: str = ""
    proxy: str = ""
    models_folder: str = ""
    megabytes_per_second: Annotated[int, Field(ge=0, le=100_000)] = 0
    token_for: str = ""


class ModelChoices(Settings):
    """`name` is the user's own; `chosen` is False if it never ran."""

    path: str
    name: str = ""
    chosen: bool = False
    precision: Precision = "auto"
    context_length: Annotated[int, Field(ge=1)] | None = None
    sampling: SamplingParams = SamplingParams()
    thinking: bool | None = None


class LibrarySettings(Settings):
    folders: tuple[str, ...] = ()
    models: Annotated[
        tuple[ModelChoices, ...], BeforeValidator(partial(valid_ones, ModelChoices))
    ] = ()


class Preset(Settings):
    """`values` of settings by their keys; `model` is a path to load, '' for none."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    system: str = ""
    format: ReplyFormat | None = None
    values: dict[str, Any] = Field(default_factory=dict)
    model: str = ""

    @property
    def begin(self) -> Begin:
        return Begin(self.system, self.format, self.values)


class PresetSettings(Settings):
    """`default` names the preset of new chats."""

    default: str = ""
    presets: Annotated[tuple[Preset, ...], BeforeValidator(partial(valid_ones, Preset))] = ()

    def named(self, name: str) -> Preset | None:
        return next((each for each in self.presets if each.name == name), None)

    @property
    def begin(self) -> Begin:
        """Settings of a new chat outside folders."""
        preset = self.named(self.default)
        return preset.begin if preset else Begin()


class ServerSettings(Settings):
    """`key` is a digest, empty until first switched on; `steady`: see `core.server.held`. `loads`:
    programs may load other models. The model sleeps after `sleep_min` idle minutes, 0 is never."""

    on: bool = False
    steady: bool = True
    loads: bool = False
    sleep_min: Annotated[int, Field(ge=0, le=1_440)] = 0
    port: Annotated[int, Field(ge=1, le=65_535)] = 8484
    lan: bool = False
    origins: tuple[str, ...] = ()
    key: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""


class RemoteSettings(Settings):
    """`new_chats` is the place of new chats, None for this computer."""

    servers: Annotated[
        tuple[RemoteServer, ...], BeforeValidator(partial(valid_ones, RemoteServer))
    ] = ()
    new_chats: Place | None = None

    def server(self, address: str) -> RemoteServer | None:
        return next((each for each in self.servers if each.address == address), None)


TEXT_SIZES: tuple[int, ...] = get_args(WindowSettings.model_fields["text_size"].annotation)


class AppSettings(Settings):
    """An empty model path is the demo model."""

    model: ModelSettings = ModelSettings(path="")
    recent_models: tuple[str, ...] = ()
    sampling: SamplingParams = SamplingParams()
    thinking: bool | None = None
    draft: DraftSettings = DraftSettings()
    cache: Annotated[CacheSettings, Field(validate_default=True)] = CacheSettings()
    ahead: AheadSettings = AheadSettings()
    background: BackgroundSettings = BackgroundSettings()
    window: WindowSettings = WindowSettings()
    network: NetworkSettings = NetworkSettings()
    library: LibrarySettings = LibrarySettings()
    server: ServerSettings = ServerSettings()
    presets: PresetSettings = PresetSettings()
    remote: RemoteSettings = RemoteSettings()

    @field_validator("cache")
    @classmethod
    def _as_the_window_sends_it(cls, cache: CacheSettings) -> CacheSettings:
        # The user waits for the reply, so states are restored only if that is faster.
        interval = max(SHORTEST_INTERVAL, cache.interval)
        return cache.model_copy(update={"restore": "when_faster", "interval": interval})

    def model_to_load(self, contexts: Path | None = None) -> ModelSettings:
        return self.model.model_copy(
            update={
                "path": self.model.path or str(DEMO_MODEL),
                "cache_folder": None if contexts is None else str(contexts),
                "measure_kernels": True,
            }
        )

    def with_model(self, path: str) -> AppSettings:
        return self.switched(path).with_recent(path)

    def switched(self, path: str) -> AppSettings:
        """With the settings the model ran with last."""
        path = kept_path(path)
        if path == self.model.path:
            return self
        kept = self._remembering()
        chosen = kept.model_copy(update={"model": kept.model.model_copy(update={"path": path})})
        return chosen._recalled(path)

    def switched_back(self, path: str) -> AppSettings:
        """A model that never ran isn't remembered."""
        back = self.switched(path)
        ran = self.choices_of(self.model.path).chosen
        return back if ran else back.model_copy(update={"library": self.library})

    def choices_of(self, path: str) -> ModelChoices:
        found = (each for each in self.library.models if each.path == path)
        return next(found, ModelChoices(path=path))

    def with_name(self, path: str, name: str) -> AppSettings:
        """'' restores the published one."""
        return self._with_choices(self.choices_of(path).model_copy(update={"name": name}))

    def _remembering(self) -> AppSettings:
        model = self.model
        now = {
            "chosen": True,
            "precision": model.precision,
            "context_length": model.context_length,
            "sampling": self.sampling,
            "thinking": self.thinking,
        }
        return self._with_choices(self.choices_of(model.path).model_copy(update=now))

    def _recalled(self, path: str) -> AppSettings:
        kept = self.choices_of(path)
        if not kept.chosen:
            return self
        own = {"precision": kept.precision, "context_length": kept.context_length}
        return self.model_copy(
            update={
                "model": self.model.model_copy(update=own),
                "sampling": kept.sampling,
                "thinking": kept.thinking,
            }
        )

    def _with_choices(self, choices: ModelChoices) -> AppSettings:
        others = (each for each in self.library.models if each.path != choices.path)
        models = (choices, *others)[:MOST_REMEMBERED]
        library = self.library.model_copy(update={"models": models})
        return self.model_copy(update={"library": library})

    def with_recent(self, path: str) -> AppSettings:
        known = [kept_path(path), *self.without_recent(path).recent_models]
        recent = tuple(each for each in known if each)[:RECENT_MODELS]
        return self.model_copy(update={"recent_models": recent})

    def with_moved(self, before: str, now: str) -> AppSettings:
        def follow(path: str) -> str:
            return now if path == before else path

        models = (
            each.model_copy(update={"path": follow(each.path)}) for each in self.library.models
        )
        library = self.library.model_copy(update={"models": tuple(models)})
        model = self.model.model_copy(update={"path": follow(self.model.path)})
        recent = tuple(map(follow, self.recent_models))
        presets = (
            each.model_copy(update={"model": follow(each.model)}) for each in self.presets.presets
        )
        bundles = self.presets.model_copy(update={"presets": tuple(presets)})
        moved = {"model": model, "recent_models": recent, "library": library, "presets": bundles}
        return self.model_copy(update=moved)

    def without_recent(self, path: str) -> AppSettings:
        recent = tuple(each for each in self.recent_models if each != path)
        return self.model_copy(update={"recent_models": recent})


def with_own(settings: AppSettings, own: Mapping[str, object]) -> AppSettings:
    """Skips values that this version can't read."""
    for key, value in own.items():
        section, _, name = key.partition(".")
        with contextlib.suppress(ValidationError):
            if key == "thinking":
                settings = AppSettings.model_validate({**dict(settings), key: value})
            elif section == "sampling":
                sampling = SamplingParams.model_validate({**dict(settings.sampling), name: value})
                settings = settings.model_copy(update={"sampling": sampling})
    return settings


def kept_path(path: str) -> str:
    """'' for the demo model, which an update may move."""
    return "" if path == str(DEMO_MODEL) else path
