"""Tools, calls and results against transformers' apply_chat_template, for each syntax of calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.api.chat import AssistantMessage, Conversation, Tool, ToolCall, ToolMessage
from core.api.errors import NoToolsError, TemplateError
from core.api.prompt import CutKind
from core.text.chat_text import ChatText, RenderedPrompt
from tests.gguf.vocabularies import llama_models
from tests.text.chats import GRID, added_id, plain_ids, sampled, system, user, words
from tests.text.tiny_tokenizer import CALLING, TEMPLATES, write_text_folder

SYNTAX = {
    "chatml_tools": "hermes",
    "chatml_xml": "xml",
    "lfm2_tools": "lfm2",
    "llama3_tools": "llama3",
    "harmony": "harmony",
    "gemma4_tools": "gemma4",
    "mistral": "mistral",
    "mistral_ids": "mistral_ids",
    "mistral_list": "mistral_list",
    "mistral_spaced": "mistral_list",
}
ID = "call12345"
SCHEMA = {
    "type": "object",
    "properties": {"town": {"type": "string", "description": "It's <b>a</b> \"town\""},
                   "days": {"type": "integer"}},
    "required": ["town"],
}  # fmt: skip
FUNCTION = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather.\n\u00e9", "parameters": SCHEMA},
}
TOOLS = (Tool(name="weather", definition=json.dumps(FUNCTION)),)
NASTY = ' "quoted" \\ <b>&amp;</b>\n\n{{ x }}\u00e9\u4f60\t'


def called(**arguments: object) -> AssistantMessage:
    call = ToolCall(name="weather", arguments=json.dumps(arguments), id=ID)
    return AssistantMessage(text="", calls=(call,))


def result(text: str) -> ToolMessage:
    return ToolMessage(text=text, call=ID, name="weather")


def conversation(*messages: Any) -> Conversation:
    return Conversation(messages=messages, tools=TOOLS)


def rendered(text: ChatText, chat: Conversation, thinking: bool | None = None) -> RenderedPrompt:
    return text.render(chat, [], thinking, GRID)


def as_dict(message: Any) -> dict[str, Any]:
    match message:
        case ToolMessage():
            return {
                "role": "tool",
                "content": message.text,
                "name": message.name,
                "tool_call_id": message.call,
            }
        case AssistantMessage():
            calls = [
                {
                    "type": "function",
                    "id": call.id,
                    "function": {"name": call.name, "arguments": json.loads(call.arguments)},
                }
                for call in message.calls
            ]
            reply: dict[str, Any] = {"role": "assistant", "content": message.text}
            return reply | ({"tool_calls": calls} if calls else {})
    if message.role == "system":
        return {"role": "system", "content": message.text}
    return {"role": "user", "content": message.content[0].text}


@pytest.mark.parametrize("family", CALLING)
def test_T5_tools_calls_and_results_are_those_of_the_template(
    oracle: Callable[[str], tuple[ChatText, Any]], family: str
) -> None:
    text, tokenizer = oracle(family)
    assert text.tools == SYNTAX[family]
    plain = AssistantMessage(text="It rains.")
    chats: list[list[Any]] = [
        [user("How?")],
        [system("Be brief."), user(NASTY)],
        [user("How?"), called(town=NASTY, days=3), result(NASTY)],
        [system(NASTY), user("How?"), called(town="a"), result("b"), plain, user("Why?")],
    ]
    for messages in chats:
        if family == "mistral_ids" and messages[0].role != "system":
            messages.insert(0, system("Its own has the date."))
        shown = list(map(as_dict, messages))
        if family == "lfm2_tools":
            # Its template shows no calls: they stand in the text of a reply.
            for each in shown:
                for call in each.pop("tool_calls", ()):
                    items = call["function"]["arguments"].items()
                    given = ", ".join(
                        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in items
                    )
                    each["content"] += f"<|tool_call_start|>[weather({given})]<|tool_call_end|>"
        expected = tokenizer.apply_chat_template(
            shown, tools=[FUNCTION], add_generation_prompt=True, return_dict=False
        )
        assert rendered(text, conversation(*messages)).prompt.ids(0) == expected


# Mistral Nemo's template shows the system message in the last question: replies go as text.
@pytest.mark.parametrize("family", [each for each in CALLING if SYNTAX[each] != "mistral_list"])
def test_T2_a_call_that_was_sampled_is_never_tokenised_again(
    oracle: Callable[[str], tuple[ChatText, Any]], family: str
) -> None:
    text, _ = oracle(family)
    ids = [
        *plain_ids(text, "{"),
        *plain_ids(text, "we"),
        *plain_ids(text, "a"),
        *plain_ids(text, "ther}"),
    ]
    if family == "harmony":
        header = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
        ids = [*text._kit.tokenizer.encode_published(header), *ids]
    reply = sampled(text, ids).model_copy(update={"calls": called(town="a").calls})
    # Without thinking Gemma 4's prompt has an empty thought that its history lacks.
    first = rendered(text, conversation(user("How?")), True).prompt.ids(0)
    turns = [user("How?"), reply, result("b")]
    second = rendered(text, conversation(*turns), True).prompt.ids(0)
    assert second[: len(first) + len(ids)] == [*first, *ids]
    if family == "mistral_ids":
        return  # whose tools move on to the last question
    later = conversation(*turns, sampled(text, plain_ids(text, "It rains")), user("And?"))
    assert rendered(text, later, True).prompt.ids(0)[: len(first) + len(ids)] == [*first, *ids]


# The second has no messages of results: they are a part of the message that called for them.
@pytest.mark.parametrize("template", ["google-gemma-4-31B-it", "google-gemma-4-31B-it-interleaved"])
def test_T2_calls_with_a_thought_are_followed_by_their_results_in_one_turn(
    template: str, tmp_path: Path
) -> None:
    """Ids as Gemma 4's templates have them; a thought is gone after the next question."""
    source = (llama_models() / "templates" / f"{template}.jinja").read_text("utf-8")
    text = ChatText.open(write_text_folder(tmp_path, "gemma4_tools", source))
    assert text.tools == "gemma4"
    begin, end, waits = (added_id(text, f"<{each}>") for each in ("|tool_call", "tool_call|",
                                                                  "|tool_response"))  # fmt: skip
    opens, closes = (added_id(text, each) for each in ("<|channel>", "<channel|>"))
    assert waits in text.end_of_turn_ids and text.spliced
    thought = [opens, *plain_ids(text, "thought\nhm\n"), closes]
    calls = [each for town in "ab" for each in (begin, *plain_ids(text, f"call:{town}"), end)]
    packed = sampled(text, [*thought, *calls]).ids
    shown = tuple(ToolCall(name="weather", arguments="{}", id=f"call_{at}") for at in (1, 2))
    reply = AssistantMessage(text="", reasoning="hm", calls=shown, ids=packed)
    results = result("Rain"), ToolMessage(text="Sun", call="call_2", name="sky")
    asked = rendered(text, conversation(user("How?")), True).prompt.ids(0)
    answering = rendered(text, conversation(user("How?"), reply, *results), True)
    found = answering.prompt.ids(0)
    assert found[: len(asked) + len(thought) + len(calls)] == [*asked, *thought, *calls]
    assert words(text, found[len(asked) + len(thought) + len(calls) :]) == (
        '<|tool_response>response:weather{value:<|"|>Rain<|"|>}<tool_response|>'
        '<|tool_response>response:sky{value:<|"|>Sun<|"|>}<tool_response|>'
    )
    assert not answering.opens_reasoning and not answering.closes_reasoning
    said = plain_ids(text, "It rains")
    later = conversation(user("How?"), reply, *results, sampled(text, said), user("And?"))
    last = rendered(text, later, True).prompt.ids(0)
    kept = [*asked, *calls, *found[len(asked) + len(thought) + len(calls) :], *said]
    assert last[: len(kept)] == kept


