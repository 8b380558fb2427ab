from __future__ import annotations

import re
from itertools import product

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from core.client.programs import RESOURCES
from desktop import theme
from desktop.theme import Colours, Scheme

pytestmark = pytest.mark.usefixtures("dressed")

ICONS = sorted(path.stem for path in (RESOURCES / "icons").glob("*.svg"))
PAGES = ("window", "side", "surface", "raised")
# Words on what lies behind them.
WORDS = (
    *product(("text",), (*PAGES, "hover", "user_bubble", "accent_soft", "code_background")),
    *product(("text",), ("warning_soft", "danger_soft")),
    *product(("muted",), (*PAGES, "hover", "room", "user_bubble", "code_background")),
    *product(("link",), (*PAGES, "user_bubble")),
    *product(("danger", "warning"), ("window", "side", "surface")),
    ("danger", "danger_soft"),
    ("on_accent", "accent"),
    ("on_accent", "accent_hover"),
    ("on_danger", "danger"),
    ("selection_text", "selection"),
    ("window", "text"),
    ("code_text", "code_background"),
    *product(
        [name for name in Colours.__dataclass_fields__ if name.startswith("syntax_")],
        ("code_background",),
    ),
)
# Marks that carry meaning, on what lies behind them.
MARKS = (
    *product(("slab", "memory", "disk", "checkpoint", "accent"), ("window", "side")),
    *product(("reused", "evaluated", "reply"), ("window", "side")),
    # Told apart in grey too: the context in use from what lies in memory.
    ("slab", "memory"),
    *product(("border_strong",), ("window", "surface")),
)


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    found = QColor(colour)
    channels = (found.redF(), found.greenF(), found.blueF())
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_the_measure_of_contrast_is_the_usual_one() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(WORDS, 4.5), (MARKS, 3.0)], ids=["words", "marks"])
def test_everything_stands_out_enough(
    scheme: Scheme, pairs: tuple[tuple[str, str], ...], least: float
) -> None:
    table = theme.read_colours(scheme)
    weak = {
        pair: round(contrast(getattr(table, pair[0]), getattr(table, pair[1])), 2)
        for pair in pairs
        if contrast(getattr(table, pair[0]), getattr(table, pair[1])) < least
    }
    assert weak == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_style_sheet_knows_every_colour_it_names(scheme: Scheme) -> None:
    sheet = theme.style_sheet(scheme)
    assert "@" not in sheet
    assert theme.read_colours(scheme).accent in sheet
    files = re.findall(r'url\("(.+?)"\)', sheet)
    assert files
    assert all((RESOURCES / "themes" / name.rpartition("/")[2]).is_file() for name in files)


def test_forcing_a_theme_changes_palette_and_sheet_and_says_so(
    qapp: QApplication, qtbot: QtBot
) -> None:
    dark = theme.read_colours("dark")
    with qtbot.waitSignal(theme.signals().changed):
        theme.force(qapp, "dark")
    assert theme.colours() == dark
    assert qapp.palette().color(QPalette.ColorRole.Window) == QColor(dark.window)
    assert dark.window in qapp.styleSheet()


def test_the_system_is_followed_live_unless_the_user_has_chosen(
    qapp: QApplication, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theme, "_system_scheme", lambda: "dark")
    qapp.styleHints().colorSchemeChanged.emit(Qt.ColorScheme.Dark)
    assert theme.signals().scheme == "light"
    monkeypatch.undo()
    theme.force(qapp, "system")
    monkeypatch.setattr(theme, "_system_scheme", lambda: "dark")
    with qtbot.waitSignal(theme.signals().changed):
        qapp.styleHints().colorSchemeChanged.emit(Qt.ColorScheme.Dark)
    assert theme.signals().scheme == "dark"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_icon_is_drawn_in_the_themes_colour(qapp: QApplication, scheme: Scheme) -> None:
    theme.force(qapp, scheme)
    for name in ICONS:
        image = theme.icon(name).pixmap(32, 32).toImage()
        pixels = product(range(image.width()), range(image.height()))
        seen = [image.pixelColor(x, y) for x, y in pixels]
        solid = [colour for colour in seen if colour.alpha() == 255]
        assert solid, name
        assert all(is_nearly(colour, QColor(theme.colours().text)) for colour in solid), name


def is_nearly(one: QColor, other: QColor) -> bool:
    """Equal but for the rounding of blending."""
    reds, greens, blues = (
        abs(one.red() - other.red()),
        abs(one.green() - other.green()),
        abs(one.blue() - other.blue()),
    )
    return max(reds, greens, blues) <= 2


def test_a_property_set_later_takes_effect_after_restyle(qtbot: QtBot) -> None:
    label = QLabel("words")
    qtbot.addWidget(label)
    label.show()
    label.setProperty("class", "error")
    theme.restyle(label)
    shown = label.palette().color(QPalette.ColorRole.WindowText)
    assert shown == QColor(theme.colours().danger)
