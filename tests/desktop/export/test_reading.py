from __future__ import annotations

import base64
import hashlib
import json
import struct
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from core.api.archive import ArchivedChat, ArchivedPicture
from core.api.errors import NotAnExportError
from desktop.export import reading
from desktop.export.reading import ChatsFile, FoundChat
from desktop.export.writing import shown_messages
from tests.desktop.fake_engine import png

PICTURE = png(30, 20)
DATA_URL = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"


def read(path: Path) -> tuple[str, list[FoundChat]]:
    file = ChatsFile(path)
    try:
        found = list(file.chats())
        return file.program, found
    finally:
        file.close()


def read_one(folder: Path, content: Any) -> tuple[str, ArchivedChat, Counter[str]]:
    path = folder / "chats.json"
    path.write_text(json.dumps(content), "utf-8")
    program, [found] = read(path)
    assert found.chat is not None
    return program, found.chat, Counter(found.lost)


def outline(chat: ArchivedChat) -> list[tuple[int | None, str, str]]:
    return [(each.parent, "reply" if each.reply else "you", each.text) for each in chat.messages]


def shown(chat: ArchivedChat) -> list[str]:
    return [each.text for each in shown_messages(chat)]


def gpt_node(
    key: str, parent: str | None, role: str, text: str, **about: Any
) -> dict[str, dict[str, Any]]:
    content = about.pop("content", {"content_type": "text", "parts": [text]})
    message = {
        "author": {"role": role},
        "content": content,
        "create_time": 1.7e9,
        "metadata": {"model_slug": "gpt-4o", **about},
    }
    return {key: {"id": key, "parent": parent, "message": message, "children": []}}


CHATGPT = [
    {
        "title": "Herons",
        "create_time": 1.7e9,
        "update_time": 1.71e9,
        "current_node": "h",
        "mapping": {
            "root": {"id": "root", "parent": None, "message": None},
            **gpt_node("s", "root", "system", "Be brief"),
            **gpt_node("a", "s", "user", "Which bird?"),
            **gpt_node("b", "a", "assistant", "A heron."),
            **gpt_node("c", "a", "assistant", "Let me look."),
            **gpt_node("t", "c", "tool", "result"),
            **gpt_node("d", "t", "assistant", "A stork."),
            **gpt_node(
                "e",
                "d",
                "user",
                "",
                content={
                    "content_type": "multimodal_text",
                    "parts": [
                        {
                            "content_type": "image_asset_pointer",
                            "asset_pointer": "file-service://file-AbC123",
                        },
                        "And this?",
                    ],
                },
            ),
            **gpt_node(
                "g",
                "e",
                "assistant",
                "",
                content={"content_type": "thoughts", "thoughts": [{"content": "Hm."}]},
            ),
            **gpt_node("h", "g", "assistant", "An egret."),
        },
    }
]


def test_chatgpt(tmp_path: Path) -> None:
    program, chat, lost = read_one(tmp_path, CHATGPT)
    assert program == "ChatGPT"
    assert (chat.title, chat.system, chat.created) == ("Herons", "Be brief", 1.7e9)
    assert outline(chat) == [
        (None, "you", "Which bird?"),
        (0, "reply", "A heron."),
        (0, "reply", "Let me look.\n\nA stork."),
        (2, "you", "And this?"),
        (3, "reply", "An egret."),
    ]
    last = chat.messages[4].reply
    assert last is not None and (last.reasoning, last.model) == ("Hm.", "gpt-4o")
    assert shown(chat)[1] == "Let me look.\n\nA stork."
    assert lost == {"tools": 1}


def test_a_picture_in_chatgpts_archive(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps(CHATGPT))
        archive.writestr("file-AbC123-bird.png", PICTURE)
    file = ChatsFile(path)
    try:
        [found] = file.chats()
        assert found.chat is not None
        [picture] = found.chat.messages[3].pictures
        assert file.picture(picture) == PICTURE
    finally:
        file.close()


def test_open_webui(tmp_path: Path) -> None:
    def message(key: str, parent: str | None, role: str, text: str, **more: Any) -> dict[str, Any]:
        return {"id": key, "parentId": parent, "role": role, "content": text, **more}

    details = (
        '<details type="reasoning" done="true" duration="2">\n<summary>Thought</summary>\n'
        "> Hm.\n</details>\nA heron."
    )
    history = {
        "a": message("a", None, "user", "Bird?", files=[{"type": "image", "url": DATA_URL}]),
        "b": message("b", "a", "assistant", details, model="qwen3", timestamp=1.7e9),
        "c": message("c", "a", "assistant", "A stork."),
        "d": message("d", "b", "user", "More", files=[{"type": "file", "url": "/api/x"}]),
    }
    content = [
        {
            "title": "Birds",
            "created_at": 1.7e9,
            "updated_at": 1.7e9,
            "pinned": True,
            "chat": {"history": {"messages": history, "currentId": "d"}},
        }
    ]
    program, chat, lost = read_one(tmp_path, content)
    assert program == "Open WebUI" and chat.pinned and lost == {"files": 1}
    assert outline(chat) == [
        (None, "you", "Bird?"),
        (0, "reply", "A heron."),
        (1, "you", "More"),
        (0, "reply", "A stork."),
    ]
    reply = chat.messages[1].reply
    assert reply is not None and (reply.reasoning, reply.model) == ("Hm.", "qwen3")
    assert shown(chat) == ["Bird?", "A heron.", "More"]
    assert len(chat.messages[0].pictures) == 1


