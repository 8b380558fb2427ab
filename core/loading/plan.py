"""Every tensor of a model by name, shape and use, checked against the headers before a byte is
read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from core.api.errors import (
    MissingTensorError,
    RequestCancelled,
    SlowFolderError,
    UnsupportedDeviceError,
    WaymarkError,
    WrongShapeError,
    shown,
)
from core.api.model_info import HEADROOM_BYTES
from core.layers.memory import LayerSpec
from core.loading.registry import expert_share, family_of
from core.model_files import LookingTime
from core.models.decoder import MTP_SCOPE, Decoder
from core.weights.container import Container, TensorHeader
from core.weights.memory import TRIM_BYTES
from core.weights.plan import Weights, plan_weights
from core.weights.published.packed import PackedPlan, packed_layer, plain_names
from core.weights.published.scheme import read_scheme
from core.weights.smoothing import smoothed_norms
from core.weights.spec import (
    Shape,
    TensorSpec,
    Use,
    WeightPlan,
    bytes_to_pack,
    bytes_to_read,
    held_in_memory,
    planned_bytes,
)
from kernels.common.memory import FileArena
from kernels.common.shapes import OpShape
from kernels.dispatch import REFERENCE, Backend
from kernels.linear.native_blocks import NativeBlockFormats

DTYPES = (torch.float32, torch.bfloat16)
# Types of plain weights in a file.
_FLOATS = ("F32", "F16", "BF16", "F64")
# The most tokens of a forward at the usual chunk size.
PREFILL_ROWS = 512
# Measured with experts of one inner number: a folder of 8 MB took 1.6 GB.
MATRIX_BYTES = 12 * 2**10
# Not used by tokens of text.
_APART = re.compile(
    rf"(^|\.)(visual|vision_\w+|embed_vision|multi_modal_projector|mlp1|merger|{MTP_SCOPE})\."
)
_EXPERT = re.compile(r"\.experts\.\d+\.")


@dataclass(frozen=True, slots=True)
class Outline:
    """Facts that don't depend on the weights; `layers` with those of an MTP head."""

    num_parameters: int
    max_positions: int
    has_vision: bool
    layers: tuple[LayerSpec, ...]


@dataclass(frozen=True, slots=True)
class _Skeleton:
    specs: WeightPlan
    packed: PackedPlan
    shapes: frozenset[OpShape]
    joined: tuple[tuple[str, ...], ...]
    vocab_size: int
    outline: Outline
    mtp_layers: int

    @property
    def has_mtp(self) -> bool:
        return self.mtp_layers > 0

    def headless(self) -> _Skeleton:
        specs = {name: spec for name, spec in self.specs.items() if not _of_mtp(name)}
        packed = {name: layer for name, layer in self.packed.items() if not _of_mtp(name)}
        outline = replace(self.outline, layers=self.outline.layers[: -self.mtp_layers])
        joined = tuple(each for each in self.joined if not _of_mtp(each[0]))
        return replace(
            self, specs=specs, packed=packed, joined=joined, outline=outline, mtp_layers=0
        )


def _of_mtp(name: str) -> bool:
    return name.startswith(f"{MTP_SCOPE}.")


def check_plain(name: str, spec: TensorSpec, entry: TensorHeader | None) -> None:
    """Raises MissingTensorError, WrongShapeError, or UnsupportedDeviceError for a packed type."""
    if entry is None:
        raise MissingTensorError(f"{name} is in none of the weights files.")
    if entry.shape != spec.stored_shape:
        raise WrongShapeError(
            f"{name} should be {list(spec.stored_shape)} by the settings, the file has "
            f"{list(entry.shape)}."
        )
    if entry.dtype not in _FLOATS:
        raise UnsupportedDeviceError(
            f"{name} is stored as {entry.dtype}, which Waymark can't read yet."
        )


def may_stay_blocks(spec: TensorSpec) -> bool:
    floats = spec.exact or spec.transposed or Use.TENSOR in spec.use
    return Use.MATRIX in spec.use and not floats


