"""transformers on the same weights, untuned, with the kernels that it finds.

A greedy loop over its forward with its cache: what `generate` does, without the checks around each
token. The kernel packages that it called are noted.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.utils import logging

from tests.bench.folders import has_vision
from tests.bench.peer import Engine, Reading, Task, now, patches, prompt_ids

# Packages whose kernels transformers takes for this family where they are installed.
PACKAGES = ("fla", "causal_conv1d")
FEW = 4  # tokens


@dataclass(frozen=True)
class Place:
    """The start of a generation: its cache, None before the first token, and the next id."""

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
        self._helpers: str | None = None

    @torch.inference_mode()
    def run(self, task: Task, size: int) -> Reading:
        return replace(self._run(task, size), helpers=self._helpers or "")

    def _run(self, task: Task, size: int) -> Reading:
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

    def _now(self) -> float:
        return now(self._engine.device)

    def _load(self) -> Reading:
        self.close()
        dtype, device = getattr(torch, self._engine.precision), self._engine.device
        torch.empty(0, device=device)  # starts CUDA
        began = self._now()
        opened: Any = _class_of(self._engine.folder).from_pretrained(
            self._engine.folder, dtype=dtype
        )
        self._model = opened.to(device)
        return Reading(self._now() - began)

    def _prompt(self, size: int) -> Reading:
        self._place = None  # nobody goes on from there, and its cache would count as memory
        if self._engine.device == "cuda" and self._helpers is None:
            self._helpers = ", ".join(called_packages(self._one_and_another))
        began = self._now()
        first, cache = self._forward(prompt_ids(size), None)
        seconds = self._now() - began
        self._place = Place(cache, first)
        context = self._place.num_tokens
        return Reading(seconds, tokens=size, context=context, ids=(first,))

    def _one_and_another(self) -> None:
        """A prompt and a token behind it: all ways that a forward takes."""
        first, cache = self._forward(prompt_ids(FEW), None)
        self._forward([first], cache)

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
        began = self._now()
        for _ in range(size):
            token_id, cache = self._forward([token_id], cache)
            ids.append(token_id)
        seconds = self._now() - began
        return Reading(seconds, tokens=len(ids), context=place.num_tokens, ids=tuple(ids))

    def _image(self, size: int) -> Reading:
        pixels, side = patches(size)
        device = self._engine.device
        grid = torch.tensor([[1, side, side]], device=device)
        began = self._now()
        rows = self._model.model.get_image_features(pixels.to(device), grid).pooler_output[0]
        seconds = self._now() - began
        return Reading(seconds, tokens=rows.shape[0])

    def _forward(self, ids: Sequence[int], cache: Any) -> tuple[int, Any]:
        """Feed ids; returns the likeliest next one and the cache behind it."""
        given = torch.tensor([list(ids)], device=self._engine.device)
        output = self._model(
            input_ids=given, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        return int(output.logits[0, -1].argmax()), output.past_key_values


def _class_of(folder: Path) -> Any:
    config = json.loads((folder / "config.json").read_text())
    return AutoModelForImageTextToText if has_vision(config) else AutoModelForCausalLM


def called_packages(work: Callable[[], object]) -> list[str]:
    """The PACKAGES that `work` called a function of.

    Python's profiler tells: which package transformers takes, and how, differs by version.
    """
    found = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        found.add(str(frame.f_globals.get("__name__")).partition(".")[0])

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return [name for name in PACKAGES if name in found]
