from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QLabel, QPushButton, QTextBrowser, QWidget

from core.client.life import EngineState
from desktop import theme
from desktop.app import App
from desktop.store.folders import DEMO_MODEL
from desktop.store.tables import chats
from desktop.widgets.icon_button import IconButton
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, model_info, png
from tests.desktop.hands import child, drop, ended, files, press, send, settle

QUESTIONS = (
    "Which shapes do you see in the picture, and which of them is the largest one?",
    "What colour is the star, and what colour is the circle that lies beside the star?",
    "WWWW WWWW WWWW iiiiiiiiii lllllllll iiiiiiiii",
    "iiiiiiiii lllllllllllllll iiiiiiiiiii lllllllllllllll iii\nWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
    "Please tell me in one short sentence what this is about.",
)


def cut(page: QWidget) -> list[str]:
    found = []
    for widget in page.findChildren(QWidget):
        if not widget.isVisible() or widget.objectName().startswith("qt_"):
            continue
        right = widget.mapTo(page, widget.rect().topRight()).x()
        if right >= page.width() or widget.mapTo(page, widget.rect().topLeft()).x() < 0:
            found.append(f"{widget.objectName() or type(widget).__name__} reaches to {right}")
        if isinstance(widget, QTextBrowser) and words_cut(widget):
            found.append(f"{widget.objectName()}: {widget.toPlainText()}")
        if isinstance(widget, QLabel) and label_cut(widget):
            found.append(f"{widget.objectName()}: {widget.text()}")
    return found


def words_cut(block: QTextBrowser) -> bool:
    size = block.document().size()
    return size.height() > block.viewport().height() or size.width() > block.viewport().width()


def label_cut(label: QLabel) -> bool:
    if label.wordWrap():
        return label.heightForWidth(label.width()) > label.height()
    return label.objectName() != "chatTitle" and label.sizeHint().width() > label.width()


async def small(open_app: OpenApp, engine: FakeEngine, folder: Path) -> App:
    """A window of 900 x 600 with a long chat, pictures, alternatives and a left-out line."""
    app = await open_app()
    app.window.resize(900, 600)
    (folder / "a.png").write_bytes(png(300, 200))
    for question in QUESTIONS:
        drop(app, files([folder / "a.png"]))
        await until(lambda: app.parts.chat.draft.pictures and app.parts.chat.draft.complete)
        (await send(app, engine, question)).finish("A reply of some words. " * 30)
        await ended(app)
    press(app, "regenerate")
    await until(lambda: len(engine.asked) > len(QUESTIONS))
    engine.asked[-1].finish("Again.")
    await ended(app)
    chat = app.parts.transcript.chat
    assert chat is not None
    await app.parts.database.run(chats.leave_out, chat, app.parts.transcript.rows[5].id)
    await app.parts.chat.show_again(chat)
    await until(lambda: any(row.first_in_prompt for row in app.parts.transcript.rows))
    await settle()
    return app


