from __future__ import annotations

from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QKeySequenceEdit, QLabel

from core.api.model_info import LoadFacts
from core.client.programs import ROOT
from desktop.app import App
from desktop.engine.engine_status import EngineStatus, Phase
from desktop.window.commands import name_of
from desktop.window.menus import diagnostics, licences, version
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, model_info
from tests.desktop.hands import child, ended, press, send


def page(app: App, action: str, name: str) -> QDialog:
    app.window.actions_by_name[action].trigger()
    found = child(app.window, QDialog, name)
    assert found.isVisible() and not found.isModal()
    return found


def said(dialog: QDialog) -> list[str]:
    return [label.text() for label in dialog.findChildren(QLabel)]


async def test_about_says_what_runs_here_and_nothing_of_any_chat(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    engine.model_to_load = model_info(load=LoadFacts(kernels="cpu-1", processor="AVX-512"))
    app = await open_app()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    (await send(app, engine, "a secret question")).finish("a secret reply")
    await ended(app)
    shown = said(page(app, "actionAbout", "aboutDialog"))
    assert {"cpu-1", "AVX-512", version("torch")} <= set(shown)
    assert {*licences(), *licences().values()} <= set(shown)
    press(app, "copyDiagnostics")
    copied = QGuiApplication.clipboard().text()
    QGuiApplication.clipboard().clear()
    assert f"torch: {version('torch')}" in copied
    assert "secret" not in copied and "/models" not in copied and "stand-in" not in copied
    assert str(app.parts.folders.data) not in copied


async def test_every_key_of_the_menus_is_on_the_page_of_shortcuts(app: App) -> None:
    dialog = page(app, "actionShortcuts", "shortcutsDialog")
    edits = {
        each.accessibleName(): each.keySequence() for each in dialog.findChildren(QKeySequenceEdit)
    }
    assert edits == {name_of(each): each.shortcut() for each in app.window.actions_by_name.values()}
    assert {"Enter", "Shift+Enter", "Ctrl+V"} <= set(said(dialog))


def test_without_a_model_and_without_metadata_it_says_so() -> None:
    facts = diagnostics(EngineStatus())
    assert facts["Kernels"] == facts["Processor level"] == "not known"
    assert version("no such package") == "not known" != version("torch")


def locked() -> set[str]:
    """The packages of requirements.lock that one of our systems installs, and torch."""
    text = (ROOT / "requirements.lock").read_text("utf-8")
    lines = [line.rstrip(" \\") for line in text.splitlines() if line[:1].isalnum()]
    found = map(Requirement, lines)
    wanted = (
        each.name
        for each in found
        if each.marker is None
        or any(
            each.marker.evaluate({"sys_platform": system, "python_full_version": version})
            for system in ("linux", "darwin", "win32")
            for version in ("3.11.0", "3.13.0")
        )
    )
    return {canonicalize_name(name) for name in wanted} | {"torch"}


def test_every_package_that_is_installed_is_named() -> None:
    assert set(licences()) == locked() | {"waymark"}


@pytest.mark.parametrize("package", sorted(licences()))
def test_a_licence_is_what_the_package_says(package: str) -> None:
    try:
        found = metadata.metadata(package)
    except metadata.PackageNotFoundError:
        pytest.skip("not installed on this system")
    expression = found.get_all("License-Expression") or found.get_all("License") or [""]
    # Older metadata may hold the whole text of a licence here.
    short = expression[0] if "\n" not in expression[0] else ""
    kinds = [each for each in found.get_all("Classifier") or () if each.startswith("License")]
    named = kinds[0].rpartition(" :: ")[2] if kinds else ""
    assert licences()[package] == (short or named)
