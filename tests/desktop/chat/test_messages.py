from __future__ import annotations

from functools import partial

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QContextMenuEvent, QEnterEvent
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
from desktop.chat.compose.composer_text import ComposerText
from desktop.chat.markdown.block_text import BlockText
from desktop.chat.markdown.code_block import CodeBlock
from desktop.chat.rows.message_row import MessageRow
from desktop.widgets.icon_button import CopyButton
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, model_info
from tests.desktop.hands import child, ended, find, press, send, settle, user_rows
from tests.desktop.window.test_window import STATS


async def say(app: App, engine: FakeEngine, question: str, answer: str = "Yes.") -> MessageRow:
    (await send(app, engine, question)).finish(answer, stats=STATS)
    row = await ended(app)
    await settle()
    return row


def drawn(button: QWidget) -> bool:
    """True if its area differs from its surroundings."""
    row: QWidget | None = button
    while not isinstance(row, MessageRow):
        assert row is not None
        row = row.parentWidget()
    picture = row.grab()
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
    return child(row, CopyButton, "copyMessage")


def says(button: CopyButton, words: str) -> bool:
    return button.accessibleName() == words


async def test_a_message_makes_no_window_that_outlives_it(app: App, engine: FakeEngine) -> None:
    await say(app, engine, "Hello")
    assert [each for each in QApplication.topLevelWidgets() if each.parent() is None] == [
        app.window
    ]


async def test_buttons_are_seen_for_the_last_reply_and_where_pointer_or_keyboard_are(
    app: App, engine: FakeEngine
) -> None:
    for number in range(2):
        await say(app, engine, f"Question {number}", f"Answer {number}")
    rows = app.window.page.transcript.row_widgets
    assert [drawn(copy_of(row)) for row in rows] == [False, False, False, True]
    assert rows[2].y() - rows[0].y() < 150
    numbers = child(rows[-1], QWidget, "numbersText")
    middles = [
        each.mapTo(rows[-1], each.rect().center()).y() for each in (copy_of(rows[-1]), numbers)
    ]
    assert abs(middles[0] - middles[1]) < 6
    heights = [row.height() for row in rows]
    for row in rows[:3]:
        row.setAttribute(Qt.WidgetAttribute.WA_UnderMouse)
        at = QPointF(5, 5)
        QApplication.sendEvent(row, QEnterEvent(at, at, at))
        assert drawn(copy_of(row))
        row.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
        QApplication.sendEvent(row, QEvent(QEvent.Type.Leave))
        assert not drawn(copy_of(row))
    assert [row.height() for row in rows] == heights
    await a_hidden_button_is_seen_while_it_has_the_focus(app, copy_of(rows[0]))
    for row in rows[-2:]:
        await copying_is_confirmed(copy_of(row))


async def a_hidden_button_is_seen_while_it_has_the_focus(app: App, button: CopyButton) -> None:
    app.window.activateWindow()
    assert button.focusPolicy() & Qt.FocusPolicy.TabFocus and button.isVisible()
    button.setFocus(Qt.FocusReason.TabFocusReason)
    await until(button.hasFocus)
    assert drawn(button)
    app.window.page.composer.setFocus()
    await until(lambda: not button.hasFocus())
    assert not drawn(button)


async def copying_is_confirmed(button: CopyButton) -> None:
    button._copied.setInterval(50)
    name, icon = button.accessibleName(), button.icon().cacheKey()
    button.click()
    assert button.accessibleName() == "Copied" and button.icon().cacheKey() != icon
    await until(partial(says, button, name))


async def test_for_a_message_longer_than_the_context_only_what_helps_is_offered(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    engine.model_to_load = model_info(context_length=1_000)
    app = await open_app()
    await say(app, engine, "Hello")
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


async def test_a_users_message_is_formatted_or_shown_as_typed_and_copied_as_typed(
    app: App, engine: FakeEngine
) -> None:
    reply = await say(app, engine, OWN, "**Yes.**")
    row = user_rows(app)[0]
    assert shown_of(row) == ["Is this right?\nA line, code", "https://example.org", "x = 1"]
    assert row.findChildren(CodeBlock)[0].language() == "py"
    copy_of(row).click()
    assert QApplication.clipboard().text() == OWN
    QApplication.clipboard().clear()
    asked: list[str] = []
    app.window.page.transcript.messages.link_asked.connect(asked.append)
    row.findChildren(BlockText)[1].anchorClicked.emit(QUrl("https://example.org"))
    assert asked == ["https://example.org"]
    for formatted, shown in ((False, OWN), (True, "x = 1")):
        app.parts.settings.set_value("window.format_messages", formatted)
        await settle()
        assert shown_of(row)[-1] == shown
    # A reply is formatted all the same.
    assert shown_of(reply) == ["Yes."]
    await the_bubble_is_as_wide_as_its_content(app, engine)


async def the_bubble_is_as_wide_as_its_content(app: App, engine: FakeEngine) -> None:
    widths = []
    for text in ("Hi", "# Hi there you", "```\n" + "x" * 60 + "\n```", "word " * 200):
        await say(app, engine, text)
        bubble = child(user_rows(app)[-1], QFrame, "userBubble")
        widths.append(bubble.width())
        for field in bubble.findChildren(QPlainTextEdit):
            assert field.horizontalScrollBar().maximum() == 0
    assert widths == sorted(set(widths))
    assert widths[0] < 80


def right_click(widget: QWidget) -> list[str]:
    """The entries of the menu that opens there; '' is a separator."""
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


MORE = [
    *("", "Copy as plain text", "Copy as formatted text", "Quote in your message"),
    *("", "Insert above…", "Insert below…"),
    *("", "Delete"),
]
QUESTION_MENU = [
    *("Copy the message", "Edit the message and send it again", "Fork into a new chat"),
    *(*MORE, "Delete with its reply"),
]
REPLY_MENU = [
    *("Copy the reply", "Write another reply", "Fork into a new chat"),
    *("Continue the reply from where it stopped", *MORE[:5], "Edit the reply", *MORE[5:]),
]


async def test_a_messages_menu_offers_what_can_be_done_with_it(
    app: App, engine: FakeEngine
) -> None:
    (await send(app, engine, "Hello")).finish("An answer", reason="cancelled")
    reply = await ended(app)
    await settle()
    for row, expected in ((user_rows(app)[0], QUESTION_MENU), (reply, REPLY_MENU)):
        # Over a gap, and over the text.
        assert right_click(row) == expected
        text = child(row, BlockText)
        over_text = right_click(text)
        assert over_text[-len(expected) - 1 :] == ["", *expected]
        assert "Copy" in over_text and "Select all" in over_text
    await send(app, engine, "More")
    # There is nothing to be done yet with a reply in progress.
    assert right_click(app.window.page.transcript.row_widgets[-1]) == []
