"""The menus: what each entry is called, its key, and where a line parts it from those above."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A menu's entry; an empty shortcut is none, and `parted` draws a line above it."""

    menu: str
    words: str
    shortcut: str = ""
    parted: bool = False


CHAT, REPLY, ENGINE, VIEW, HELP = "&Chat", "&Reply", "&Engine", "&View", "&Help"

# By the objectName of the action, in the order of the menus.
ENTRIES: dict[str, Entry] = {
    "actionNewChat": Entry(CHAT, "New chat", "Ctrl+N"),
    "actionAddPictures": Entry(CHAT, "Add pictures", "Ctrl+O"),
    "actionRename": Entry(CHAT, "Rename", "F2", parted=True),
    "actionPin": Entry(CHAT, "Pin or unpin", "Ctrl+P"),
    "actionDelete": Entry(CHAT, "Delete"),
    "actionDeleteAll": Entry(CHAT, "Delete all data", parted=True),
    "actionQuit": Entry(CHAT, "Quit", "Ctrl+Q", parted=True),
    "actionStop": Entry(REPLY, "Stop", "Esc"),
    "actionRegenerate": Entry(REPLY, "Another reply", "Ctrl+R"),
    "actionRestart": Entry(ENGINE, "Restart the engine"),
    "actionChats": Entry(VIEW, "Chats", "Ctrl+B"),
    "actionSearchChats": Entry(VIEW, "Search chats", "Ctrl+Shift+F"),
    "actionSide": Entry(VIEW, "Right side", "Ctrl+J"),
    "actionContext": Entry(VIEW, "Context", "Ctrl+1"),
    "actionSettings": Entry(VIEW, "Settings", "Ctrl+2"),
    "actionFind": Entry(VIEW, "Find in this chat", "Ctrl+F"),
    "actionWrite": Entry(VIEW, "Write a message", "Ctrl+L"),
    "actionShortcuts": Entry(HELP, "Keyboard shortcuts", "F1"),
    "actionAbout": Entry(HELP, "About Waymark"),
}
