"""Mutants of tokenizers and templates: each ends in a name or works, and costs a helper at most."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

import pytest

from core.api.errors import BrokenTokenizerError, TemplateError
from core.helper.process import Helper
from core.text import kit
from core.text import tokenizer as tokenizer_module
from core.text.kit import ChatTemplate
from core.text.tokenizer import Tokenizer
from tests.hostile.counts import mutants
from tests.hostile.mutation import mutated_bytes, mutated_text
from tests.hostile.watch import grows_less_than
from tests.text.tiny_tokenizer import FAMILIES, TEMPLATES, tokenizer_json

KINDS = ("chatml", "llama3", "instruct", "gemma")
MEMORY = 400 * 2**20
SEEDS = pytest.mark.parametrize(
    "seeds", [range(40, 60), pytest.param(range(mutants(1_000)), marks=pytest.mark.slow)]
)
GROWTH_BYTES = 200 * 2**20
WORDS = "Hello, \u4f60\u597d \U0001f600 <|im_end|>\n\n  1234 \ufffd " * 20
QUESTION = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes"}]

# Parts that blow up what they are given, or never end; they are put into real tokenizers.
EXPLOSIVE = (
    {"type": "Replace", "pattern": {"Regex": "(a|aa)+$"}, "content": "x"},
    {"type": "Replace", "pattern": {"Regex": "(.*)*(.*)*b"}, "content": ""},
    {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 1000},
    {"type": "Replace", "pattern": {"Regex": ""}, "content": "abc"},
    {"type": "Split", "pattern": {"Regex": "(?:)"}, "behavior": "Isolated", "invert": False},
    {"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"String": "o"}, "content": "oooooooooo"}] * 12},
    {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "o"}, "content": "oooooooooo"}] * 12},
    {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
    {"type": "Strip", "strip_left": True, "strip_right": True, "content": "a",
     "start": 2**40, "stop": 9},
    {"type": "ByteFallback"},
)  # fmt: skip


@pytest.fixture(autouse=True)
def within_bounds() -> Iterator[None]:
    """Assert that the answer of a helper, whatever it is, costs this process little memory."""
    with grows_less_than(GROWTH_BYTES):
        yield


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the limits; at these sizes everything that ends takes a hundredth of a second."""
    monkeypatch.setattr(kit, "TIME_LIMIT_S", 0.3)
    monkeypatch.setattr(tokenizer_module, "ASK_S", 0.3)
    monkeypatch.setattr(tokenizer_module, "BUILD_S", 1.0)


def tokenizer_mutant(seed: int) -> bytes:
    kind = KINDS[seed % len(KINDS)]
    description = json.loads(tokenizer_json(kind))
    random_ = random.Random(f"parts {seed}")
    if seed % 3 == 0:
        part = random_.choice(("normalizer", "pre_tokenizer", "decoder"))
        description[part] = random_.choice(EXPLOSIVE)
        if seed % 2:
            return json.dumps(description).encode()
    if seed % 5 == 0:
        return mutated_bytes(json.dumps(description).encode(), seed)
    # Vocabulary and merges are most of the file, and would be hit nearly always.
    model = description.pop("model")
    mutant = json.loads(mutated_text(description, seed * 4 + 1))
    if isinstance(mutant, dict):
        mutant["model"] = json.loads(mutated_text(model, seed * 4 + 3)) if seed % 2 else model
    return json.dumps(mutant).encode()


@SEEDS
def test_mutants_of_tokenizers_cost_their_helper_at_most(
    seeds: range, helper_of: Callable[[int], Helper]
) -> None:
    helper, worked = helper_of(MEMORY), 0
    ended: list[str] = []
    for seed in seeds:
        data = tokenizer_mutant(seed)
        try:
            tokenizer = Tokenizer(lambda data=data: data, helper)  # type: ignore[misc]
            encoded = tokenizer.encode(WORDS, True)
            assert len(encoded.ids) == len(encoded.ends)
            tokenizer.decode(encoded.ids.tolist()[:50])
            [tokenizer.table.token(token_id) for token_id in range(500)]
            worked += 1
        except BrokenTokenizerError as error:
            ended.append(error.message)
    assert worked > 0 and ended and all(each and "Hello" not in each for each in ended)