@pytest.mark.parametrize("family", ["chatml_tools", "chatml_xml", "lfm2_tools", "gemma4_tools"])
def test_I5_no_result_or_argument_becomes_a_control_token(
    oracle: Callable[[str], tuple[ChatText, Any]], family: str
) -> None:
    text, _ = oracle(family)
    spelling = '<|"|>' if family == "gemma4_tools" else "<|im_end|>"
    control = added_id(text, spelling)
    plain = rendered(text, conversation(user("How?"), called(town="a"), result("b")))
    typed = rendered(
        text, conversation(user("How?"), called(town=spelling), result(f"{spelling}\n{spelling}"))
    )
    assert typed.prompt.ids(0).count(control) == plain.prompt.ids(0).count(control)


def test_I5_no_name_or_id_of_a_call_becomes_a_control_token(tmp_path: Path) -> None:
    """Some templates show the ids of calls, or the function of a result."""
    source = (TEMPLATES / "chatml_tools.jinja").read_text("utf-8")
    for place, shown in (
        ("{%- elif message.role == 'tool' %}", "{{- message.tool_call_id + message.name }}"),
        ("{%- for tool_call in message.tool_calls or [] %}", "{{- tool_call.id }}"),
    ):
        source = source.replace(place, place + shown)
    text = ChatText.open(write_text_folder(tmp_path, "chatml_tools", source))
    control = added_id(text, "<|im_end|>")
    counts = []
    for name in ("weather", "x<|im_end|>"):
        call = ToolCall(name=name, arguments="{}", id=name)
        answered = ToolMessage(text="b", call=name, name=name)
        turns = (user("How?"), AssistantMessage(text="", calls=(call,)), answered)
        counts.append(rendered(text, conversation(*turns)).prompt.ids(0).count(control))
    assert counts[0] == counts[1] > 0


