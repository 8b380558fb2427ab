"""The ids of a reply whose text was changed by hand."""

from __future__ import annotations

from collections.abc import Sequence

from core.api.chat import AssistantMessage, ReplyIds
from core.text.kit import TextKit
from core.text.reply_parts import ReplyReader, stored_ids


def edited_ids(kit: TextKit, reply: AssistantMessage, text: str) -> ReplyIds | None:
    """The ids of `reply` with `text` as its answer; None if its own ids can't be used.

    They are the sampled ones up to the first difference, and then those of the rest of the text.
    Between them is a pause, so that further edits behind it reuse what was prefilled up to it.
    """
    sampled = stored_ids(reply, kit.fingerprint, kit.vocab_size)
    if sampled is None or reply.ids is None or reply.calls:
        return None
    starts = reply.ids.starts_in_reasoning
    kept, length = _common(_reader(kit, starts), sampled, text)
    rest = kit.tokenizer.encode_uncached(text[length:], at_start=False).ids if text[length:] else ()
    ids = [*sampled[:kept], *rest]
    if not ids or _texts(_reader(kit, starts), ids) != (text, reply.reasoning):
        return None
    before = tuple(pause for pause in reply.ids.pauses if pause < kept)
    pauses = (*before, kept) if kept else before
    return ReplyIds.pack(ids, reply.ids.tokenizer, starts, pauses)


def _reader(kit: TextKit, starts_in_reasoning: bool) -> ReplyReader:
    return ReplyReader(
        kit.tokens, kit.thinking, frozenset(), (), starts_in_reasoning, channels=kit.channels
    )


def _common(reader: ReplyReader, ids: Sequence[int], text: str) -> tuple[int, int]:
    """How many ids, and characters of `text`, both answers begin with, up to the end of a word."""
    kept = length = shown = 0
    for count, token_id in enumerate(ids, 1):
        answer = reader.push(token_id).answer
        if not text.startswith(answer, shown):
            break
        shown += len(answer)
        in_word = text[shown - 1 : shown].isalnum() and text[shown : shown + 1].isalnum()
        if not reader.in_thought and not reader.holds_back and not in_word:
            kept, length = count, shown
    return kept, length


def _texts(reader: ReplyReader, ids: Sequence[int]) -> tuple[str, str]:
    for token_id in ids:
        reader.push(token_id)
    reader.close()
    return reader.answer, reader.reasoning
