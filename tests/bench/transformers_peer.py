"""transformers as it comes, on the same weights: untuned, no kernels beside torch's own.

A loop over its forward, greedy and with its cache: what its `generate` does, without the checks
around each token.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForImageTextToText
from transformers.utils import logging

from tests.bench.peer import Engine, Reading, Task, patches, prompt_ids


@dataclass(frozen=True)
class Place:
    """Where generating starts: the cache there, None before the first token, and the next id."""

    cache: Any
    first: int

    @property
    def num_tokens(self) -> int:
        return int(self.cache.get_seq_length()) if self.cache is not None else 0


class Transformers:
    """A `Peer` (tests.bench.peer). Its cache grows, so each generation works on a copy."""

    def __init__(self, engine: Engine) -> None:
        # Speaks of faster kernels to install and draws a progress bar. Its functions have no types.
        speech: Any = logging
        speech.set_verbosity_error()
        speech.disable_progress_bar()
        self._engine = engine
        self._model: Any = None
        self._place: Place | None = None

    @torch.inference_mode()
    def run(self, task: Task, size: int) -> Reading:
        """As `Peer`."""
        match task:
            case "load":
                return self._load()
            case "prompt":
                return self._prompt(size)
            case "context":
                return self._context(size)
            case "generate":
                return self._generate(size)
            case "image":
                return self._image(size)

    def close(self) -> None:
        self._model = self._place = None

    def _load(self) -> Reading:
        self.close()
        dtype = getattr(torch, self._engine.precision)
        began = time.perf_counter()
        self._model = AutoModelForImageTextToText.from_pretrained(self._engine.folder, dtype=dtype)
        return Reading(time.perf_counter() - began)

    def _prompt(self, size: int) -> Reading:
        self._place = None  # nobody goes on from there, and its cache would count as memory
        began = time.perf_counter()
        first, cache = self._forward(prompt_ids(size), None)
        seconds = time.perf_counter() - began
        self._place = Place(cache, first)
        context = self._place.num_tokens
        return Reading(seconds, tokens=size, context=context, ids=(first,))

    def _context(self, size: int) -> Reading:
        if self._place is None or self._place.num_tokens != size:
            if size > 0:
                return self._prompt(size)
            self._place = Place(None, prompt_ids(1)[0])
        return Reading(0.0, context=self._place.num_tokens)

    def _generate(self, size: int) -> Reading:
        place = self._place
        assert place is not None, "generating needs a context"
        cache, token_id, ids = copy.deepcopy(place.cache), place.first, []
        began = time.perf_counter()
        for _ in range(size):
            token_id, cache = self._forward([token_id], cache)
            ids.append(token_id)
        seconds = time.perf_counter() - began
        return Reading(seconds, tokens=len(ids), context=place.num_tokens, ids=tuple(ids))

    def _image(self, size: int) -> Reading:
        pixels, side = patches(size)
        grid = torch.tensor([[1, side, side]])
        began = time.perf_counter()
        rows = self._model.model.get_image_features(pixels, grid).pooler_output[0]
        seconds = time.perf_counter() - began
        return Reading(seconds, tokens=rows.shape[0])

    def _forward(self, ids: Sequence[int], cache: Any) -> tuple[int, Any]:
        """Feed ids; returns the likeliest next one and the cache behind it."""
        given = torch.tensor([list(ids)])
        output = self._model(
            input_ids=given, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        return int(output.logits[0, -1].argmax()), output.past_key_values
