"""The translations of the window: complete, true to their placeholders, compiled, and not cut."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PySide6.QtCore import QCoreApplication, QLocale, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QLabel, QScrollArea, QSizePolicy, QWidget

from desktop.i18n import LANGUAGES_FOLDER, tr, use_language
from desktop.store import restored
from desktop.store.database import open_database
from desktop.store.folders import Folders
from desktop.store.settings import AppSettings, WindowSettings
from desktop.store.settings_file import SettingsFile, language_of
from tests.desktop.conftest import OpenApp
from tests.desktop.hands import child, settle
from tests.desktop.models.test_library import library, model

ROOT = Path(__file__).parents[2]
PAGES = (
    "actionContext",
    "actionSettings",
    "actionSearchMessages",
    "actionServer",
    "actionModels",
    "actionCompare",
    "actionGetModel",
    "actionServers",
    "actionShortcuts",
    "actionPalette",
    "actionAbout",
)
CODES = sorted(path.stem.removeprefix("waymark_") for path in LANGUAGES_FOLDER.glob("*.ts"))


def messages(path: Path) -> dict[str, str]:
    """The translation of each sentence, '' where there is none."""
    found = {}
    for each in ElementTree.parse(path).iter("message"):
        source, translation = each.findtext("source"), each.find("translation")
        assert source is not None and translation is not None
        done = translation.get("type") is None
        found[source] = (translation.text or "") if done else ""
    return found


def tool(name: str, *arguments: str) -> None:
    program = Path(sys.executable).with_name(f"pyside6-{name}")
    subprocess.run([str(program), *arguments], check=True, capture_output=True, cwd=ROOT)


@pytest.fixture
def english_after() -> Iterator[None]:
    before = QLocale()
    yield
    use_language("en")
    QLocale.setDefault(before)


def test_there_are_translations() -> None:
    assert CODES


@pytest.mark.parametrize("code", CODES)
def test_every_sentence_is_translated(code: str, tmp_path: Path) -> None:
    files = [str(path) for path in sorted((ROOT / "desktop").rglob("*.py"))]
    tool("lupdate", *files, "-locations", "none", "-ts", str(tmp_path / "all.ts"))
    translated = messages(LANGUAGES_FOLDER / f"waymark_{code}.ts")
    assert [each for each in messages(tmp_path / "all.ts") if not translated.get(each)] == [], (
        "run `make strings` and translate what is unfinished in resources/languages"
    )


@pytest.mark.parametrize("code", CODES)
def test_placeholders_are_kept(code: str) -> None:
    wrong = [
        source
        for source, said in messages(LANGUAGES_FOLDER / f"waymark_{code}.ts").items()
        if sorted(re.findall("{.*?}", source)) != sorted(re.findall("{.*?}", said))
        or source.startswith(" ") != said.startswith(" ")
    ]
    assert wrong == []


@pytest.mark.parametrize("code", CODES)
def test_the_compiled_file_is_up_to_date(code: str, tmp_path: Path) -> None:
    shutil.copy(LANGUAGES_FOLDER / f"waymark_{code}.ts", tmp_path / "it.ts")
    tool("lrelease", str(tmp_path / "it.ts"))
    assert (tmp_path / "it.qm").read_bytes() == (
        LANGUAGES_FOLDER / f"waymark_{code}.qm"
    ).read_bytes(), "run `make strings`"


@pytest.mark.usefixtures("qapp", "english_after")
def test_a_language_can_be_chosen_and_left() -> None:
    use_language("de")
    assert tr("Delete") == "Löschen"
    assert QCoreApplication.translate("QPlatformTheme", "Cancel") == "Abbrechen"
    assert QLocale().toString(1234.5, "f", 1) == "1.234,5"
    use_language("en")
    assert tr("Delete") == "Delete"


@pytest.mark.parametrize(
    ("code", "percent"), [("en", 100), *((code, size) for code in CODES for size in (100, 150))]
)
@pytest.mark.usefixtures("english_after")
async def test_no_word_is_cut_in_the_smallest_window(
    open_app: OpenApp, folders: Folders, code: str, percent: int
) -> None:
    """At 900 x 600 every label and button that can't be elided or wrapped is wide enough."""
    window = WindowSettings.model_validate({"language": code, "text_size": percent})
    SettingsFile(folders.settings_file).save(AppSettings(window=window))
    model(folders.data / "models" / "Org" / "Name")
    app = await open_app()
    await library(app)
    app.window.resize(900, 600)
    cut = []
    for action in ("", *PAGES):
        if action:
            found = child(app.window, QAction, action)
            found.trigger()
        await settle()
        cut += [each.objectName() or text_of(each) for each in visible(app.window) if is_cut(each)]
    assert cut == []
    assert app.window.width() == 900 or percent > 100


def visible(window: QWidget) -> list[QWidget]:
    return [each for each in window.findChildren(QWidget) if each.isVisible()]


def text_of(widget: QWidget) -> str:
    return widget.text() if isinstance(widget, QLabel | QAbstractButton) else ""


def is_cut(widget: QWidget) -> bool:
    if isinstance(widget, QScrollArea):
        off = widget.horizontalScrollBarPolicy() == Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        room = widget.viewport().width()
        inside = widget.widget()
        return off and inside is not None and inside.minimumSizeHint().width() > room
    if not text_of(widget) or (isinstance(widget, QLabel) and widget.wordWrap()):
        return False
    if widget.sizePolicy().horizontalPolicy() == QSizePolicy.Policy.Ignored:
        return False  # it elides its text
    return widget.width() < widget.minimumSizeHint().width()


@pytest.mark.usefixtures("english_after")
async def test_messages_of_the_start_are_in_the_chosen_language(
    open_app: OpenApp, folders: Folders
) -> None:
    open_database(restored.unfinished(folders)).close()
    restored.finish(folders, AppSettings(window=WindowSettings(language="de")))
    app = await open_app()
    assert app.parts.restored == "Die Sicherung ist wiederhergestellt."


@pytest.mark.parametrize("content", ["", "[]", '{"window": 1}', '{"window": {"language": 1}}'])
def test_unreadable_settings_have_the_language_of_the_system(tmp_path: Path, content: str) -> None:
    path = tmp_path / "settings.json"
    assert language_of(path) == "system"
    path.write_text(content)
    assert language_of(path) == "system"
