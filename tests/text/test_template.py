"""Templates are strangers' code: what they may use, what stops them, and what the user is told."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import pytest

from core.api.errors import TemplateError, TemplateTimeoutError, TemplateTooLargeError
from core.helper.process import Helper
from core.text import kit
from core.text.kit import TEXT_MEMORY_BYTES, ChatTemplate

QUESTION = [{"role": "user", "content": "hello"}]
SMALL_BYTES = 300 * 2**20


@cache
def helper() -> Helper:
    return Helper(TEXT_MEMORY_BYTES)


def template_of(source: str, **special_tokens: str) -> ChatTemplate:
    return ChatTemplate(source, special_tokens, helper())


def rendered(source: str, **special_tokens: str) -> str:
    return template_of(source, **special_tokens).render(QUESTION, None, 0.0)


@cache
def small_helper() -> Helper:
    """One with little memory, so that little has to be filled before it is too much."""
    return Helper(SMALL_BYTES)


# ---------------------------------------------------------------- what published templates use


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{%- if true %}\n  a\n{%- endif %}\nb", "  ab"),
        ("{{ tools is none }}{{ documents is none }}", "TrueTrue"),
        ("{{ missing }}{{ missing is defined }}", "False"),
        ("{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "1"),
        ("{% for x in [1, 2] %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "2"),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}!", "hello!"),
        ("{{ {'a': '<é>'} | tojson }}", '{"a": "<é>"}'),
        ("{% set n = namespace(x=1) %}{% set n.x = n.x + 1 %}{{ n.x }}", "2"),
        ("{{ bos_token + 'x' }}", "<s>x"),
        ("{{ 'a,b'.split(',') | join('-') }}{{ ' x '.strip() }}", "a-bx"),
        ("{{ 'ab'.replace('a', 'c') }}{{ 'ab' | replace('b', 'd') }}", "cbad"),
        ("{{ '%s of %d' % ('one', 2) }}", "one of 2"),
        ("{{ '%s' | format('x') }}{{ '{}'.format('y') }}", "xy"),
        ("{{ 'a' ~ 1 ~ none }}{{ 'ab' * 2 }}{{ [1] + [2] }}{{ 2 ** 3 }}", "a1Noneabab[1, 2]8"),
        ("{{ messages | map(attribute='role') | list }}{{ messages | length }}", "['user']1"),
        ("{{ 'x' | indent(2, true) }}{{ 'x' | center(3) }}{{ 'x'.ljust(2) }}|", "  x x x |"),
        ("{{ messages[0].items() | list | length }}{{ 'a' | upper }}", "2A"),
        ("{{ add_generation_prompt }}", "True"),
        ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m('a') ~ m('b') }}", "[a][b]"),
        ("{% set x %}a{% endset %}{{ x }}{{ enable_thinking is defined }}", "aFalse"),
        ("{{ range(3) | list }}{{ ['b', 'a'] | sort | first }}{{ 'abc'[::-1] }}", "[0, 1, 2]acba"),
        ("{% set n = namespace({'a': 1}, self=2) %}{{ n.a }}{{ n.self }}", "12"),
        ("{{ dict(a=1).a }}{{ strftime_now('%Y-%m-%d') }}", "11970-01-01"),
    ],
)  # fmt: skip
def test_what_published_templates_use_works(source: str, expected: str) -> None:
    assert rendered(source, bos_token="<s>") == expected


def test_thinking_is_passed_only_where_it_was_asked_for() -> None:
    template = template_of("{{ enable_thinking is defined }} {{ enable_thinking }}")
    shown = [template.render(QUESTION, thinking, 0.0) for thinking in (None, True, False)]
    assert shown == ["False ", "True True", "True False"]


def test_nothing_is_left_of_one_rendering_in_the_next() -> None:
    template = template_of("{% set x = ('a' * 1000000) * 16 %}{{ x | length }}")
    assert {template.render(QUESTION, None, 0.0) for _ in range(20)} == {"16000000"}


# ---------------------------------------------------------------- what goes wrong, in words


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('Roles must alternate.') }}", "says: Roles must alternate."),
        ("{% if %}", "Line 1"),
        ("a\n{{ x", "Line 2"),
        ("{% include 'other' %}", "TypeError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ missing.attribute }}", "missing"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "calls itself"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", ""),
        ("{{ messages.append(1) }}", ""),
        ("{{ ''.__class__.__mro__ }}", ""),
        ("{{ ''|attr('__class__')|attr('__mro__') }}{{ x.y }}", ""),
        ("{% set n = namespace() %}{% set n.__init__ = 1 %}", ""),
        ("{% set n = namespace(__init__=1) %}", ""),
        ("{{ dict.update(messages[0], role='x') }}", ""),
        ("{{ messages | random }}", ""),
        ("{{ lipsum() }}", ""),
    ],
)
def test_a_failing_template_is_one_kind_of_error(source: str, words: str) -> None:
    with pytest.raises(TemplateError) as caught:
        rendered(source)
    assert words in caught.value.message
    assert "hello" not in caught.value.message


@pytest.mark.parametrize(
    "source",
    [
        "{{ {}[messages[0].content].x }}",
        "{{ raise_exception('I refuse: ' ~ messages[0].content) }}",
        "{{ raise_exception(messages) }}",
    ],
)
def test_an_error_quotes_nothing_of_a_conversation(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        rendered(source)
    assert "hello" not in caught.value.message


def test_a_creation_time_beyond_the_calendar_is_an_error() -> None:
    template = template_of("{{ strftime_now('%Y') }}")
    with pytest.raises(TemplateError, match="creation time"):
        template.render(QUESTION, None, 1e30)


# ---------------------------------------------------------------- limits


def slow(*sources: str) -> list[Any]:
    return [pytest.param(each, marks=pytest.mark.slow) for each in sources]


TWICE = "{% macro twice(s) %}{{ s }}{{ s }}{% endmacro %}"


def doubling(step: str) -> str:
    start = "{% set n = namespace(s='ab', l=[1]) %}{% for i in range(60) %}"
    return TWICE + start + step + "{% endfor %}"


def nested(use: str) -> str:
    """Forty lists in one another, each holding the next one twice: a petabyte as text, written in
    one call that no other thread could interrupt."""
    nest = "{% set n = namespace(x='a' * 1000) %}{% for i in range(40) %}"
    return nest + "{% set n.x = [n.x, n.x] %}{% endfor %}" + use


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 999999999999 }}",
        "{{ '%099999999999d' % 1 }}",
        "{{ 'a'.ljust(999999999999) }}",
        "{{ 'a\nb' | indent(999999999999) }}",
        doubling("{% set n.s = n.s + n.s %}"),
        doubling("{% set n.s %}{{ n.s }}{{ n.s }}{% endset %}"),
        nested("{{ n.x }}"),
        nested("{{ n.x | tojson | length }}"),
        *slow(
            "{{ [0] * 999999999999 }}",
            "{{ 10 ** 99999999 }}",
            "{{ '{:99999999999}'.format(1) }}",
            "{{ 'a'.zfill(999999999999) }}",
            "{{ '\t'.expandtabs(999999999999) }}",
            "{{ 'a' | center(999999999999) }}",
            "{{ [1, 2] | tojson(indent=999999999999) }}",
            "{{ 1.5 | round(999999999999, 'ceil') }}",
            "{{ [1] | batch(999999999999, 'x') | list }}",
            "{{ range(999999999999) | list }}",
            "{{ ('b' * 4000) | replace('b', 'c' * 8000) }}",
            "{{ ('a' * 4096).join(['b' * 4096] * 8192) }}",
            "{% for i in range(9999) %}{{ 'a' * 9999 }}{% endfor %}",
            "{{ 'a'.encode().ljust(999999999999) }}",
            "{{ (1).to_bytes(999999999999) }}",
            "{{ 'a'.translate({97: 'b' * 99999999}) * 999 }}",
            doubling("{% set n.s = twice(n.s) %}"),
            doubling("{% set n.s = '%s%s' % (n.s, n.s) %}"),
            doubling("{% set n.s = n.s.join([n.s, n.s]) %}"),
            doubling("{% set n.s = n.s.replace('a', 'aa') %}"),
            doubling("{% set n.l = n.l + n.l %}"),
            doubling("{% set n.l = n.l * 2 %}"),
            nested("{{ n.x | upper | length }}"),
            nested("{{ n.x | replace('a', 'b') | length }}"),
            nested("{{ [n.x, n.x] | join | length }}"),
            nested("{{ ('%s' % n.x) | length }}"),
            nested("{{ '{x}'.format(x=n.x) | length }}"),
            nested("{{ {'k': n.x} }}"),
            nested("{{ raise_exception(n.x) }}"),
        ),
    ],
    ids=lambda source: source[-50:],
)  # fmt: skip
def test_a_template_that_builds_too_much_ends_in_an_error(source: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(source, {}, small_helper()).render(QUESTION, None, 0.0)
    still = ChatTemplate("still there", {}, small_helper())
    assert still.render(QUESTION, None, 0.0) == "still there"


def test_output_has_a_limit_of_its_own() -> None:
    with pytest.raises(TemplateTooLargeError):
        rendered("{% for i in range(5) %}{{ 'a' * 4000000 }}{% endfor %}")


@pytest.mark.parametrize(
    "source",
    ["{% for a in range(99999) %}" * 4 + "{% endfor %}" * 4, "{{ 3 ** 999999999 }}"],
    ids=["a loop", "one call"],
)
def test_H3_a_template_that_never_ends_is_stopped(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kit, "TIME_LIMIT_S", 0.2)
    started = time.monotonic()
    with pytest.raises(TemplateTimeoutError):
        rendered(source)
    assert time.monotonic() - started < 30
    assert rendered("still there") == "still there"


def test_a_template_outlives_the_process_it_was_compiled_in() -> None:
    """Whatever ended the helper: the next rendering compiles it again."""
    template = template_of("{{ messages[0].content }}!")
    assert template.render(QUESTION, None, 0.0) == "hello!"
    helper().close()
    assert template.render(QUESTION, None, 0.0) == "hello!"
