from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from core.text.chat_text import ChatText
from tests.one_thread import one_thread
from tests.text.tiny_tokenizer import write_text_folder

__all__ = ["one_thread", "oracle"]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[ChatText, Any]]:
    """A family's text model, and transformers' tokenizer of the same folder."""

    @cache
    def load(family: str) -> tuple[ChatText, Any]:
        folder = write_text_folder(tmp_path_factory.mktemp(family), family)
        return ChatText.open(folder), PreTrainedTokenizerFast.from_pretrained(folder)

    return load
