"""Text files of model folders, and the errors if one is missing or broken."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.api.errors import (
    BrokenConfigError,
    BrokenTokenizerError,
    MissingFileError,
    TemplateError,
    WaymarkError,
)
from core.api.params import SamplingParams
from core.helper.tokenizer import SpellingFinder
from core.text.added_tokens import WHITE_SPACE, AddedToken, AddedTokens, without_swallowed
from core.text.chat_text import ChatText
from core.text.files import read_text_files, sampling_defaults
from core.text.kit import PictureFrame
from tests.text.chats import chat, library_tokenizer, render
from tests.text.tiny_tokenizer import write_text_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_text_folder(tmp_path, "chatml", "jinja file")


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}))


def test_templates_are_found_where_publishers_put_them(folder: Path) -> None:
    change(folder / "tokenizer_config.json", chat_template="in the config")
    assert read_text_files(folder).template == "jinja file"
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": "json file"}))
    assert read_text_files(folder).template == "json file"
    (folder / "chat_template.json").unlink()
    assert read_text_files(folder).template == "in the config"
    named = [{"name": "rag", "template": "x"}, {"name": "default", "template": "y"}]
    change(folder / "tokenizer_config.json", chat_template=named)
    assert read_text_files(folder).template == "y"
    change(folder / "tokenizer_config.json", chat_template=named[:1])
    assert read_text_files(folder).template == "x"


def test_the_fingerprint_covers_tokenizer_and_template(folder: Path) -> None:
    prints = {read_text_files(folder).fingerprint}
    (folder / "chat_template.jinja").write_text("another")
    prints.add(read_text_files(folder).fingerprint)
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes() + b"\n")
    prints.add(read_text_files(folder).fingerprint)
    assert len(prints) == 3


DEEP = b'{"deep": ' * 300 + b"1" + b"}" * 300
INLINE = b'{"chat_template": "%s"}'


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("tokenizer.json", None, MissingFileError),
        ("chat_template.jinja", None, MissingFileError),
        ("tokenizer.json", b"{", BrokenTokenizerError),
        ("tokenizer.json", b"[]", BrokenTokenizerError),
        ("tokenizer.json", b'{"model": {"type": "BPE"}}', BrokenTokenizerError),
        ("tokenizer.json", b'{"model": {}, "added_tokens": [{"id": 1}]}', BrokenTokenizerError),
        ("tokenizer.json", b'{"model": {}, "added_tokens": 1}', BrokenTokenizerError),
        ("tokenizer_config.json", b"\xff", BrokenConfigError),
        ("config.json", b"[]", BrokenConfigError),
        ("generation_config.json", b"[" * 100_000, BrokenConfigError),
        ("generation_config.json", DEEP, BrokenConfigError),
        ("tokenizer_config.json", DEEP, BrokenConfigError),
        ("tokenizer.json", b'{"model": {}, "decoder": ' + DEEP + b"}", BrokenTokenizerError),
        ("generation_config.json", b'{"do_sample": true, "top_p": 7}', BrokenConfigError),
        ("generation_config.json", b'{"do_sample": true, "top_k": Infinity}', BrokenConfigError),
        ("chat_template.jinja", b"\xff\xfe\xfd", BrokenConfigError),
        ("chat_template.jinja", b"{% if %}", TemplateError),
        ("chat_template.jinja", b"{{ raise_exception('no') }}", TemplateError),
        # Sparse, so that a reader without a limit would need gigabytes.
        ("chat_template.jinja", 2**31, BrokenConfigError),
        ("chat_template.json", INLINE % (b"a" * (2**20 + 1)), BrokenConfigError),
        ("config.json", 4 * 2**20 + 1, BrokenConfigError),
        ("tokenizer.json", 64 * 2**20 + 1, BrokenTokenizerError),
    ],
)
def test_a_broken_folder_is_named_by_what_is_broken(
    folder: Path, name: str, content: bytes | int | None, error: type[WaymarkError]
) -> None:
    if name == "chat_template.json":
        (folder / "chat_template.jinja").unlink()
    if content is None:
        (folder / name).unlink()
    elif isinstance(content, int):
        os.truncate(folder / name, content)
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(error):
        ChatText.open(folder)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("tokenizer.json", BrokenTokenizerError),
        ("config.json", BrokenConfigError),
        ("chat_template.jinja", BrokenConfigError),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: type[WaymarkError]
) -> None:
    """Tests may run as root, whom no permission stops: the refusal is played."""
    open_ = Path.open

    def refuse(path: Path, mode: str = "r") -> Any:
        if path.name == name:
            raise PermissionError(13, "Permission denied")
        return open_(path, mode)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(error, match=f"{name} can't be read: Permission denied"):
        ChatText.open(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="only POSIX has pipes in folders")
@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "chat_template.jinja"])
def test_a_pipe_in_place_of_a_file_is_no_file(folder: Path, name: str) -> None:
    """Opened, it would wait for ever for somebody to write."""
    (folder / name).unlink()
    os.mkfifo(folder / name)
    if name == "config.json":
        assert ChatText.open(folder).image_token_id is None
        return
    with pytest.raises(MissingFileError):
        ChatText.open(folder)


def test_an_id_that_the_model_has_no_row_for_is_refused_before_the_model_sees_it(
    folder: Path,
) -> None:
    change(folder / "config.json", vocab_size=300)
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
    )
    text = ChatText.open(folder)
    with pytest.raises(BrokenTokenizerError, match="only 300 tokens"):
        render(text, chat("a"))


def test_settings_that_are_absent_say_nothing(folder: Path) -> None:
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        (folder / name).unlink()
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}<|im_end|>")
    text = ChatText.open(folder)
    assert text.image_token_id is None
    assert text.end_of_turn_ids == frozenset()
    assert text.vocab_size == library_tokenizer(text).get_vocab_size()


def test_eos_ids_come_from_every_file_that_names_some(folder: Path) -> None:
    change(folder / "generation_config.json", eos_token_id=[1, 2])
    change(folder / "config.json", eos_token_id=3, text_config={"eos_token_id": 4, "vocab_size": 9})
    files = read_text_files(folder)
    assert files.eos_ids == {1, 2, 3, 4}
    assert files.vocab_size == 9


def test_special_tokens_are_strings_however_they_are_written(folder: Path) -> None:
    change(
        folder / "tokenizer_config.json",
        eos_token={"content": "<end>", "lstrip": False},
        bos_token=None,
        image_token="<image>",
        add_bos_token=True,
    )
    special = read_text_files(folder).special_tokens
    assert special == {"eos_token": "<end>", "pad_token": "<|endoftext|>", "image_token": "<image>"}


# ---------------------------------------------------------------- sampling


def test_what_a_model_says_of_sampling_is_kept_and_the_rest_is_transformers() -> None:
    given = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": None, "min_p": 0.1}
    neutral = {"top_p": 1.0, "repetition_penalty": 1.0}
    penalties = {"presence_penalty": 0.0, "frequency_penalty": 0.0}
    expected = {"temperature": 0.6, "top_k": 20, "min_p": 0.1, **neutral, **penalties}
    assert sampling_defaults(given) == SamplingParams.model_validate(expected)
    assert sampling_defaults({"do_sample": True}).top_k == 50
    assert sampling_defaults({"stop_strings": "END"}).stop == ("END",)
    assert sampling_defaults({"stop_strings": ["a", "b"]}).stop == ("a", "b")
    for greedy in ({"temperature": 0.7}, {"do_sample": False, "temperature": 0.7}):
        assert sampling_defaults(greedy).temperature == 0


@pytest.mark.parametrize(
    "value",
    [
        {"do_sample": True, "temperature": -1},
        {"do_sample": True, "temperature": "warm"},
        {"top_k": float("inf")},
        {"top_p": 1.5},
        {"repetition_penalty": 0},
        {"stop_strings": [""]},
        {"stop_strings": 5},
    ],
)
def test_a_setting_out_of_range_is_refused_by_its_file(value: dict[str, object]) -> None:
    with pytest.raises(BrokenConfigError, match=r"generation_config\.json"):
        sampling_defaults(value)


# ---------------------------------------------------------------- added tokens


def added(*tokens: AddedToken) -> AddedTokens:
    return AddedTokens(tokens, SpellingFinder(token.spelling for token in tokens).find)


def test_the_longest_spelling_wins_and_words_keep_theirs() -> None:
    short, long = AddedToken(1, "<a>"), AddedToken(2, "<a><b>")
    word = AddedToken(3, "end", single_word=True)
    assert list(added().split("a<b>")) == ["a<b>"]
    found = added(short, long, word)
    assert list(found.split("x<a><b><a>end ending. end")) == [
        "x", long, short, word, " ending. ", word,
    ]  # fmt: skip


@given(
    st.lists(st.text("ab <\u00e9\u4f60\n01", min_size=1, max_size=5), max_size=6),
    st.text("ab <\u00e9\u4f60\n01", max_size=30),
)
def test_spellings_are_found_as_an_expression_of_all_of_them_finds_them(
    spellings: list[str], text: str
) -> None:
    ordered = sorted(spellings, key=lambda spelling: -len(spelling))
    pattern = re.compile("|".join(map(re.escape, ordered)) or "(?!)")
    found = SpellingFinder(spellings).find(text)
    assert found == [match.span() for match in pattern.finditer(text)]


def test_white_space_is_all_of_unicodes_and_not_the_separators_that_python_adds() -> None:
    blanks = {chr(code) for code in range(0x110000) if chr(code).isspace()}
    assert set(WHITE_SPACE) == blanks - set("\x1c\x1d\x1e\x1f")


def test_swallowed_space_is_the_tokenizers_own_idea_of_it() -> None:
    greedy = AddedToken(1, "<a>", swallows_before=True, swallows_after=True)
    assert without_swallowed(" \n\x85x\u2028 ", greedy, greedy) == ("x", 3)
    assert without_swallowed("\x1cx\x1f", greedy, greedy) == ("\x1cx\x1f", 0)
    assert without_swallowed(" x ", None, None) == (" x ", 0)


# ---------------------------------------------------------------- what a stranger's spellings cost


def entry(number: int, spelling: str) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": number, "content": spelling, **flags}


def test_more_added_tokens_than_any_model_has_are_refused(folder: Path) -> None:
    """Thousands of long spellings were made into a pattern in the engine: 17 s and 670 MiB."""
    path = folder / "tokenizer.json"
    entries = json.loads(path.read_text("utf-8"))["added_tokens"]
    long = [entry(10_000 + each, f"<{each}>" + "x" * 2_000) for each in range(600)]
    change(path, added_tokens=[*entries, *long])
    with pytest.raises(BrokenTokenizerError, match="more tokens than any model has"):
        ChatText.open(folder)


def test_a_template_that_writes_nothing_but_control_tokens_is_stopped(folder: Path) -> None:
    text = ChatText.open(folder)
    with pytest.raises(TemplateError, match="control tokens"):
        list(text._kit.added.split("<|im_end|>" * 300_000))
    assert len(list(text._kit.added.split("<|im_end|>" * 1_000))) == 1_000


def test_a_frame_around_pictures_makes_no_more_than_a_template_may_write() -> None:
    frame = PictureFrame("<p>", "x" * 10_000)
    assert frame.around_pictures("a<p>b") == "a" + "x" * 10_000 + "b"
    with pytest.raises(TemplateError, match="more pictures"):
        frame.around_pictures("<p>" * 10_000)


def test_what_an_added_token_holds_besides_is_not_handed_over(folder: Path) -> None:
    path = folder / "tokenizer.json"
    entries = json.loads(path.read_text("utf-8"))["added_tokens"]
    entries[0]["more"] = ["x"] * 1000
    change(path, added_tokens=entries)
    text = ChatText.open(folder)
    facts, _ = text._kit.tokenizer._helper.ask("tokenizer.build", {}, path.read_bytes(), seconds=5)
    assert set(facts["added_tokens"][0]) == {
        "id", "content", "special", "lstrip", "rstrip", "single_word",
    }  # fmt: skip


def spelled(*spellings: str) -> AddedTokens:
    return added(*(AddedToken(10 + place, each) for place, each in enumerate(spellings)))


@pytest.mark.parametrize(
    ("family", "key", "begin", "end"),
    [
        ("lfm2_vl", "image_token_id", "<|image_start|>", "<|image_end|>"),
        ("lfm2_vl", "image_token_index", "<|image_start|>", "<|image_end|>"),
        ("nemotron_h_omni", "image_token_id", "<img>", "</img>"),
    ],
)
def test_a_placeholder_stands_between_two_tokens(
    family: str, key: str, begin: str, end: str
) -> None:
    frame = PictureFrame.find({"model_type": family, key: 10}, spelled("<image>", begin, end))
    assert frame is not None
    assert frame.around_pictures("a<image>b") == f"a{begin}<image>{end}b"
    assert PictureFrame.find({"model_type": family, key: 10}, spelled("<image>")) is None


def test_older_names_of_nemotron_omni_are_read(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    text, named = config.pop("text_config", {}), config.pop("image_token_id")
    texts = text | {"vocab_size": 401, "eos_token_id": 7}
    older = {"llm_config": texts, "img_context_token_id": named}
    (folder / "config.json").write_text(json.dumps({"model_type": "nemotron_h_omni"} | older))
    files = read_text_files(folder)
    assert (files.vocab_size, files.image_token) == (401, named) and 7 in files.eos_ids


def test_the_placeholder_may_be_named_in_the_tokenizers_config(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text("utf-8"))
    del config["image_token_id"]
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "minicpmv4_6"}))
    change(folder / "tokenizer_config.json", image_token="<|image_pad|>")
    frame = ChatText.open(folder)._kit.template.frame
    assert frame is not None
    pad = "<|image_pad|>"
    shown = f"<image_id>0</image_id>{pad}a<image_id>1</image_id>{pad}"
    assert frame.around_pictures(f"{pad}a{pad}") == shown


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "lfm2_vl", "image_token_id": [10]},
        {"model_type": "nemotron_h_omni"},
        {"model_type": "minicpmv4_6", "image_token_id": "10"},
        {"model_type": "gemma3", "boi_token_index": {}, "image_token_index": 10},
    ],
)
def test_an_id_that_is_no_number_makes_no_frame(config: dict[str, Any]) -> None:
    tokens = spelled("<image>", "<|image_start|>", "<|image_end|>")
    assert PictureFrame.find(config, tokens) is None
