"""Prefill outside the prefix tree: forwards alone, nothing is kept."""

from __future__ import annotations

import torch

from core.api.prompt import Prompt
from core.cache.kv_buffer import KVBuffer
from core.cache.restore import Restored
from core.cache.side import Branch
from core.engine.images import Pictures
from core.engine.loaded import LoadedModel
from core.engine.passes.prefill import Prefill


def start_of(loaded: LoadedModel, prompt: Prompt) -> Restored:
    """Before the first token, with states of zeros."""
    return loaded.cache.restorer.start(loaded.cache.tree.keys(prompt))


@torch.inference_mode()
def read_beside(loaded: LoadedModel, kv_buffer: KVBuffer, prompt: Prompt) -> Prefill:
    """Prefill a prompt without pictures from its start, in a KV buffer of the caller's."""
    pictures = Pictures(loaded.model, loaded.catalog, [], loaded.cache.embeddings, go_on)
    prefill = Prefill(loaded.model, Branch(kv_buffer), start_of(loaded, prompt), pictures, go_on)
    for _ in prefill.run(prompt, frozenset()):
        pass
    return prefill


def go_on() -> None:
    """Nobody cancels."""
