"""A chat's own settings, presets that bundle them, and their page."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from desktop.chat.shown_chat import ShownChat
from desktop.i18n import tr
from desktop.settings.controls import Switch
from desktop.settings.setting_editor import SettingEditor
from desktop.settings.setting_rows import SettingRow, parts, row_of
from desktop.settings.settings import SettingsController, out_of_range
from desktop.store.settings import AppSettings, Preset, PresetSettings
from desktop.store.tables.records import Begin, Folder
from desktop.widgets.dialogs import Dialog
from desktop.widgets.layouts import column, row, scrolled
from desktop.widgets.plain import Button, ElidedBox, Label, named, unshortcut


class ChatSettings(QObject):
    """A value that equals the one for all chats is not stored: the chat follows that one again."""

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
        """Settings of the shown chat, for another one."""
        return Begin(self._chat.instructions, self._chat.format, self._chat.own)

    def usual_in(self, folder: Folder | None) -> Begin:
        """Settings of new chats in the folder."""
        return folder.begin if folder and folder.begin else self.presets.begin

    def place_new_chat(self, folder: Folder | None) -> None:
        """None is in no folder."""
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
        """Titles of settings that differ from those of new chats in the folder."""
        usual, own = self.usual_in(self._chat.folder), self.begin
        found = [tr("Instructions")] if own.system != usual.system else []
        if own.format != usual.format:
            found.append(tr("Format of the replies"))
        for each in own_rows():
            if own.settings.get(each.key, ...) != usual.settings.get(each.key, ...):
                found.append(each.title)
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
        replaced = self.presets.named(name)
        self._keep(preset)
        if replaced is not None:
            said = tr("The preset {name} is replaced.").format(name=name)
            self.done.emit(said, lambda: self._keep(replaced))

    def delete(self, name: str) -> None:
        deleted, default = self.presets.named(name), self.presets.default
        if deleted is None:
            return
        left = tuple(each for each in self.presets.presets if each != deleted)
        self._store(PresetSettings(default="" if default == name else default, presets=left))

        def undo() -> None:
            self._keep(deleted)
            if default == name and not self.presets.default:
                self.use_for_new(name)

        self.done.emit(tr("The preset {name} is deleted.").format(name=name), undo)

    def _keep(self, preset: Preset) -> None:
        others = [each for each in self.presets.presets if each.name != preset.name]
        presets = sorted([*others, preset], key=lambda each: each.name.casefold())
        self._store(self.presets.model_copy(update={"presets": tuple(presets)}))

    def use_for_new(self, name: str) -> None:
        """'' for none."""
        self._store(self.presets.model_copy(update={"default": name}))

    def _store(self, presets: PresetSettings) -> None:
        folder = self._chat.new_folder
        before = self.usual_in(folder)
        self._general.put(presets=presets)
        if self.usual_in(folder) != before:
            self._chat.begin_new_chats(folder, before, self.usual_in(folder))

    def _put_with_undo(self, begin: Begin, said: str) -> None:
        before, chat = self.begin, self._chat.transcript.chat

        def undo() -> None:
            if self._chat.transcript.chat == chat:
                self._put(before)

        self._put(begin)
        self.done.emit(said, undo)

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


WIDTH, HEIGHT = 460, 640
LONGEST_NAME = 100


class ChatSettingsDialog(Dialog):
    def __init__(self, settings: ChatSettings, parent: QWidget) -> None:
        super().__init__("chatSettingsDialog", tr("Settings of this chat"), parent)
        self._settings = settings
        self._presets = PresetsBox(settings)
        self._differs = Label(name="ownDiffers", style="muted small", wraps=True)
        self._back = Button(tr("Back to the default"), name="ownBack")
        self._back.clicked.connect(settings.back)
        self._editors = [SettingEditor(each, settings, prefix="own") for each in own_rows()]
        close = Button(tr("Close"), name="chatSettingsClose")
        close.clicked.connect(self.close)
        note = tr("They replace the settings for all chats, from the next message on.")
        content = QWidget()
        column(*self._editors, None, of=content, margins=(0, 0, 8, 0), spacing=14)
        parts = (
            Label(tr("Settings of this chat"), style="title"),
            Label(note, style="muted", wraps=True),
            self._presets,
            row((self._differs, 1), self._back, spacing=8),
            (scrolled(content, "chatSettingsScroll"), 1),
            row(None, close),
        )
        column(*parts, of=self, margins=(20, 16, 20, 16), spacing=10)
        self.fit(WIDTH, HEIGHT)
        settings.changed.connect(self._show)
        settings.engine.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        found = self._settings.differences()
        words = tr("Differs from the default: {what}.").format(what=", ".join(found))
        self._differs.setText(words if found else tr("The same as the default for new chats."))
        self._back.setEnabled(bool(found))
        model = self._settings.engine.model
        for editor in self._editors:
            editor.mark_own(editor.row.key in self._settings.begin.settings)
            if editor.row.key == "thinking":
                editor.setEnabled(model is None or model.thinking_switch)


class PresetsBox(QWidget):
    def __init__(self, settings: ChatSettings) -> None:
        super().__init__()
        self._settings = settings
        self._box = named(ElidedBox(), "presetBox", tr("Presets"))
        self._box.setPlaceholderText(tr("No presets yet"))
        self._box.currentIndexChanged.connect(lambda _: self._enable())
        self._use = self._button("presetUse", tr("Use in this chat"))
        self._use.clicked.connect(lambda: settings.apply(self.name))
        self._delete = self._button("presetDelete", tr("Delete the preset"))
        self._delete.clicked.connect(lambda: settings.delete(self.name))
        begin, with_model = tr("Begin new chats with this preset"), tr("Save the model with it")
        self._default = named(Switch(), "presetDefault", begin)
        self._default.clicked.connect(lambda on: settings.use_for_new(self.name if on else ""))
        self._title = named(QLineEdit(), "presetName", tr("Name of a preset"))
        self._title.setPlaceholderText(tr("Name of a preset"))
        self._title.setMaxLength(LONGEST_NAME)
        self._title.textChanged.connect(lambda _: self._enable())
        self._save = self._button("presetSave", tr("Save as preset"))
        self._save.clicked.connect(self._on_save)
        self._with_model = named(Switch(), "presetModel", with_model)
        lines = (
            row((self._box, 1), self._use, self._delete, spacing=6),
            row(self._default, Label(begin), None, spacing=8),
            row((self._title, 1), self._save, spacing=6),
            row(self._with_model, Label(with_model), None, spacing=8),
        )
        column(*lines, of=self, spacing=6)
        settings.changed.connect(self._show)
        self._show()

    @property
    def name(self) -> str:
        names = [each.name for each in self._settings.presets.presets]
        at = self._box.currentIndex()
        return names[at] if 0 <= at < len(names) else ""

    def _show(self) -> None:
        names = [each.name for each in self._settings.presets.presets]
        shown = [str(self._box.itemData(at)) for at in range(self._box.count())]
        if names != shown:
            chosen = str(self._box.currentData() or "")
            self._box.blockSignals(True)
            self._box.clear()
            for name in names:
                self._box.addItem(unshortcut(name), name)
            self._box.setCurrentIndex(names.index(chosen) if chosen in names else 0)
            self._box.blockSignals(False)
        self._enable()

    def _enable(self) -> None:
        name = self.name
        for widget in (self._box, self._use, self._delete, self._default):
            widget.setEnabled(bool(name))
        self._default.setChecked(bool(name) and name == self._settings.presets.default)
        self._save.setEnabled(bool(self._title.text().strip()))

    def _on_save(self) -> None:
        name = " ".join(self._title.text().split())
        self._settings.save(name, self._with_model.isChecked())
        self._title.clear()
        self._box.setCurrentIndex(self._box.findData(name))

    def _button(self, name: str, words: str) -> Button:
        button = Button(words, name=name, spoken=words)
        # Enter belongs to the fields.
        button.setAutoDefault(False)
        return button
