"""One loaded `ChatText` per family for the whole run: they hold no state."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from core.text.chat_text import ChatText
from tests.text.tiny_tokenizer import FAMILIES, write_text_folder


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    @cache
    def make(family: str) -> Path:
        return write_text_folder(tmp_path_factory.mktemp(family), family)

    return make


@pytest.fixture(scope="session")
def text_of(folder_of: Callable[[str], Path]) -> Callable[[str], ChatText]:
    @cache
    def load(family: str) -> ChatText:
        return ChatText.open(folder_of(family))

    return load


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def chat_text(family: str, text_of: Callable[[str], ChatText]) -> ChatText:
    return text_of(family)


@pytest.fixture
def thinking_text(text_of: Callable[[str], ChatText]) -> ChatText:
    return text_of("chatml_thinking")
