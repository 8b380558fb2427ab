"""A model's metadata in a GGUF file, and the parts of config.json that most families share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.api.errors import (
    BrokenConfigError,
    BrokenWeightsError,
    MissingFileError,
    MissingTensorError,
    WrongShapeError,
)
from core.gguf.file import GGUFTensor
from core.gguf.header import Metadata
from kernels.blocks.types import GGUFType

Config = dict[str, Any]
# No released model comes near these.
_LARGEST = 2**24
_MOST_LAYERS = 1024
_MOST_BYTES = 2**14  # of a tensor that is part of the settings


@dataclass(frozen=True, slots=True)
class Settings:
    """The values under one prefix of a file's keys, checked on access. All raise BrokenConfigError
    for a value of another kind, and for a missing one without default."""

    name: str
    prefix: str
    metadata: Metadata
    tensors: Mapping[str, GGUFTensor]

    def __contains__(self, key: str) -> bool:
        return f"{self.prefix}.{key}" in self.metadata

    def count(self, key: str, default: int | None = None) -> int:
        found = self._value(key, default)
        if type(found) is not int or not 0 <= found <= _LARGEST:
            raise self._fault(key, "a count")
        return found

    def number(self, key: str, default: float | None = None) -> float:
        """As config.json writes it: the shortest that float32 rounds to the file's."""
        found = self._value(key, default)
        if type(found) not in (int, float):
            raise self._fault(key, "a number")
        return float(str(np.float32(found)))

    def flag(self, key: str, default: bool) -> bool:
        found = self._value(key, default)
        if not isinstance(found, bool):
            raise self._fault(key, "true or false")
        return found

    def text(self, key: str, default: str) -> str:
        found = self._value(key, default)
        if not isinstance(found, str):
            raise self._fault(key, "text")
        return found

    def each(self, key: str, count: int, default: int | None = None) -> list[int]:
        """For each of `count` layers: a list of at least so many, or one for all."""
        found = self._value(key, default)
        if isinstance(found, np.ndarray):
            numbers = [int(each) for each in found[:count]] if found.dtype.kind in "iub" else []
            if len(numbers) != count or not all(0 <= each <= _LARGEST for each in numbers):
                raise self._fault(key, f"a list of {count} counts")
            return numbers
        return [self.count(key, default)] * count

    def numbers(self, key: str) -> list[float]:
        found = self._value(key, None)
        if not isinstance(found, np.ndarray) or found.dtype.kind not in "fiu" or len(found) > 64:
            raise self._fault(key, "a list of numbers")
        return [float(str(np.float32(each))) for each in found]

    def is_list(self, key: str) -> bool:
        return isinstance(self.metadata.get(f"{self.prefix}.{key}"), np.ndarray)

    def tensor(self, name: str) -> GGUFTensor:
        found = self.tensors.get(name)
        if found is None:
            raise MissingTensorError(f"{self.name} has no tensor {name}.")
        return found

    def rows(self, name: str, axes: int = 2) -> int:
        """Rows of each matrix of `name`. Raises MissingTensorError, WrongShapeError."""
        shape = self.tensor(name).shape
        if len(shape) != axes:
            raise WrongShapeError(f"{name} in {self.name} should have {axes} axes: {list(shape)}.")
        return shape[-2]

    def _value(self, key: str, default: Any) -> Any:
        found = self.metadata.get(f"{self.prefix}.{key}", default)
        if found is None:
            raise BrokenConfigError(f"{self.name} lacks {self.prefix}.{key}.")
        return found

    def _fault(self, key: str, wanted: str) -> BrokenConfigError:
        return BrokenConfigError(f"{self.name}: the value of {self.prefix}.{key} isn't {wanted}.")

    # -------------------------------------------------------------- of most families

    @property
    def num_layers(self) -> int:
        layers = self.blocks("block_count") - self.count("nextn_predict_layers", 0)
        if layers <= 0:
            raise self._fault("block_count", "a number of layers")
        return layers

    def blocks(self, key: str) -> int:
        found = self.count(key)
        if found > _MOST_LAYERS:
            raise self._fault(key, "a number of layers")
        return found

    @property
    def kv_heads(self) -> list[int]:
        return self.each("attention.head_count_kv", self.num_layers)

    @property
    def head_dim(self) -> int:
        heads = max(1, *self.each("attention.head_count", self.num_layers))
        return self.head_dim_or(self.count("embedding_length") // heads)

    def head_dim_or(self, usual: int, end: str = "") -> int:
        """`end`: that of keys about some of the layers."""
        size = self.count(f"attention.key_length{end}", usual)
        if self.count(f"attention.value_length{end}", size) != size:
            raise self._fault(f"attention.value_length{end}", "that of the keys")
        return size

    def check_rotates_all(self, head_dim: int, end: str = "") -> None:
        if self.count(f"rope.dimension_count{end}", head_dim) != head_dim:
            raise BrokenConfigError(f"{self.name} rotates a part of each head, which is refused.")

    def has(self, name: str) -> bool:
        return any(f"blk.{layer}.{name}" in self.tensors for layer in range(self.num_layers))

    def layers_with(self, name: str) -> list[int]:
        return [each for each in range(self.num_layers) if f"blk.{each}.{name}" in self.tensors]

    def common(self, head_dim: int | None = None) -> Config:
        return self.sizes() | {
            "num_key_value_heads": max(self.kv_heads) or 1,
            "head_dim": self.head_dim if head_dim is None else self.head_dim_or(head_dim),
            "attention_bias": any(
                map(self.has, ("attn_q.bias", "attn_qkv.bias", "attn_output.bias"))
            ),
        }

    def sizes(self) -> Config:
        layers = self.num_layers
        table = self.tensor("token_embd.weight")
        inner = max(self.each("feed_forward_length", layers, 0))  # 0 if all layers have experts
        return {
            "vocab_size": table.shape[0] if len(table.shape) == 2 else 0,
            "hidden_size": self.count("embedding_length"),
            **({"intermediate_size": inner} if inner else {}),
            "num_hidden_layers": layers,
            "num_attention_heads": max(self.each("attention.head_count", layers)),
            "max_position_embeddings": self.count("context_length"),
            "rms_norm_eps": self.number("attention.layer_norm_rms_epsilon", 1e-6),
            "tie_word_embeddings": "output.weight" not in self.tensors,
        }

    def rope(self, base: str = "rope.freq_base", default: float = 10000.0) -> Config:
        """`rope_parameters`, scaled as all layers with this base are."""
        scaling = self.text("rope.scaling.type", "none")
        rope: Config = {"rope_type": "default", "rope_theta": self.number(base, default)}
        if scaling == "none":
            return rope
        return rope | {"rope_type": scaling, "factor": self.number("rope.scaling.factor", 1.0)}

    def divisors(self) -> list[float]:
        """A divisor for each RoPE frequency; empty for a file without `rope_freqs.weight`."""
        tensor = self.tensors.get("rope_freqs.weight")
        if tensor is None:
            return []
        if tensor.type is not GGUFType.F32 or tensor.num_bytes > _MOST_BYTES:
            raise BrokenConfigError(f"{self.name}: {tensor.name} isn't a list of float32 numbers.")
        try:
            with tensor.path.open("rb") as file:
                file.seek(tensor.offset)
                data = file.read(tensor.num_bytes)
        except OSError as error:
            raise MissingFileError(f"{self.name} can't be read: {error.strerror}.") from error
        if len(data) != tensor.num_bytes:
            raise BrokenWeightsError(f"{self.name} was cut while it was read.")
        return [float(each) for each in np.frombuffer(data, "<f4")]

    def experts(self) -> Config:
        sparse = set(self.layers_with("ffn_gate_inp.weight"))
        return {
            "num_experts": self.count("expert_count"),
            "num_experts_per_tok": self.count("expert_used_count"),
            "moe_intermediate_size": self.count("expert_feed_forward_length"),
            "norm_topk_prob": self.flag("expert_weights_norm", True),
            "mlp_only_layers": [each for each in range(self.num_layers) if each not in sparse],
        }


def rotary_share(rotary: int, head_dim: int) -> float:
    """The share of a head that is rotated: its product with the head is rounded down."""
    share = rotary / max(1, head_dim)
    return share if int(share * head_dim) == rotary else math.nextafter(share, math.inf)
