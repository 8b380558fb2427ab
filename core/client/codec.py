"""Frames on a byte stream: four bytes of length (big-endian), then that many bytes of JSON.

Knows how a message becomes bytes and back; who reads and writes the bytes is `transport` on the
window's side and `core.worker` on the other.
"""

from __future__ import annotations

import json
import struct
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from core.api.errors import ProtocolError

Message = TypeVar("Message")

HEADER = struct.Struct(">I")

# A frame larger than this is a lost byte count, not a message: the longest real one carries the ids
# of a 262,144-token prompt as JSON, about 2 MB.
MAX_FRAME_BYTES = 64 * 2**20


def encode(message: BaseModel) -> bytes:
    """One message as one frame. Raises ProtocolError when it is too large to send."""
    try:
        body = message.model_dump_json().encode()
    except PydanticSerializationError:
        # Half a surrogate pair, which a paste or a file's name can carry, becomes a question mark.
        text = json.dumps(message.model_dump(mode="json"), ensure_ascii=False)
        body = text.encode(errors="replace")
    if len(body) > MAX_FRAME_BYTES:
        raise ProtocolError(f"A message of {len(body):,} bytes is too large to send.")
    return HEADER.pack(len(body)) + body


def body_length(header: bytes) -> int:
    """Length announced by a header. Raises ProtocolError for a length no message has."""
    (length,) = HEADER.unpack(header)
    if not 0 < length <= MAX_FRAME_BYTES:
        raise ProtocolError(f"A frame announces {length:,} bytes.")
    return int(length)


def decode(adapter: TypeAdapter[Message], body: bytes) -> Message:
    """The message in a frame's body. Raises ProtocolError when it is none of the adapter's."""
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ProtocolError(f"A message can't be read: {first['msg']} at {place!r}.") from error


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next body from a blocking stream; None at its end, even in the middle of a frame."""
    header = _read_exactly(stream, HEADER.size)
    if header is None:
        return None
    return _read_exactly(stream, body_length(header))


def _read_exactly(stream: BinaryIO, count: int) -> bytes | None:
    chunks: list[bytes] = []
    while count:
        chunk = stream.read(count)
        if not chunk:
            return None
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)
