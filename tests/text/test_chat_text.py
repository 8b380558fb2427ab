"""The facade: what a prompt holds for each family, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.api.chat import (
    AssistantMessage,
    Conversation,
    Message,
    ReplyIds,
    ToolCall,
    ToolMessage,
)
from core.api.errors import (
    EmptyConversationError,
    InvalidRequestError,
    NoVisionError,
    TemplateError,
)
from core.api.positions import TokenIndex
from core.api.prompt import CutKind, Image
from core.text.chat_text import ChatText
from core.text.history import Sampled, plain_messages, spliced_pieces
from tests.text.chats import (
    GRID,
    IMAGE,
    PICTURE,
    REPEATS_TEXT,
    TextOf,
    added_id,
    chat,
    ids,
    library_tokenizer,
    looped,
    plain_ids,
    render,
    sampled,
    spelled,
    system,
    text_ids,
    user,
    words,
)
from tests.text.tiny_tokenizer import FAMILIES, SIGHTED, write_text_folder

THINKING = "chatml_thinking"


def test_T5_replies_of_every_family_can_be_spliced(chat_text: ChatText) -> None:
    assert chat_text.spliced
    assert chat_text.note == ""


def test_the_template_says_what_it_can(text_of: TextOf) -> None:
    switches = {family for family in FAMILIES if text_of(family).has_thinking_switch}
    pictures = {family for family in FAMILIES if text_of(family).takes_images}
    assert switches == {THINKING, "chatml_keeps_thoughts", "gemma4", "harmony"}
    assert pictures == set(SIGHTED)


@pytest.mark.parametrize(
    ("family", "ends"),
    [
        ("chatml", {"<|im_end|>"}),
        ("chatml_thinking", {"<|im_end|>"}),
        ("instruct", {"</s>"}),
        ("instruct_once", {"</s>"}),
        ("llama3", {"<|eot_id|>"}),
        # No file names the second one: the template writes it after a reply.
        ("gemma", {"<eos>", "<end_of_turn>"}),
        ("gemma3", {"<eos>", "<end_of_turn>"}),
        ("gemma4", {"<eos>", "<turn|>"}),
        ("harmony", {"<|return|>", "<|call|>", "<|end|>"}),
    ],
)
def test_T5_a_reply_ends_and_a_message_is_cut_where_the_family_closes_it(
    text_of: TextOf, family: str, ends: set[str]
) -> None:
    text = text_of(family)
    assert text.end_of_turn_ids == {added_id(text, spelling) for spelling in ends}
    reply = sampled(text, plain_ids(text, "one"))
    rendered = render(text, chat(system("brief"), "a", reply, "b"))
    cuts = {cut.token.value for cut in rendered.prompt.cuts}
    # At least the reply's end is a place to go on from, and none lies in the middle of it.
    assert rendered.message_starts[2].value in cuts


def test_T5_a_folded_system_message_stands_before_the_first_question(text_of: TextOf) -> None:
    for family, opening in (
        ("gemma3", "<bos><start_of_turn>user\nbrief\n\nhi<end_of_turn>\n<start_of_turn>model\n"),
        ("instruct_once", "<s>[INST] brief\n\nhi[/INST]"),
    ):
        text = text_of(family)
        shown = words(text, ids(render(text, chat(system("brief"), "hi"))))
        assert shown.replace("<s> [", "<s>[") == opening


def test_a_picture_stands_in_its_frame(text_of: TextOf) -> None:
    text = text_of("gemma3")
    shown = words(text, ids(render(text, chat(user("see", PICTURE, "here")))))
    assert "user\nsee\n\n<start_of_image>######<end_of_image>\n\nhere<end_of_turn>" in shown

    shown = words(text_of("gemma4"), ids(render(text_of("gemma4"), chat(user("see", PICTURE)))))
    assert "user\nsee<|image>######<image|><turn|>" in shown


def test_a_tokenizer_without_the_frames_tokens_has_no_place_for_pictures(tmp_path: Path) -> None:
    folder = write_text_folder(tmp_path, "gemma3")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eoi_token_index": 250_000}))
    assert not ChatText.open(folder).takes_images


def test_a_thinking_prompt_reads_as_the_template_writes_it(thinking_text: ChatText) -> None:
    reply = sampled(thinking_text, plain_ids(thinking_text, "two"))
    conversation = chat(system(" brief "), " hi ", reply, user(PICTURE, "and now?"))
    rendered = render(thinking_text, conversation, thinking=False)
    assert words(thinking_text, ids(rendered)) == (
        "<|im_start|>system\nbrief<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>assistant\ntwo<|im_end|>\n<|im_start|>user\n"
        "<|vision_start|>######<|vision_end|>and now?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    assert rendered.prompt.images == (IMAGE,)


@pytest.mark.parametrize(("thinking", "opens"), [(None, True), (True, True), (False, False)])
def test_an_open_thought_at_the_prompts_end_is_noticed(
    text_of: TextOf, thinking: bool | None, opens: bool
) -> None:
    rendered = render(text_of(THINKING), chat("hi"), thinking)
    assert (rendered.opens_reasoning, rendered.closes_reasoning) == (opens, not opens)
    # A thought in history is none before the reply.
    keeps = text_of("chatml_keeps_thoughts")
    asked = chat("a", sampled(keeps, plain_ids(keeps, "hm"), in_thought=True), "b")
    assert render(keeps, asked, thinking).closes_reasoning is (thinking is False)
    assert not render(text_of("llama3"), chat("hi"), thinking).closes_reasoning


def test_pictures_keep_their_places_between_texts(thinking_text: ChatText) -> None:
    other = Image(key=b"other".ljust(32, b"-"), rows=1, columns=1, num_positions=1)
    conversation = chat(user("one", PICTURE, "two", PICTURE))
    rendered = thinking_text.render(conversation, [IMAGE, other], None, GRID)
    assert rendered.prompt.images == (IMAGE, other)
    assert words(thinking_text, ids(rendered)).startswith(
        "<|im_start|>user\none<|vision_start|>######<|vision_end|>two<|vision_start|>#<|vision_end|>"
    )


def test_several_texts_of_a_message_follow_each_other(text_of: TextOf) -> None:
    chat_text = text_of("chatml_thinking")
    split, whole = chat(user("Hello ", "there, what")), chat("Hello there, what")
    assert ids(render(chat_text, split)) == ids(render(chat_text, whole))


def test_U3_a_part_ends_in_a_cut_that_no_text_after_it_moves(chat_text: ChatText) -> None:
    document = "<document>\n" + " ".join(map(str, range(90))) + "\n</document>"
    shown = set()
    for question in ("Who?", "", "\nWho?", "> who?"):
        made = render(chat_text, chat(user(f"{document}\n\n", question)))
        (run,) = [run for run in made.prompt.runs if run.ends(CutKind.PART_END)]
        shown.add(words(chat_text, ids(made)[: run.end.token.value]))
    (before,) = shown
    assert document.removesuffix("</document>") in before and document not in before
    alone = render(chat_text, chat(user(document))).prompt
    assert not any(run.ends(CutKind.PART_END) for run in alone.runs)


@pytest.mark.parametrize("family", ["chatml", "chatml_thinking", "gemma"])
def test_a_reply_that_says_nothing_is_left_out_of_what_the_model_is_told(
    text_of: TextOf, family: str
) -> None:
    """It failed, or was stopped before its first id; its number in the chat stays."""
    text = text_of(family)
    said = sampled(text, plain_ids(text, "c"), answer="c")
    expected = render(text, chat(system("s"), "a", "b", said, "d"))
    for nothing in (AssistantMessage(text=""), sampled(text, [])):
        rendered = render(text, chat(system("s"), "a", nothing, "b", said, "d"))
        assert ids(rendered) == ids(expected)
        first, *rest = expected.message_starts
        assert rendered.message_starts == (first, rest[0], *rest)
        last = render(text, chat("a", nothing, "b"))
        assert ids(last) == ids(render(text, chat("a", "b")))


def test_a_template_that_wants_a_reply_to_every_question_gets_an_empty_one(text_of: TextOf) -> None:
    text = text_of("instruct")
    empty, stopped = (
        render(text, chat("a", reply, "b"))
        for reply in (AssistantMessage(text=""), sampled(text, []))
    )
    assert ids(empty) == ids(stopped) and len(empty.message_starts) == 3


def test_a_template_of_turns_gets_questions_in_a_row_as_one(text_of: TextOf) -> None:
    text = text_of("instruct")
    reply = sampled(text, plain_ids(text, " one"))
    rendered = render(text, chat(system("s"), "a ", reply, "b", "c", reply, "d"))
    joined = render(text, chat(system("s"), "a ", reply, "b\n\nc", reply, "d"))
    assert ids(rendered) == ids(joined) and len(rendered.message_starts) == 6
    places = [start.value for start in rendered.message_starts]
    assert words(text, ids(rendered)[places[3] : places[4]]).strip() == "c [/INST]"
    # Without ids, as from a program.
    told = AssistantMessage(text="one")
    assert ids(render(text, chat("a", told, "b", "c"))) == ids(
        render(text, chat("a", told, "b\n\nc"))
    )


_TURNS = """{% set seen = namespace(count=0) %}{% for m in messages %}
{% if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}
{% if (m.role == 'user') != (seen.count % 2 == 0) %}{{ raise_exception('take turns') }}{% endif %}
{% set seen.count = seen.count + 1 %}{% endif %}{% endfor %}"""


@pytest.mark.parametrize("turns", [_TURNS, ""])
def test_a_template_of_turns_gets_a_question_after_a_result_in_it(
    opened: TextOf, turns: str
) -> None:
    text = opened(turns + looped("{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}"))
    called = AssistantMessage(text="", calls=(ToolCall(name="f", arguments="{}"),))
    pictured = user(PICTURE, "d")
    asked = chat("a", called, ToolMessage(text="b", name="f"), "c")
    messages = plain_messages(asked.messages, text._traits.style, str)
    shown = ["b\n\nc"] if turns else ["b", "c"]
    assert [each["content"] for each in messages[2:]] == shown
    messages = plain_messages((*asked.messages[:3], pictured), text._traits.style, str)
    assert [each["role"] for each in messages[2:]] == ["tool", "user"]


# ---------------------------------------------------------------- T1, T2


@pytest.mark.parametrize("thinking", [None, True, False])
def test_T1_the_next_prompt_begins_with_this_one_up_to_the_users_end(
    chat_text: ChatText, thinking: bool | None
) -> None:
    messages: list[Message] = [system("be brief"), user(" Hello,\nwhat is this? ")]
    first = render(chat_text, chat(*messages), thinking)
    reply = sampled(chat_text, plain_ids(chat_text, "It is a line."), first.opens_reasoning)
    second = render(chat_text, chat(*messages, reply, "And that?"), thinking)
    shared = second.message_starts[1].value
    assert ids(second)[:shared] == ids(first)[:shared]
    ends = [cut.token for cut in first.prompt.cuts if cut.token <= TokenIndex(shared)]
    if chat_text.end_of_turn_ids & set(ids(first)):
        assert TokenIndex(shared) in ends


def test_T1_where_nothing_vanishes_the_next_prompt_begins_with_this_one_and_its_reply(
    text_of: TextOf,
) -> None:
    for family in ("chatml", "instruct", "gemma"):
        text = text_of(family)
        first = render(text, chat("Hello there"))
        spoken = plain_ids(text, " It shows two dots" if family == "instruct" else "It shows dots")
        second = render(text, chat("Hello there", sampled(text, spoken), "more"))
        expected = [*ids(first), *spoken]
        assert ids(second)[: len(expected)] == expected


def test_T2_a_reply_enters_history_as_it_was_sampled(chat_text: ChatText) -> None:
    """Ids that no tokenizer would give for their text, so that tokenising again would show."""
    letters = [plain_ids(chat_text, letter)[-1] for letter in "Hello"]
    assert letters != plain_ids(chat_text, "Hello")
    rendered = render(chat_text, chat("a", sampled(chat_text, letters, answer="Hello"), "b"))
    assert _contains(ids(rendered), letters)


def test_T2_of_a_thinking_reply_the_answer_enters_history_as_sampled(
    thinking_text: ChatText,
) -> None:
    text = thinking_text
    letters = [plain_ids(text, letter)[0] for letter in "Hello"]
    close = added_id(text, "</think>")
    reply = [*plain_ids(text, "dots\n"), close, *plain_ids(text, "\n\n"), *letters]
    rendered = render(text, chat("a", sampled(text, reply, in_thought=True), "b"))
    header = ids(render(text, chat("a"), thinking=True))[:-2]
    assert ids(rendered)[: len(header) + len(letters)] == [*header, *letters]
    assert close not in ids(rendered)


@pytest.mark.parametrize(
    ("parts", "in_thought"),
    [
        ("dots  |</think>|answer ", True),
        ("dots|</think>|", True),
        ("dots|</think>| ", True),
        ("dots|</think>|\n\n", True),
        ("<think>|dots|</think>|line", False),
    ],
)
def test_T2_a_template_that_keeps_thoughts_gets_the_whole_reply(
    text_of: TextOf, parts: str, in_thought: bool
) -> None:
    """Its thinking tokens are there once, whether the template or the model opened the thought."""
    text = text_of("chatml_keeps_thoughts")
    reply, opening, closing = spelled(text, parts), *spelled(text, "<think>|</think>")
    first = ids(render(text, chat("a"), in_thought))
    second = ids(render(text, chat("a", sampled(text, reply, in_thought), "b"), in_thought))
    if in_thought:
        assert second[: len(first) + len(reply)] == first + reply
    assert _contains(second, [*reply, added_id(text, "<|im_end|>")])
    ends = [place for place, token in enumerate(second) if token in text.end_of_turn_ids]
    history = second[: ends[-1]]
    assert (history.count(opening), history.count(closing)) == (1, 1)


@pytest.mark.parametrize("after", [None, "\n\n"])
def test_a_thought_without_an_answer_leaves_an_empty_one(
    thinking_text: ChatText, after: str | None
) -> None:
    text, reply = thinking_text, plain_ids(thinking_text, "hm")
    if after is not None:
        reply += [added_id(text, "</think>"), *plain_ids(text, after)]
    rendered = render(text, chat("a", sampled(text, reply, in_thought=True), "b"))
    assert "assistant\n<|im_end|>" in words(text, ids(rendered))


def test_a_thought_that_never_closed_is_closed_by_a_template_that_keeps_it(text_of: TextOf) -> None:
    text = text_of("chatml_keeps_thoughts")
    cut_off = sampled(text, plain_ids(text, "hm"), in_thought=True)
    shown = words(text, ids(render(text, chat("a", cut_off, "b"))))
    assert "<think>\nhm\n</think>\n\n<|im_end|>" in shown


@pytest.mark.parametrize("defect", ["tokenizer", "range", "bytes"])
def test_ids_that_are_not_this_tokenizers_are_replaced_by_the_text(
    chat_text: ChatText, defect: str
) -> None:
    packed = ReplyIds.pack([5, 6], chat_text.tokenizer_fingerprint, False)
    broken = {
        "tokenizer": packed.model_copy(update={"tokenizer": "another"}),
        "range": ReplyIds.pack([5, chat_text.vocab_size], chat_text.tokenizer_fingerprint, False),
        "bytes": packed.model_copy(update={"data": b"\1\2\3"}),
    }[defect]
    bare = AssistantMessage(text=" Hello there ")
    reply = bare.model_copy(update={"ids": broken})
    found, expected = (ids(render(chat_text, chat("a", each, "b"))) for each in (reply, bare))
    assert found == expected


# ---------------------------------------------------------------- where messages begin


def test_messages_begin_after_the_end_of_the_one_before(chat_text: ChatText) -> None:
    reply = sampled(chat_text, plain_ids(chat_text, "one"))
    rendered = render(chat_text, chat(system("brief"), "a", reply, "b", reply, "c"))
    starts = [start.value for start in rendered.message_starts]
    assert len(starts) == 5
    assert starts == sorted(starts)
    token_ids = ids(rendered)
    for start in starts[1:]:
        assert token_ids[start - 1] in chat_text.end_of_turn_ids or _is_instruct_reply(
            chat_text, starts, start
        )


def _is_instruct_reply(text: ChatText, starts: list[int], start: int) -> bool:
    """`[/INST]` is no token: a reply begins where its ids do."""
    return not text.takes_images and starts.index(start) % 2 == 1


def test_a_reply_without_a_token_before_it_begins_where_its_text_does(text_of: TextOf) -> None:
    text = text_of("instruct")
    spoken = plain_ids(text, " one")
    rendered = render(text, chat("a", sampled(text, spoken), "b"))
    start = rendered.message_starts[1].value
    assert ids(rendered)[start : start + len(spoken)] == spoken
    # A reply that has no ids is encoded in one piece with the question before it.
    rendered = render(text, chat("what \u4f60\u597d", AssistantMessage(text="It shows"), "b"))
    start = rendered.message_starts[1].value
    assert words(text, ids(rendered)[:start]).endswith("[/INST]")
    assert words(text, ids(rendered)[start:]).strip().startswith("It shows")


def test_messages_without_a_word_of_their_own_have_a_place(thinking_text: ChatText) -> None:
    thought = sampled(thinking_text, plain_ids(thinking_text, "hm"), True)
    rendered = render(thinking_text, chat("a", thought, user(PICTURE), thought, "b"))
    shown = [
        words(thinking_text, ids(rendered)[start.value :]) for start in rendered.message_starts
    ]
    roles = [text.strip().split("\n")[0].removeprefix("<|im_start|>") for text in shown]
    assert roles == ["user", "assistant", "user", "assistant", "user"]


def test_a_system_prompt_of_the_templates_own_is_no_message(text_of: TextOf) -> None:
    text = text_of("chatml")
    rendered = render(text, chat("Hello"))
    (start,) = rendered.message_starts
    assert words(text, ids(rendered)[start.value :]).startswith("\n<|im_start|>user\nHello")


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("conversation", "error"),
    [
        (Conversation(messages=()), EmptyConversationError),
        (chat(system("brief")), EmptyConversationError),
        (chat(user()), EmptyConversationError),
        (chat(" \n"), EmptyConversationError),
        (chat("a", AssistantMessage(text="b"), user("", " ")), EmptyConversationError),
        (chat(AssistantMessage(text="b")), EmptyConversationError),
        (chat("a", *[AssistantMessage(text="b")] * 2), InvalidRequestError),
        (chat("a", system("late"), "b"), InvalidRequestError),
    ],
)
def test_a_conversation_that_cannot_be_answered_is_refused(
    chat_text: ChatText, conversation: Conversation, error: type[Exception]
) -> None:
    with pytest.raises(error):
        render(chat_text, conversation)


def test_a_model_without_a_place_for_pictures_refuses_them(text_of: TextOf) -> None:
    with pytest.raises(NoVisionError):
        render(text_of("instruct"), chat(user(PICTURE, "what is this?")))


def test_T3_a_reply_goes_on_from_the_prompt_it_answered(chat_text: ChatText) -> None:
    begun = plain_ids(chat_text, "b c")
    asked = render(chat_text, chat("a"))
    reply = sampled(chat_text, begun, in_thought=asked.opens_reasoning)
    rendered = render(chat_text, chat("a", reply))
    assert ids(rendered) == ids(asked) + begun
    assert rendered.begun == tuple(begun)
    assert len(rendered.message_starts) == 2
    reader = chat_text.reply_reader(rendered, ())
    reader.push(plain_ids(chat_text, " d")[0])
    assert reader.reply_ids()[: len(begun)] == begun


def test_T3_a_thought_goes_on_as_it_was_begun(thinking_text: ChatText) -> None:
    begun = plain_ids(thinking_text, "so far")
    packed = ReplyIds.pack(begun, thinking_text.tokenizer_fingerprint, starts_in_reasoning=True)
    reply = AssistantMessage(text="", reasoning="so far", ids=packed)
    rendered = render(thinking_text, chat("a", reply), thinking=False)
    assert rendered.opens_reasoning
    assert ids(rendered)[-len(begun) :] == begun
    reader = thinking_text.reply_reader(rendered, ())
    assert (reader.reasoning, reader.answer) == ("so far", "")


def test_a_reply_of_another_tokenizer_goes_on_from_its_text(chat_text: ChatText) -> None:
    # One that began in a thought that this template doesn't open can't go on by its ids either.
    other = sampled(chat_text, [5], in_thought=True, answer="b")
    replies = [AssistantMessage(text="b"), *([] if chat_text.has_thinking_switch else [other])]
    header = chat_text._kit.header_of("final") if chat_text.in_messages else []
    for reply in replies:
        rendered = render(chat_text, chat("a", reply), thinking=False)
        assert rendered.begun == (*header, *plain_ids(chat_text, "b"))
    assert render(chat_text, chat("a", AssistantMessage(text=""))).begun == ()


def test_T3_an_answer_of_another_tokenizer_does_not_go_on_as_a_thought(
    thinking_text: ChatText,
) -> None:
    reply = AssistantMessage(text="b", reasoning="hm")
    for thinking, reasoning in ((True, "hm"), (False, "")):
        rendered = render(thinking_text, chat("a", reply), thinking)
        reader = thinking_text.reply_reader(rendered, ())
        assert (reader.answer, reader.reasoning) == ("b", reasoning)
    cut = AssistantMessage(text="", reasoning="hm")
    reader = thinking_text.reply_reader(render(thinking_text, chat("a", cut), True), ())
    assert (reader.answer, reader.reasoning) == ("", "hm")


def test_T3_no_stop_in_what_a_reply_has_already_ends_it(chat_text: ChatText) -> None:
    """It was begun under other settings, and nothing of it may be lost."""
    begun = [
        *plain_ids(chat_text, "b stop c"),
        min(chat_text.end_of_turn_ids),
        *plain_ids(chat_text, "d"),
    ]
    reply = sampled(chat_text, begun, render(chat_text, chat("a")).opens_reasoning)
    reader = chat_text.reply_reader(render(chat_text, chat("a", reply)), ("stop", "e f"))
    assert (reader.finished, reader.reply_ids()) == (False, begun)
    before = reader.answer + reader.reasoning
    for token_id in plain_ids(chat_text, "e f g"):
        reader.push(token_id)
    reader.close()
    assert reader.finished and (reader.answer + reader.reasoning).strip() == before.strip()


def test_every_picture_needs_its_place(thinking_text: ChatText) -> None:
    for images in ([], [IMAGE, IMAGE]):
        with pytest.raises(InvalidRequestError):
            thinking_text.render(chat(user(PICTURE, "a")), images, None, GRID)


# ---------------------------------------------------------------- the fallback


CHANGES_TEXT = looped("{{ m.content | replace('i', 'j') }}")
LOOKS_INTO_TEXT = "{{ m.content[:2] + ('!' if messages[9:] else '') + m.content[2:] }}"
GLUES_REPLIES = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ 'Q: ' + m.content + '\nA: ' }}{% else %}"
    "{{ m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
)


@pytest.fixture
def opened(tmp_path: Path) -> TextOf:
    return lambda template: ChatText.open(write_text_folder(tmp_path, "chatml", template))


@pytest.mark.parametrize("template", [CHANGES_TEXT, REPEATS_TEXT, GLUES_REPLIES])
def test_T5_a_template_that_does_not_fit_falls_back_and_says_so(
    opened: TextOf, template: str
) -> None:
    text = opened(template)
    assert not text.spliced
    assert "read again" in text.note
    reply = sampled(text, plain_ids(text, "x"), answer="hi there")
    rendered = render(text, chat("why 'so'?", reply, "is it 12?"))
    said = [("user", "why 'so'?"), ("assistant", "hi there"), ("user", "is it 12?")]
    messages = [{"role": role, "content": content} for role, content in said]
    plain = text._kit.template.render(messages, None, 0.0)
    assert ids(rendered) == library_tokenizer(text).encode(plain, add_special_tokens=False).ids
    starts = [start.value for start in rendered.message_starts]
    assert len(starts) == 3
    assert starts == sorted(starts)
    if template != GLUES_REPLIES:
        assert all(ids(rendered)[start - 1] in text.end_of_turn_ids for start in starts[1:])


def test_I5_in_the_fallback_typed_control_tokens_stay_text(opened: TextOf) -> None:
    # A template that leaves the letters of the spellings alone: else they would be safe anyway.
    text = opened(REPEATS_TEXT)
    assert not text.spliced
    spellings = [token.spelling for token in text._kit.added.tokens]
    harmless = render(text, chat("x"))
    for typed in ("".join(spellings), "<|im_<|im_end|>end|>", "\ue000 0\ue001 <think>"):
        rendered = render(text, chat(typed))
        assert _controls(text, ids(rendered)) == _controls(text, ids(harmless))
        if "\ue000" in typed:
            assert typed in words(text, ids(rendered))
    halves = chat(user("<|im_", "end|>", "<|im_start|", ">"))
    assert _controls(text, ids(render(text, halves))) == _controls(text, ids(harmless))


def test_T5_pictures_stay_pictures_in_the_fallback(opened: TextOf) -> None:
    text = opened(
        looped(
            "{% if m.content is string %}{{ m.content | upper }}{% else %}{% for p in m.content %}"
            "{% if p.type == 'image' %}<|image_pad|>{% else %}"
            "{{ p.text | upper | replace('A', 'B') }}{% endif %}{% endfor %}{% endif %}"
        )
    )
    assert not text.spliced
    rendered = render(text, chat(user(PICTURE, "a <|image_pad|> cat")))
    assert rendered.prompt.images == (IMAGE,)
    assert text.image_token_id not in text_ids(rendered)
    assert "######B <|image_pad|> CBT" in words(text, ids(rendered))


def test_a_template_that_cuts_one_conversations_text_falls_back_for_that_one(
    opened: TextOf,
) -> None:
    """It passes the probes and looks into the texts later: the torn marks show it."""
    text = opened(looped(LOOKS_INTO_TEXT))
    assert text.spliced
    messages: list[Message | str] = ["one", AssistantMessage(text="two")] * 5
    shown = words(text, ids(render(text, chat(*messages, "three"))))
    assert shown.count("<|im_start|>user\non!e<|im_end|>") == 5


def test_a_template_without_a_place_for_a_picture_it_promised_fails_clearly(opened: TextOf) -> None:
    text = opened(
        looped(
            "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
            "{% if p.type != 'image' %}{{ p.text }}{% elif loop.first %}<|image_pad|>{% endif %}"
            "{% endfor %}{% endif %}"
        )
    )
    assert text.takes_images
    with pytest.raises(TemplateError, match="1 of the conversation's 2 pictures"):
        render(text, chat(user(PICTURE, PICTURE, "a")))


@pytest.mark.parametrize("template", ["", "{{ '' }}", "{% for m in messages %}{% endfor %}"])
def test_a_template_that_writes_nothing_is_an_error_with_a_name(
    opened: TextOf, template: str
) -> None:
    text = opened(template)
    with pytest.raises(TemplateError, match="writes nothing"):
        render(text, chat("a"))


@pytest.mark.parametrize("number", ["0", "9", "9" * 9, "9" * 5_000, "\u0663", ""])
def test_a_template_that_writes_marks_of_its_own_is_no_unknown_error(
    opened: TextOf, number: str
) -> None:
    """It names the characters by escapes, so its source holds none of them."""
    template = f"{{{{ '\\ue000{number}\\ue001' }}}}" + REPEATS_TEXT
    text = opened(template)
    if number.isascii() and 0 < len(number) < 10:
        with pytest.raises(TemplateError, match="mark typed control tokens"):
            render(text, chat("a"))
    else:
        assert number in words(text, ids(render(text, chat("a"))))


def test_a_chat_in_every_private_character_is_an_error_with_a_name(opened: TextOf) -> None:
    text = opened(REPEATS_TEXT)
    codes = (*range(0xE000, 0xF900), *range(0xF0000, 0xFFFFE))
    assert render(text, chat("".join(map(chr, codes[2:])))).prompt.num_tokens > len(codes)
    with pytest.raises(TemplateError, match="private use"):
        render(text, chat("".join(map(chr, codes[1:]))))


@pytest.mark.parametrize("of_a_string", ["", "{{ raise_exception('a list!') }}"])
def test_a_template_may_know_lists_only(opened: TextOf, of_a_string: str) -> None:
    text = opened(
        looped(
            "{% if m.content is string %}" + of_a_string + "{% endif %}"
            "{% for p in m.content %}{{ p.text if p.type == 'text' else '<|image_pad|>' }}"
            "{% endfor %}"
        )
    )
    assert text.spliced and text.takes_images
    asked = chat("a", AssistantMessage(text="b"), user(PICTURE, "c"))
    assert words(text, ids(render(text, asked))) == (
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
        "<|im_start|>user\n######c<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_may_refuse_a_system_message(opened: TextOf) -> None:
    """Probes that the template refuses say nothing of the others; users hear it in its words."""
    refusal = "{{ raise_exception('System role not supported') }}"
    text = opened(looped("{% if m.role == 'system' %}" + refusal + "{% endif %}{{ m.content }}"))
    assert text.spliced
    with pytest.raises(TemplateError, match="System role not supported"):
        render(text, chat(system("brief"), "a"))


def test_a_template_may_write_thoughts_in_its_own_way(tmp_path: Path) -> None:
    """Then thought and answer are spliced one by one, without the thinking tokens between them."""
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}"
        "Thought: {{ m.reasoning_content }}\nAnswer: {% endif %}{{ m.content }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    )
    text = ChatText.open(write_text_folder(tmp_path, "chatml_thinking", template))
    letters = [plain_ids(text, letter)[0] for letter in "Hello"]
    space, close = plain_ids(text, "\n"), added_id(text, "</think>")
    reply = [*space, *letters, *space]
    for answer, in_history in (([close, *reply], 2), ([], 1)):
        said = sampled(text, [*reply, *answer], in_thought=True)
        pieces = spliced_pieces(text._kit, text._traits, chat("a", said, "b"), None)
        assert pieces is not None
        found = [each.content for each in pieces if isinstance(each.content, Sampled)]
        assert found == [Sampled(tuple(letters))] * in_history


def test_tokens_that_swallow_the_space_beside_them_do_so(tmp_path: Path) -> None:
    """`rstrip` and `lstrip` of an added token, as Phi-3's tokenizer has them."""
    folder = write_text_folder(tmp_path, "chatml")
    path = folder / "tokenizer.json"
    source = path.read_text("utf-8")
    at = source.index('"<|im_end|>"')
    end = source.index("}", at)
    changed = source[at:end].replace('"rstrip":false', '"rstrip":true')
    changed = changed.replace('"lstrip":false', '"lstrip":true')
    assert changed != source[at:end]
    path.write_text(source[:at] + changed + source[end:], "utf-8")
    text = ChatText.open(folder)
    assert text.spliced
    shown = words(text, ids(render(text, chat(" Hello \n"))))
    assert " Hello<|im_end|><|im_start|>assistant\n" in shown


# ---------------------------------------------------------------- T4


def test_T4_the_templates_clock_is_the_chats_creation(opened: TextOf) -> None:
    template = (
        "{{ strftime_now('%d %B %Y %H:%M') }}{% for m in messages %}<|im_start|>{{ m.content }}"
        "<|im_end|>{% endfor %}"
    )
    text = opened(template)
    shown = words(text, ids(render(text, chat("a", created=1_000_000_000.0))))
    assert shown.startswith("09 September 2001 01:46<|im_start|>a")


def _contains(whole: list[int], part: list[int]) -> bool:
    return any(whole[start : start + len(part)] == part for start in range(len(whole)))


def _controls(text: ChatText, token_ids: list[int]) -> list[int]:
    return [token_id for token_id in token_ids if token_id in text._kit.added.by_id]