class ModelPlan:
    """Builds the model without data once for each type, in the time for `looking`. Raises
    SlowFolderError, UnknownArchitectureError, BrokenConfigError, UnsupportedQuantisationError."""

    def __init__(self, container: Container, looking: LookingTime | None = None) -> None:
        self.container = container
        self._looking = looking or LookingTime()
        with self._looking:
            self._read(container)

    def _read(self, container: Container) -> None:
        self._family = family_of(container.config)
        self.settings = self._family.parse(container.config, container.settings_name)
        self.scheme = read_scheme(container.config, self._looking)
        self._headers = container.tensors
        names = plain_names(frozenset(self._headers))
        plain = {name: each.shape for name, each in self._headers.items()}
        self._stored: dict[str, Shape] = dict.fromkeys(names, ()) | plain
        self.published = self._family.published_names(self.settings, names)
        self._skeletons: dict[torch.dtype, _Skeleton] = {}
        self._mtp_names = {name for name in self._stored if _of_mtp(name)}
        self.mtp_refused = ""
        """Why the folder's MTP head can't be used, for a person; set by the first plan."""

    @property
    def config(self) -> str:
        model = f"{self._family.name} {self.settings!r}"
        return f"{model} {self.scheme.format!r}" if self.scheme else model

    def build(self, weights: Weights, device: torch.device, with_mtp: bool) -> Decoder:
        hidden = frozenset() if with_mtp else self._mtp_names
        weights.stored = lambda name: (
            None if name in hidden else self._stored.get(self.published(name))
        )
        return self._family.build(self.settings, weights, device)

    def shapes(self, dtype: torch.dtype) -> frozenset[OpShape]:
        return self._skeleton(dtype, False).shapes

    def held(
        self, dtype: torch.dtype, kernels: Backend = REFERENCE, *, with_mtp: bool | None = None
    ) -> HeldPlan:
        """By default with an MTP head if steps can take several tokens. Raises a WaymarkError where
        files and settings don't fit."""
        if with_mtp is None:
            with_mtp = dtype == torch.bfloat16 and kernels.formats.batch_invariant != "never"
        return HeldPlan(self, self._skeleton(dtype, with_mtp), dtype, kernels)

    def block_types(self) -> list[str]:
        if not self.container.has_blocks:
            return []
        specs = self._skeleton(torch.bfloat16, False).specs
        found = (self.container.blocks(name) for name in specs if may_stay_blocks(specs[name]))
        return sorted({each[0].name for each in found if each is not None})

    def _skeleton(self, dtype: torch.dtype, with_mtp: bool) -> _Skeleton:
        if dtype not in DTYPES:
            raise UnsupportedDeviceError(
                f"Waymark computes in float32 or bfloat16, not in {dtype}."
            )
        if dtype not in self._skeletons:
            with self._looking:
                has_head = self._mtp_names and not self.mtp_refused
                found = self._with_head(dtype) if has_head else None
                self._skeletons[dtype] = found or self._without_data(dtype, False)
        found = self._skeletons[dtype]
        return found if with_mtp or not found.has_mtp else found.headless()

    def _with_head(self, dtype: torch.dtype) -> _Skeleton | None:
        """The head is used completely or not at all; other faults are found without it."""
        try:
            found = self._without_data(dtype, True)
        except (RequestCancelled, SlowFolderError):
            raise
        except WaymarkError as error:
            self.mtp_refused = f"The MTP head of this model is not whole. {error.message}"
            return None
        # Other tensors of a layer that is read are part of how it is stored.
        layers = {name.rpartition(".")[0] for name in found.specs}
        strange = sorted(
            name
            for name in self._mtp_names - found.specs.keys()
            if name.rpartition(".")[0] not in layers or name.endswith((".weight", ".bias"))
        )
        if strange:
            self.mtp_refused = (
                "The MTP head of this model is not of a kind that Waymark knows: it has a tensor "
                f"{shown(strange[0])}."
            )
            return None
        return found

    def _without_data(self, dtype: torch.dtype, with_mtp: bool) -> _Skeleton:
        shapes: set[OpShape] = set()
        joined: list[tuple[str, ...]] = []
        built: list[Decoder] = []

        def build(weights: Weights) -> None:
            built.append(self.build(weights, torch.device("cpu"), with_mtp))
            shapes.update(weights.shapes)
            joined.extend(tuple(map(self.published, each)) for each in weights.joined)

        packed = {}

        def check(name: str, spec: TensorSpec) -> None:
            self._looking()
            name = self.published(name)
            layer = packed_layer(name, spec, self._headers, self.scheme)
            if layer is not None:
                packed[name] = layer
            else:
                check_plain(self.container.stored_name(name), spec, self._headers.get(name))

        asked = plan_weights(build, dtype, check)
        specs = {self.published(name): spec for name, spec in asked.items()}
        model = built[-1]
        outline = Outline(
            model.num_parameters, model.max_positions, model.has_vision, model.layer_specs
        )
        head = 0 if model.mtp is None else len(model.mtp.specs)
        return _Skeleton(
            specs, packed, frozenset(shapes), tuple(joined), model.vocab_size, outline, head
        )