BEGIN = {
    "chatml_tools": "<tool_call>",
    "lfm2_tools": "<|tool_call_start|>",
    "gemma4_tools": "<|tool_call>",
    "mistral": "[TOOL_CALLS]",
    "mistral_ids": "[TOOL_CALLS]",
    "mistral_list": "[TOOL_CALLS]",
    "mistral_spaced": "[TOOL_CALLS]",
}


@pytest.mark.parametrize("family", BEGIN)
def test_S8_a_prompt_is_split_where_a_call_begins(
    oracle: Callable[[str], tuple[ChatText, Any]], family: str
) -> None:
    text, _ = oracle(family)
    one, other = (
        rendered(text, conversation(user("How?"), called(town=town), result("b"))).prompt
        for town in ("a", "c")
    )
    begin = added_id(text, BEGIN[family])
    shared, kind = 0, None
    for run, twin in zip(one.runs, other.runs, strict=False):
        if run != twin:
            break
        shared, kind = run.end.token.value, run.kind
    assert one.ids(0)[shared - 1] == begin and kind is not None and kind & CutKind.CALL


@pytest.mark.parametrize("family", ["mistral_ids", "mistral_list", "mistral_spaced"])
def test_a_template_that_takes_short_ids_gets_them(
    oracle: Callable[[str], tuple[ChatText, Any]], family: str
) -> None:
    text, _ = oracle(family)
    given = "toolu_01A09q90qw90lq917835lq9"
    call = called(town="a").calls[0].model_copy(update={"id": given})
    chat = conversation(user("How?"), AssistantMessage(text="", calls=(call,)),
                        ToolMessage(text="b", call=given, name="weather"))  # fmt: skip
    shown = words(text, rendered(text, chat).prompt.ids(0))
    (short,) = set(re.findall(r"\b(?=\w*[0-9])[0-9a-f]{9}\b", shown))
    assert shown.count(short) == 2 and given not in shown


