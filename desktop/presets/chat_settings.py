"""Settings of the shown chat in place of those for all chats, and presets that bundle them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, Signal

from core.api.reply_format import ReplyFormat
from desktop.chat.shown_chat import ShownChat
from desktop.i18n import tr
from desktop.settings.setting_rows import SettingRow, parts, row_of
from desktop.settings.settings import SettingsController, out_of_range
from desktop.store.settings import AppSettings, Preset, PresetSettings


@dataclass(frozen=True)
class Bundle:
    """The values that a preset sets in a chat."""

    system: str = ""
    format: ReplyFormat | None = None
    values: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, preset: Preset | None) -> Bundle:
        return cls(preset.system, preset.format, preset.values) if preset else cls()


class ChatSettings(QObject):
    """Has the interface of `SettingsController` that editors of settings need.

    A value that equals the one for all chats is not stored, so the chat follows that one again.
    """

    changed = Signal()
    # A message, and a function that undoes what it is about.
    done = Signal(str, object)

    def __init__(self, chat: ShownChat, settings: SettingsController) -> None:
        super().__init__()
        self.engine = settings.engine
        self._chat = chat
        self._general = settings
        for signal in (chat.own_changed, chat.instructed, chat.format_changed, settings.changed):
            signal.connect(self.changed)

    @property
    def settings(self) -> AppSettings:
        return self._chat.settings

    @property
    def presets(self) -> PresetSettings:
        return self._general.settings.presets

    @property
    def bundle(self) -> Bundle:
        return Bundle(self._chat.instructions, self._chat.format, self._chat.own)

    def set_value(self, key: str, value: object) -> str:
        """Returns why the value is not allowed, '' if it is."""
        row, general = row_of(key), self._general.settings
        try:
            taken = row.value_in(row.changed(general, value))
        except ValueError:
            return out_of_range(row, value)
        own = {key: each for key, each in self._chat.own.items() if key != row.key}
        if taken != row.value_in(general):
            own[row.key] = taken
        self._chat.set_own(own)
        return ""

    def differences(self) -> list[str]:
        """Titles of the settings in which the shown chat differs from the default preset."""
        usual, own = Bundle.of(self.presets.named(self.presets.default)), self.bundle
        found = [tr("instructions")] if own.system != usual.system else []
        if own.format != usual.format:
            found.append(tr("format of the replies"))
        mine, others = own.values or {}, usual.values or {}
        for row in own_rows():
            if mine.get(row.key, ...) != others.get(row.key, ...):
                found.append(row.title.lower())
        return found

    def back(self) -> None:
        self._put_with_undo(
            Bundle.of(self.presets.named(self.presets.default)),
            tr("The chat has its default settings again."),
        )

    def apply(self, name: str) -> None:
        preset = self.presets.named(name)
        if preset is None:
            return
        said = tr("The chat uses the preset {name}.").format(name=preset.name)
        self._put_with_undo(Bundle.of(preset), said)
        if preset.model and preset.model != self._general.settings.model.path:
            self._general.set_model_path(preset.model)
            self._general.load()

    def save(self, name: str, with_model: bool) -> None:
        """Make or replace a preset of what the shown chat has."""
        own = self.bundle
        preset = Preset(
            name=name,
            system=own.system,
            format=own.format,
            values=dict(own.values or {}),
            model=self._general.settings.model.path if with_model else "",
        )
        others = [each for each in self.presets.presets if each.name != name]
        presets = sorted([*others, preset], key=lambda each: each.name.casefold())
        self._store(self.presets.model_copy(update={"presets": tuple(presets)}))

    def delete(self, name: str) -> None:
        before = self.presets
        left = tuple(each for each in before.presets if each.name != name)
        default = "" if before.default == name else before.default
        self._store(PresetSettings(default=default, presets=left))
        said = tr("The preset {name} is deleted.").format(name=name)
        self.done.emit(said, lambda: self._store(before))

    def use_for_new(self, name: str) -> None:
        """Begin new chats with this preset; '' for none."""
        self._store(self.presets.model_copy(update={"default": name}))

    def _store(self, presets: PresetSettings) -> None:
        usual = Bundle.of(self.presets.named(self.presets.default))
        self._general.set_presets(presets)
        new = Bundle.of(presets.named(presets.default))
        if new != usual:
            self._chat.begin_new_chats_like(
                (usual.system, usual.format, dict(usual.values or {})),
                (new.system, new.format, dict(new.values or {})),
            )

    def _put_with_undo(self, bundle: Bundle, said: str) -> None:
        before, chat = self.bundle, self._chat.transcript.chat

        def undo() -> None:
            if self._chat.transcript.chat == chat:
                self._put(before)

        self._put(bundle)
        undoing: Callable[[], None] = undo
        self.done.emit(said, undoing)

    def _put(self, bundle: Bundle) -> None:
        self._chat.instruct(bundle.system)
        self._chat.ask_for(bundle.format)
        self._chat.set_own(dict(bundle.values or {}))


def own_rows() -> tuple[SettingRow, ...]:
    """The settings that a chat can have values of its own for."""
    return tuple(
        row
        for part in parts()
        for row in part.rows
        if row.key == "thinking" or row.key.startswith("sampling.")
    )
