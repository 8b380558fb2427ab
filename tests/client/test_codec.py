"""Frames: every message comes back as it was, and nonsense is refused by name."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.chat import AssistantMessage, Conversation, ReplyIds, TextPart, UserMessage
from core.api.commands import COMMANDS, Cancel, Generate
from core.api.errors import InternalError, ProtocolError
from core.api.events import EVENTS, Failed, Generated
from core.client.codec import HEADER, MAX_FRAME_BYTES, body_length, decode, encode, read_frame

# What can stand in JSON at all: a lone surrogate can't.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT, st.lists(st.integers(0, 2**32 - 1)))
def test_a_command_survives_the_pipe(text: str, ids: list[int]) -> None:
    reply = AssistantMessage(text=text, ids=ReplyIds.pack(ids, "tokenizer", True))
    conversation = Conversation(messages=(UserMessage(content=(TextPart(text=text),)), reply))
    sent = Generate(request=7, conversation=conversation)
    received = decode(COMMANDS, read_frame(io.BytesIO(encode(sent))) or b"")
    assert received == sent
    assert isinstance(received, Generate)
    answer = received.conversation.messages[1]
    assert isinstance(answer, AssistantMessage) and answer.ids is not None
    assert answer.ids.unpack() == ids


@pytest.mark.parametrize("kept", range(len(encode(Cancel(request=3, target=4)))))
def test_frames_follow_each_other_and_one_that_is_cut_anywhere_is_the_end(kept: int) -> None:
    whole = encode(Cancel(request=1, target=2)) + encode(Cancel(request=3, target=4))[:kept]
    stream = io.BytesIO(whole)
    first = read_frame(stream)
    assert first is not None and decode(COMMANDS, first) == Cancel(request=1, target=2)
    assert read_frame(stream) is None


def test_half_a_surrogate_pair_stops_no_message() -> None:
    """A paste can carry one: a question mark. A file's name in an error too: it is spelt out."""
    said = Conversation(messages=(UserMessage(content=(TextPart(text="a\ud800b\u4f60"),)),))
    received = decode(
        COMMANDS, read_frame(io.BytesIO(encode(Generate(request=1, conversation=said)))) or b""
    )
    assert isinstance(received, Generate)
    (message,) = received.conversation.messages
    assert message == UserMessage(content=(TextPart(text="a?b\u4f60"),))
    failed = Failed(request=2, error=InternalError("no /home/\udce4").info())
    event = decode(EVENTS, read_frame(io.BytesIO(encode(failed))) or b"")
    assert isinstance(event, Failed) and event.error.message == r"no /home/\udce4"


def test_a_message_too_large_to_send_is_refused_with_its_size() -> None:
    with pytest.raises(ProtocolError, match=r"67,\d{3},\d{3} bytes is too large"):
        encode(Generated(request=1, answer="x" * MAX_FRAME_BYTES))


@pytest.mark.parametrize("length", [0, MAX_FRAME_BYTES + 1, 2**32 - 1])
def test_a_lying_length_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError, match="announces"):
        body_length(HEADER.pack(length))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b'{"type":"nothing","request":1}',
        b'{"type":"cancel","request":-1,"target":1}',
        b'{"type":"cancel","request":1}',
        b'{"type":"cancel","request":1,"target":1,"more":1}',
    ],
)
def test_nonsense_is_refused_by_name(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="can't be read"):
        decode(COMMANDS, body)
