from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox

from desktop import theme
from tests.desktop.conftest import OpenApp
from tests.desktop.hands import find


@pytest.fixture(autouse=True)
def as_usual(qapp: QApplication) -> Iterator[None]:
    yield
    theme.set_text_size(100)
    theme.force(qapp, "system")


async def test_theme_and_text_size_are_chosen_at_once_and_kept(
    open_app: OpenApp, qapp: QApplication
) -> None:
    app = await open_app()
    app.window.side_panel.show_page(1)
    find(app, QComboBox, "settingWindowTheme").setCurrentIndex(2)
    assert theme.signals().scheme == "dark"
    assert theme.read_colours("dark").window in qapp.styleSheet()
    usual, small = qapp.font().pointSizeF(), "font-size: 12px"
    assert small in qapp.styleSheet()
    box = find(app, QComboBox, "settingWindowTextSize")
    box.setCurrentIndex(box.findText("150 %"))
    assert qapp.font().pointSizeF() == pytest.approx(1.5 * usual)
    assert small not in qapp.styleSheet() and "font-size: 18px" in qapp.styleSheet()
    # Icons grow with the text.
    for name in ("newChat", "contextTab", "sendButton", "partModel"):
        assert find(app, QAbstractButton, name).iconSize() == QSize(24, 24), name
    app.leave()
    await app.gone.wait()
    theme.force(qapp, "light")
    theme.set_text_size(100)
    assert qapp.font().pointSizeF() == usual
    app = await open_app()
    assert theme.signals().scheme == "dark"
    for font in (qapp.font(), app.window.menuBar().font()):
        assert font.pointSizeF() == pytest.approx(1.5 * usual)
