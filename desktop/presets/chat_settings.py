"""Settings of the shown chat in place of those for all chats, and presets that bundle them."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from desktop.chat.shown_chat import ShownChat
from desktop.i18n import tr
from desktop.settings.setting_rows import SettingRow, parts, row_of
from desktop.settings.settings import SettingsController, out_of_range
from desktop.store.settings import AppSettings, Preset, PresetSettings
from desktop.store.tables.records import Begin, Folder


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
    def begin(self) -> Begin:
        """Settings with which another chat would be like the shown one."""
        return Begin(self._chat.instructions, self._chat.format, self._chat.own)

    def usual_in(self, folder: Folder | None) -> Begin:
        """Settings of new chats in the folder; None means outside folders."""
        return folder.begin if folder and folder.begin else self.presets.begin

    def place_new_chat(self, folder: Folder | None) -> None:
        """Have the next new chat in this folder; None is in no folder."""
        before = self.usual_in(self._chat.new_folder)
        self._chat.begin_new_chats(folder, before, self.usual_in(folder))

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
        """Titles of the settings in which the shown chat differs from new ones in its folder."""
        usual, own = self.usual_in(self._chat.folder), self.begin
        found = [tr("Instructions")] if own.system != usual.system else []
        if own.format != usual.format:
            found.append(tr("Format of the replies"))
        for row in own_rows():
            if own.settings.get(row.key, ...) != usual.settings.get(row.key, ...):
                found.append(row.title)
        return found

    def back(self) -> None:
        self._put_with_undo(
            self.usual_in(self._chat.folder),
            tr("The chat has its default settings again."),
        )

    def apply(self, name: str) -> None:
        preset = self.presets.named(name)
        if preset is None:
            return
        said = tr("The chat uses the preset {name}.").format(name=preset.name)
        self._put_with_undo(preset.begin, said)
        if preset.model and preset.model != self._general.settings.model.path:
            self._general.set_model_path(preset.model)
            self._general.load()

    def save(self, name: str, with_model: bool) -> None:
        """Make or replace a preset of what the shown chat has."""
        own = self.begin
        preset = Preset(
            name=name,
            system=own.system,
            format=own.format,
            values=dict(own.settings),
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
        folder = self._chat.new_folder
        before = self.usual_in(folder)
        self._general.set_presets(presets)
        if self.usual_in(folder) != before:
            self._chat.begin_new_chats(folder, before, self.usual_in(folder))

    def _put_with_undo(self, begin: Begin, said: str) -> None:
        before, chat = self.begin, self._chat.transcript.chat

        def undo() -> None:
            if self._chat.transcript.chat == chat:
                self._put(before)

        self._put(begin)
        undoing: Callable[[], None] = undo
        self.done.emit(said, undoing)

    def _put(self, begin: Begin) -> None:
        self._chat.instruct(begin.system)
        self._chat.ask_for(begin.format)
        self._chat.set_own(dict(begin.settings))


def own_rows() -> tuple[SettingRow, ...]:
    """The settings that a chat can have values of its own for."""
    return tuple(
        row
        for part in parts()
        for row in part.rows
        if row.key == "thinking" or row.key.startswith("sampling.")
    )
