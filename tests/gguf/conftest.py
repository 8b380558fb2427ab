"""Tiny models as folders and as GGUF files, converted once a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.gguf.families import Converted, Converter, convert
from tests.gguf.vocabularies import llama_models
from tests.one_thread import one_thread

__all__ = ["converted", "converter", "one_thread"]

ConvertedOf = Callable[..., Converted]


@pytest.fixture(scope="session")
def converter() -> Iterator[Converter]:
    made = Converter(llama_models().parent)
    yield made
    made.close()


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory, converter: Converter) -> ConvertedOf:
    """One of FAMILIES as a folder and as files of a type: ALL_F32, MOSTLY_BF16, MOSTLY_Q8_0."""
    place = tmp_path_factory.mktemp("converted")

    @cache
    def make(name: str, kind: str) -> Converted:
        return convert(converter, name, place / name, kind)

    return lambda name, kind="ALL_F32": make(name, kind)
