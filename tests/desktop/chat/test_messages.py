"""A message's buttons and numbers: one row, seen where the reader is, in little room."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QEnterEvent, QPixmap
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QApplication,
    QFrame,
    QMenu,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

from core.api.errors import PromptTooLongError
from desktop.app import App
from desktop.chat.markdown.block_text import BlockText
from desktop.chat.markdown.code_block import CodeBlock
from desktop.chat.message_editor import ComposerText
from desktop.chat.message_row import MessageRow
from desktop.settings.setting_rows import WINDOW_ROWS
from desktop.widgets.icon_button import CopyButton
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, model_info
from tests.desktop.hands import ended, find, press, send, settle, user_rows
from tests.desktop.window.test_window import STATS


async def talk(open_app: OpenApp, engine: FakeEngine, count: int = 2) -> App:
    app = await open_app()
    for number in range(count):
        (await send(app, engine, f"Question {number}")).finish(f"Answer {number}", stats=STATS)
        await ended(app)
    await settle()
    return app


def drawn(button: QWidget) -> bool:
    """Whether a button is seen: what it is drawn on differs from its surroundings."""
    row: QWidget | None = button
    while not isinstance(row, MessageRow):
        assert row is not None
        row = row.parentWidget()
    picture: QPixmap = row.grab()
    image = picture.toImage()
    corner = button.mapTo(row, button.rect().topLeft())
    ratio = picture.devicePixelRatio()
    colours = {
        image.pixelColor(int((corner.x() + x) * ratio), int((corner.y() + y) * ratio)).name()
        for x in range(button.width())
        for y in range(button.height())
    }
    return len(colours) > 1


def copy_of(row: MessageRow) -> CopyButton:
    button = row.findChild(CopyButton, "copyMessage")
    assert isinstance(button, CopyButton)
    return button


def point_at(row: MessageRow) -> None:
    at = QPointF(5, 5)
    QApplication.sendEvent(row, QEnterEvent(at, at, at))


async def test_buttons_are_seen_for_the_last_reply_and_where_the_pointer_is(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await talk(open_app, engine)
    rows = app.window.page.transcript.row_widgets
    assert [drawn(copy_of(row)) for row in rows] == [False, False, False, True]
    assert rows[2].y() - rows[0].y() < 150
    numbers = rows[-1].findChild(QWidget, "numbersText")
    assert isinstance(numbers, QWidget)
    middles = [
        each.mapTo(rows[-1], each.rect().center()).y() for each in (copy_of(rows[-1]), numbers)
    ]
    assert abs(middles[0] - middles[1]) < 6
    heights = [row.height() for row in rows]
    for row in rows[:3]:
        row.setAttribute(Qt.WidgetAttribute.WA_UnderMouse)
        point_at(row)
        assert drawn(copy_of(row))
        row.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
        QApplication.sendEvent(row, QEvent(QEvent.Type.Leave))
        assert not drawn(copy_of(row))
    assert [row.height() for row in rows] == heights


async def test_a_button_that_is_not_seen_is_reached_by_tab_and_seen_then(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await talk(open_app, engine)
    app.window.activateWindow()
    button = copy_of(app.window.page.transcript.row_widgets[0])
    assert button.focusPolicy() & Qt.FocusPolicy.TabFocus and button.isVisible()
    button.setFocus(Qt.FocusReason.TabFocusReason)
    await until(button.hasFocus)
    assert drawn(button)
    app.window.page.composer.setFocus()
    await until(lambda: not button.hasFocus())
    assert not drawn(button)


def says(button: CopyButton, words: str) -> bool:
    return button.accessibleName() == words


async def test_copying_is_confirmed_with_a_tick(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await talk(open_app, engine, 1)
    for row in app.window.page.transcript.row_widgets:
        button = copy_of(row)
        button._copied.setInterval(50)
        before = (button.accessibleName(), button.icon().cacheKey())
        button.click()
        assert button.accessibleName() == "Copied"
        assert button.icon().cacheKey() != before[1]
        await until(partial(says, button, before[0]))


async def test_for_a_message_longer_than_the_context_only_what_helps_is_offered(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    engine.model_to_load = model_info(context_length=1_000)
    app = await talk(open_app, engine, 1)
    asked = await send(app, engine, "a book")
    asked.fail(PromptTooLongError("3,000 of 1,000.", 3_000).info())
    await ended(app)
    names = ("limitEdit", "limitLonger", "limitDrop", "limitSummary", "limitCancel")
    seen = {name for name in names if find(app, QAbstractButton, name).isVisible()}
    assert seen == {"limitEdit", "limitLonger"}
    assert "4,096 tokens (4.2 MB)" in find(app, QAbstractButton, "limitLonger").text()
    press(app, "limitEdit")
    await settle()
    field = find(app, ComposerText, "editText")
    assert field.isVisible() and field.toPlainText() == "a book"


OWN = "Is **this** right?\nA line, `code`\n\n```py\nx = 1\n```\nhttps://example.org"


def shown_of(row: MessageRow) -> list[str]:
    fields = row.findChildren(QTextEdit) + row.findChildren(QPlainTextEdit)
    seen = [field for field in fields if field.isVisible()]
    return [field.createMimeDataFromSelection().text() for field in seen if not field.selectAll()]


async def test_a_message_of_yours_is_formatted_and_copied_as_typed(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    (await send(app, engine, OWN)).finish("Yes.")
    await ended(app)
    await settle()
    row = user_rows(app)[0]
    assert shown_of(row) == ["Is this right?\nA line, code", "https://example.org", "x = 1"]
    assert row.findChildren(CodeBlock)[0].language() == "py"
    copy_of(row).click()
    assert QApplication.clipboard().text() == OWN
    QApplication.clipboard().clear()
    asked: list[str] = []
    app.window.page.transcript.messages.link_asked.connect(asked.append)
    row.findChildren(BlockText)[1].web_link.emit("https://example.org")
    assert asked == ["https://example.org"]


async def test_messages_of_yours_are_shown_as_typed_where_that_is_set(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    (await send(app, engine, OWN)).finish("**Yes.**")
    await ended(app)
    settings = app.parts.settings
    assert WINDOW_ROWS[-1].key == "window.format_messages"
    for formatted, shown in ((False, OWN), (True, "x = 1")):
        settings.set_value(WINDOW_ROWS[-1], formatted)
        await settle()
        assert shown_of(user_rows(app)[0])[-1] == shown
    # A reply is formatted all the same.
    assert shown_of(app.window.page.transcript.row_widgets[1]) == ["Yes."]


async def test_the_bubble_is_as_wide_as_what_is_in_it(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    widths = []
    for text in ("Hi", "# Hi there you", "```\n" + "x" * 60 + "\n```", "word " * 200):
        (await send(app, engine, text)).finish("Yes.")
        await ended(app)
        await settle()
        bubble = user_rows(app)[-1].findChild(QFrame, "userBubble")
        assert isinstance(bubble, QFrame)
        widths.append(bubble.width())
        for field in bubble.findChildren(QPlainTextEdit):
            assert field.horizontalScrollBar().maximum() == 0
    assert widths == sorted(set(widths))
    assert widths[0] < 80


def right_click(app: App, widget: QWidget) -> list[str]:
    """What the menu offers that opens there; '' is a line between two parts."""
    target = widget.viewport() if isinstance(widget, QAbstractScrollArea) else widget
    place = QPoint(3, 3)
    mouse = QContextMenuEvent.Reason.Mouse
    QApplication.sendEvent(target, QContextMenuEvent(mouse, place, target.mapToGlobal(place)))
    menu = QApplication.activePopupWidget()
    if not isinstance(menu, QMenu):
        return []
    said = [each.text().partition("\t")[0].replace("&", "") for each in menu.actions()]
    menu.close()
    return said


async def test_a_messages_menu_offers_what_can_be_done_with_it(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    (await send(app, engine, "Hello")).finish("An answer", reason="cancelled")
    reply = await ended(app)
    await settle()
    question = user_rows(app)[0]
    for row, expected in (
        (
            question,
            ["Copy the message", "Edit the message and send it again", "Fork into a new chat"],
        ),
        (
            reply,
            [
                "Copy the reply",
                "Write another reply",
                "Fork into a new chat",
                "Continue the reply from where it ends",
            ],
        ),
    ):
        # Over a gap, and over the text.
        assert right_click(app, row) == expected
        text = row.findChild(BlockText)
        assert text is not None
        over_text = right_click(app, text)
        assert over_text[-len(expected) - 1 :] == ["", *expected]
        assert "Copy" in over_text and "Select all" in over_text
    asked = await send(app, engine, "More")
    # There is nothing to be done yet with a reply that is being written.
    running = app.window.page.transcript.row_widgets[-1]
    assert right_click(app, running) == []
    asked.finish("Yes.")
    await ended(app)
