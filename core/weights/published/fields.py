"""Reads the format of quantised weights from `quantization_config`, or from ModelOpt's file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from core.api.errors import BrokenConfigError, UnsupportedQuantisationError
from core.weights.published.formats import (
    AwqFormat,
    Float4Format,
    Float8Format,
    Format,
    GptqFormat,
    PackQuantizedFormat,
)

# Released models list some hundred unquantised modules, and each is compared with every layer.
_MAX_NAMES = 20_000
# "weight" and its older name sort only while quantising; the stored groups are in order.
_IN_ORDER = (None, False, "weight", "static")
_REORDERED = (True, "group", "dynamic")


class Fields:
    """An object of a JSON `file` at `path`; null counts as absent. Methods take the value of the
    first of `keys` that is there, and raise BrokenConfigError, which names the key, for another
    type."""

    def __init__(self, values: object, path: str, file: str = "config.json") -> None:
        self.path, self.file = path, file
        if not isinstance(values, Mapping):
            raise BrokenConfigError(f"{self.name} is not an object.")
        self._values = {key: value for key, value in values.items() if value is not None}

    @property
    def name(self) -> str:
        return f'"{self.path}" in {self.file}'

    def whole(self, *keys: str, default: int | None = None) -> int:
        key, value = self._first(keys, default)
        # type() and not isinstance(): JSON's true would pass as the number 1.
        if type(value) is not int:
            raise self._wrong(key, "a whole number")
        return value

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        _, value = self._first((key,), default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def word(self, *keys: str, default: str | None = None) -> str:
        key, value = self._first(keys, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value.lower()

    def names(self, *keys: str) -> tuple[str, ...]:
        key, value = self._first(keys, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._wrong(key, "a list of texts")
        if len(value) > _MAX_NAMES:
            raise BrokenConfigError(f'"{self.path}.{key}" in {self.file} is too long to be true.')
        return tuple(value)

    def section(self, key: str) -> Fields:
        return Fields(self._values.get(key, {}), f"{self.path}.{key}", self.file)

    def sections(self) -> Iterator[tuple[str, Fields]]:
        if len(self._values) > _MAX_NAMES:
            raise BrokenConfigError(f"{self.name} is too long to be true.")
        for key, value in self._values.items():
            yield key, Fields(value, f"{self.path}.{key}", self.file)

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def expect(self, known: tuple[object, ...], *keys: str, default: Any = None) -> None:
        key, value = self._first(keys, default)
        if isinstance(value, str):
            value = value.lower()
        # JSON's true equals 1 in Python.
        if not any(type(value) is type(each) and value == each for each in known):
            raise self.unknown(key, value)

    def unknown(self, key: str, value: object) -> UnsupportedQuantisationError:
        return UnsupportedQuantisationError(
            f"Waymark can't read weights with {self.path}.{key} = {str(value)[:80]}. "
            "Choose another version of this model."
        )

    def _first(self, keys: tuple[str, ...], default: Any) -> tuple[str, Any]:
        for key in keys:
            if key in self._values:
                return key, self._values[key]
        return keys[0], default

    def _wrong(self, key: str, what: str) -> BrokenConfigError:
        return BrokenConfigError(f'"{self.path}.{key}" in {self.file} is not {what}.')


def _read_fp8(fields: Fields) -> Float8Format:
    fields.expect(("e4m3",), "fmt", default="e4m3")
    fields.expect(("float",), "scale_fmt", default="float")
    fields.expect(("dynamic", "static"), "activation_scheme", default="dynamic")
    block = fields.get("weight_block_size")
    if block is None:
        raise fields.unknown("weight_block_size", None)
    if not isinstance(block, list) or len(block) != 2 or not all(map(_is_size, block)):
        raise BrokenConfigError(
            f'"{fields.path}.weight_block_size" in config.json must be two sizes.'
        )
    return Float8Format((block[0], block[1]))


def _is_size(value: object) -> bool:
    return type(value) is int and 1 <= value < 2**31


def _read_gptq(fields: Fields) -> GptqFormat:
    fields.expect((4,), "bits")
    fields.expect(("int32",), "pack_dtype", default="int32")
    version = fields.word("checkpoint_format", "format", default="gptq")
    if version not in ("gptq", "gptq_v2"):
        raise fields.unknown("checkpoint_format", version)
    size, symmetric = _group_size(fields, "group_size"), fields.flag("sym", default=True)
    reordered = fields.flag("desc_act", default=False)
    for pattern, overrides in fields.section("dynamic").sections():
        if not pattern.startswith("-:"):
            overrides.expect((4,), "bits", default=4)
            overrides.expect((size,), "group_size", default=size)
            overrides.expect((symmetric,), "sym", default=symmetric)
            overrides.expect((reordered,), "desc_act", default=reordered)
    return GptqFormat(size, symmetric, reordered, version == "gptq")


def _read_awq(fields: Fields) -> AwqFormat:
    fields.expect((4,), "bits", "w_bit")
    fields.expect(("gemm",), "version", "format", default="gemm")
    fields.expect((True,), "zero_point", default=True)
    if fields.get("backend") == "llm-awq":  # the method's authors pack in another order
        raise fields.unknown("backend", "llm-awq")
    return AwqFormat(_group_size(fields, "group_size", "q_group_size"))


def _read_modelopt(fields: Fields) -> Float4Format:
    fields.expect(("nvfp4", "w4a16_nvfp4"), "quant_algo")
    fields.expect((16,), "group_size", default=16)
    for _, group in fields.section("config_groups").sections():
        group.section("weights").expect((16,), "group_size", default=16)
    return Float4Format(16, ".weight", whole=".weight_scale_2")


_PACKED = "pack-quantized"
_FLOAT4 = {
    "nvfp4-pack-quantized": (
        "tensor_group",
        Float4Format(16, ".weight_packed", whole=".weight_global_scale", divides=True),
    ),
    "mxfp4-pack-quantized": ("group", Float4Format(32, ".weight_packed")),
}


def _read_compressed(fields: Fields) -> PackQuantizedFormat | Float4Format:
    fields.expect((_PACKED, *_FLOAT4), "format")
    kind = fields.word("format")
    # A sparse file is another format, and a rotation would have to be undone in every forward.
    fields.section("sparsity_config").expect(("dense",), "format", default="dense")
    if fields.section("transform_config").get("config_groups"):
        raise fields.unknown("transform_config", "rotations")
    found = {_read_group(group, kind) for _, group in fields.section("config_groups").sections()}
    if not found:
        raise BrokenConfigError(f'"{fields.path}.config_groups" in config.json is empty.')
    if len(found) > 1:
        raise fields.unknown("config_groups", "several that differ")
    return found.pop()


def _read_group(group: Fields, kind: str) -> PackQuantizedFormat | Float4Format:
    group.expect((kind,), "format", default=kind)
    weights = group.section("weights")
    weights.expect((4,), "num_bits")
    weights.expect((False,), "dynamic", default=False)
    if kind in _FLOAT4:
        strategy, found = _FLOAT4[kind]
        weights.expect(("float",), "type")
        weights.expect((strategy,), "strategy")
        weights.expect((found.group_size,), "group_size", default=found.group_size)
        weights.expect((True,), "symmetric", default=True)
        return found
    weights.expect(("int",), "type", default="int")
    order = weights.get("actorder")
    order = order.lower() if isinstance(order, str) else order
    if order not in _IN_ORDER and order not in _REORDERED:
        raise weights.unknown("actorder", order)
    weights.expect(("group", "channel"), "strategy", default="group")
    by_channel = weights.word("strategy", default="group") == "channel"
    return PackQuantizedFormat(
        group_size=-1 if by_channel else _group_size(weights, "group_size"),
        symmetric=weights.flag("symmetric", default=True),
        reordered=order in _REORDERED and not by_channel,
    )


def _group_size(fields: Fields, *keys: str) -> int:
    """-1 for one group over the whole row."""
    size = fields.whole(*keys)
    if size != -1 and not 1 <= size < 2**31:
        raise BrokenConfigError(f'"{fields.path}.{keys[0]}" can\'t be {size}.')
    return size


# By `quant_method`. Raise BrokenConfigError, UnsupportedQuantisationError.
READERS: Mapping[str, Callable[[Fields], Format | Float4Format]] = {
    "fp8": _read_fp8,
    "gptq": _read_gptq,
    "awq": _read_awq,
    "compressed-tensors": _read_compressed,
    "modelopt": _read_modelopt,
    "mxfp4": lambda fields: Float4Format(32, "_blocks", "_scales", grouped=True),  # gpt-oss
}
