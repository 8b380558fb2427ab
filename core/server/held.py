"""Replies as they were sampled, found again when a client sends them back as text.

A text tokenised again may get other ids, which end what can be reused. A reply is found by its text
and the digests of all messages before it or, where one has changed (a date in a system prompt, a
summary), of the question before it.

Nothing can be reused after a line of the system prompt that changes with every request or day. Of
those in `resources/server/volatile_lines.json`, `pinned` ones stay as in the chat's first request;
others are left out.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from core.api.chat import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    UserMessage,
)
from core.api.commands import tenant_of
from core.client.programs import RESOURCES
from core.server.kept_replies import KeptReplies, KeptReply

MOST_BYTES = 64 * 2**20
_OVERHEAD_BYTES = 512  # of an entry beside its ids and texts
_MOST_BRANCHES = 4096
# A shorter text may be in another one by chance.
_SHORTEST_QUOTE = 16
_MOST_QUOTED = 32
_FLAGS = re.MULTILINE | re.IGNORECASE


@dataclass(frozen=True, slots=True)
class Steadied:
    """A system prompt's text around its pinned lines, and the names of all volatile ones."""

    around: tuple[str, ...]
    pinned: tuple[str, ...]
    names: tuple[str, ...]

    def text(self, pinned: Sequence[str]) -> str:
        lines = pinned if len(pinned) == len(self.pinned) else self.pinned
        return "".join(
            part for pair in zip(self.around, (*lines, ""), strict=True) for part in pair
        )


def steadied(text: str) -> Steadied:
    names = list[str]()
    for each in _table():
        if each["pattern"].search(text) is None:
            continue
        names.append(each["name"])
        if not each["pinned"]:
            text = each["pattern"].sub("", text)
    pinned = _pinned()
    return Steadied(tuple(pinned.split(text)), tuple(pinned.findall(text)), tuple(names))


@cache
def _table() -> list[dict[str, Any]]:
    table = json.loads((RESOURCES / "server" / "volatile_lines.json").read_text("utf-8"))
    return [{**each, "pattern": re.compile(each["pattern"], _FLAGS)} for each in table]


@cache
def _pinned() -> re.Pattern[str]:
    patterns = (each["pattern"].pattern for each in _table() if each["pinned"])
    return re.compile("|".join(f"(?:{each})" for each in patterns), _FLAGS)


@dataclass(frozen=True, slots=True)
class Branch:
    """A client's chat in the cache: its key, which names the client (`tenant_of`), the time that
    its template shows, and the pinned lines of its first system prompt."""

    chat: str
    created: float
    lines: tuple[str, ...] = ()

    @classmethod
    def new(cls, client: str, lines: tuple[str, ...] = ()) -> Branch:
        return cls(f"{_name(client).hex()}_{secrets.token_hex(8)}", time.time(), lines)


@dataclass(frozen=True, slots=True)
class Placed:
    """A conversation with known ids, and its branch.

    `side`: it quotes another conversation of the client, as requests for a title do. `volatile`
    names lines that were left out or pinned.
    """

    conversation: Conversation
    branch: Branch
    client: str
    side: bool
    volatile: tuple[str, ...] = ()


