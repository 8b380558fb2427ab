"""From sampled ids to text by channel, and to the ids that are stored."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.chat import AssistantMessage, ReplyIds
from core.helper.process import Helper
from core.text.chat_text import ChatText, RenderedPrompt
from core.text.kit import TEXT_MEMORY_BYTES
from core.text.reply_parts import split_reply
from core.text.reply_reader import ReplyReader, StopStrings
from core.text.token_text import TokenText
from core.text.tokenizer import Tokenizer
from tests.text.chats import TextOf, added_id, chat, library_tokenizer, plain_ids, render, spelled
from tests.text.tiny_tokenizer import FAMILIES, tokenizer_json

WORDS = "It shows \u4f60\u597d, caf\u00e9 \U0001f600!\n\n- one"


def reader(
    text: ChatText, stop: tuple[str, ...] = (), thinking: bool | None = False
) -> ReplyReader:
    rendered: RenderedPrompt = render(text, chat("a"), thinking)
    return text.reply_reader(rendered, stop)


def read(found: ReplyReader, ids: list[int]) -> tuple[str, str]:
    """Push all ids and close; the deltas must add up to the texts."""
    deltas = [found.push(token_id) for token_id in ids] + [found.close()]
    joined = ("".join(d.answer for d in deltas), "".join(d.reasoning for d in deltas))
    assert joined == (found.answer, found.reasoning)
    return joined


def test_an_answer_reads_as_it_was_sampled(chat_text: ChatText) -> None:
    """And no delta ends in half a character."""
    ids = plain_ids(chat_text, WORDS)
    found = reader(chat_text)
    shown = [found.push(token_id).answer for token_id in ids] + [found.close().answer]
    assert "".join(shown) == found.answer == WORDS and "\ufffd" not in "".join(shown)
    assert found.reply_ids() == ids
    assert not found.finished


@given(st.data(), st.sampled_from(FAMILIES))
def test_any_ids_read_as_the_tokenizer_decodes_them(
    text_of: TextOf, data: st.DataObject, family: str
) -> None:
    """Broken UTF-8 included. Families with byte fallback are asked for whole texts only."""
    text = text_of(family)
    kit = text._kit
    if family.startswith("chatml"):
        thinking = {kit.thinking.open, kit.thinking.close}
        usable = [i for i in range(text.vocab_size) if i not in text.end_of_turn_ids | thinking]
        ids = data.draw(st.lists(st.sampled_from(usable), max_size=30))
    else:
        ids = plain_ids(text, data.draw(st.text(max_size=30).map(lambda words: "x" + words)))
    expected = library_tokenizer(text).decode(ids, skip_special_tokens=True)
    assert read(reader(text), ids)[0] == expected


def test_a_character_that_never_became_whole_shows_when_the_reply_is_closed(
    thinking_text: ChatText,
) -> None:
    text = thinking_text
    ids = plain_ids(text, "a\U0001f600")[:-1]
    found = reader(text)
    assert read(found, ids) == ("a\ufffd", "")
    assert found.reply_ids() == ids
    # At the end of a thought it stays in the thought.
    thought = [*ids, *spelled(text, "</think>|b")]
    assert read(reader(text, thinking=True), thought) == ("b", "a\ufffd")


def test_special_ids_show_nothing_in_any_family(chat_text: ChatText) -> None:
    hidden = [token.id for token in chat_text._kit.added.tokens if token.special]
    usable = [token_id for token_id in hidden if token_id not in chat_text.end_of_turn_ids]
    ids = [*plain_ids(chat_text, "one"), *usable, *plain_ids(chat_text, "two")]
    # An id without a token shows nothing either.
    ids.append(10**6)
    found = reader(chat_text)
    between = "\n\n" if chat_text.in_messages else ""
    assert read(found, ids) == (f"one{between}two", "")
    assert found.reply_ids() == ids


def test_an_added_token_with_a_space_in_it_reads_as_it_is_spelled() -> None:
    """Byte-level vocabularies have another character for a space; added tokens are not encoded."""
    description = json.loads(tokenizer_json("chatml"))
    first = max(entry["id"] for entry in description["added_tokens"]) + 1
    plain = {**description["added_tokens"][0], "special": False}
    description["added_tokens"] += [{**plain, "id": first, "content": "<a b\u00e9>"}]
    data = json.dumps(description).encode()
    tokens = TokenText(Tokenizer(lambda: data, Helper(TEXT_MEMORY_BYTES)))
    assert tokens.detokenizer().push(first) == "<a b\u00e9>"
    assert not tokens.is_space(first)


def test_the_id_that_ends_the_turn_is_not_stored(chat_text: ChatText) -> None:
    ids = plain_ids(chat_text, "one")
    for stop in chat_text.stop_ids:
        found = reader(chat_text)
        assert read(found, [*ids, stop, *ids]) == ("one", "")
        assert found.finished
        assert found.reply_ids() == ids


# ---------------------------------------------------------------- channels


@pytest.mark.parametrize(
    ("parts", "thinking", "answer", "reasoning"),
    [
        ("\nhm,\nso\n|</think>|\n\nYes. ", True, "Yes. ", "hm,\nso"),
        ("<think>|\nhm\n|</think>|\n\nYes", False, "Yes", "hm"),
        ("\n|<think>|\nhm\n|</think>|\n\nYes", False, "\nYes", "hm"),
        ("a|<think>|b|</think>|c", False, "a<think>b</think>c", ""),
        ("hm ", True, "", "hm"),
    ],
)
def test_channels_are_told_apart_by_the_thinking_tokens(
    thinking_text: ChatText, parts: str, thinking: bool, answer: str, reasoning: str
) -> None:
    ids, found = spelled(thinking_text, parts), reader(thinking_text, thinking=thinking)
    assert read(found, ids) == (answer, reasoning)
    assert found.reply_ids() == ids


def test_without_thinking_tokens_everything_is_answer(text_of: TextOf) -> None:
    text = text_of("gemma")
    ids = plain_ids(text, "<think>a</think>b")
    assert read(reader(text, thinking=True), ids) == ("<think>a</think>b", "")


# ---------------------------------------------------------------- stop strings


@pytest.mark.parametrize("stop", ["\u597d", "w", "shows", " \U0001f600", "\n\n", "e \U0001f600!"])
def test_only_tokens_before_the_one_in_which_a_stop_begins_are_stored(
    chat_text: ChatText, stop: str
) -> None:
    """Whatever the tokens: what is kept ends before the stop, and one token more would not."""
    text = chat_text
    words = WORDS.replace("caf\u00e9", "cafe")
    ids = plain_ids(text, words)
    found = reader(text, stop=(stop,))
    answer, _ = read(found, ids)
    assert answer == words[: words.index(stop)]
    kept = found.reply_ids()
    assert kept == ids[: len(kept)]
    decode = library_tokenizer(text).decode
    size = len(answer.encode())
    # No token of the character that a stop begins with is kept.
    assert "\ufffd" not in decode(kept) and len(decode(kept).encode()) <= size
    assert _num_bytes(text, ids[: len(kept) + 1]) > size


def _num_bytes(text: ChatText, ids: list[int]) -> int:
    """Bytes of a beginning of WORDS, counting the pieces of a character that is cut in two."""
    tokens = text._kit.tokens
    shown = library_tokenizer(text).decode(ids)
    if shown.endswith("\ufffd"):
        whole = shown.rstrip("\ufffd")
        return len(whole.encode()) + 1
    return sum(len(tokens.decode([token_id])[0].encode()) for token_id in ids)


def test_text_is_held_back_while_it_could_begin_a_stop_string(thinking_text: ChatText) -> None:
    text = thinking_text
    found = reader(text, stop=("aab",))
    letter_a, letter_c = (plain_ids(text, letter)[0] for letter in "ac")
    shown = [found.push(token_id).answer for token_id in (letter_a, letter_a, letter_a, letter_c)]
    assert shown == ["", "", "a", "aac"]


@pytest.mark.parametrize(
    ("parts", "stops", "shown", "finished"),
    [
        ("one|</think>|two", ("onetwo", "et"), ("two", "one"), False),
        ("one two", (" t",), ("", "one"), True),
    ],
)
def test_a_stop_string_counts_within_one_channel(
    thinking_text: ChatText,
    parts: str,
    stops: tuple[str, ...],
    shown: tuple[str, str],
    finished: bool,
) -> None:
    found = reader(thinking_text, stop=stops, thinking=True)
    assert read(found, spelled(thinking_text, parts)) == shown
    assert found.finished is finished
    if finished:
        assert found.reply_ids() == plain_ids(thinking_text, "one")


@pytest.mark.parametrize("spelling", ["<|image_pad|>", "</think>", "<think>"])
def test_a_stop_string_that_spells_a_token_means_the_token(
    thinking_text: ChatText, spelling: str
) -> None:
    """Neither special tokens nor those around a thought show a text to be found in."""
    ids = plain_ids(thinking_text, "one")
    found = reader(thinking_text, stop=("never", spelling), thinking=True)
    assert read(found, [*ids, added_id(thinking_text, spelling), *ids]) == ("", "one")
    assert found.finished and found.reply_ids() == ids


def test_thousands_of_long_stop_strings_keep_up(thinking_text: ChatText) -> None:
    """All begin alike, so every character is held back until the last one decides."""
    stops = tuple("ab" * 400 + f"{number}" for number in range(5_000))
    found = reader(thinking_text, stop=stops)
    letters = {letter: plain_ids(thinking_text, letter)[0] for letter in "ab4"}
    for letter in "ab" * 400 + "4":
        assert found.push(letters[letter]).answer == ""
    assert found.finished and (found.answer, found.reply_ids()) == ("", [])


def first_stop(words: str, stops: Sequence[str]) -> int | None:
    """Index of the stop that is complete first; of several, the longest."""
    places = [(words.index(stop) + len(stop), words.index(stop)) for stop in stops if stop in words]
    return min(places)[1] if places else None


@given(
    st.lists(st.text("ab\u597d", max_size=6), max_size=6),
    st.lists(st.text("ab\u597d", min_size=1, max_size=4), max_size=4),
)
def test_the_pieces_in_which_a_text_arrives_decide_nothing(
    pieces: list[str], stops: list[str]
) -> None:
    words, watched, letters = "".join(pieces), StopStrings(), StopStrings()
    watched.watch_for(stops)
    letters.watch_for(stops)
    shown = "".join(map(watched.push, pieces))
    assert shown == "".join(map(letters.push, words))
    expected = first_stop(words, stops)
    assert watched.found_at == letters.found_at == expected
    assert shown + ("" if expected is not None else watched.close()) == words[:expected]


@given(st.text("ab", max_size=20), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_stops_found_in_pieces_are_those_found_in_the_whole(
    text_of: TextOf, words: str, stops: list[str]
) -> None:
    text = text_of("chatml_thinking")
    letters = [plain_ids(text, letter)[0] for letter in words]
    found = reader(text, stop=tuple(stops))
    expected = words[: first_stop(words, stops)]
    assert read(found, letters) == (expected, "")
    assert found.reply_ids() == letters[: len(expected)]


@pytest.mark.parametrize(
    ("thought", "shown"),
    [
        ("thought\nhm, so\n", "hm, so"),
        ("thought\n", ""),
        ("thought", ""),
        ("thoughts", "thoughts"),
        ("hm", "hm"),
        ("", ""),
    ],
)
def test_a_channel_reads_as_a_thought_without_its_name(
    text_of: TextOf, thought: str, shown: str
) -> None:
    text = text_of("gemma4")
    begin, end = (added_id(text, each) for each in ("<|channel>", "<channel|>"))
    ids = [begin, *plain_ids(text, thought), end, *plain_ids(text, "Yes")]
    found = reader(text, thinking=True)
    assert read(found, ids) == ("Yes", shown)
    assert found.reply_ids() == ids
    reply = split_reply(ids, False, text.thinking, text._kit.tokens.is_space)
    assert reply.opens_itself and reply.answer == tuple(plain_ids(text, "Yes"))
    if thought.startswith("thought\n"):
        assert reply.thought == tuple(plain_ids(text, thought)[len(text.thinking.label_ids) :])


def test_T1_a_thought_in_a_channel_is_gone_on_the_next_turn(text_of: TextOf) -> None:
    """The published template does this; the rest is spliced in."""
    text = text_of("gemma4")
    begin, end = (added_id(text, each) for each in ("<|channel>", "<channel|>"))
    answer = plain_ids(text, "It shows two")
    ids = [begin, *plain_ids(text, "thought\nhm\n"), end, *answer]
    packed = ReplyIds.pack(ids, text.tokenizer_fingerprint, False)
    reply = AssistantMessage(text="It shows two", reasoning="hm", ids=packed)
    for thinking in (True, False):
        plain = AssistantMessage(text="It shows two")
        spliced, written = (
            render(text, chat("a", said, "b"), thinking).prompt.ids(0) for said in (reply, plain)
        )
        assert spliced == written and begin not in spliced[:-8]


@given(st.data(), st.sampled_from(FAMILIES))
def test_T2_ids_of_an_edited_reply_are_those_sampled_up_to_the_edit(
    text_of: TextOf, data: st.DataObject, family: str
) -> None:
    text = text_of(family)
    ids = plain_ids(text, WORDS)
    packed = ReplyIds.pack(ids, text.tokenizer_fingerprint, False)
    place = data.draw(st.integers(0, len(WORDS)))
    new = WORDS[:place] + data.draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=9))
    found = text.edited_ids(AssistantMessage(text=WORDS, ids=packed), new)
    if found is None:
        # Its tokenizer spells this text in another way.
        return
    kept = found.pauses[-1] if found.pauses else 0
    assert found.unpack()[:kept] == ids[:kept]
    answer = read(reader(text), found.unpack())
    assert answer == (new, "")
