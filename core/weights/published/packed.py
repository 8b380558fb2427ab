"""Finds which planned weights are stored in a published format, and by which tensors.

The files decide: a layer that the config leaves out may be stored plainly. Nothing is guessed when
config and files contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from core.api.errors import (
    BrokenConfigError,
    BrokenWeightsError,
    MissingTensorError,
    WrongShapeError,
)
from core.weights.container import TensorHeader
from core.weights.published.formats import MARKS, Float4Format, Format
from core.weights.published.quantised import Float8Blocks, Part, Quantised
from core.weights.published.scheme import Scheme
from core.weights.spec import TensorSpec

_WEIGHT = "weight"
_FLOAT8, _FLOATS4 = "F8_E4M3", "U8"  # of a plainly named weight that is packed


@dataclass(frozen=True, slots=True)
class PackedLayer:
    format: Format
    name: str
    shape: tuple[int, int]
    parts: Mapping[str, str]

    @property
    def values(self) -> str:
        return self.parts[self.format.values]

    @property
    def working_bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.format.working_bytes

    def assemble(self, parts: Mapping[str, Tensor]) -> Quantised | Float8Blocks:
        given = {part: parts[name] for part, name in self.parts.items()}
        return self.format.assemble(self.name, self.shape, given)


PackedPlan = Mapping[str, PackedLayer]


def packed_layer(
    name: str, spec: TensorSpec, stored: Mapping[str, TensorHeader], scheme: Scheme | None
) -> PackedLayer | None:
    """The tensors that hold a planned weight; None if it is stored plainly, or not at all. Raises
    BrokenConfigError when the config contradicts the files, and other WaymarkErrors."""
    layer, _, last = name.rpartition(".")
    if last != _WEIGHT or len(spec.shape) != 2:
        return None
    marks = [mark for mark in sorted(MARKS) if f"{layer}.{mark}" in stored]
    plain = name in stored and stored[name].dtype not in (_FLOAT8, _FLOATS4)
    if not marks and (plain or name not in stored):
        return None
    if scheme is None:
        mark = marks[0] if marks else stored[name].dtype
        raise BrokenConfigError(
            f"{layer} is stored in a packed format ({mark}), but "
            'config.json has no "quantization_config" that says which.'
        )
    if scheme.leaves_out(layer):
        if plain:
            return None
        raise BrokenConfigError(f"{scheme.source} lists {layer} as not quantised, but it is.")
    known = scheme.format
    if isinstance(known, Float4Format) or (_WEIGHT not in known.names and name in stored):
        kinds = [stored[name].dtype] if name in stored else []
        raise BrokenWeightsError(
            f"{layer} is stored as {', and as '.join(kinds + marks[:1])}: that is not how "
            f"{known.title} weights are, which {scheme.source} announces."
        )
    return _packed_layer(known, layer, (spec.shape[0], spec.shape[1]), marks, stored)


def plain_names(names: frozenset[str]) -> frozenset[str]:
    found = (name.rpartition(".") for name in names)
    return names | {f"{layer}.{_WEIGHT}" for layer, _, last in found if last in MARKS}


def _packed_layer(
    known: Format,
    layer: str,
    shape: tuple[int, int],
    marks: list[str],
    stored: Mapping[str, TensorHeader],
) -> PackedLayer:
    expected = known.parts(layer, shape)
    strange = [mark for mark in marks if mark not in expected]
    if strange:
        raise BrokenWeightsError(
            f"{layer}.{strange[0]} does not belong to {known.title} weights as "
            '"quantization_config" in config.json describes them.'
        )
    parts = {}
    for part, wanted in expected.items():
        name = f"{layer}.{part}"
        if wanted.optional and name not in stored:
            continue
        _check_part(name, wanted, stored.get(name), known.title)
        parts[part] = name
    return PackedLayer(known, f"{layer}.{_WEIGHT}", shape, parts)


def _check_part(name: str, wanted: Part, entry: TensorHeader | None, title: str) -> None:
    if entry is None:
        raise MissingTensorError(
            f"{name} is in none of the weights files; {title} weights can't be read without it."
        )
    if entry.dtype not in wanted.types:
        raise BrokenWeightsError(
            f"{name} is stored as {entry.dtype}, {title} has {' or '.join(wanted.types)} there."
        )
    if entry.shape != wanted.shape:
        raise WrongShapeError(
            f"{name} should be {list(wanted.shape)} by config.json, the file has "
            f"{list(entry.shape)}."
        )