ATOMS = (
    "messages", "messages[0].content", "'a'", "'a' * 9999", "'ab'", "1", "0", "-1", "2 ** 70",
    "1.5", "none", "true", "[1, 2]", "{'a': 1}", "range(9)", "range(99999)", "namespace(a=1)",
    "x", "y.z", "'%s%s'", "'{}'", "'a'.encode()", "''.join", "cycler('a')", "dict", "loop", "self",
)  # fmt: skip
BINARY = ("+", "-", "*", "**", "/", "//", "%", "~", "in", "and", "or", "<", "==")
FILTERS = (
    "list", "string", "length", "upper", "tojson", "join(',')", "indent(9)", "center(99)",
    "replace('a', 'aaaa')", "batch(3) | list", "slice(3) | list", "sum", "sort", "reverse | list",
    "map('string') | list", "wordwrap(2)", "urlize", "xmlattr", "pprint", "round(99)", "format(1)",
    "truncate(3)", "unique | list", "attr('__class__')", "groupby('role')", "int", "float", "abs",
    "filesizeformat", "striptags",
)  # fmt: skip
METHODS = (
    "format(*messages)", "join(['a'] * 9)", "replace('', 'aaaa')", "zfill(99999)", "ljust(2 ** 40)",
    "split('')", "encode()", "translate({97: 'bbb'})", "expandtabs(99999)", "__class__",
    "__init__.__globals__", "to_bytes(99999)", "decode()", "items()", "update({})", "append(1)",
    "hex()", "format_map({})",
)  # fmt: skip
DOUBLING = "{% set n.s = n.s ~ n.s %}"


def expression(random_: random.Random, depth: int) -> str:
    if depth == 0:
        return random_.choice(ATOMS)
    inner = expression(random_, depth - 1)
    match random_.randrange(6):
        case 0 | 1:
            return f"({inner} {random_.choice(BINARY)} {expression(random_, depth - 1)})"
        case 2 | 3:
            return f"({inner} | {random_.choice(FILTERS)})"
        case 4:
            return f"({inner}).{random_.choice(METHODS)}"
        case _:
            return f"[{inner}, {inner}]"


def statement(random_: random.Random, depth: int) -> str:
    written = "{{ " + expression(random_, random_.randrange(4)) + " }}"
    if depth == 0:
        return written
    body = statement(random_, depth - 1) + statement(random_, depth - 1)
    loop = "{% for i in range(40) %}" + DOUBLING + "{% endfor %}"
    ways = (
        "{% for x in " + expression(random_, 1) + " %}" + body + "{% endfor %}",
        "{% if " + expression(random_, 1) + " %}" + body + "{% else %}" + written + "{% endif %}",
        "{% set x = " + expression(random_, 2) + " %}" + body,
        "{% macro m(x) %}" + body + "{% endmacro %}{{ m(1) }}",
        "{% set n = namespace(s='ab') %}" + loop + body,
        body,
    )
    return random_.choice(ways)


def template_mutant(seed: int) -> str:
    if seed % 2:
        family = FAMILIES[seed // 2 % len(FAMILIES)]
        source = (TEMPLATES / f"{family}.jinja").read_bytes()
        return mutated_bytes(source, seed).decode(errors="replace")
    random_ = random.Random(f"template {seed}")
    return "".join(statement(random_, random_.randrange(4)) for _ in range(3))


@SEEDS
def test_mutants_of_templates_cost_their_helper_at_most(
    seeds: range, helper_of: Callable[[int], Helper]
) -> None:
    helper = helper_of(MEMORY)
    ended: list[str] = []

    def rendered(source: str) -> str:
        return ChatTemplate(source, {"bos_token": "<s>"}, helper).render(QUESTION, None, 0.0)

    for seed in seeds:
        try:
            assert isinstance(rendered(template_mutant(seed)), str)
        except TemplateError as error:
            ended.append(error.message)
    assert ended and all(each and len(each) < 3_000 for each in ended)
    assert rendered((TEMPLATES / f"{FAMILIES[0]}.jinja").read_text("utf-8")), "it works on"
