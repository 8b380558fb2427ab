"""Translation of the window's sentences."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

# `make strings` brings the .ts files up to date and compiles them.
LANGUAGES_FOLDER = Path(__file__).parent.parent / "resources" / "languages"
_installed: list[QTranslator] = []


def tr(text: str) -> str:
    """Call it with a literal, which `pyside6-lupdate` extracts, when the text is shown: translators
    are installed after imports."""
    return QCoreApplication.translate("", text)


def use_language(choice: str) -> None:
    """`choice` is a code or "system". Numbers and dates follow it if it isn't the system's."""
    application = QCoreApplication.instance()
    assert application is not None
    while _installed:
        application.removeTranslator(_installed.pop())
    spoken = [each.partition("-")[0] for each in QLocale.system().uiLanguages()] or ["en"]
    if choice not in ("system", spoken[0]):
        QLocale.setDefault(QLocale(choice))
    wanted = next((each for each in spoken if each == "en" or _file(each).exists()), "en")
    code = wanted if choice == "system" else choice
    if code == "en":
        return
    of_qt = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    for path in (Path(of_qt) / f"qtbase_{code}.qm", _file(code)):
        translator = QTranslator(application)
        if translator.load(str(path)):
            application.installTranslator(translator)
            _installed.append(translator)


def _file(code: str) -> Path:
    return LANGUAGES_FOLDER / f"waymark_{code}.qm"
