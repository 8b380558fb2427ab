"""Saves pictures of every widget with sample data: python -m tests.desktop.widgets.gallery OUT.

For looking at, not for comparing: fonts differ between machines.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QListWidget,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from core.api.events import ImageRendered
from core.client.programs import RESOURCES
from desktop import theme
from desktop.chat.markdown.markdown_body import MarkdownBody
from desktop.chat.numbers_line import NumbersLine
from desktop.chat.reasoning_fold import ReasoningFold
from desktop.context.context_panel import ContextPanel
from desktop.context.context_strip import ContextStrip
from desktop.context.strip import Strip
from desktop.pictures.picture import PictureThumbnail
from desktop.pictures.picture_viewer import PictureViewer
from desktop.store.tables.records import Picture
from desktop.widgets.icon_button import IconButton
from tests.desktop.widgets import samples


def framed(name: str, layout_margins: int = 16) -> tuple[QFrame, QVBoxLayout]:
    frame = QFrame()
    frame.setProperty("class", name)
    layout = QVBoxLayout(frame)
    layout.setContentsMargins(*[layout_margins] * 4)
    layout.setSpacing(10)
    return frame, layout


def bubble(role: str) -> tuple[QFrame, QVBoxLayout]:
    frame, layout = framed("messageBubble", 14)
    frame.setProperty("role", role)
    return frame, layout


def button(words: str, style_class: str = "", icon: str = "", enabled: bool = True) -> QPushButton:
    result = QPushButton(words)
    result.setProperty("class", style_class)
    result.setEnabled(enabled)
    if icon:
        result.setIcon(theme.icon(icon, "on_accent" if style_class == "primary" else "text"))
    return result


def composer(caption: str) -> QFrame:
    frame, layout = framed("composer", 12)
    frame.setObjectName("composer")
    pictures = QHBoxLayout()
    picture = samples.png(samples.landscape())
    pictures.addWidget(PictureThumbnail(picture, caption, True))
    pictures.addWidget(PictureThumbnail(b"", "reading\N{HORIZONTAL ELLIPSIS}", True))
    pictures.addStretch(1)
    text = QPlainTextEdit("How high is the front peak?")
    text.setObjectName("composerText")
    text.setFixedHeight(48)
    row = QHBoxLayout()
    row.addWidget(IconButton("picture", "Add a picture"))
    row.addStretch(1)
    row.addWidget(button("Send", "primary", "send"))
    layout.addLayout(pictures)
    layout.addWidget(text)
    layout.addLayout(row)
    return frame


def chat_page() -> QWidget:
    caption = "4000 x 3000 \N{RIGHTWARDS ARROW} 1184 x 864, 999 tokens"
    transcript = QWidget()
    transcript.setObjectName("transcriptContent")
    column = QVBoxLayout(transcript)
    column.setContentsMargins(28, 24, 28, 20)
    column.setSpacing(18)
    asked, layout = bubble("user")
    layout.addWidget(PictureThumbnail(samples.png(samples.landscape()), caption, False))
    question = MarkdownBody()
    question.set_text("How many peaks are there?")
    layout.addWidget(question)
    asked.setMaximumWidth(460)
    column.addWidget(asked, alignment=Qt.AlignmentFlag.AlignRight)
    reasoning = ReasoningFold()
    reasoning.set_text(samples.REASONING)
    reasoning.set_open(True)
    reply = MarkdownBody()
    reply.set_text(samples.REPLY)
    numbers = NumbersLine()
    numbers.show_stats(samples.second_turn())
    for widget in (reasoning, reply, numbers):
        column.addWidget(widget)
    column.addStretch(1)
    column.addWidget(composer(caption))
    panel = ContextPanel()
    panel.setObjectName("contextSide")
    panel.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    panel.setFixedWidth(310)
    panel.show_view(samples.view(samples.second_turn()))
    return beside(transcript, panel)


def parts_page() -> QWidget:
    left, column = framed("panel", 24)
    for stats in (samples.first_words(), samples.second_turn(), samples.long_chat()):
        strip = ContextStrip()
        strip.show_strip(Strip.of_request(stats))
        column.addWidget(strip)
    reading = ContextStrip()
    reading.show_strip(Strip.of_request(samples.long_chat(), done=13_400))
    column.addWidget(reading)
    numbers = NumbersLine()
    numbers.show_stats(samples.long_chat())
    numbers.set_open(True)
    column.addWidget(numbers)
    thinking = ReasoningFold()
    thinking.set_running(True)
    column.addWidget(thinking)
    column.addWidget(controls())
    column.addWidget(toasts())
    column.addStretch(1)
    panels = []
    for show in ("empty", "live", "miss"):
        panel = ContextPanel()
        panel.setFixedWidth(290)
        shown = None if show == "empty" else samples.long_chat()
        panel.show_view(samples.view(shown, 13_400 if show == "live" else None))
        panels.append(panel)
    return beside(left, *panels)


def controls() -> QWidget:
    card, layout = framed("card")
    title = QLabel("A title, and a group of controls")
    title.setProperty("class", "title")
    layout.addWidget(title)
    row = QHBoxLayout()
    for each in (
        button("Send", "primary", "send"),
        button("Send", "primary", "send", enabled=False),
        button("Choose a model"),
        button("Regenerate", "flat", "regenerate"),
        button("Delete", "danger"),
    ):
        row.addWidget(each)
    row.addStretch(1)
    layout.addLayout(row)
    fields = QHBoxLayout()
    choice = QComboBox()
    choice.addItems(["CPU", "GPU"])
    number = QSpinBox()
    number.setRange(0, 256)
    number.setValue(32)
    number.lineEdit().setTextMargins(7, 0, 0, 0)
    check = QCheckBox("Read ahead")
    check.setChecked(True)
    chip = QLabel("vision")
    chip.setProperty("class", "chip")
    for widget in (QLineEdit("Search the chats"), choice, number, check, chip):
        fields.addWidget(widget)
    layout.addLayout(fields)
    chats = QListWidget()
    chats.setObjectName("chatList")
    chats.addItems(["Three peaks", "A receipt in Danish", "Which screw is this?"])
    chats.setCurrentRow(1)
    chats.setFixedHeight(110)
    layout.addWidget(chats)
    icons = QHBoxLayout()
    for path in sorted((RESOURCES / "icons").glob("*.svg")):
        icons.addWidget(IconButton(path.stem, path.stem))
    icons.setSpacing(0)
    layout.addLayout(icons)
    return card


def toasts() -> QWidget:
    holder = QWidget()
    row = QHBoxLayout(holder)
    row.setContentsMargins(0, 0, 0, 0)
    for kind, words in (
        ("info", "Chat deleted."),
        ("warning", "The context is almost full."),
        ("error", "The engine stopped."),
    ):
        frame = QFrame()
        frame.setObjectName("toast")
        frame.setProperty("kind", kind)
        layout = QHBoxLayout(frame)
        layout.addWidget(QLabel(words))
        layout.addWidget(QPushButton("Undo"))
        row.addWidget(frame)
    return holder


def viewer() -> PictureViewer:
    large = samples.landscape(1600, 1200).convertToFormat(QImage.Format.Format_RGBA8888)
    picture = Picture("0" * 64, "hills", (1600, 1200), thumbnail=samples.png(samples.landscape()))
    window = PictureViewer(picture)
    pixels = ImageRendered(request=0, width=1600, height=1200, pixels=bytes(large.constBits()))
    window.pixels_wanted.connect(lambda _width, _height: window.show_pixels(pixels))
    window.resize(760, 560)
    return window


def beside(*widgets: QWidget) -> QWidget:
    page = QWidget()
    row = QHBoxLayout(page)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(0)
    for widget in widgets:
        row.addWidget(widget)
    return page


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    app = QApplication(sys.argv[:1])
    theme.apply(app)
    for scheme in ("light", "dark"):
        theme.force(app, "dark" if scheme == "dark" else "light")
        for name, page in (("chat", chat_page()), ("parts", parts_page())):
            area = QScrollArea()
            area.setWidget(page)
            area.setWidgetResizable(True)
            area.resize(*((1120, 1500) if name == "chat" else (1980, 1100)))
            save(app, area, folder / f"{name}-{scheme}.png")
        save(app, viewer(), folder / f"viewer-{scheme}.png")


def save(app: QApplication, widget: QWidget, path: Path) -> None:
    widget.show()
    # Layouts settle over several rounds: widths first, then the heights that follow from them.
    for _ in range(20):
        app.processEvents()
    widget.grab().save(str(path))
    widget.close()
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