@pytest.mark.parametrize(
    ("widths", "percents"),
    [((531, 1280), (150,)), pytest.param((700, 900), (85, 130), marks=pytest.mark.slow)],
)
async def test_nothing_is_cut_in_a_small_window_or_in_another_text_size(
    open_app: OpenApp,
    engine: FakeEngine,
    tmp_path: Path,
    widths: tuple[int, ...],
    percents: tuple[int, ...],
) -> None:
    app = await small(open_app, engine, tmp_path)
    bar = app.window.page.transcript.verticalScrollBar()
    for width in widths:
        app.window.resize(width, 600)
        await settle()
        for place in (0, bar.maximum() // 2, bar.maximum()):
            bar.setValue(place)
            await settle()
            assert cut(app.window.page) == [], width
    before = app.window.page.composer.text.font().pointSizeF()
    app.window.resize(1400, 800)
    for percent in percents:
        app.parts.settings.set_value("window.text_size", percent)
        await settle()
        size = app.window.page.composer.text.font().pointSizeF()
        assert size == pytest.approx(before * percent / 100, abs=0.1)
        for page in (0, 1):
            app.window.side_panel.show_page(page)
            await settle()
            assert app.window.side_panel.isVisible()
            assert cut(app.window.page) + cut(app.window.side_panel) == [], percent
        icons = app.window.page.findChildren(IconButton)
        assert {each.iconSize().width() for each in icons} <= {theme.px(16), theme.px(12)}
    app.parts.settings.set_value("window.text_size", 100)
    await settle()
    assert app.window.page.composer.text.font().pointSizeF() == before


async def test_text_and_composer_have_one_width_with_and_without_a_scroll_bar(
    app: App, engine: FakeEngine
) -> None:
    page, seen = app.window.page, set()
    widths = (600, 900, 1280, 1700)
    for reply in ("Short.", "Long.\n\n" * 60):
        (await send(app, engine, "Hello")).finish(reply)
        row = await ended(app)
        for width in widths:
            app.window.resize(width, 600)
            await settle()
            left = row.mapTo(page, row.rect().topLeft()).x()
            seen.add((width, left, row.width()))
            assert page.composer.mapTo(page, page.composer.rect().topLeft()).x() == left
            assert page.composer.width() == row.width()
    assert page.transcript.verticalScrollBar().maximum() > 0
    assert len(seen) == len(widths)


@pytest.mark.parametrize(("path", "samples"), [("/models/stand-in", 3), (str(DEMO_MODEL), 6)])
async def test_the_empty_page_is_whole_in_a_small_window(
    open_app: OpenApp, engine: FakeEngine, path: str, samples: int
) -> None:
    engine.model_to_load = model_info(path=path)
    app = await open_app()
    await until(lambda: app.parts.engine.model is not None)
    for width in (531, 900, 1280):
        app.window.resize(width, 420)
        await settle()
        assert app.window.size() == QSize(width, 420)
        assert cut(app.window.page) == []
        found = [app.window.findChild(QWidget, f"sample{number}") for number in range(1, 7)]
        shown = [each for each in found if each is not None and each.isVisible()]
        assert len(shown) == samples
        # None covers another one.
        places = [each.geometry() for each in shown]
        assert not any(one.intersects(other) for one, other in combinations(places, 2))
        said = child(app.window, QWidget, "emptyModel")
        assert said.isVisible() == (samples == 6)
        # A sentence each on precision, context and cache, as this computer allows them.
        defaults = child(app.window, QLabel, "emptyDefaults")
        assert defaults.isVisible() == (samples == 6)
        assert [line.partition(":")[0] for line in defaults.text().splitlines()] == [
            "Precision", "Context", "Cache",
        ]  # fmt: skip
        # A page higher than the window scrolls, and the field stays whole.
        composer = app.window.page.composer
        assert composer.mapTo(app.window, composer.rect().bottomLeft()).y() < app.window.height()
    app.parts.settings.set_value("window.text_size", 150)
    for width in (1280, 750):
        app.window.resize(width, 600)
        await settle()
        buttons = app.window.page.empty.findChildren(QPushButton)
        narrow = [each for each in buttons if each.width() < each.sizeHint().width()]
        assert [each.text() for each in narrow if each.isVisible()] == []


async def test_an_error_and_its_remedy_are_whole_in_a_small_window(
    app: App, engine: FakeEngine
) -> None:
    """While the engine is silent or has failed, nothing else in the row can be used."""
    await until(lambda: app.parts.engine.model is not None)
    app.window.resize(900, 600)
    header = app.window.page.header
    for words in ("", "The engine crashed (SIGSEGV)."):
        engine.tell(EngineState.FAILED if words else EngineState.SILENT, words)
        await settle()
        assert cut(header) == []
        for name in ("engineState", "restartEngine"):
            shown = child(header, QWidget, name)
            assert shown.isVisible()
            assert shown.width() >= shown.sizeHint().width(), name
        engine.tell(EngineState.READY)
        await settle()
        title = child(header, QWidget, "chatTitle")
        assert title.isVisible()
