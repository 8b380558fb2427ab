"""Can this model's replies be spliced in as ids? Small conversations decide, at load.

Each is rendered twice: with marks and spliced ids, and plainly, the way the model was trained to
see it. Where the ids differ, or the template loses a text, history falls back to plain text.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.api.chat import (
    AssistantMessage,
    Conversation,
    Message,
    ReplyIds,
    SystemMessage,
)
from core.api.errors import TemplateError
from core.api.prompt import Image, TextRun
from core.text.assembly import assemble
from core.text.history import Traits, plain_messages, spliced_pieces
from core.text.kit import TextKit
from core.text.traits import PROBE_PICTURE, user

# Each would show a template that escapes, cuts, re-wraps or translates what it is given.
_QUESTION = "  What \"does\" this <b>say</b> & why?\n\n\\n stays. 'So' it's 1 {{ x }}\t"
_FOLLOW_UP = "And\n  then, \u00e9 \u4f60\u597d? "
_SYSTEM = '\nBe brief: answer in "one" line.\nNever two. '
_ANSWER = "It says hello, twice.\n\n- one\n- two"
_THOUGHT = "The picture shows a sign.\nSo I read it."

LOST = "its chat template changes or drops parts of the conversation"
DIFFERENT = "its chat template joins messages in a way that changes their tokens"


def splicing_obstacle(kit: TextKit, traits: Traits) -> str:
    """Why replies can't be reused token for token, as half a sentence; empty where they can."""
    switches: tuple[bool | None, ...] = (None,)
    if traits.has_thinking_switch:
        switches = (None, True, False)
    checked = 0
    for conversation in _conversations(kit, traits):
        for thinking in switches:
            try:
                expected = _plain_ids(kit, traits, conversation, thinking)
            except TemplateError:
                continue  # the template refuses such a conversation, and will say so to the user
            spliced = _spliced_ids(kit, traits, conversation, thinking)
            if spliced != expected:
                return LOST if spliced is None else DIFFERENT
            checked += 1
    return "" if checked else LOST


def _conversations(kit: TextKit, traits: Traits) -> Iterator[Conversation]:
    first, second = user(_QUESTION), user(_FOLLOW_UP)
    reply = _reply(kit, traits.reply_space)
    yield _chat(first)
    yield _chat(SystemMessage(text=_SYSTEM), first)
    yield _chat(first, reply, second)
    yield _chat(SystemMessage(text=_SYSTEM), first, reply, second, reply, first)
    if kit.thinking.known:
        yield _chat(first, _thinking_reply(kit), second)
    if traits.takes_images:
        pictured = user(PROBE_PICTURE, _QUESTION)
        yield _chat(SystemMessage(text=_SYSTEM), pictured, reply, user(_FOLLOW_UP, PROBE_PICTURE))


def _chat(*messages: Message) -> Conversation:
    return Conversation(messages=messages)


def _reply(kit: TextKit, reply_space: str) -> AssistantMessage:
    """A reply as the model would have sampled it, directly after the generation prompt."""
    ids = kit.encoder.ids(reply_space + _ANSWER)
    packed = ReplyIds.pack(ids, kit.fingerprint, starts_in_reasoning=False)
    return AssistantMessage(text=_ANSWER, ids=packed)


def _thinking_reply(kit: TextKit) -> AssistantMessage:
    """A reply whose thought the generation prompt had opened."""
    assert kit.thinking.close is not None
    thought, answer = kit.encoder.ids(_THOUGHT + "\n"), kit.encoder.ids("\n\n" + _ANSWER)
    ids = [*thought, kit.thinking.close, *answer]
    packed = ReplyIds.pack(ids, kit.fingerprint, starts_in_reasoning=True)
    return AssistantMessage(text=_ANSWER, reasoning=_THOUGHT, ids=packed)


def _plain_ids(
    kit: TextKit, traits: Traits, conversation: Conversation, thinking: bool | None
) -> list[int]:
    """The reference: everything rendered as text and encoded by the tokenizer as published."""
    messages = plain_messages(conversation.messages, traits.style, lambda text: text)
    rendered = kit.render(messages, thinking, conversation.created)
    return kit.tokenizer.encode_published(rendered)


def _spliced_ids(
    kit: TextKit, traits: Traits, conversation: Conversation, thinking: bool | None
) -> list[int] | None:
    """The same conversation with spliced replies, each picture as one placeholder id."""
    try:
        pieces = spliced_pieces(kit, traits, conversation, thinking)
    except TemplateError:
        return None
    if pieces is None:
        return None
    picture = Image(key=bytes(16), rows=1, columns=1, num_positions=1)
    assembly, _ = assemble(pieces, (), kit.encoder, [picture] * 2)
    ids: list[int] = []
    for segment in assembly.segments:
        ids.extend(segment.ids if isinstance(segment, TextRun) else [kit.image_token_id or 0])
    return ids