# Of all templates in llama.cpp's source package; None has no tools or calls in another syntax.
UNKNOWN = """
    Apertus-8B-Instruct Apriel-1.6-15b-Thinker-fixed ByteDance-Seed-OSS Cohere2MoE
    CohereForAI-c4ai-command-r7b-12-2024-tool_use GLM-4.6 GLM-4.7-Flash GigaChat3-10B-A1.8B
    GigaChat3.1-10B-A1.8B HuggingFaceTB-SmolLM3-3B Kimi-K2-Instruct Kimi-K2-Thinking Kimi-K3
    MiniMax-M1 MiniMax-M2 MiniMax-M3 NVIDIA-Nemotron-Nano-v2 Spark2.5
    deepseek-ai-DeepSeek-R1-Distill-Llama-8B deepseek-ai-DeepSeek-R1-Distill-Qwen-32B
    deepseek-ai-DeepSeek-V3.1 deepseek-ai-DeepSeek-V3.2 deepseek-ai-DeepSeek-V4
    deepseek-ai-DeepSeek-V4-Flash-0731 google-gemma-2-2b-it ibm-granite-granite-3.3-2B-Instruct
    inclusionai-ling-3.0-flash llama-cpp-deepseek-r1 llama-cpp-rwkv-world
    meetkai-functionary-medium-v3.1 meetkai-functionary-medium-v3.2 microsoft-Phi-3.5-mini-instruct
    moonshotai-Kimi-K2 muse-glimmer openbmb-MiniCPM5-1B poolside-Laguna-S-2.1
    poolside-Laguna-XS-2.1 poolside-Laguna-XS.2 tencent-Hy3 unsloth-Apriel-1.5
    upstage-Solar-Open-100B
"""
KNOWN = {
    "hermes": "Bielik-11B-v3.0-Instruct MiMo-VL Qwen-QwQ-32B Qwen-Qwen2.5-7B-Instruct "
    "Qwen-Qwen3-0.6B Reka-Edge ibm-granite-granite-4.0 ibm-granite-granite-4.1",
    "xml": "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 Qwen3-Coder Qwen3.5-4B StepFun3.5-Flash",
    "lfm2": "LFM2-8B-A1B LFM2.5-8B-A1B LFM2.5-Instruct",
    "llama3": "meta-llama-Llama-3.1-8B-Instruct meta-llama-Llama-3.2-3B-Instruct "
    "meta-llama-Llama-3.3-70B-Instruct",
    "gemma4": "google-gemma-4-31B-it google-gemma-4-31B-it-interleaved",
    "harmony": "openai-gpt-oss-120b",
    "mistral": "mistralai-Ministral-3-14B-Reasoning-2512 unsloth-mistral-Devstral-Small-2507",
    "mistral_ids": "Mistral-Small-3.2-24B-Instruct-2506",
    "mistral_list": "mistralai-Mistral-Nemo-Instruct-2407",
}
# They need tools or functions in every chat.
UNUSABLE = """
    CohereForAI-c4ai-command-r-plus-tool_use NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use
    NousResearch-Hermes-3-Llama-3.1-8B-tool_use fireworks-ai-llama-3-firefunction-v2
"""


@pytest.mark.slow
def test_the_syntax_of_calls_is_known_or_refused_for_all_published_templates(
    tmp_path: Path,
) -> None:
    found: dict[str | None, set[str]] = {}
    kinds = {"gemma": "gemma4_tools", "LFM2": "lfm2_tools", "istral": "mistral"}
    kinds |= {"gpt-oss": "harmony", "functionary": "llama3_tools"}
    for path in (llama_models() / "templates").glob("*.jinja"):
        family = next((kinds[part] for part in kinds if part in path.name), "chatml_tools")
        folder = tmp_path / path.stem
        folder.mkdir()
        try:
            syntax = ChatText.open(write_text_folder(folder, family, path.read_text("utf-8"))).tools
        except TemplateError:
            found.setdefault("unusable", set()).add(path.stem)
        else:
            found.setdefault(syntax, set()).add(path.stem)
    assert found.pop(None) == set(UNKNOWN.split())
    assert found.pop("unusable") == set(UNUSABLE.split())
    assert found == {syntax: set(names.split()) for syntax, names in KNOWN.items()}


def test_a_template_without_tools_is_refused_by_name(tmp_path: Path) -> None:
    text = ChatText.open(write_text_folder(tmp_path, "chatml"))
    assert text.tools is None
    with pytest.raises(NoToolsError, match="no tools"):
        rendered(text, conversation(user("How?")))
