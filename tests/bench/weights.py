"""Bytes that a model holds and reads, and operations of a token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from math import prod
from typing import Any

from torch import Tensor

from core.layers.block import HybridBlock
from core.layers.feed_forward import DenseAndSparse, SparseExperts, WithShared
from core.models.decoder import Decoder
from core.weights.container import Container
from tests.bench.peer import PATCH_NUMBERS

# How configs spell the number of experts, and of those that a token goes through.
_EXPERTS = (
    ("num_experts", "num_local_experts"),
    ("num_experts_per_tok", "num_experts_per_token", "top_k_experts"),
)


def held_bytes(model: Decoder) -> int:
    """Bytes of all weights, in the format they are kept in."""
    return _bytes([vars(model)], set())


def step_bytes(model: Decoder) -> int:
    """Bytes of the weights that a generated token reads: one row of the table, and the experts it
    goes through."""
    every = _bytes([model.blocks, model.norm, model.head], set())
    return every - sum(_idle_bytes(part) for block in model.blocks for part in _sparse(block))


def token_operations(folder: Container) -> int:
    """Operations a prompt token costs in the blocks' matrices; attention and what is recurrent
    apart. It skips the last layers if they share others' keys."""
    text = folder.config.get("text_config", folder.config)
    layers, shared = text["num_hidden_layers"], text.get("num_kv_shared_layers", 0)
    skipped = sum(_numbers(folder, f".layers.{each}.") for each in range(layers - shared, layers))
    experts = _numbers(folder, ".experts.")
    active = int(experts * active_experts(text)) if experts else 0
    return 2 * (_numbers(folder, ".layers.") - skipped - experts + active)


def active_experts(text: Mapping[str, Any]) -> Fraction:
    """The share of a layer's experts that a token goes through."""
    count, k = (next(text[name] for name in names if name in text) for names in _EXPERTS)
    return Fraction(k, count)


def image_operations(folder: Container, num_patches: int) -> int:
    """Operations of a picture in the tower's matrices, and in its attention of all to all."""
    vision: dict[str, int] = folder.config["vision_config"]
    width, merged = vision["hidden_size"], vision.get("spatial_merge_size", 2) ** 2
    matrices = num_patches * (_numbers(folder, "visual.blocks.") + PATCH_NUMBERS * width)
    merger = num_patches // merged * _numbers(folder, "visual.merger.")
    attention = 2 * num_patches**2 * width * vision["depth"]
    return 2 * (matrices + merger + attention)


def _sparse(part: object) -> Iterator[SparseExperts]:
    """The sparse experts in a block, alone or next to dense layers."""
    if isinstance(part, SparseExperts):
        yield part
    elif isinstance(part, HybridBlock | WithShared | DenseAndSparse | tuple):
        for each in part if isinstance(part, tuple) else vars(part).values():
            yield from _sparse(each)


def _idle_bytes(layer: SparseExperts) -> int:
    """Bytes of the experts that a token does not go through."""
    count, k = layer.shape.count, layer.shape.routing.k
    return _bytes(layer.bank, set()) * (count - k) // count


def _numbers(folder: Container, scope: str) -> int:
    """Numbers in the matrices whose published names hold `scope`, those of stacked experts too."""
    found = [(name, stored.shape) for name, stored in folder.tensors.items() if scope in name]
    return sum(prod(shape) for name, shape in found if _is_multiplied(name, len(shape)))


def _is_multiplied(name: str, num_axes: int) -> bool:
    """True for a matrix that inputs are multiplied by, or a stack of them."""
    return num_axes == 2 if name.endswith("weight") else num_axes == 3 and ".experts." in name


def _bytes(part: object, seen: set[int]) -> int:
    """Bytes of the tensors and matrices within `part`, each once.

    A matrix (kernels.linear.reference) says its own size: some formats hide their tensors. Memory
    specs have a size too, but can't be called.
    """
    if id(part) in seen or isinstance(part, type):
        return 0
    seen.add(id(part))
    if isinstance(part, Tensor):
        return part.nbytes
    if isinstance(part, Mapping):
        return sum(_bytes(each, seen) for each in part.values())
    if isinstance(part, list | tuple):
        return sum(_bytes(each, seen) for each in part)
    own = getattr(part, "__dict__", None)
    if own is None and is_dataclass(part):  # with slots
        return sum(_bytes(getattr(part, field.name), seen) for field in fields(part))
    if own is None:
        return 0
    num_bytes = getattr(part, "num_bytes", None) if callable(part) else None
    if not isinstance(num_bytes, int):
        return _bytes(own, seen)
    tensors = {id(each) for each in own.values() if isinstance(each, Tensor)}
    shared = bool(tensors) and tensors <= seen
    seen |= tensors
    return 0 if shared else num_bytes
