"""How much a model's weights weigh and what they cost: bytes held, bytes read, operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import prod

from torch import Tensor

from core.models.decoder import Decoder
from core.weights.folder import ModelFolder
from tests.bench.peer import PATCH_NUMBERS


def held_bytes(model: Decoder) -> int:
    """Bytes of all weights, in the format they are kept in."""
    return _bytes([vars(model)], set())


def step_bytes(model: Decoder) -> int:
    """Bytes of the weights that every generated token has to read: of the table one row only."""
    return _bytes([model.blocks, model.norm, model.head], set())


def token_operations(folder: ModelFolder) -> int:
    """Operations a prompt token costs in the blocks' matrices; attention and delta rule apart."""
    return 2 * _numbers(folder, ".layers.")


def image_operations(folder: ModelFolder, num_patches: int) -> int:
    """Operations of a picture in the tower's matrices, and in its attention of all to all."""
    vision: dict[str, int] = folder.config["vision_config"]
    width, merged = vision["hidden_size"], vision.get("spatial_merge_size", 2) ** 2
    matrices = num_patches * (_numbers(folder, "visual.blocks.") + PATCH_NUMBERS * width)
    merger = num_patches // merged * _numbers(folder, "visual.merger.")
    attention = 2 * num_patches**2 * width * vision["depth"]
    return 2 * (matrices + merger + attention)


def _numbers(folder: ModelFolder, scope: str) -> int:
    """Numbers in the matrices whose published names hold `scope`."""
    shapes = [
        stored.shape
        for file in folder.files
        for name, stored in file.tensors.items()
        if scope in name
    ]
    return sum(prod(shape) for shape in shapes if len(shape) == 2)


def _bytes(part: object, seen: set[int]) -> int:
    """Bytes of the tensors and matrices within `part`, each once.

    A matrix (kernels.linear.reference) says its own size: some formats hide their tensors. What a
    layer needs remembered has a size too, and is no weight: it can't be called.
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
