"""The look of the app: colour tables, style sheet, icons, text size.

Widgets are styled by objectName and property in style.qss; painters use `colours()`.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, fields
from functools import cache
from typing import Literal

from PySide6.QtCore import QByteArray, QObject, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QFontInfo,
    QGuiApplication,
    QIcon,
    QPainter,
    QPalette,
    QPixmap,
)
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication, QStyleFactory, QWidget

from core.client.programs import RESOURCES

Scheme = Literal["light", "dark"]
Choice = Literal["light", "dark", "system"]

# Points; Windows' default is 9, which is too small for pages of text.
SMALLEST_FONT = 10.0
# Pixels; includes doubles for high-resolution screens.
ICON_SIZES = (16, 20, 24, 32, 40, 48, 64)


@dataclass(frozen=True, slots=True)
class Colours:
    window: str
    side: str
    surface: str
    raised: str
    hover: str
    border: str
    border_strong: str
    scroll: str
    text: str
    muted: str
    disabled: str
    link: str
    accent: str
    accent_hover: str
    accent_soft: str
    on_accent: str
    user_bubble: str
    danger: str
    danger_soft: str
    on_danger: str
    warning: str
    warning_soft: str
    selection: str
    selection_text: str
    slab: str
    memory: str
    disk: str
    reused: str
    evaluated: str
    reply: str
    room: str
    image: str
    checkpoint: str
    code_background: str
    code_text: str
    syntax_keyword: str
    syntax_string: str
    syntax_number: str
    syntax_comment: str
    syntax_name: str
    syntax_type: str


class Theme(QObject):
    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.choice: Choice = "system"
        self.scheme: Scheme = "light"
        # Percent of `usual_points`.
        self.text_size = 100
        self.usual_points = 0.0
        self._follows_system = False
        self._dressed: tuple[Scheme, int] | None = None

    def follow_system(self) -> None:
        if not self._follows_system:
            QGuiApplication.styleHints().colorSchemeChanged.connect(self.refresh)
            self._follows_system = True

    def refresh(self) -> None:
        app = QApplication.instance()
        scheme = self.choice if self.choice != "system" else _system_scheme()
        wanted = (scheme, self.text_size)
        # Setting a style sheet restyles every widget.
        if isinstance(app, QApplication) and (wanted != self._dressed or not app.styleSheet()):
            self.scheme, self._dressed = scheme, wanted
            # Replacing one style sheet by another takes Qt three times as long.
            app.setStyleSheet("")
            app.setFont(self._font(app.font()))
            app.setPalette(_palette(read_colours(scheme)))
            app.setStyleSheet(style_sheet(scheme, self.text_size))
            self.changed.emit()

    def _font(self, font: QFont) -> QFont:
        if not self.usual_points:
            self.usual_points = max(SMALLEST_FONT, QFontInfo(font).pointSizeF())
        font.setPointSizeF(self.usual_points * self.text_size / 100)
        return font


@cache
def signals() -> Theme:
    return Theme()


def apply(app: QApplication) -> None:
    """Follows the system's theme from now on."""
    app.setStyle(QStyleFactory.create("Fusion"))
    signals().follow_system()
    signals().refresh()


def force(app: QApplication, choice: Choice) -> None:
    hints = app.styleHints()
    signals().choice = choice
    if choice == "system":
        hints.unsetColorScheme()
    else:
        # For the window's frame, which the system draws.
        dark = choice == "dark"
        hints.setColorScheme(Qt.ColorScheme.Dark if dark else Qt.ColorScheme.Light)
    signals().refresh()


def set_text_size(percent: int) -> None:
    signals().text_size = percent
    signals().refresh()


def px(pixels: int) -> int:
    return round(pixels * signals().text_size / 100)


def icon_size(pixels: int) -> QSize:
    return QSize(px(pixels), px(pixels))


def fixed_font() -> QFont:
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setPointSizeF(QApplication.font().pointSizeF())
    return font


def colours() -> Colours:
    return read_colours(signals().scheme)


def icon(name: str, colour: str = "text") -> QIcon:
    """In a colour token; fetch again when the theme changes."""
    return _icon(name, colour, signals().scheme)


def restyle(widget: QWidget) -> None:
    """Call after its properties have changed."""
    widget.style().unpolish(widget)
    widget.style().polish(widget)


def set_class(widget: QWidget, name: str) -> None:
    """The property by which the style sheet selects."""
    if widget.property("class") != name:
        widget.setProperty("class", name)
        restyle(widget)


@cache
def read_colours(scheme: Scheme) -> Colours:
    text = (RESOURCES / "themes" / f"{scheme}.toml").read_text(encoding="utf-8")
    return Colours(**tomllib.loads(text))


def _system_scheme() -> Scheme:
    dark = QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark
    return "dark" if dark else "light"


def style_sheet(scheme: Scheme, text_size: int = 100) -> str:
    table = read_colours(scheme)
    source = (RESOURCES / "themes" / "style.qss").read_text(encoding="utf-8")
    without_comments = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    values = {field.name: getattr(table, field.name) for field in fields(table)}
    values |= {"themes": (RESOURCES / "themes").as_posix(), "scheme": scheme}
    sheet = re.sub(r"@([a-z_]+)", lambda found: str(values[found[1]]), without_comments)
    return re.sub(
        r"(?<=(?:font|icon)-size: )(\d+)",
        lambda found: str(round(int(found[1]) * text_size / 100)),
        sheet,
    )


def _palette(table: Colours) -> QPalette:
    role = QPalette.ColorRole
    palette = QPalette(QColor(table.raised), QColor(table.window))
    for colour_role, value in {
        role.Window: table.window,
        role.WindowText: table.text,
        role.Base: table.surface,
        role.AlternateBase: table.side,
        role.Text: table.text,
        role.Button: table.raised,
        role.ButtonText: table.text,
        role.BrightText: table.on_accent,
        role.ToolTipBase: table.raised,
        role.ToolTipText: table.text,
        role.PlaceholderText: table.muted,
        role.Highlight: table.selection,
        role.HighlightedText: table.selection_text,
        role.Accent: table.accent,
        role.Link: table.link,
        role.LinkVisited: table.link,
    }.items():
        palette.setColor(colour_role, QColor(value))
    for colour_role in (role.WindowText, role.Text, role.ButtonText, role.HighlightedText):
        palette.setColor(QPalette.ColorGroup.Disabled, colour_role, QColor(table.disabled))
    return palette


@cache
def _icon(name: str, colour: str, scheme: Scheme) -> QIcon:
    drawing = (RESOURCES / "icons" / f"{name}.svg").read_text(encoding="utf-8")
    table = read_colours(scheme)
    result = QIcon()
    for mode, tint in (
        (QIcon.Mode.Normal, getattr(table, colour)),
        (QIcon.Mode.Disabled, table.disabled),
    ):
        tinted = QByteArray(drawing.replace("currentColor", tint).encode())
        for size in ICON_SIZES:
            result.addPixmap(_drawn(QSvgRenderer(tinted), size), mode)
    return result


def _drawn(renderer: QSvgRenderer, size: int) -> QPixmap:
    pixmap = QPixmap(size, size)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    renderer.render(painter)
    painter.end()
    return pixmap