def test_lm_studio(tmp_path: Path) -> None:
    def said(text: str, **more: Any) -> dict[str, Any]:
        return {"type": "contentBlock", "content": [{"type": "text", "text": text}], **more}

    content = {
        "name": "Birds",
        "createdAt": 1.7e12,
        "systemPrompt": "Be brief",
        "messages": [
            {
                "versions": [
                    {
                        "type": "singleStep",
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "Bird?"},
                            {"type": "file", "fileType": "image", "fileIdentifier": "1.png"},
                        ],
                    }
                ],
                "currentlySelected": 0,
            },
            {
                "versions": [
                    {"type": "multiStep", "role": "assistant", "steps": [said("A heron.")]},
                    {
                        "type": "multiStep",
                        "role": "assistant",
                        "steps": [
                            said("Hm.", style={"type": "thinking"}),
                            said("A stork.", genInfo={"identifier": "qwen3"}),
                            {"type": "debugInfoBlock", "debugInfo": "x"},
                        ],
                    },
                ],
                "currentlySelected": 1,
            },
            {
                "versions": [
                    {
                        "type": "singleStep",
                        "role": "user",
                        "content": [{"type": "text", "text": "More"}],
                    }
                ],
                "currentlySelected": 0,
            },
        ],
    }
    program, chat, lost = read_one(tmp_path, content)
    assert (program, chat.system, chat.created) == ("LM Studio", "Be brief", 1.7e9)
    assert lost == {"pictures": 1}
    assert outline(chat) == [
        (None, "you", "Bird?"),
        (0, "reply", "A heron."),
        (0, "reply", "A stork."),
        (2, "you", "More"),
    ]
    assert shown(chat) == ["Bird?", "A stork.", "More"]
    reply = chat.messages[2].reply
    assert reply is not None and (reply.reasoning, reply.model) == ("Hm.", "qwen3")


def test_circles_long_chains_and_greetings(tmp_path: Path) -> None:
    mapping: dict[str, Any] = {}
    for key in range(3_000):
        role = "assistant" if key % 2 == 0 else "user"
        mapping |= gpt_node(str(key), str(key - 1), role, f"text {key}")
    mapping |= gpt_node("x", "y", "user", "lost") | gpt_node("y", "x", "assistant", "lost too")
    _, chat, _ = read_one(tmp_path, [{"title": "Long", "mapping": mapping, "current_node": "x"}])
    assert outline(chat)[:3] == [(None, "you", ""), (0, "reply", "text 0"), (1, "you", "text 1")]
    assert len(chat.messages) == 3_001


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"[1, 2]",
        b'{"waymark": 99, "chats": []}',
        b"[" * 100_000,
        b'{"messages": [{"role": "user"}]}',
        b"\xff\xfe",
        b"PK\3\4 nothing",
    ],
)
def test_no_exports_are_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(NotAnExportError):
        read(path)


def test_a_chat_that_can_not_be_read_costs_itself(tmp_path: Path) -> None:
    good = json.loads(ArchivedChat(title="Good", created=1, used=1).model_dump_json())
    path = tmp_path / "a.json"
    bad = [{"title": "Bad", "messages": [{"parent": 5}]}, 7]
    path.write_text(json.dumps({"waymark": 1, "chats": [*bad, good]}))
    _, found = read(path)
    assert [(each.title, each.chat is not None) for each in found] == [
        ("Bad", False),
        ("", False),
        ("Good", True),
    ]


def zipped(path: Path, *entries: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "name", ["../chats/1.json", "/etc/passwd", "a/../../b", "C:\\x", "..\\b", "\\\\server\\x"]
)
def test_names_that_lead_outside_are_refused(tmp_path: Path, name: str) -> None:
    good = b'{"waymark": 1, "chats": []}'
    with pytest.raises(NotAnExportError, match="point outside"):
        read(zipped(tmp_path / "a.zip", ("chats/000001.json", good), (name, b"")))


def test_a_bomb_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LARGEST_JSON", 2**20)
    path = zipped(tmp_path / "a.zip", ("chats/000001.json", b" " * 2**25))
    with pytest.raises(NotAnExportError, match="larger than"):
        read(path)


