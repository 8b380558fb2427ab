"""Waymark among its peers: the app's own load, prefill, decode and tower.

The cache bench (tests.bench.cache) measures the rest of a request: rendering, the prefix tree,
sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from core.api.params import ModelSettings
from core.api.prompt import Cut, Prompt, TextRun
from core.cache.kv_buffer import KVBuffer
from core.cache.state import RecurrentState
from core.engine.loaded import LoadedModel, load, resolve_device
from core.engine.passes.decode import Decode
from core.loading.files import open_files
from core.loading.plan import ModelPlan
from core.loading.precision import choose_precision
from core.models.decoder import Decoder
from core.storage.store import DiskStore
from core.weights.container import Container
from core.weights.memory import available_bytes
from kernels.self_test.validation import validated
from tests.bench.beside import go_on, read_beside, start_of
from tests.bench.peer import Engine, Reading, Task, now, patches, prompt_ids
from tests.bench.weights import held_bytes, image_operations, step_bytes, token_operations


@dataclass(frozen=True)
class Place:
    cut: Cut
    state: RecurrentState
    first: int


@dataclass(frozen=True)
class Opened:
    """A loaded model, its files, and room for the longest context."""

    loaded: LoadedModel
    model: Decoder
    folder: Container
    kv_buffer: KVBuffer

    def bytes_behind(self, context: int) -> int:
        """Bytes of keys, values and states behind so many tokens."""
        return self.loaded.info.checkpoint_bytes + self.kv_buffer.bytes_of(context)


class Waymark:
    """A `Peer` (tests.bench.peer). Prompts are read from cut to cut beside the prefix tree."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._opened: Opened | None = None
        self._place: Place | None = None

    def run(self, task: Task, size: int) -> Reading:
        if task == "load":
            return self._load()
        assert self._opened is not None, "load comes first"
        match task:
            case "prompt":
                return self._prompt(self._opened, size)
            case "context":
                return self._context(self._opened, size)
            case "generate":
                return self._generate(self._opened, size)
            case "image":
                return self._image(self._opened, size)

    def close(self) -> None:
        self._opened = self._place = None

    def _now(self) -> float:
        return now(self._engine.device)

    def _load(self) -> Reading:
        self.close()
        given = settings(self._engine)
        if self._engine.device == "cuda":
            compile_kernels(given)
        began = self._now()
        assert given.cache_folder is not None
        store = partial(DiskStore, Path(given.cache_folder))
        loaded = load(given, lambda done, total: None, go_on, store)
        seconds = self._now() - began
        model = loaded.model
        assert isinstance(model, Decoder)
        folder = open_files(self._engine.folder).container
        kv_buffer = loaded.cache.kv_buffer.beside(self._engine.longest)
        self._opened = Opened(loaded, model, folder, kv_buffer)
        return Reading(seconds, least_bytes=held_bytes(model))

    def _prompt(self, opened: Opened, size: int) -> Reading:
        prompt = _prompt(opened, size)
        self._place = None  # nobody goes on from there, and its states would count as memory
        began = self._now()
        prefill = read_beside(opened.loaded, opened.kv_buffer, prompt)
        assert prefill.last_hidden is not None
        first = int(opened.model.logits(prefill.last_hidden[None])[0].argmax())
        seconds = self._now() - began
        self._place = Place(prompt.end, prefill.state, first)
        context = prompt.end.token.value
        return Reading(
            seconds,
            tokens=context,
            context=context,
            ids=(first,),
            least_bytes=held_bytes(opened.model) + opened.bytes_behind(context),
            operations=context * token_operations(opened.folder),
        )

    def _context(self, opened: Opened, size: int) -> Reading:
        if self._place is not None and self._place.cut.token.value == size:
            return Reading(0.0, context=size)
        if size > 0:
            return self._prompt(opened, size)
        start = start_of(opened.loaded, _prompt(opened, 1))
        self._place = Place(start.cut, start.state, prompt_ids(1)[0])
        return Reading(0.0, context=start.cut.token.value)

    @torch.inference_mode()
    def _generate(self, opened: Opened, size: int) -> Reading:
        place = self._place
        assert place is not None, "generating needs a context"
        began = self._now()
        decode = Decode(
            opened.model, opened.kv_buffer, place.state, place.cut, go_on, opened.loaded.steps
        )
        ids = [place.first]
        for _ in range(size):
            ids.append(int(decode.step(ids[-1:]).argmax()))
        seconds = self._now() - began
        context = place.cut.token.value
        # A step reads what is behind it and writes the states.
        written = opened.loaded.info.checkpoint_bytes
        behind = [opened.bytes_behind(context + step) + written for step in range(1, size + 1)]
        return Reading(
            seconds,
            tokens=len(ids) - 1,
            context=context,
            ids=tuple(ids[1:]),
            least_bytes=size * step_bytes(opened.model) + sum(behind),
        )

    def _image(self, opened: Opened, size: int) -> Reading:
        pixels, side = patches(size)
        began = self._now()
        rows = opened.model.encode_image(pixels, side, side, go_on)
        seconds = self._now() - began
        operations = image_operations(opened.folder, side * side)
        return Reading(seconds, tokens=rows.shape[0], operations=operations)


def compile_kernels(settings: ModelSettings) -> None:
    """Compile what a GPU's first load compiles and Triton keeps: the self-test of the kernels.

    It also starts CUDA, so that a load is not the first on a computer.
    """
    device, folder = resolve_device(settings), open_files(Path(settings.path)).container
    plan = ModelPlan(folder)
    chosen = choose_precision(settings, plan, device, available_bytes(device))
    kernels, dtype = chosen.kernels, chosen.precision.dtype
    validated(kernels, plan.shapes(dtype), device, dtype)


def settings(engine: Engine) -> ModelSettings:
    """The app's own, with room for the longest context; checked like any user's."""
    return ModelSettings.model_validate(
        {
            "path": str(engine.folder),
            "device": engine.device,
            "precision": engine.precision,
            "context_length": engine.longest,
            "cache_folder": str(engine.scratch / engine.precision),
            "measure_kernels": True,
        }
    )


def _prompt(opened: Opened, size: int) -> Prompt:
    grid = opened.loaded.settings.grid
    return Prompt((TextRun(prompt_ids(size)),), frozenset(), grid)