class HeldPlan:
    """`tensors` are by published name; `smoothed`, the norms whose large scales migrate, by the
    family's names."""

    def __init__(
        self, model: ModelPlan, skeleton: _Skeleton, dtype: torch.dtype, kernels: Backend
    ) -> None:
        self.model, self.dtype, self.kernels = model, dtype, kernels
        self._skeleton = skeleton
        self.formats, self.packed = kernels.formats, skeleton.packed
        self.has_mtp, self.vocab_size = skeleton.has_mtp, skeleton.vocab_size
        self.outline = skeleton.outline
        self.config = f"{model.config} {MTP_SCOPE}" if skeleton.has_mtp else model.config
        if self.formats.published is not None:
            self.config += f" {' '.join(model.block_types())}"
        self.smoothed = smoothed_norms(
            (spec.input_norm, self._takes_scales(name, spec))
            for name, spec in skeleton.specs.items()
        )
        self.tensors: WeightPlan = {
            name: self._as_stored(name, self._smoothed(spec))
            for name, spec in skeleton.specs.items()
        }

    @property
    def num_bytes(self) -> int:
        """With the most that is needed besides while a packed layer is read or a wide one
        computes."""
        # Needed only after loading; the headroom covers the usual sizes.
        activations = max(0, self.activation_bytes - HEADROOM_BYTES)
        most = max(self.bytes_while_read(), self._planned + max(self._packing, activations))
        return most + max(0, self._padding - HEADROOM_BYTES)

    @cached_property
    def _planned(self) -> int:
        return planned_bytes(self.tensors, self.formats)

    def bytes_while_read(self) -> int:
        places = {name: place for place, name in enumerate(self.model.container.tensors)}
        most = held = 0
        stored_as = {name: name for name in self.tensors}
        stored_as |= {name: layer.values for name, layer in self.packed.items()}
        for name in sorted(self.tensors, key=lambda name: places.get(stored_as[name], 0)):
            spec, packed = self.tensors[name], self.packed.get(name)
            held += held_in_memory(spec, self.formats)
            working = packed.working_bytes if packed is not None else 0
            most = max(most, held + working + bytes_to_read(spec, self.formats))
        return most

    @property
    def _packing(self) -> int:
        groups = ([self.tensors[each] for each in names] for names in self._skeleton.joined)
        # Small matrices that were packed are not freed at once.
        return max(
            min(TRIM_BYTES, self._planned),
            *(bytes_to_pack(specs, self.formats) for specs in groups),
        )

    @property
    def mapped_bytes(self) -> int:
        """The part of `num_bytes` that may be in a mapped file: matrices of blocks."""
        if not isinstance(self.formats.published, NativeBlockFormats):
            return 0
        blocks = (spec for spec in self.tensors.values() if spec.blocks is not None)
        return sum(spec.held_bytes(self.formats) for spec in blocks)

    def placed_in(self, arena: FileArena) -> HeldPlan:
        assert isinstance(self.formats.published, NativeBlockFormats)
        formats = replace(self.formats, published=replace(self.formats.published, arena=arena))
        return HeldPlan(
            self.model, self._skeleton, self.dtype, replace(self.kernels, formats=formats)
        )

    @property
    def _padding(self) -> int:
        matrices = (spec for spec in self.tensors.values() if Use.MATRIX in spec.use)
        return sum(spec.stack or 1 for spec in matrices) * MATRIX_BYTES

    @property
    def activation_bytes(self) -> int:
        """Three times the widest side of a matrix, but of the head, which computes a few rows at a
        time."""
        widest = max(
            (
                max(spec.shape[0] // (spec.stack or 1), spec.shape[1])
                for spec in self.tensors.values()
                if spec.use == Use.MATRIX and spec.shape[0] != self.vocab_size
            ),
            default=0,
        )
        return 3 * widest * PREFILL_ROWS * self.dtype.itemsize

    def used_matrices(self) -> Iterator[tuple[TensorSpec, float]]:
        """The matrices that a token of text multiplies by, with the share of each that it reads."""
        share = expert_share(self.model.settings)
        for name, spec in self.tensors.items():
            if Use.MATRIX in spec.use and not _APART.search(name):
                yield spec, share if spec.stack or _EXPERT.search(name) else 1.0

    @property
    def token_bytes(self) -> int:
        """Bytes of matrices that a generated token reads."""
        matrices = self.used_matrices()
        return sum(round(used * spec.held_bytes(self.formats)) for spec, used in matrices)

    def build(self, weights: Weights, device: torch.device) -> Decoder:
        return self.model.build(weights, device, self.has_mtp)

    def _takes_scales(self, name: str, spec: TensorSpec) -> bool:
        """Published integers stay as they are."""
        return name not in self.packed and self.formats.usual.quantises

    def _as_stored(self, name: str, spec: TensorSpec) -> TensorSpec:
        spec = replace(spec, packed=name in self.packed)
        stays = self.formats.published is not None and may_stay_blocks(spec)
        found = self.model.container.blocks(name) if stays else None
        if found is None or self.formats.published is None:
            return spec
        return replace(spec, blocks=self.formats.published(*found))

    def _smoothed(self, spec: TensorSpec) -> TensorSpec:
        if spec.input_norm is None or spec.input_norm.name not in self.smoothed:
            return replace(spec, input_norm=None)
        norm = self.model.published(spec.input_norm.name)
        return replace(spec, input_norm=replace(spec.input_norm, name=norm))
