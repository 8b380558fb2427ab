"""The page of a chat's own settings and of presets."""

from __future__ import annotations

from PySide6.QtWidgets import QComboBox, QDialog, QLineEdit, QWidget

from desktop.i18n import tr
from desktop.presets.chat_settings import ChatSettings, own_rows
from desktop.settings.controls import Switch
from desktop.settings.setting_editor import SettingEditor
from desktop.widgets.layouts import column, row, scrolled
from desktop.widgets.plain import Button, Label, named, unshortcut

WIDTH, HEIGHT = 460, 640
LONGEST_NAME = 100


class ChatSettingsDialog(QDialog):
    def __init__(self, settings: ChatSettings, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("chatSettingsDialog")
        self.setWindowTitle(tr("Settings of this chat"))
        self._settings = settings
        self._presets = PresetsBox(settings)
        self._differs = Label(name="ownDiffers", style="muted small", wraps=True)
        self._back = Button(tr("Back to the default"), name="ownBack")
        self._back.clicked.connect(settings.back)
        self._editors = [SettingEditor(each, settings, prefix="own") for each in own_rows()]
        close = Button(tr("Close"), name="chatSettingsClose")
        close.clicked.connect(self.close)
        note = tr("In place of the settings for all chats, from the next message on.")
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
        self.resize(WIDTH, HEIGHT)
        settings.changed.connect(self._show)
        settings.engine.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        found = self._settings.differences()
        words = tr("Differs from the default: {what}.").format(what=", ".join(found))
        self._differs.setText(words if found else tr("As the default for new chats."))
        self._back.setEnabled(bool(found))
        model = self._settings.engine.model
        for editor in self._editors:
            editor.mark_own(editor.row.key in self._settings.begin.settings)
            if editor.row.key == "thinking":
                editor.setEnabled(model is None or model.thinking_switch)


class PresetsBox(QWidget):
    """Chooses, saves and deletes presets, and the one of new chats."""

    def __init__(self, settings: ChatSettings) -> None:
        super().__init__()
        self._settings = settings
        self._box = named(QComboBox(), "presetBox", tr("Presets"))
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