def test_a_directory_of_millions_of_entries_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = zipped(tmp_path / "a.zip", ("a", b"")).read_bytes()
    at = data.index(b"PK\1\2")
    entry = data[at : data.index(b"PK\5\6")]
    count = reading.MOST_DIRECTORY_BYTES // len(entry) + 1
    sizes = struct.pack("<4H2LH", 0, 0, 65_535, 65_535, count * len(entry), at, 0)
    (tmp_path / "b.zip").write_bytes(data[:at] + entry * count + b"PK\5\6" + sizes)
    monkeypatch.delattr(zipfile, "ZipFile")
    with pytest.raises(NotAnExportError, match="too many entries"):
        read(tmp_path / "b.zip")


def test_a_bomb_that_lies_about_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST_JSON", 2**20)
    path = zipped(tmp_path / "a.zip", ("chats/000001.json", b" " * 2**25))
    data = path.read_bytes()
    path.write_bytes(data.replace((2**25).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(NotAnExportError):
        read(path)


@pytest.mark.slow
def test_json_that_fills_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MEMORY_BYTES", 400 * 2**20)
    path = tmp_path / "a.json"
    path.write_bytes(b'{"waymark": 1, "chats": [' + b"[[]]," * 4_000_000 + b"[]]}")
    with pytest.raises(NotAnExportError, match=r"memory|ended"):
        read(path)


@pytest.mark.parametrize("damage", [0, 1, 2])
def test_damaged_archives(tmp_path: Path, damage: int) -> None:
    path = zipped(tmp_path / "a.zip", ("chats/000001.json", b'{"waymark": 1, "chats": []}' * 50))
    data = bytearray(path.read_bytes())
    if damage == 0:
        data = data[: len(data) // 2]
    elif damage == 1:
        data[45:60] = bytes(15)
    else:
        data[8:10] = (99).to_bytes(2, "little")
        at = data.index(b"PK\1\2")
        data[at + 10 : at + 12] = (99).to_bytes(2, "little")
    path.write_bytes(data)
    with pytest.raises(NotAnExportError):
        read(path)


def test_a_picture_with_other_bytes_is_none(tmp_path: Path) -> None:
    digest = "0" * 64
    chat = {
        "title": "a",
        "created": 1,
        "used": 1,
        "messages": [{"parent": None, "text": "x", "pictures": [{"digest": digest}]}],
    }
    content = json.dumps({"waymark": 1, "chats": [chat]}).encode()
    path = zipped(
        tmp_path / "a.zip", ("chats/000001.json", content), (f"pictures/{digest}.png", PICTURE)
    )
    file = ChatsFile(path)
    try:
        [found] = file.chats()
        assert found.chat is not None
        assert file.picture(found.chat.messages[0].pictures[0]) == b""
    finally:
        file.close()


@pytest.mark.parametrize(
    "kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_a_damaged_picture_costs_itself(tmp_path: Path, kind: int) -> None:
    digest = hashlib.sha256(PICTURE).hexdigest()
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("chats/000001.json", b'{"waymark": 1, "chats": []}')
        archive.writestr(f"pictures/{digest}.png", PICTURE)
        place = archive.infolist()[1].header_offset + 30 + len(f"pictures/{digest}.png")
    data = bytearray(path.read_bytes())
    data[place + 9 : place + 20] = b"\xff" * 11
    path.write_bytes(data)
    file = ChatsFile(path)
    assert list(file.chats()) == []
    assert file.picture(ArchivedPicture(digest=digest)) == b""
    file.close()


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_chat_of_another_compression_is_refused(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("chats/000001.json", b'{"waymark": 1, "chats": []}' * 50)
    data = bytearray(path.read_bytes())
    data[56:80] = b"\xff" * 24
    path.write_bytes(data)
    with pytest.raises(NotAnExportError, match="damaged"):
        read(path)


def test_a_chat_that_ends_the_helper_costs_itself(tmp_path: Path) -> None:
    chats = [ArchivedChat(title=title, created=1, used=1) for title in ("One", "Two")]
    path = tmp_path / "a.json"
    given = ",".join(chat.model_dump_json() for chat in chats)
    path.write_text(f'{{"waymark": 1, "chats": [{given}]}}')
    file = ChatsFile(path)
    found = file.chats()
    assert next(found).title == "One"
    file._helper.close()
    assert [each.title for each in found] == ["Two"]
    file.close()


def test_more_chats_than_anybody_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_CHATS", 3)
    data = b'{"waymark": 1, "chats": [{}, {}]}'
    path = zipped(tmp_path / "a.zip", ("chats/000001.json", data), ("chats/000002.json", data))
    with pytest.raises(NotAnExportError, match="too many"):
        read(path)
