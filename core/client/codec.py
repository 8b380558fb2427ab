"""Frames on a byte stream: four bytes of length (big-endian), then that many bytes.

A frame holds JSON and, behind a zero byte that no JSON contains, the bytes of a picture or a file,
if there are any. Knows how a message becomes bytes and back; who reads and writes the bytes is
`transport` on the window's side, `core.worker` on the other, and `core.helper` on both of its own.
"""

from __future__ import annotations

import json
import struct
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from core.api.errors import ProtocolError

Message = TypeVar("Message", bound=BaseModel)

HEADER = struct.Struct(">I")
_ATTACHED = b"\0"

# A frame larger than this is a lost byte count, not a message: the longest real ones are a prompt
# of 262,144 tokens as JSON, about 2 MB, and the pixels of a picture that fills a screen, 33 MB.
MAX_FRAME_BYTES = 64 * 2**20


def encode(message: BaseModel) -> bytes:
    """One message as one frame, the field that it names as ATTACHED behind it.

    Raises ProtocolError when it is too large to send.
    """
    attached: bytes = getattr(message, getattr(message, "ATTACHED", ""), b"")
    try:
        body = message.model_dump_json().encode()
    except PydanticSerializationError:
        # Half a surrogate pair, which a paste or a file's name can carry, becomes a question mark.
        text = json.dumps(message.model_dump(mode="json"), ensure_ascii=False)
        body = text.encode(errors="replace")
    return frame(body, attached)


def frame(body: bytes, attached: bytes = b"", most: int | None = None) -> bytes:
    """JSON and what is attached to it as one frame. Raises ProtocolError past `most` bytes."""
    most = MAX_FRAME_BYTES if most is None else most
    length = len(body) + (len(attached) + len(_ATTACHED) if attached else 0)
    if length > most:
        raise ProtocolError(f"A message of {length:,} bytes is too large to send.")
    parts = (body, _ATTACHED, attached) if attached else (body,)
    return b"".join((HEADER.pack(length), *parts))


def body_length(header: bytes, most: int | None = None) -> int:
    """Length announced by a header. Raises ProtocolError for a length no message has."""
    most = MAX_FRAME_BYTES if most is None else most
    (length,) = HEADER.unpack(header)
    if not 0 < length <= most:
        raise ProtocolError(f"A frame announces {length:,} bytes.")
    return int(length)


def split(body: bytes) -> tuple[bytes, bytes]:
    """A frame's JSON and what is attached to it."""
    text, _, attached = body.partition(_ATTACHED)
    return text, attached


def decode(adapter: TypeAdapter[Message], body: bytes) -> Message:
    """The message in a frame's body. Raises ProtocolError when it is none of the adapter's."""
    text, attached = split(body)
    try:
        message = adapter.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ProtocolError(f"A message can't be read: {first['msg']} at {place!r}.") from error
    field = getattr(message, "ATTACHED", "")
    return message.model_copy(update={field: attached}) if attached and field else message


def read_frame(stream: BinaryIO, most: int | None = None) -> bytes | None:
    """The next body from a blocking stream; None at its end, even in the middle of a frame."""
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
