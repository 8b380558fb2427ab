"""Tasks on exported chats of Waymark, Open WebUI, LM Studio and ChatGPT.

Other programs' formats aren't specified; what is unknown is counted and left out.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from core.api.archive import VERSION, ArchivedChat, ArchivedMessage, ArchivedPicture, ArchivedReply
from core.api.errors import NotAnExportError
from core.api.json_text import parse_json
from core.client.codec import Fields

Program = Literal["Waymark", "Open WebUI", "LM Studio", "ChatGPT"]
# What a file contains and no chat here can: a tool's output, an attached file, a picture whose
# bytes are elsewhere.
Lost = Literal["tools", "files", "pictures"]
_DATA_URL = re.compile(r"data:image/[\w.+-]+;base64,", re.ASCII)
# Roles that are no tools'; '' is a node without a message.
_OTHER_ROLES = ("", "system", "user", "assistant")
LAST_MOMENT = 253_402_300_799.0


class ChatTasks:
    """One opened file: its chats by number, its pictures by digest."""

    def __init__(self) -> None:
        self._chats: list[Any] = []
        self._program: Program = "Waymark"
        self._pictures: dict[str, bytes] = {}

    def open(self, fields: Fields, attached: bytes) -> tuple[Fields, bytes]:
        self._pictures = {}
        try:
            content = parse_json(attached)
        except ValueError as error:
            raise NotAnExportError("It isn't JSON, or is damaged.") from error
        self._program, self._chats = _recognized(content)
        if isinstance(content, dict) and self._program == "Waymark":
            for digest, data in _dict(content.get("pictures")).items():
                self._keep(_decoded(data), digest)
        return {"program": self._program, "count": len(self._chats)}, b""

    def chat(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        """JSON of `ArchivedChat` (None if unreadable), and what it lost."""
        raw = self._chats[fields["number"]]
        title = _text(_dict(raw).get("title") or _dict(raw).get("name"))
        try:
            if self._program == "Waymark":
                # Bytes are base64 in JSON only.
                chat, lost = ArchivedChat.model_validate_json(json.dumps(raw)), Counter[Lost]()
            else:
                chat, lost = self._converted(_dict(raw))
        except (ValidationError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return {"title": title, "chat": None, "lost": {}}, b""
        return {"title": title, "chat": True, "lost": lost}, chat.model_dump_json().encode()

    def picture(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        data = self._pictures.get(fields["digest"])
        return {"known": data is not None}, data or b""

    def _keep(self, data: bytes, digest: str = "") -> str:
        found = hashlib.sha256(data).hexdigest()
        if data and digest in ("", found):
            self._pictures[found] = data
        return found

    def _converted(self, raw: dict[str, Any]) -> tuple[ArchivedChat, Counter[Lost]]:
        lost: Counter[Lost] = Counter()
        if self._program == "ChatGPT":
            nodes, shown = _chatgpt(raw, lost)
            created, used = raw.get("create_time"), raw.get("update_time")
        elif self._program == "Open WebUI":
            nodes, shown = self._open_webui(raw, lost)
            created, used = raw.get("created_at"), raw.get("updated_at")
        else:
            nodes, shown = _lm_studio(raw, lost)
            created = used = raw.get("createdAt")
        instructions = [node.text for node in nodes.values() if node.role == "system"]
        chat = ArchivedChat(
            title=_text(raw.get("title") or raw.get("name")) or "Imported chat",
            created=_moment(created),
            used=_moment(used) or _moment(created),
            pinned=bool(raw.get("pinned")),
            system=_text(raw.get("systemPrompt")) or next(iter(instructions), ""),
            messages=_tree(nodes, shown, _moment(created)),
        )
        lost["tools"] += sum(node.role not in _OTHER_ROLES for node in nodes.values())
        return chat, +lost

    def _open_webui(
        self, raw: dict[str, Any], lost: Counter[Lost]
    ) -> tuple[dict[str, _Node], str | None]:
        chat = _dict(raw.get("chat")) or raw
        raw["title"] = raw.get("title") or chat.get("title")
        history = _dict(chat.get("history"))
        nodes: dict[str, _Node] = {}
        for key, message in _dict(history.get("messages")).items():
            message = _dict(message)
            pictures = []
            for file in _list(message.get("files")):
                url = _text(_dict(file).get("url"))
                if _DATA_URL.match(url):
                    data = _decoded(url.partition(",")[2])
                    pictures.append(ArchivedPicture(digest=self._keep(data), name="picture"))
                else:
                    lost["pictures" if _dict(file).get("type") == "image" else "files"] += 1
            text, reasoning = _without_details(_text(message.get("content")))
            nodes[key] = _Node(
                message.get("parentId"),
                _text(message.get("role")),
                text,
                reasoning,
                _moment(message.get("timestamp")),
                _text(message.get("model")),
                tuple(pictures),
            )
        return nodes, history.get("currentId")


class _Node(NamedTuple):
    parent: str | None
    role: str
    text: str
    reasoning: str = ""
    created: float = 0.0
    model: str = ""
    pictures: tuple[ArchivedPicture, ...] = ()


def _recognized(content: Any) -> tuple[Program, list[Any]]:
    if isinstance(content, dict) and "waymark" in content:
        if content["waymark"] != VERSION:
            raise NotAnExportError("It was written by a newer version of Waymark.")
        return "Waymark", _list(content.get("chats"))
    chats = content if isinstance(content, list) else [content]
    first = _dict(next(iter(chats), None))
    if "mapping" in first:
        return "ChatGPT", chats
    if "history" in (_dict(first.get("chat")) or first):
        return "Open WebUI", chats
    messages = _list(first.get("messages"))
    if messages and "versions" in _dict(messages[0]):
        return "LM Studio", chats
    raise NotAnExportError(
        "It is not a file of chats exported from Waymark, Open WebUI, LM Studio or ChatGPT."
    )


def _chatgpt(raw: dict[str, Any], lost: Counter[Lost]) -> tuple[dict[str, _Node], str | None]:
    nodes: dict[str, _Node] = {}
    for key, entry in _dict(raw.get("mapping")).items():
        entry = _dict(entry)
        message = _dict(entry.get("message"))
        content, about = _dict(message.get("content")), _dict(message.get("metadata"))
        kind = content.get("content_type")
        role = _text(_dict(message.get("author")).get("role"))
        texts, pictures, reasoning = [], [], ""
        if about.get("is_visually_hidden_from_conversation"):
            role = ""
        elif kind in ("text", "multimodal_text"):
            for part in _list(content.get("parts")):
                pointer = _text(_dict(part).get("asset_pointer"))
                if isinstance(part, str):
                    texts.append(part)
                elif _dict(part).get("content_type") == "image_asset_pointer" and pointer:
                    file = pointer.rpartition("/")[2]
                    pictures.append(ArchivedPicture(digest="", name=file, file=file))
                else:
                    lost["files"] += 1
        elif kind == "thoughts":
            thoughts = [_text(_dict(each).get("content")) for each in _list(content["thoughts"])]
            reasoning = "\n\n".join(thoughts)
        elif kind == "code":
            lost["tools"] += 1
        nodes[key] = _Node(
            entry.get("parent"),
            role,
            "\n\n".join(texts),
            reasoning,
            _moment(message.get("create_time")),
            _text(about.get("model_slug")),
            tuple(pictures),
        )
    return nodes, raw.get("current_node")


def _lm_studio(raw: dict[str, Any], lost: Counter[Lost]) -> tuple[dict[str, _Node], str | None]:
    """Versions are alternatives; what follows belongs to the selected one."""
    nodes: dict[str, _Node] = {}
    parent: str | None = None
    for place, message in enumerate(_list(raw.get("messages"))):
        versions = _list(_dict(message).get("versions"))
        selected = _dict(message).get("currentlySelected")
        for number, version in enumerate(versions):
            nodes[f"{place}.{number}"] = _version(_dict(version), parent, lost)
        if versions:
            known = isinstance(selected, int) and 0 <= selected < len(versions)
            parent = f"{place}.{selected if known else len(versions) - 1}"
    return nodes, parent


def _version(version: dict[str, Any], parent: str | None, lost: Counter[Lost]) -> _Node:
    texts: list[str] = []
    thoughts: list[str] = []
    model = ""
    steps = _list(version.get("steps")) or [{"type": "contentBlock", **version}]
    for step in map(_dict, steps):
        if step.get("type") not in ("contentBlock", "singleStep"):
            lost["tools"] += step.get("type") not in ("debugInfoBlock", "status")
            continue
        about = _dict(step.get("genInfo"))
        model = model or _text(about.get("identifier") or about.get("indexedModelIdentifier"))
        for part in map(_dict, _list(step.get("content"))):
            if part.get("type") == "text":
                thinks = _dict(step.get("style")).get("type") == "thinking"
                (thoughts if thinks else texts).append(_text(part.get("text")))
            else:
                lost["pictures" if part.get("fileType") == "image" else "files"] += 1
    return _Node(parent, _text(version.get("role")), "".join(texts), "".join(thoughts), model=model)


def _tree(nodes: dict[str, _Node], shown: object, created: float) -> tuple[ArchivedMessage, ...]:
    """On each branch, messages of one role in a row become one."""
    children = _children(nodes)
    path = set(_way_up(nodes, shown))
    messages: list[ArchivedMessage] = []

    def add(parent: int | None, node: _Node, chosen: int) -> int:
        reply = None
        if node.role == "assistant":
            if parent is None:
                # A greeting: here, chats begin with the user.
                parent = add(None, _Node(None, "user", "", created=node.created), chosen)
            reply = ArchivedReply(reasoning=node.reasoning, model=node.model, finish_reason="stop")
        message = ArchivedMessage(
            parent=parent,
            text=node.text,
            created=node.created or created,
            chosen=chosen,
            pictures=() if reply else node.pictures,
            reply=reply,
        )
        messages.append(message)
        return len(messages) - 1

    # From the roots down: (key, parent's place, what precedes it in the same role).
    pending: list[tuple[str, int | None, _Node | None]] = [
        (key, None, None) for key in reversed(children.get(None, []))
    ]
    while pending:
        key, parent, before = pending.pop()
        node, below = _joined(before, nodes[key]), children.get(key, [])
        same = [each for each in below if nodes[each].role == node.role]
        pending += [(each, parent, node) for each in reversed(same)]
        if same and len(same) == len(below):
            continue
        on_path = key in path and not path & set(same)
        place = add(parent, node, len(messages) + len(nodes) * on_path)
        pending += [(each, place, None) for each in reversed(below) if each not in same]
    return tuple(messages)


def _children(nodes: dict[str, _Node]) -> dict[str | None, list[str]]:
    kept = {
        key: node.role in ("user", "assistant")
        and bool(node.text or node.pictures or node.reasoning)
        for key, node in nodes.items()
    }
    above: dict[str, str | None] = {}
    for key in nodes:
        passed = []
        at: str | None = key
        while at is not None and at not in above:
            # Until it is known, so that a circle ends.
            above[at] = None
            passed.append(at)
            parent = nodes[at].parent
            at = parent if isinstance(parent, str) and parent in nodes else None
            if at is not None and kept[at]:
                break
        found = at if at is None or kept[at] else above[at]
        for each in reversed(passed):
            above[each] = found
            found = each if kept[each] else found
    children: dict[str | None, list[str]] = {}
    for key in nodes:
        if kept[key]:
            children.setdefault(above[key], []).append(key)
    return children


def _joined(before: _Node | None, node: _Node) -> _Node:
    if before is None:
        return node
    return node._replace(
        text="\n\n".join(filter(None, (before.text, node.text))),
        reasoning="\n\n".join(filter(None, (before.reasoning, node.reasoning))),
        pictures=before.pictures + node.pictures,
        created=before.created or node.created,
        model=node.model or before.model,
    )


def _way_up(nodes: dict[str, _Node], key: object) -> Iterable[str]:
    seen: set[str] = set()
    while isinstance(key, str) and key in nodes and key not in seen:
        seen.add(key)
        key = nodes[key].parent
    return seen


def _without_details(text: str) -> tuple[str, str]:
    """Open WebUI writes reasoning into the text as `<details>`."""
    pattern = r'<details type="reasoning"[^>]*>\s*(?:<summary>.*?</summary>)?(.*?)</details>\s*'
    thoughts = [
        re.sub(r"^(?:>|&gt;) ?", "", each, flags=re.MULTILINE).strip()
        for each in re.findall(pattern, text, re.DOTALL)
    ]
    return re.sub(pattern, "", text, flags=re.DOTALL) if thoughts else text, "\n\n".join(thoughts)


def _decoded(data: object) -> bytes:
    try:
        return base64.b64decode(_text(data), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    # Half a surrogate pair can't be stored.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _moment(value: object) -> float:
    if isinstance(value, int | float) and 0 <= value <= LAST_MOMENT * 1000:
        # LM Studio counts milliseconds.
        return float(value) if value <= LAST_MOMENT else float(value) / 1000
    return 0.0
