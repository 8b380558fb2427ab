from __future__ import annotations

from datetime import datetime, timedelta

from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester

from desktop.chats.chat_list import CHAT_ROLE, FORKED_ROLE, ChatList, sections
from desktop.chats.trash import TrashList
from desktop.store.tables.fields import LAST_MOMENT
from desktop.store.tables.records import Chat
from desktop.widgets.two_lines import NOTE_ROLE
from desktop.window.window_parts import WindowParts
from tests.desktop.chat.test_chat import ask, ended
from tests.desktop.conftest import Loop, until
from tests.desktop.fake_engine import FakeEngine


def test_the_list_of_chats_is_a_proper_model(qloop: Loop) -> None:
    chats = ChatList()
    # Its warnings fail the test, as every Qt warning does.
    mode = QAbstractItemModelTester.FailureReportingMode.Warning
    QAbstractItemModelTester(chats, mode, chats)
    month = f"{datetime.fromtimestamp(0):%B %Y}"
    chats.show([Chat(7, "Old", 0, 0), Chat(9, "New", 1, 1, pinned=True)])
    assert [chats.index(at).data() for at in range(4)] == ["Pinned", "New", month, "Old"]
    assert [chats.index(at).data(CHAT_ROLE) for at in range(4)] == [None, 9, None, 7]
    assert [bool(chats.index(at).flags()) for at in range(4)] == [False, True, False, True]
    assert chats.index_of(7).row() == 3 and not chats.index_of(8).isValid()
    chats.set_busy(9, "Reading")
    assert chats.index(1).data().endswith("New")
    assert chats.index(1).data(Qt.ItemDataRole.AccessibleTextRole) == "New, Reading"
    assert chats.index(1).data(Qt.ItemDataRole.EditRole) == "New"
    chats.set_busy(9, "")
    assert chats.index(1).data() == "New"
    assert not chats.setData(chats.index(0), "Other")
    chats.search(" nE ")
    assert chats.shown == ["Pinned", chats.chats[1]] and not chats.index_of(7).isValid()
    # A title can be worked on while it is not shown.
    assert chats.chat_of(7) == chats.chats[0]
    chats.search("nothing")
    assert chats.rowCount() == 0
    chats.search("")
    assert chats.rowCount() == 4
    chats.show([])
    assert chats.rowCount() == 0


def test_chats_are_parted_by_the_days_of_the_user() -> None:
    noon = datetime(2025, 3, 30, 12)  # in much of Europe, a day of 23 hours
    days = {1: noon, 2: noon - timedelta(hours=12), 3: noon - timedelta(hours=13)}
    days |= {
        4: noon - timedelta(hours=36),
        5: noon - timedelta(hours=37),
        6: noon + timedelta(days=3),
    }
    chats = [Chat(number, "", 0, day.timestamp()) for number, day in days.items()]
    parted = sections(chats, noon.timestamp())
    assert {head: [chat.id for chat in members] for head, members in parted.items()} == {
        "Today": [1, 2, 6],
        "Yesterday": [3, 4],
        "Last 7 days": [5],
    }


def test_older_chats_are_parted_by_their_months() -> None:
    noon = datetime(2025, 3, 10, 12)
    days = [7, 8, 9, 10, 40, 41, 400]
    chats = [
        Chat(number, "", 0, (noon - timedelta(days=number)).timestamp(), pinned=number == 41)
        for number in days
    ]
    parted = sections(chats, noon.timestamp())
    assert [(head, [chat.id for chat in members]) for head, members in parted.items()] == [
        ("Pinned", [41]),
        ("Last 7 days", [7]),
        ("March 2025", [8, 9]),
        ("February 2025", [10]),
        ("January 2025", [40]),
        ("February 2024", [400]),
    ]


def test_a_fork_is_said_where_its_icon_is_not_seen(qloop: Loop) -> None:
    chats = ChatList()
    chats.show([Chat(7, "Shapes", 0, 0, forked=True)])
    shown = chats.index(1)
    assert shown.data() == shown.data(Qt.ItemDataRole.EditRole) == "Shapes"
    assert shown.data(FORKED_ROLE)
    assert shown.data(Qt.ItemDataRole.AccessibleTextRole) == "Shapes, fork"


def test_the_trash_is_a_proper_model(qloop: Loop) -> None:
    trash = TrashList()
    mode = QAbstractItemModelTester.FailureReportingMode.Warning
    QAbstractItemModelTester(trash, mode, trash)
    day = datetime(2025, 3, 1, 12)
    trash.show([Chat(7, "Old", 0, 0, deleted=day.timestamp())])
    assert trash.index(0).data() == "Old" and trash.index(0).data(CHAT_ROLE) == 7
    assert trash.index(0).data(NOTE_ROLE) == "Kept until 31 March"
    # A moment that no calendar has, as damage leaves it.
    trash.show([Chat(7, "Old", 0, 0, deleted=LAST_MOMENT)])
    assert trash.index(0).data(NOTE_ROLE).startswith("Kept until ")
    trash.show([])
    assert trash.rowCount() == 0


async def test_a_new_title_is_one_line_and_never_blank(
    parts: WindowParts, engine: FakeEngine
) -> None:
    (await ask(parts, engine, "Hello")).finish("x")
    await ended(parts)
    await until(lambda: parts.chat_list.chats)
    assert parts.chat_list.setData(parts.chat_list.index(1), "  Better \n name ")
    await until(lambda: parts.chat_list.chats[0].title == "Better name")
    assert not parts.chat_list.setData(parts.chat_list.index(1), "  ")
