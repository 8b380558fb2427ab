"""Frames on a byte stream: a length in four bytes (big-endian), then that many bytes: JSON and,
after a zero byte, a picture's or a file's bytes, if any."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from core.api.errors import ProtocolError, first_fault

Message = TypeVar("Message", bound=BaseModel)

HEADER = struct.Struct(">I")
_ATTACHED = b"\0"

# A larger frame is a lost byte count, not a message: the longest real ones are a prompt of 262,144
# tokens as JSON, about 2 MB, and the pixels of a picture that fills a screen, 33 MB.
MAX_FRAME_BYTES = 64 * 2**20
# The largest message to a helper: a picture's file of 256 MiB.
MAX_TASK_BYTES = 320 * 2**20

Fields = dict[str, Any]
Task = Callable[[Fields, bytes], tuple[Fields, bytes]]
"""A helper's task: from a request's fields and bytes to those of its answer. May raise anything."""


def encode(message: BaseModel) -> bytes:
    """Raises ProtocolError for a message that is too large."""
    attached: bytes = getattr(message, getattr(message, "ATTACHED", ""), b"")
    try:
        body = message.model_dump_json().encode()
    except PydanticSerializationError:
        # Half a surrogate pair, from a paste or a file's name, becomes a question mark.
        text = json.dumps(message.model_dump(mode="json"), ensure_ascii=False)
        body = text.encode(errors="replace")
    return frame(body, attached, MAX_FRAME_BYTES)


def send(stream: BinaryIO, message: BaseModel) -> None:
    stream.write(encode(message))
    stream.flush()


def frame(body: bytes, attached: bytes = b"", most: int = MAX_FRAME_BYTES) -> bytes:
    length = len(body) + (len(attached) + len(_ATTACHED) if attached else 0)
    if length > most:
        raise ProtocolError(f"A message of {length:,} bytes is too large to send.")
    parts = (body, _ATTACHED, attached) if attached else (body,)
    return b"".join((HEADER.pack(length), *parts))


def body_length(header: bytes, most: int = MAX_FRAME_BYTES) -> int:
    """Raises ProtocolError for a length that no message has."""
    (length,) = HEADER.unpack(header)
    if not 0 < length <= most:
        raise ProtocolError(f"A frame announces {length:,} bytes.")
    return int(length)


def split(body: bytes) -> tuple[bytes, bytes]:
    text, _, attached = body.partition(_ATTACHED)
    return text, attached


def decode(adapter: TypeAdapter[Message], body: bytes) -> Message:
    text, attached = split(body)
    try:
        message = adapter.validate_json(text)
    except ValidationError as error:
        place, words = first_fault(error)
        raise ProtocolError(f"A message can't be read: {words} at {place!r}.") from error
    field = getattr(message, "ATTACHED", "")
    return message.model_copy(update={field: attached}) if attached and field else message


def read_frame(stream: BinaryIO, most: int = MAX_FRAME_BYTES) -> bytes | None:
    header = _read_exactly(stream, HEADER.size)
    if header is None:
        return None
    return _read_exactly(stream, body_length(header, most))


def _read_exactly(stream: BinaryIO, count: int) -> bytes | None:
    chunks: list[bytes] = []
    while count:
        chunk = stream.read(count)
        if not chunk:
            return None
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)
