"""Errors in the user's language: every title, and the messages that users meet often."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QLocale

import desktop
from core.api.errors import ErrorInfo, WaymarkError
from desktop.engine import error_words
from desktop.engine.error_words import MESSAGES, REASONS, TITLES, error_text, in_language
from desktop.i18n import use_language

CORE = Path(__file__).parents[3] / "core"
# Shown to programs that connect, never in the window.
OF_PROGRAMS = {"core.server.requests.refusals"}


@pytest.fixture
def german(qapp: object) -> Iterator[None]:
    before = QLocale()
    use_language("de")
    yield
    use_language("en")
    QLocale.setDefault(before)


def kinds() -> Iterator[type[WaymarkError]]:
    for each in pkgutil.walk_packages(desktop.__path__, "desktop."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)
    waiting = [WaymarkError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith(("core.", "desktop.")) and kind.__module__ not in OF_PROGRAMS:
            yield kind


@pytest.mark.usefixtures("german")
def test_every_error_has_a_title_in_german() -> None:
    found = {kind.__name__: kind.title for kind in kinds()}
    assert len(found) > 60
    assert {name: title for name, title in found.items() if title not in TITLES} == {}
    assert [title for title in TITLES if in_language(title) == title] == []


def texts() -> set[str]:
    """The texts in the engine's code, with {} for each value in them."""
    found = set()
    for path in CORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (
                    each.value if isinstance(each, ast.Constant) else "{}" for each in node.values
                )
                found.add("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def test_every_message_is_one_of_the_engine() -> None:
    """A message that is changed there would be shown in English again."""
    written = texts()
    shapes = {each: error_words.VALUE.sub("{}", each) for each in MESSAGES}
    assert [each for each, shape in shapes.items() if shape not in written] == []
    assert set(REASONS) <= {os.strerror(number) for number in range(200)}


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize("template", MESSAGES)
def test_a_message_keeps_its_values_in_german(template: str) -> None:
    names = error_words.VALUE.findall(template)
    values = {name: f"{name[:2]}{at} \n{{}}%1" for at, name in enumerate(names)}
    said = in_language(template.format(**values))
    assert said != template.format(**values)
    assert all(value in said for value in values.values())


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "The model needs 4.2 GB on the graphics card, 2.0 GB is free.",
            "Das Modell braucht 4.2 GB auf der Grafikkarte, frei sind 2.0 GB.",
        ),
        (
            "The engine crashed (SIGSEGV). Its last output: {oops}",
            "Die Engine ist abgestürzt (SIGSEGV). Ihre letzte Ausgabe: {oops}",
        ),
        (
            "a.heic can't be opened: Permission denied.",
            "a.heic kann nicht geöffnet werden: Zugriff verweigert.",
        ),
        (
            "After several attempts: the server answers 503.",
            "Nach mehreren Versuchen: der Server antwortet mit 503.",
        ),
        # A file's name is no reason.
        ("Stopped has no pages.", "Stopped hat keine Seiten."),
        ("Something new happened.", "Something new happened."),
        ("", ""),
    ],
)
def test_parts_of_a_message_are_translated_too(message: str, said: str) -> None:
    assert in_language(message) == said


@pytest.mark.usefixtures("german")
def test_an_error_is_said_in_two_sentences() -> None:
    info = ErrorInfo(name="ImageError", title="This picture is empty", message="Why?")
    assert error_text(info) == "Dieses Bild ist leer. Why?"


def test_no_text_compiles_no_pattern() -> None:
    error_words._patterns.cache_clear()
    assert in_language("") == "" and error_words._patterns.cache_info().currsize == 0
    assert in_language("Hello") == "Hello" and error_words._patterns.cache_info().currsize == 1