class HeldReplies:
    """The latest replies to all clients; `kept` has older ones. `steady` leaves volatile lines out
    or pins them."""

    def __init__(
        self, most_bytes: int = MOST_BYTES, kept: KeptReplies | None = None, steady: bool = True
    ) -> None:
        self._steady = steady
        self._kept = kept or KeptReplies(None)
        self._most_bytes = most_bytes
        self.num_bytes = 0
        self._replies: OrderedDict[bytes, AssistantMessage] = OrderedDict()
        self._branches: OrderedDict[bytes, Branch] = OrderedDict()
        # The user's last question in each of the latest requests: client, question, reply.
        self._latest: deque[tuple[str, str, str]] = deque(maxlen=_MOST_QUOTED)

    def place(self, conversation: Conversation, client: str) -> Placed:
        if conversation.raw is not None:
            key = _digest(b"raw" + _name(client))
            own = self._branches.get(key) or Branch.new(client)
            self._put_branch(key, own)
            return Placed(conversation, own, client, side=False)
        messages, branch = list[Message](), None
        for message, keys in _keyed(conversation.messages, client):
            found = None
            if isinstance(message, AssistantMessage):
                found = self._find(message, keys)
            messages.append(found or message)
            branch = self._branches.get(keys[0], branch)
        side = branch is None and self._quotes(conversation, client)
        names: tuple[str, ...] = ()
        lines: tuple[str, ...] = ()
        if self._steady and messages and isinstance(system := messages[0], SystemMessage):
            found_lines = steadied(system.text)
            names, lines = found_lines.names, found_lines.pinned
            begun = any(isinstance(each, AssistantMessage) for each in messages)
            if branch is not None and branch.lines != lines and not begun:
                # Another chat with the same question, asked on another day.
                branch = None
            if branch is not None:
                lines = branch.lines
            messages[0] = SystemMessage(text=found_lines.text(lines))
        fresh = Branch.new(client, lines)
        if branch is None:
            branch = fresh
        elif tenant_of(branch.chat) != tenant_of(fresh.chat):
            # Another client has had the same conversation.
            branch = replace(branch, chat=fresh.chat)
        placed = conversation.model_copy(
            update={"messages": tuple(messages), "created": branch.created}
        )
        return Placed(placed, branch, client, side, names)

    def keep(self, placed: Placed, reply: AssistantMessage) -> None:
        """Keep a reply, or the whole of one that was continued."""
        messages = placed.conversation.messages
        if messages and isinstance(messages[-1], AssistantMessage):
            messages = messages[:-1]
        *_, (_, keys) = _keyed((*messages, reply), placed.client)
        for key in keys:
            self._put(key, reply)
            if not placed.side:
                self._kept.put(key, KeptReply(reply=reply, **asdict(placed.branch)))
        self._put_branch(keys[0], placed.branch)
        if len(messages) and not placed.side:
            *_, (_, asked_keys) = _keyed(messages, placed.client)
            self._put_branch(asked_keys[0], placed.branch)
            asked = [_text(each) for each in messages if isinstance(each, UserMessage)]
            self._latest.append((placed.client, "".join(asked[-1:]), reply.text.strip()))

    def _find(
        self, message: AssistantMessage, keys: tuple[bytes, bytes]
    ) -> AssistantMessage | None:
        for key in keys:
            held = self._replies.get(key)
            kept = self._kept.get(key) if held is None else None
            found = kept.reply if kept is not None else held
            # A client may send the thought back, or leave it out.
            if found is None or message.reasoning.strip() not in ("", found.reasoning.strip()):
                continue
            self._put(key, found)
            if kept is not None and key == keys[0]:
                stored = Branch(kept.chat, kept.created, kept.lines)
                self._put_branch(key, self._branches.get(key) or stored)
            return found
        return None

    def _put_branch(self, key: bytes, branch: Branch) -> None:
        self._branches[key] = branch
        self._branches.move_to_end(key)
        while len(self._branches) > _MOST_BRANCHES:
            self._branches.popitem(last=False)

    def _put(self, key: bytes, reply: AssistantMessage) -> None:
        before = self._replies.pop(key, None)
        if before is not None:
            self.num_bytes -= _num_bytes(before)
        self._replies[key] = reply
        self.num_bytes += _num_bytes(reply)
        while self.num_bytes > self._most_bytes and self._replies:
            _, dropped = self._replies.popitem(last=False)
            self.num_bytes -= _num_bytes(dropped)

    def _quotes(self, conversation: Conversation, client: str) -> bool:
        """True for a single message that contains a question or reply of the client's other chats;
        not if it begins with the question, as a chat sent as one growing message does."""
        asked = [message for message in conversation.messages if isinstance(message, UserMessage)]
        if len(asked) != 1 or isinstance(conversation.messages[-1], AssistantMessage):
            return False
        text = _text(asked[0])
        for owner, question, reply in self._latest:
            if owner != client or (question and text.startswith(question)):
                continue
            quoted = (each for each in (question, reply) if len(each) >= _SHORTEST_QUOTE)
            if any(each in text for each in quoted):
                return True
        return False


def _keyed(
    messages: tuple[Message, ...], client: str
) -> Iterator[tuple[Message, tuple[bytes, bytes]]]:
    chain, before = b"", b""
    near = _digest(b"near" + _name(client))
    for message in messages:
        own = _digest(_spelled(message))
        chain = _digest(chain + own)
        yield message, (chain, _digest(near + before + own))
        before = own


def _spelled(message: Message) -> bytes:
    if isinstance(message, UserMessage):
        parts: list[str] = []
        for part in message.content:
            if isinstance(part, ImagePart):
                parts += ["image", part.digest]
            elif len(parts) % 2 == 0 and parts[-2:-1] == ["text"]:
                parts[-1] += part.text
            else:
                parts += ["text", part.text]
    elif isinstance(message, SystemMessage):
        parts = ["text", *steadied(message.text).around]
    else:
        # Clients trim replies.
        parts = ["text", message.text.strip()]
        if isinstance(message, AssistantMessage):
            for call in message.calls:
                parts += ["call", call.name, _canonical(call.arguments)]
    return json.dumps([message.role, *parts]).encode()


def _canonical(arguments: str) -> str:
    """Clients write a call's arguments anew."""
    return json.dumps(json.loads(arguments), sort_keys=True)


def _text(message: Message) -> str:
    if not isinstance(message, UserMessage):
        return message.text.strip()
    return "".join(part.text for part in message.content if isinstance(part, TextPart)).strip()


def _name(client: str) -> bytes:
    return _digest(client.encode("utf-8", "surrogatepass"))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _num_bytes(reply: AssistantMessage) -> int:
    ids = len(reply.ids.data) if reply.ids is not None else 0
    calls = sum(len(call.name) + len(call.arguments) for call in reply.calls)
    return ids + len(reply.text) + len(reply.reasoning) + calls + _OVERHEAD_BYTES
